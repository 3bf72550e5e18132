"""What is known of one job's speed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedulearn.metrics.model.goodput import Goodput


TRIES = 4
"""A job may be tried on so many times the GPUs that it, or its family, was measured on."""


@dataclass(frozen=True)
class JobProfile:
    """One job's speed, as of its newest report."""

    goodput: Goodput
    max_profiled: int
    """The largest number of GPUs that it was measured on."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """GPU type -> root mean square of the fit's relative error."""
    resize_seconds: float | None = None
    """How long it stood still when it was resized; None if it was not yet."""
    startup_seconds: float | None = None
    """How long it took to its first step when it started; None if that is not known."""

    def cap(self, max_gpus: int, min_gpus: int) -> int:
        """What may be tried now, within the job's own bounds."""
        return max(min_gpus, min(max_gpus, TRIES * self.max_profiled))

    def for_worker(self) -> dict[str, dict[str, float]]:
        """GPU type -> parameters of its step-time model."""
        return {gpu_type: asdict(model) for gpu_type, model in self.goodput.models.items()}
