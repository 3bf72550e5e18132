"""Records of workers' reports, as used by the rest of the service.

Only `store.py` handles rows of the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class MeasuredPasses(NamedTuple):
    """Typical micro-step times of a job on one shape of allocation with one batch size. Times are seconds."""

    gpu_type: str
    num_nodes: int
    num_gpus: int
    atomic_batch: int
    """Samples per GPU in one micro-step."""
    passes: int
    """Number of measured micro-steps, at most `store.COUNT_CAP`."""
    grad_time: float
    """Time of a micro-step without synchronization."""
    iter_time: float
    """Time of a micro-step with synchronization."""
    at: float
    """Time of the last report of this shape, in seconds since the epoch."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Key of the measurements on one type of GPU."""
        return self.num_nodes, self.num_gpus, self.atomic_batch

    def slower(self, factor: float) -> MeasuredPasses:
        """Return the same micro-steps, each taking `factor` times as long."""
        return self._replace(grad_time=factor * self.grad_time, iter_time=factor * self.iter_time)


class BatchLimits(NamedTuple):
    """Batch sizes that a job allows. Same fields as `metrics.model.goodput.BatchBounds`, which loads NumPy."""

    init_batch: int
    max_batch: int
    min_local: int
    max_local: int | None
    accumulate: bool


class LastReport(NamedTuple):
    """Last report of a job."""

    attempt: int
    reported_at: float
    init_batch: int
    max_batch: int
    min_local: int
    max_local: int | None
    accumulate: bool
    atomic_batch: int
    """Samples per GPU in one micro-step at that time."""
    accumulation: int
    why: str
    """Reason for the batch size."""
    noise_scale: float | None
    """Noise scale in samples; None if not known yet."""
    epoch: int
    epochs: int | None
    position: int
    """Number of processed samples of this epoch, of `epoch_samples`."""
    epoch_samples: int
    steps: int
    startup_seconds: float | None
    """Seconds from the start of the job to its first step; None if unknown."""

    @property
    def batch_limits(self) -> BatchLimits:
        return BatchLimits(self.init_batch, self.max_batch, self.min_local, self.max_local, self.accumulate)


class LoggedProgress(NamedTuple):
    """Progress in the log of a job's current attempt."""

    epoch: int
    """Completed epochs."""
    epochs: int
    position: int
    """Completed steps of this epoch, of `epoch_steps`."""
    epoch_steps: int
    fraction: float


class MetricPoint(NamedTuple):
    step: float
    value: float
    at: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class JobHistory:
    """All reports of one job."""

    report: LastReport | None
    passes: Sequence[MeasuredPasses]
    """Micro-step times, oldest change first."""
    noise: Sequence[MetricPoint]
    """History of the noise scale."""
    stalls: Sequence[float]
    """Seconds for which training stood still, one value per resize."""


@dataclass(frozen=True)
class Relative:
    """Most informative job of the same family."""

    history: JobHistory
    resized_alike: bool
    """Whether both jobs are resized in the same way, so that their resizes take equally long."""
    is_hint: bool = False
    """Whether the job belongs to another owner. It is used only until the job has own measurements."""
