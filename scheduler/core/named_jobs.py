"""Jobs that a sentence names by their ids. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

_BEFORE = r"(?:[Jj]ob )?(?<![\w.-])(?:schedulearn-)?"
_DIGIT, _LETTER = "[0-9]", "[0-9a-hjkmnp-tv-z]"
_ID = f"{_DIGIT}{_LETTER}{{9}}"
_AFTER = r"(?:-[0-9]+-[0-9]+)?(?![\w-])(?:, which [^.]*| \([a-z]+\))?"
"""A container of it, and what the sentence goes on to say of it."""
NAMED = (f"{_BEFORE}(?!", f"){_ID}{_AFTER}")
"""A named job, for databases too; between these stand the ids that are not meant."""
GLOB = f"*{_DIGIT}{_LETTER * 9}*"
"""Texts that may name one: SQLite tells these apart in a tenth of the time."""
INSTEAD = "another job"
_NAMED = re.compile(f"{_BEFORE}({_ID}){_AFTER}")


def named_jobs(text: str) -> set[str]:
    """Return the ids that stand in a sentence."""
    return set(_NAMED.findall(text))


def without_jobs(text: str, seen: Collection[str]) -> str:
    """Leave out all jobs but those that are `seen`, and what the sentence says of them."""
    return _NAMED.sub(lambda found: found[0] if found[1] in seen else INSTEAD, text)
