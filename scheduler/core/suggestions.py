"""Suggestions for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 100  # maximum length of a name to compare: a longer one is no typing error, and comparing it is slow


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'cpus'?`, or an empty string if no known name is similar."""
    if len(name) > _LONGEST:
        return ""
    names = {each.lower(): each for each in known}
    lower = name.lower()
    close = difflib.get_close_matches(lower, names, n=1)
    close = close or [each for each in names if len(lower) > 2 and lower in each]
    return f"; did you mean {names[close[0]]!r}?" if close else ""
