"""What somebody may have meant who wrote a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 100  # of a name: nobody means anything by a longer one, and to compare it takes long


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'cpus'?`, or nothing where no known name is like it."""
    if len(name) > _LONGEST:
        return ""
    names = {each.lower(): each for each in known}
    lower = name.lower()
    close = difflib.get_close_matches(lower, names, n=1)
    close = close or [each for each in names if len(lower) > 2 and lower in each]
    return f"; did you mean {names[close[0]]!r}?" if close else ""
