"""What workers have reported, as the rest of the service reads it. Rows of the tables go no further than `store.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class MeasuredPasses(NamedTuple):
    """The typical pass of a job on one kind of allocation at one batch. Times of passes are seconds."""

    gpu_type: str
    num_nodes: int
    num_gpus: int
    atomic_batch: int
    """Samples a GPU in one pass."""
    passes: int
    """So many were measured; at most `store.COUNT_CAP`."""
    grad_time: float
    """Of a pass without synchronising."""
    iter_time: float
    """Of a pass with it."""
    at: float
    """When they were last reported, in seconds since the epoch."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """What tells those of one type of GPU apart."""
        return self.num_nodes, self.num_gpus, self.atomic_batch

    def slower(self, factor: float) -> MeasuredPasses:
        """The same passes, each taking `factor` times as long."""
        return self._replace(grad_time=factor * self.grad_time, iter_time=factor * self.iter_time)


class BatchLimits(NamedTuple):
    """Which batches a job allows; fields as those of `metrics.model.goodput.BatchBounds`, which loads NumPy."""

    init_batch: int
    max_batch: int
    min_local: int
    max_local: int | None
    accumulate: bool


class LastReport(NamedTuple):
    """What a job said of itself last."""

    attempt: int
    reported_at: float
    init_batch: int
    max_batch: int
    min_local: int
    max_local: int | None
    accumulate: bool
    atomic_batch: int
    """Samples a GPU in one pass, then."""
    accumulation: int
    why: str
    """Why the batch was what it was."""
    noise_scale: float | None
    """Samples; None: not known yet."""
    epoch: int
    epochs: int | None
    position: int
    """Samples of this epoch that were done, of `epoch_samples`."""
    epoch_samples: int
    steps: int
    startup_seconds: float | None
    """From the start of the job to its first step; None: not known."""

    @property
    def batch_limits(self) -> BatchLimits:
        return BatchLimits(self.init_batch, self.max_batch, self.min_local, self.max_local, self.accumulate)


class MetricPoint(NamedTuple):
    step: float
    value: float
    at: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class JobHistory:
    """What one job has reported."""

    report: LastReport | None
    passes: Sequence[MeasuredPasses]
    """Oldest change first."""
    noise: Sequence[MetricPoint]
    """The course of its noise scale."""
    stalls: Sequence[float]
    """Seconds for which it stood still, each time that it was resized."""


@dataclass(frozen=True)
class Relative:
    """The job of the same family that tells the most."""

    history: JobHistory
    resized_alike: bool
    """Both are resized in the same way: how long the one stands still tells how long the other will."""
    is_hint: bool = False
    """It is somebody else's: it counts until the job has measured something itself."""
