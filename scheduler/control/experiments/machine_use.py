"""What a run took of the processors and memory of its hosts, and how busy these were meanwhile."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Protocol

from sqlalchemy.engine import Connection

from schedulearn.scheduler.core.outcomes.task_outcomes import MemorySeen
from schedulearn.scheduler.store.experiments.results import Ended, TaskUse
from schedulearn.scheduler.store.resources import minutes

MEMORY_S = 540.0
"""What began less than so long ago is read from memory, look by look; else from averages by the minute."""
Points = Sequence[tuple[float | None, ...]]
"""Times, cores that were busy, and more that is not read here."""


class Looks(Protocol):
    """What was seen of late of tasks and hosts."""

    def task_points(self, task_id: str, since: float, until: float) -> Points: ...

    def host_points(self, host_id: str, since: float, until: float) -> Points: ...

    def memory(self, task_id: str) -> MemorySeen | None: ...

    def host_cpus(self, host_id: str) -> int | None:
        """All cores of a host; None: nothing tells of it now."""
        ...


def machine_use(conn: Connection, run: Ended, looks: Looks, now: float) -> dict[str, float]:
    """`cpus`: cores that all its tasks kept busy on the average; `memory`: the most bytes that one of them was seen
    with; `host_utilization`: of all cores of its hosts, per cent that anybody kept busy. What nobody saw is left
    out: a run shorter than a look, say."""
    found = {}
    if (cpus := _task_cpus(conn, run, looks, now)) is not None:
        found["cpus"] = cpus
    if peaks := [peak for task in run.tasks if (peak := _peak(task, looks)) is not None]:
        found["memory"] = float(max(peaks))
    if shares := [share for task in run.tasks if (share := _host_share(conn, task, looks, now)) is not None]:
        found["host_utilization"] = 100 * statistics.fmean(shares)
    return found


def _task_cpus(conn: Connection, run: Ended, looks: Looks, now: float) -> float | None:
    busy = seen = 0.0
    for task in run.tasks:
        begin, end = task.started_at, task.ended_at
        cpus = _mean(looks.task_points(task.task_id, begin, end)) if now - begin < MEMORY_S else None
        cpus = minutes.mean_task_cpus(conn, task.task_id, begin, end) if cpus is None else cpus
        if cpus is not None:
            busy += cpus * (end - begin)
            seen += end - begin
    at_once = sum(task.ended_at - task.started_at for task in run.tasks) / run.run_seconds if run.run_seconds else 0.0
    return busy / seen * at_once if seen > 0 else None


def _peak(task: TaskUse, looks: Looks) -> int | None:
    seen = looks.memory(task.task_id)
    return max((peak for peak in (task.memory_peak, seen and seen.peak) if peak is not None), default=None)


def _host_share(conn: Connection, task: TaskUse, looks: Looks, now: float) -> float | None:
    if (total := looks.host_cpus(task.host_id)) is None:
        return None
    begin, end = task.started_at, task.ended_at
    cpus = _mean(looks.host_points(task.host_id, begin, end)) if now - begin < MEMORY_S else None
    cpus = minutes.mean_host_cpus(conn, task.host_id, begin, end) if cpus is None else cpus
    return None if cpus is None else cpus / total


def _mean(points: Points) -> float | None:
    known = [point[1] for point in points if point[1] is not None]
    return statistics.fmean(known) if known else None
