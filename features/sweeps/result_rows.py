"""Stored results of each run of a sweep.

They outlive the run's job, and the telemetry of its GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import Table, bindparam, func, inspect, null, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.features.sweeps.steps import UNFINISHED
from schedulearn.features.sweeps.table import Sweep, SweepRun
from schedulearn.scheduler.core.states import TERMINAL, JobState
from schedulearn.scheduler.store.gpus import whole_minutes
from schedulearn.scheduler.store.models import Gpu, GpuMinute, Job, Metric, Profile, Task

_TABLE = cast(Table, inspect(SweepRun).local_table)
_RECORD = (
    update(_TABLE)
    .where(
        _TABLE.c.sweep_id == bindparam("of"), _TABLE.c.number == bindparam("which"), _TABLE.c.job_id == bindparam("job")
    )
    .values(results=bindparam("found"))
)


class Recorded(NamedTuple):
    sweep_id: str
    number: int
    job_id: str
    results: Mapping[str, float]


class TaskUse(NamedTuple):
    """Host, GPUs and period of one container."""

    task_id: str
    host_id: str
    gpu_uuids: Sequence[str]
    started_at: float
    ended_at: float
    memory_peak: int | None


class EndedRun(NamedTuple):
    """Run whose job has ended, with the data of the job."""

    sweep_id: str
    number: int
    job_id: str
    succeeded: bool
    submitted_at: float
    started_at: float | None
    finished_at: float
    run_seconds: float
    epochs: int | None
    epoch_samples: int | None
    tasks: Sequence[TaskUse]
    metrics: Mapping[str, float]


_UNRECORDED = (
    select(
        col(SweepRun.sweep_id), col(SweepRun.number), col(Job.id), col(Job.state) == JobState.SUCCEEDED,
        col(Job.submitted_at), col(Job.started_at), col(Job.finished_at), col(Job.run_seconds),
        col(Profile.epochs), col(Profile.epoch_samples), col(Job.spec),
    )
    .join(Sweep, col(Sweep.id) == col(SweepRun.sweep_id))
    .join(Job, col(Job.id) == col(SweepRun.job_id))
    .outerjoin(Profile, col(Profile.job_id) == col(Job.id))
    .where(col(Sweep.state).in_(UNFINISHED), col(Job.state).in_([*TERMINAL]), col(SweepRun.results).is_(null()))
    .limit(bindparam("most"))
)  # fmt: skip


def unrecorded(conn: Connection, limit: int) -> list[EndedRun]:
    """Return ended runs of unfinished sweeps that have no results yet."""
    runs: list[tuple[Any, ...]] = [tuple(run) for run in conn.execute(_UNRECORDED, {"most": limit})]
    ids = [run[2] for run in runs]
    tasks: dict[str, list[TaskUse]] = {}
    for task in conn.execute(select(Task).where(col(Task.job_id).in_(ids))) if ids else ():
        begin, end = task.started_at or task.created_at, task.finished_at or task.created_at
        use = TaskUse(task.id, task.host_id, task.gpu_uuids, begin, end, task.memory_peak)
        tasks.setdefault(task.job_id, []).append(use)
    metrics: dict[str, dict[str, float]] = {}
    logged = select(col(Metric.job_id), col(Metric.name), col(Metric.last)).where(col(Metric.job_id).in_(ids))
    for row in conn.execute(logged) if ids else ():
        if row.last is not None:
            metrics.setdefault(row.job_id, {})[row.name] = row.last
    return [
        EndedRun._make([*run, epochs or spec.get("epochs"), samples, tasks.get(run[2], ()), metrics.get(run[2], {})])
        for *run, epochs, samples, spec in runs
    ]


def record(conn: Connection, recorded: Sequence[Recorded]) -> None:
    """Store results of runs, except those that have another job by now."""
    conn.execute(
        _RECORD,
        [{"of": each.sweep_id, "which": each.number, "job": each.job_id, "found": each.results} for each in recorded],
    )


def mean_utilization(conn: Connection, uuid: str, since: float, until: float) -> float | None:
    """Return a GPU's mean utilization over whole minutes, in percent.

    None if it was not measured, or the GPU is simulated."""
    measured = select(col(Gpu.uuid)).where(col(Gpu.simulated).is_(False))
    query = select(func.avg(col(GpuMinute.utilization))).where(
        col(GpuMinute.gpu_uuid).in_(measured),
        col(GpuMinute.gpu_uuid) == uuid,
        whole_minutes(col(GpuMinute.minute), since, until),
    )
    found: float | None = conn.execute(query).scalar()
    return found
