"""Helpers for installing requirements in an image or in a local environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from schedulearn.scheduler.runtimes.contract import FetchProgress

INSTALL_S = 3600.0
_PASSED_ON = re.compile(
    r"PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|FIND_LINKS|NO_INDEX|DEFAULT_TIMEOUT)|(https?|no)_proxy", re.IGNORECASE
)


def index_settings(env: Mapping[str, str]) -> dict[str, str]:
    """Return the service's own settings of where pip finds packages."""
    return {name: value for name, value in env.items() if _PASSED_ON.fullmatch(name) and "'" not in value}


def installing(requirements: Sequence[str], output: Sequence[str]) -> FetchProgress:
    """Return a progress message; pip reports no percentage. `output` holds its last lines."""
    last = next((line.strip() for line in reversed(output) if line.strip()), "")
    return FetchProgress(0.0, f"installing {len(requirements)} requirements" + (f": {last[:120]}" if last else ""))


LOST_CODE = 128
"""Minimum exit code of a program that was killed, or that its engine lost."""
_CUT_SHORT = re.compile(
    r"cannot connect to the docker daemon|error during connect|context canceled|shutting down|unexpected EOF"
    r"|connection reset by peer|broken pipe|transport is closing|client connection is closing"
    r"|error reading from server|(exit code:?|non-zero code:?) 1(37|43)\b",
    re.IGNORECASE,
)
"""Messages of a client whose engine stopped, and of an engine that is stopping."""
_FULL_DISK = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)


def was_cut_short(code: int, words: str = "") -> bool:
    """Whether a program was ended from outside. Its exit code then says nothing about its work."""
    return code < 0 or code >= LOST_CODE or (code != 0 and _CUT_SHORT.search(words) is not None)


def is_full(words: str) -> bool:
    """Whether a program or an engine failed because its disk is full. This is temporary."""
    return _FULL_DISK.search(words) is not None
