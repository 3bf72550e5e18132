"""Job ids in sentences: finding and hiding them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

_BEFORE = r"(?:[Jj]ob )?(?<![\w.-])(?:schedulearn-)?"
_DIGIT, _LETTER = "[0-9]", "[0-9a-hjkmnp-tv-z]"
_ID = f"{_DIGIT}{_LETTER}{{9}}"
_AFTER = r"(?:-[0-9]+-[0-9]+)?(?![\w-])(?:, which [^.]*| \([a-z]+\))?"
"""Suffix of a container's name, and the clause that follows about the job."""
NAMED = (f"{_BEFORE}(?!", f"){_ID}{_AFTER}")
"""Two parts of a pattern of a named job, which databases accept too. Ids to exclude go between them."""
GLOB = f"*{_DIGIT}{_LETTER * 9}*"
"""Glob of texts that may name a job. SQLite evaluates it in a tenth of the time."""
INSTEAD = "another job"
_NAMED = re.compile(f"{_BEFORE}({_ID}){_AFTER}")


def named_jobs(text: str) -> set[str]:
    """Return the job ids in a sentence."""
    return set(_NAMED.findall(text))


def without_jobs(text: str, seen: Collection[str]) -> str:
    """Replace each job that is not in `seen`, with the clause about it, by INSTEAD."""
    return _NAMED.sub(lambda found: found[0] if found[1] in seen else INSTEAD, text)
