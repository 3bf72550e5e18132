"""Start of `joining` in Python workers, before the image's own sitecustomize.

This module hides the image's sitecustomize, and therefore runs it. Any Python that a job runs reads this file, so its
syntax is valid in all versions.
"""

import os
import sys

if os.environ.get("SCHEDULEARN_JOINING") and sys.version_info >= (3, 8):
    try:
        from schedulearn.worker import joining

        joining.watch()
    except Exception:  # noqa: S110 - a training does not depend on it
        pass

_here = os.path.dirname(os.path.abspath(__file__))
_found = [_path for _path in sys.path if os.path.abspath(_path) == _here]
_self = sys.modules.pop(__name__, None)
for _path in _found:
    sys.path.remove(_path)
try:
    __import__("sitecustomize")
except ImportError:
    pass
finally:
    sys.path[:0] = _found
    if _self is not None:
        sys.modules.setdefault(__name__, _self)
