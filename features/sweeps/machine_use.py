"""Use of processors and memory by a run and its hosts."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Protocol

from sqlalchemy.engine import Connection

from schedulearn.features.sweeps.result_rows import EndedRun, TaskUse
from schedulearn.scheduler.core.outcomes.task_outcomes import MemorySeen, highest_memory
from schedulearn.scheduler.store.resources import minutes

_MEMORY_S = 540.0
"""Tasks that started less than this many seconds ago are measured by single readings; older ones by minute averages."""
Mean = Callable[[str, float, float], float | None]
"""Function of a task, host or GPU, and start and end of a period. It returns the mean; None: not measured."""


class RecentMeasurements(Protocol):
    """Recent measurements of tasks and hosts."""

    def mean_task_cpus(self, task_id: str, since: float, until: float) -> float | None: ...

    def mean_host_cpus(self, host_id: str, since: float, until: float) -> float | None: ...

    def memory(self, task_id: str) -> MemorySeen | None: ...

    def host_cpus(self, host_id: str) -> int | None:
        """Return the number of a host's cores; None: unknown."""
        ...


def machine_use(conn: Connection, run: EndedRun, looks: RecentMeasurements, now: float) -> dict[str, float]:
    """Return the use of processors and memory by a run.

    `cpus`: mean number of cores that all its tasks kept busy. `memory`: maximum bytes of one of its tasks.
    `host_utilization`: busy share of all cores of its hosts, percent, including other work. Unmeasured values are left
    out, for example of a run between two readings."""
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
    """Return the mean of `name` while the task ran.

    It is computed from recent readings if they cover the task, else from stored averages."""
    begin, end = task.started_at, task.ended_at
    mean = recent(name, begin, end) if now - begin < _MEMORY_S else None
    return stored(name, begin, end) if mean is None else mean


def _task_cpus(conn: Connection, run: EndedRun, looks: RecentMeasurements, now: float) -> float | None:
    stored = partial(minutes.mean_task_cpus, conn)
    busy = seen = ran = 0.0
    for task in run.tasks:
        took = task.ended_at - task.started_at
        ran += took
        if (cpus := mean_while(task, task.task_id, looks.mean_task_cpus, stored, now)) is not None:
            busy += cpus * took
            seen += took
    # mean of one task, times the mean number of tasks that ran at once
    return busy / seen * ran / run.run_seconds if seen > 0 and run.run_seconds > 0 else None


def _host_share(conn: Connection, task: TaskUse, looks: RecentMeasurements, now: float) -> float | None:
    if (total := looks.host_cpus(task.host_id)) is None:
        return None
    stored = partial(minutes.mean_host_cpus, conn)
    cpus = mean_while(task, task.host_id, looks.mean_host_cpus, stored, now)
    return None if cpus is None else cpus / total
