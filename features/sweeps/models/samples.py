"""Samples for advice: finished jobs as features, with their hosts' load. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Configuration(NamedTuple):
    """Chosen settings of a job, and its circumstances."""

    family: str
    gpu_type: str
    gpus: int
    """Workers."""
    batch_size: int
    """Total of all workers; 0: not known."""
    epochs: int
    """0: not known."""
    input_size: int
    """Samples of an epoch; 0: not known."""
    beside: float = 0.0
    """Mean number of other jobs on its hosts while it ran."""

    @property
    def point(self) -> Configuration:
        """Chosen settings, without the jobs beside it. Runs of one point repeat each other."""
        return self._replace(beside=0.0)

    @property
    def processes(self) -> float:
        """Processes of all jobs on its hosts, taken to be like this job."""
        return self.gpus * (1 + self.beside)


class MeasuredRun(NamedTuple):
    configuration: Configuration
    run_time: float
    """Seconds."""
    metric: float | None
    """Value that it reached; None: it logged none."""


class Stay(NamedTuple):
    """A job on a host."""

    job_id: str
    host_id: str
    begin: float
    end: float


def jobs_beside(stays: Iterable[Stay]) -> Mapping[str, float]:
    """Return job id -> mean number of other jobs on its hosts while it ran. Each job counts once per host."""
    spans: dict[tuple[str, str], tuple[float, float]] = {}
    for stay in stays:
        begin, end = spans.get((stay.host_id, stay.job_id), (stay.begin, stay.end))
        spans[stay.host_id, stay.job_id] = min(begin, stay.begin), max(end, stay.end)
    hosts: dict[str, list[tuple[float, float]]] = {}
    for (host_id, _), span in spans.items():
        hosts.setdefault(host_id, []).append(span)
    busy = {host_id: _BusyTime(each) for host_id, each in hosts.items()}
    totals: dict[str, tuple[float, float]] = {}
    for (host_id, job_id), (begin, end) in spans.items():
        seconds, others = totals.get(job_id, (0.0, 0.0))
        own = end - begin
        totals[job_id] = seconds + own, others + max(0.0, busy[host_id].between(begin, end) - own)
    return {job_id: others / seconds if seconds > 0 else 0.0 for job_id, (seconds, others) in totals.items()}


class _BusyTime:
    """Total seconds of jobs that a host had run up to any instant: linear between starts and ends of jobs."""

    def __init__(self, spans: Sequence[tuple[float, float]]) -> None:
        changes = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
        self._at = [at for at, _ in changes]
        self._sum, self._running = [0.0], [changes[0][1]]
        for index in range(1, len(changes)):
            length = changes[index][0] - changes[index - 1][0]
            self._sum.append(self._sum[-1] + self._running[-1] * length)
            self._running.append(self._running[-1] + changes[index][1])

    def between(self, begin: float, end: float) -> float:
        return self._until(end) - self._until(begin)

    def _until(self, at: float) -> float:
        index = bisect_left(self._at, at) - 1
        return 0.0 if index < 0 else self._sum[index] + self._running[index] * (at - self._at[index])
