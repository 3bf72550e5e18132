"""Child processes for work that needs scikit-learn.

The service itself never needs its memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys


def ask_child(module: str, question: object, timeout_s: float) -> str:
    """Return the output of a module of this package for a question.

    Both are JSON. The child process has one thread for numerical libraries. Raises TimeoutExpired and
    CalledProcessError of `subprocess`. The latter has the output of the child."""
    return subprocess.run(
        [sys.executable, "-m", f"{__package__}.{module}"],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    ).stdout
