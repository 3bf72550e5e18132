"""Trace of past successful jobs, for replay under another policy. Pure.

Elastic jobs that reported are elastic in the trace too. Their family's newest profile predicts their speed on other
GPUs. Their work is what that profile says they did on the GPUs that they had. Replayed on the same GPUs, each takes as
long as it took. All other jobs are rigid, and run for as long as they ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from schedulearn.scheduler.core.cluster_state import Job, Task

if TYPE_CHECKING:
    from schedulearn.metrics.model.goodput import Goodput

COLD_START_S = 10.0  # time before a job's first step; the simulator adds as much (`Conditions.cold_start`)
WORKED = 0.1  # minimum share of a job's time that counts as work, however long its starts took
FRACTIONS = 21  # points of a noise curve

Curve = Sequence[tuple[float, float]]
"""(fraction of the training done, gradient noise scale in samples), by rising fraction."""


@dataclass(frozen=True)
class FinishedJob:
    """Successful job, and what it reported."""

    job: Job
    tasks: Sequence[Task]
    noise: Sequence[tuple[float, float, float]] = ()
    """(step, gradient noise scale in samples, seconds since the epoch)"""
    stalls: float = 0.0
    """Seconds for which it stood still when it was resized."""


@dataclass(frozen=True)
class AllocationSpan:
    """Period in which a job had the same number of GPUs and hosts. Seconds since the epoch."""

    begin: float
    end: float
    hosts: int
    gpus: int


@dataclass(frozen=True)
class JobKind:
    """Properties that jobs of one family and batch share."""

    name: str
    goodput: Goodput
    noise: Curve = field(default_factory=tuple)


def trace(past: Sequence[FinishedJob], kind_of: Callable[[Job], JobKind | None]) -> dict[str, object]:
    """Return the JSON trace of docs/simulator.md. `kind_of`: from a row of `job` to its kind, or None if unknown."""
    begin = min((_arrival(each.job) for each in past), default=0.0)
    kinds: dict[str, JobKind] = {}
    jobs = []
    for each in past:
        job = each.job
        common = {"name": job.id, "time": round(_arrival(job) - begin, 3), "priority": job.priority,
                  "weight": job.weight, **({"metric": job.metric} if job.metric else {})}  # fmt: skip
        kind = kind_of(job) if job.elastic else None
        if kind is None:
            gpus = max(1, round(job.gpu_seconds / job.run_seconds))
            jobs.append({**common, "seconds": round(_worked(job.run_seconds, 0.0), 3), "num_replicas": gpus})
            continue
        kinds[kind.name] = kind
        bounds = kind.goodput.bounds
        most = min(job.max_gpus, max(1, bounds.max_batch // bounds.min_local))
        least = min(job.min_gpus, most)
        jobs.append(
            {
                **common,
                "application": kind.name,
                "total_steps": work(each, kind),
                "num_replicas": max(least, min(job.required_gpus, most)),
                "min_gpus": least,
                "max_gpus": most,
            }
        )
    return {"applications": {name: _application(kind) for name, kind in sorted(kinds.items())}, "jobs": jobs}


def _arrival(job: Job) -> float:
    """Return when policies first saw a job: a later start counts as a later submission."""
    return max(job.submitted_at, job.start_after or 0.0)


def work(past: FinishedJob, kind: JobKind) -> float:
    """Return the job's work in steps of the initial batch size: its goodput on its GPUs, summed over time."""
    found = stretches(past.tasks)
    total = sum(stretch.end - stretch.begin for stretch in found)
    steps = 0.0
    noise = [(at, phi) for _, phi, at in past.noise]
    for stretch in found:
        phi = _at((stretch.begin + stretch.end) / 2, noise) if noise else kind.goodput.phi
        speed = float(replace(kind.goodput, phi=phi)(stretch.hosts, stretch.gpus))
        steps += speed * (stretch.end - stretch.begin) / kind.goodput.bounds.init_batch
    return max(1e-6, steps * _worked(total, past.stalls) / max(total, 1e-9))


def stretches(tasks: Iterable[Task]) -> list[AllocationSpan]:
    """Return a job's allocation over time, from its tasks: one per host of a gang, or one per worker."""
    ran = [(t.started_at, t.finished_at, t) for t in tasks if t.started_at is not None and t.finished_at is not None]
    times = sorted({at for started_at, finished_at, _ in ran for at in (started_at, finished_at)})
    found = []
    for begin, end in pairwise(times):
        there = [task for started_at, finished_at, task in ran if started_at <= begin and finished_at >= end]
        if there:
            gpus = sum(len(task.gpu_uuids) for task in there)
            found.append(AllocationSpan(begin, end, len({task.host_id for task in there}), max(1, gpus)))
    return found


def noise_curve(points: Sequence[tuple[float, float, float]], done: float = 1.0) -> Curve:
    """Return the curve over a whole training, from points up to the fraction `done`; constant from there on."""
    if not points or points[-1][0] <= 0:
        return ()
    last = points[-1][0]
    by_fraction = [(done * step / last, phi) for step, phi, _ in points]
    return [(n / (FRACTIONS - 1), _at(n / (FRACTIONS - 1), by_fraction)) for n in range(FRACTIONS)]


def noise_at(curve: Curve, fraction: float) -> float | None:
    """Noise scale at a fraction of the training, samples; None for an empty curve."""
    return _at(fraction, curve) if curve else None


def _at(x: float, points: Sequence[tuple[float, float]]) -> float:
    """Interpolate linearly between points by rising x; constant beyond."""
    import numpy as np  # not at the start of a service, which may never need it

    xs, values = zip(*points, strict=True)
    return float(np.interp(x, xs, values))


def _worked(seconds: float, stalls: float) -> float:
    return max(WORKED * seconds, seconds - COLD_START_S - stalls, 1e-3)


def _application(kind: JobKind) -> Mapping[str, object]:
    bounds = kind.goodput.bounds
    return {
        "init_batch_size": bounds.init_batch,
        "max_batch_size": bounds.max_batch,
        "local_batch_size": [bounds.min_local, bounds.max_local or bounds.max_batch],
        "accumulate": bounds.accumulate,
        "throughput": asdict(next(iter(kind.goodput.models.values()))),
        "noise_scale": [list(point) for point in kind.noise] or [[0.0, kind.goodput.phi]],
        "noise_is_sure": True,  # as it was reported
        "total_progress_steps": 1.0,  # each job has its own
    }
