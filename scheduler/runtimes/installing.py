"""What installing requirements has in common in an image and in a local environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from schedulearn.scheduler.runtimes.contract import ImageProgress

INSTALL_S = 3600.0
_PASSED_ON = re.compile(
    r"PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|FIND_LINKS|NO_INDEX|DEFAULT_TIMEOUT)|(https?|no)_proxy", re.IGNORECASE
)


def index_settings(env: Mapping[str, str]) -> dict[str, str]:
    """Where pip finds packages, as the service itself was told."""
    return {name: value for name, value in env.items() if _PASSED_ON.fullmatch(name) and "'" not in value}


def installing(requirements: Sequence[str], output: Sequence[str]) -> ImageProgress:
    """How far that is can't be told: pip does not know it either. `output`: its last lines."""
    last = next((line.strip() for line in reversed(output) if line.strip()), "")
    return ImageProgress(0.0, f"installing {len(requirements)} requirements" + (f": {last[:120]}" if last else ""))
