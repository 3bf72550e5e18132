"""What a run took of the processors and memory of its hosts, and how busy these were meanwhile."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Protocol

from sqlalchemy.engine import Connection

from schedulearn.features.sweeps.result_rows import Ended, TaskUse
from schedulearn.scheduler.core.outcomes.task_outcomes import MemorySeen, highest_memory
from schedulearn.scheduler.store.resources import minutes

_MEMORY_S = 540.0
"""What began less than so long ago is read from memory, look by look; else from averages by the minute."""
Mean = Callable[[str, float, float], float | None]
"""Task, host or GPU, from, until -> its mean in this time; None: it was not measured."""


class Looks(Protocol):
    """What was seen of late of tasks and hosts."""

    def mean_task_cpus(self, task_id: str, since: float, until: float) -> float | None: ...

    def mean_host_cpus(self, host_id: str, since: float, until: float) -> float | None: ...

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
    peaks = [highest_memory(task.memory_peak, looks.memory(task.task_id)) for task in run.tasks]
    if known := [peak for peak in peaks if peak is not None]:
        found["memory"] = float(max(known))
    if shares := [share for task in run.tasks if (share := _host_share(conn, task, looks, now)) is not None]:
        found["host_utilization"] = 100 * statistics.fmean(shares)
    return found


def mean_while(task: TaskUse, name: str, recent: Mean, stored: Mean, now: float) -> float | None:
    """Of `name` while the task ran: what is in memory of it, else what is stored."""
    begin, end = task.started_at, task.ended_at
    mean = recent(name, begin, end) if now - begin < _MEMORY_S else None
    return stored(name, begin, end) if mean is None else mean


def _task_cpus(conn: Connection, run: Ended, looks: Looks, now: float) -> float | None:
    stored = partial(minutes.mean_task_cpus, conn)
    busy = seen = ran = 0.0
    for task in run.tasks:
        took = task.ended_at - task.started_at
        ran += took
        if (cpus := mean_while(task, task.task_id, looks.mean_task_cpus, stored, now)) is not None:
            busy += cpus * took
            seen += took
    # Of one task, times how many ran at once.
    return busy / seen * ran / run.run_seconds if seen > 0 and run.run_seconds > 0 else None


def _host_share(conn: Connection, task: TaskUse, looks: Looks, now: float) -> float | None:
    if (total := looks.host_cpus(task.host_id)) is None:
        return None
    stored = partial(minutes.mean_host_cpus, conn)
    cpus = mean_while(task, task.host_id, looks.mean_host_cpus, stored, now)
    return None if cpus is None else cpus / total
