"""Performance profile of one job. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedulearn.metrics.model.goodput import Goodput


TRIES = 4
"""Maximum ratio of the GPUs that a job may try to the GPUs that it, or its family, was measured on."""


@dataclass(frozen=True)
class JobProfile:
    """Performance of one job as of its newest report."""

    goodput: Goodput
    max_profiled: int
    """Maximum number of GPUs that the job was measured on."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """GPU type -> root mean square of the fit's relative error."""
    resize_seconds: float | None = None
    """Seconds for which training stood still in a resize; None before the first one."""
    startup_seconds: float | None = None
    """Seconds from the job's start to its first step; None if unknown."""

    def cap(self, max_gpus: int, min_gpus: int) -> int:
        """Return the maximum number of GPUs that may be tried now, within the job's own bounds."""
        return max(min_gpus, min(max_gpus, TRIES * self.max_profiled))

    def for_worker(self) -> dict[str, dict[str, float]]:
        """Return GPU type -> parameters of its step-time model."""
        return {gpu_type: asdict(model) for gpu_type, model in self.goodput.models.items()}
