"""How long a job still takes, and how that is known. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from schedulearn.scheduler.core.model import Basis

if TYPE_CHECKING:
    from schedulearn.metrics.model.goodput import Goodput

AT_LEAST_S = 600.0
"""What a job about which nothing is known is taken to run on for, at least."""


@dataclass(frozen=True)
class Length:
    """Work that is left, in seconds on one GPU."""

    seconds: float
    basis: Basis


class Progress(Protocol):
    """How far a training is, as its job says."""

    @property
    def epoch(self) -> int: ...
    @property
    def epochs(self) -> int | None: ...
    @property
    def position(self) -> int: ...
    @property
    def epoch_samples(self) -> int: ...


class Samples(NamedTuple):
    done: int
    total: int


def samples_of(progress: Progress | None) -> Samples | None:
    """None if the job did not say how many epochs it has."""
    if progress is None or not progress.epochs or not progress.epoch_samples:
        return None
    total = progress.epochs * progress.epoch_samples
    return Samples(min(total, progress.epoch * progress.epoch_samples + progress.position), total)


def by_progress(
    progress: Progress | None, attained_gpu_seconds: float, goodput: Goodput | None, min_gpus: int
) -> Length | None:
    """From what the job itself reported: samples left at its measured speed, or else at its pace
    so far. None if it did not say how many epochs it trains, or if nothing is done yet."""
    if (samples := samples_of(progress)) is None:
        return None
    done, total = samples
    if goodput is not None:
        return Length((total - done) / pace(goodput, min_gpus), Basis.PROGRESS)
    if not done or not attained_gpu_seconds:
        return None
    return Length(attained_gpu_seconds * (total - done) / done, Basis.PROGRESS)


def by_family(total: float | None, attained_gpu_seconds: float) -> Length | None:
    """`total`: what it is predicted to take by its family, GPU-seconds. One that takes longer than that is taken to be
    nearly done. None if no job of the family has ended well."""
    if total is None:
        return None
    return Length(max(total - attained_gpu_seconds, 0.05 * total), Basis.FAMILY)


def progress_speed(goodput: Goodput, nodes: int, gpus: int, gpu_type: str | None = None) -> float:
    """Samples' worth of progress a second at the best batch, as the worker SDK counts it: samples in a batch larger
    than the first are worth less, but in a fixed batch each counts whole."""
    choice = goodput.best(nodes, gpus, gpu_type)
    adapts = goodput.bounds.max_batch > goodput.bounds.init_batch
    return float(choice.goodput if adapts else choice.throughput)


def pace(goodput: Goodput, min_gpus: int = 1) -> float:
    """Samples' worth of progress a second on one GPU; of a job that can't run on one, a GPU's part of them on the
    fewest that it can."""
    for gpus in (1, min_gpus):
        if (speed := progress_speed(goodput, 1, gpus)) > 0:
            return speed / gpus
    return 1.0


def guessed(run_seconds: float) -> float:
    """Seconds of running that are left to a job of which nothing is known: as long again as it ran (what is to be
    expected where lengths are spread over many orders of magnitude), and at least AT_LEAST_S."""
    return max(AT_LEAST_S, run_seconds)
