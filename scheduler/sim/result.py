"""Results of a simulated run: figures for the table, series for the report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from schedulearn.scheduler.sim.application import Application, packed
from schedulearn.scheduler.sim.run import Run

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """Figures of one run. Times are in seconds, over the jobs that ended.

    Fairness is finish-time fairness (Themis, NSDI 2020, section 3.1): the time that a job took, over the time on its
    equal share of the cluster. Lower is better.
    """

    jobs: int
    unfinished: int
    mean_jct: float
    median_jct: float
    p99_jct: float
    makespan: float
    gpu_hours: float
    host_hours: float
    """Hours for which hosts held jobs, or with `scaling` were on, added up."""
    mean_unfairness: float
    worst_unfairness: float
    restarts: float
    """Mean number per job."""
    decision_ms: float
    """Mean time of one decision, milliseconds."""
    decisions: int
    deadlines: int = 0
    """Jobs that had a deadline."""
    late: int = 0
    """Jobs that ended after their deadline, or never."""

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def summarize(run: Run) -> Summary:
    """The figures of one run."""
    ended = [o for o in run.outcomes if math.isfinite(o.ended_at)]
    times = np.array([o.ended_at - o.job.submitted_at for o in ended]) if ended else np.zeros(1)
    begin = min((o.job.submitted_at for o in run.outcomes), default=0.0)
    unfair = np.array(unfairness(run)) if ended else np.zeros(1)
    return Summary(
        jobs=len(run.outcomes),
        unfinished=len(run.outcomes) - len(ended),
        mean_jct=float(times.mean()),
        median_jct=float(np.median(times)),
        p99_jct=float(np.percentile(times, 99)),
        makespan=max((o.ended_at for o in ended), default=begin) - begin,
        gpu_hours=sum(o.gpu_seconds for o in run.outcomes) / 3600,
        host_hours=sum(end - start for start, end in run.on or busy_periods(run)) / 3600,
        mean_unfairness=float(unfair.mean()),
        worst_unfairness=float(unfair.max()),
        restarts=sum(o.restarts for o in run.outcomes) / max(1, len(run.outcomes)),
        decision_ms=1e3 * sum(run.decision_seconds) / max(1, len(run.decision_seconds)),
        decisions=len(run.decision_seconds),
        deadlines=sum(o.job.deadline is not None for o in run.outcomes),
        late=sum(o.job.deadline is not None and o.ended_at > o.job.deadline for o in run.outcomes),
    )


def busy_periods(run: Run) -> list[tuple[float, float]]:
    """(begin, end) of every span of time for which a host held at least one job, over all hosts."""
    by_host: dict[str, list[tuple[float, float]]] = {}
    for held in run.held:
        for host in held.allocation:
            by_host.setdefault(host, []).append((held.begin, held.end))
    return [period for periods in by_host.values() for period in _merged(periods)]


def _merged(periods: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(periods):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def unfairness(run: Run) -> list[float]:
    """Return, for each job that ended, its time over the time that it would have taken alone on 1/N of the cluster.

    N is the mean number of unfinished jobs while it was there.
    """
    ended = [o for o in run.outcomes if math.isfinite(o.ended_at)]
    total = sum(host.gpus for host in run.hosts)
    width = max((host.gpus for host in run.hosts), default=1)
    begins = np.sort([o.job.submitted_at for o in run.outcomes])
    ends = np.sort([o.ended_at for o in run.outcomes])
    values = []
    for outcome in ended:
        begin, end = outcome.job.submitted_at, outcome.ended_at
        there = _seconds_before(begins, begin, end) - _seconds_before(ends, begin, end)
        contention = there / (end - begin) if end > begin else 1.0  # late times are too coarse for the shortest jobs
        share = total / max(1.0, contention)
        alone = time_alone(outcome.job.application, share, width, outcome.job.required_gpus, outcome.job.most_gpus)
        values.append((end - begin) / alone)
    return values


def _seconds_before(instants: Floats, begin: float, end: float) -> float:
    """The integral, over [begin, end], of how many of the sorted `instants` have passed."""
    return float(np.maximum(0.0, end - np.maximum(instants[instants < end], begin)).sum())


def time_alone(app: Application, share: float, width: int, required: int = 1, most: int = 10**6) -> float:
    """Return the seconds that a job takes alone with `share` GPUs on hosts of `width`, at its best batch.

    A fraction of a GPU means a GPU for that part of the time.
    """
    if app.times is None:
        return app.total_steps * max(1.0, required / share)
    share = min(share, float(min(most, app.max_gpus)))
    if share <= 1:
        return float(_times_alone(app, width, 1)[0]) / share
    low = int(share)
    times = _times_alone(app, width, low + 1)
    speed_low, speed_high = 1 / times[low - 1], 1 / times[low]
    return float(1 / (speed_low + (share - low) * (max(speed_high, speed_low) - speed_low)))


@lru_cache(maxsize=1000)
def _times_alone(app: Application, width: int, most: int) -> Floats:
    """Seconds of the whole training on 1 to `most` GPUs of the reference type; never longer with more."""
    steps = np.diff([0.0, *app.noise.ends]) * app.total_steps
    seconds = [float((steps / app.fastest(packed(gpus, width))).sum()) for gpus in range(1, most + 1)]
    return np.minimum.accumulate(seconds)


COLUMNS: Sequence[tuple[str, str, str]] = (
    ("mean_jct", "mean JCT s", ".0f"),
    ("median_jct", "median", ".0f"),
    ("p99_jct", "p99", ".0f"),
    ("makespan", "makespan s", ".0f"),
    ("gpu_hours", "GPU-hours", ".1f"),
    ("host_hours", "host-hours", ".1f"),
    ("mean_unfairness", "FTF mean", ".2f"),
    ("worst_unfairness", "FTF worst", ".2f"),
    ("restarts", "restarts", ".1f"),
    ("decision_ms", "decision ms", ".1f"),
)
"""(field of Summary, heading, format) of the table."""
LATE_COLUMN = ("late", "late", "d")
"""The same for one more column, where jobs have deadlines."""
