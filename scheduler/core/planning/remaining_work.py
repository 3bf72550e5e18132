"""Remaining work of jobs, and its source. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from schedulearn.scheduler.core.model import Basis, JobView

if TYPE_CHECKING:
    from schedulearn.metrics.model.goodput import Goodput

AT_LEAST_S = 600.0
"""Minimum remaining run time assumed for a job without information, in seconds."""


MEASURED_S = 5.0
"""Minimum time between two places in a log from which a speed is taken, in seconds."""
STARTED_S = 60.0
"""Minimum run time from which a speed is taken that includes the start of the script, in seconds."""


@dataclass(frozen=True)
class Length:
    """Remaining work, in seconds on one GPU."""

    seconds: float
    basis: Basis


class Progress(Protocol):
    """Progress of a training as its job reports it."""

    @property
    def epoch(self) -> int: ...
    @property
    def epochs(self) -> int | None: ...
    @property
    def position(self) -> int: ...
    @property
    def epoch_samples(self) -> int: ...


class SeenInLog(Protocol):
    """Progress of a training as its log shows it: fractions from 0 to 1, times in seconds since the epoch."""

    @property
    def fraction(self) -> float: ...
    @property
    def changed_at(self) -> float: ...
    @property
    def first_fraction(self) -> float: ...
    @property
    def first_at(self) -> float: ...


class Samples(NamedTuple):
    done: int
    total: int


def samples_of(progress: Progress | None) -> Samples | None:
    """Return the samples done and in total; None if the number of epochs is unknown."""
    if progress is None or not progress.epochs or not progress.epoch_samples:
        return None
    total = progress.epochs * progress.epoch_samples
    return Samples(min(total, progress.epoch * progress.epoch_samples + progress.position), total)


def by_progress(
    progress: Progress | None, attained_gpu_seconds: float, goodput: Goodput | None, min_gpus: int
) -> Length | None:
    """Return the remaining work by the job's own reports.

    It is the remaining samples at the measured speed, or else at the average speed so far. None if the number of epochs
    is unknown, or nothing is done yet."""
    if (samples := samples_of(progress)) is None:
        return None
    done, total = samples
    if goodput is not None:
        return Length((total - done) / pace(goodput, min_gpus), Basis.PROGRESS)
    if not done or not attained_gpu_seconds:
        return None
    return Length(attained_gpu_seconds * (total - done) / done, Basis.PROGRESS)


def by_log(seen: SeenInLog | None, ran: float, gpus: int, now: float) -> Length | None:
    """Return the remaining work by the progress in the log of the current attempt, which runs on `gpus` since `ran` s.

    It is what is left at the speed since the first progress, so the start of the script does not count. Where that is
    too short to measure, it is the speed since the start. None if neither tells anything yet."""
    if seen is None or not gpus or seen.fraction <= 0:
        return None
    trained, seconds = seen.fraction - seen.first_fraction, seen.changed_at - seen.first_at
    if trained <= 0 or seconds < MEASURED_S:
        since_start = max((1 - seen.fraction) * ran / seen.fraction, 1.0)
        return Length(since_start * gpus, Basis.LOG) if ran >= STARTED_S else None
    left = (1 - seen.fraction) * seconds / trained
    return Length(max(left - max(0.0, now - seen.changed_at), 0.05 * left, 1.0) * gpus, Basis.LOG)


def by_family(total: float | None, attained_gpu_seconds: float, *, rigid: bool = False) -> Length | None:
    """Return the remaining work by the prediction for the family.

    `total`: predicted GPU-seconds; None: no job of the family has succeeded. A job that exceeds the prediction is
    assumed to have 5 % of it left; a rigid one, whose end others wait for, half of its work so far (Tsafrir et al.,
    TPDS 2007)."""
    if total is None:
        return None
    least = 0.05 * total
    if rigid and attained_gpu_seconds >= total:
        least = 0.5 * attained_gpu_seconds
    return Length(max(total - attained_gpu_seconds, least), Basis.FAMILY)


def progress_speed(goodput: Goodput, nodes: int, gpus: int, gpu_type: str | None = None) -> float:
    """Return the progress in samples per second at the best batch size, as the worker SDK counts it.

    In a batch larger than the initial one, samples count less; with a fixed batch size they count fully."""
    choice = goodput.best(nodes, gpus, gpu_type)
    adapts = goodput.bounds.max_batch > goodput.bounds.init_batch
    return float(choice.goodput if adapts else choice.throughput)


def pace(goodput: Goodput, min_gpus: int = 1) -> float:
    """Return the progress in samples per second on one GPU.

    For a job that can't run on one GPU, it is the progress per GPU on `min_gpus`."""
    for gpus in (1, min_gpus):
        if (speed := progress_speed(goodput, 1, gpus)) > 0:
            return speed / gpus
    return 1.0


def guessed(run_seconds: float) -> float:
    """Return the assumed remaining run time of a job without information, in seconds.

    It is the run time so far, which is the expectation for heavy-tailed run times, and at least AT_LEAST_S."""
    return max(AT_LEAST_S, run_seconds)


def time_left(job: JobView) -> float:
    """Return the expected seconds left of a job on the GPUs that it requires, if each brings as much speed as one.

    It is declared or predicted work, else the run times of ended jobs of that size, else `guessed`."""
    if job.remaining is not None:
        return job.remaining / max(1, job.required_gpus)
    return guessed(job.run_seconds) if job.expected_left is None else job.expected_left
