"""Queries of `ClusterState`, the records on which scheduling decisions are based.

They convert table rows to records, so that the scheduler depends on no table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import BindParameter, Select, bindparam, select
from sqlalchemy.engine import Connection
from sqlmodel import SQLModel, col

from schedulearn.scheduler.core import cluster_state as records
from schedulearn.scheduler.core.cluster_state import ClusterState, Leases
from schedulearn.scheduler.core.states import HOLDS_GPUS, TERMINAL, JobState, TaskPhase
from schedulearn.scheduler.store.models import Gpu, Host, Job, Lease, PortLease, Profile, ReadLog, Task
from schedulearn.scheduler.store.people.run_as import load_run_as
from schedulearn.scheduler.store.repository import job_states
from schedulearn.scheduler.store.windows import load_windows

_P = TypeVar("_P", records.JobProgress, records.ProgressInLog)


def _columns(table: type[SQLModel], fields: Sequence[str]) -> Select[tuple[object, ...]]:
    """Select the columns of a record, in the order of its fields."""
    return select(*(col(getattr(table, name)) for name in fields))


_ALL_JOBS = _columns(Job, records.Job._fields)
_JOBS = _ALL_JOBS.where(col(Job.state).not_in([state.value for state in TERMINAL]))
_TASKS = _columns(Task, records.Task._fields).order_by(col(Task.seq))
_LIVE_TASKS = _TASKS.where(col(Task.state) != TaskPhase.ENDED)
_HOSTS = _columns(Host, records.Host._fields).order_by(col(Host.position), col(Host.id))
_GPUS = (
    _columns(Gpu, records.Gpu._fields)
    .where(col(Gpu.present))
    .order_by(col(Gpu.host_id), col(Gpu.ordinal), col(Gpu.uuid))
)
_PROGRESS = _columns(Profile, records.JobProgress._fields).where(col(Profile.epochs).is_not(None))
_LEASES = select(col(Lease.gpu_uuid), col(Lease.slot), col(Lease.task_id))
_PORTS = select(col(PortLease.task_id), col(PortLease.port))
# Each scheduling cycle executes these. SQLAlchemy takes several times longer to build a query than SQLite to answer it.
_THESE: BindParameter[Any] = bindparam("these", expanding=True)
_ENDED_OF = _TASKS.where(col(Task.job_id).in_(_THESE), col(Task.state) == TaskPhase.ENDED)
_SPECS_OF = select(col(Job.id), col(Job.spec)).where(col(Job.id).in_(_THESE))
_PROGRESS_OF = _PROGRESS.where(col(Profile.job_id).in_(_THESE))
_IN_LOGS_OF = _columns(ReadLog, records.ProgressInLog._fields).where(
    col(ReadLog.job_id).in_(_THESE), col(ReadLog.fraction).is_not(None), col(ReadLog.first_at).is_not(None)
)
_LAST_HOST = select(col(Task.host_id)).where(col(Task.rank) == 0).order_by(col(Task.seq).desc()).limit(1)


@dataclass(frozen=True)
class GpuLeases:
    """GPUs of all hosts, and their leases."""

    hosts: Sequence[records.Host]
    gpus: Sequence[records.Gpu]
    leases: Leases


def load_cluster_state(conn: Connection) -> ClusterState:
    found = load_gpu_leases(conn)
    tasks = [records.Task._make(row) for row in conn.execute(_LIVE_TASKS)]
    jobs = {job.id: job for job in map(records.Job._make, conn.execute(_JOBS))}
    starting = _load_specs(conn, {task.job_id for task in tasks if task.wanted})
    writers = {jobs[job_id].user for job_id, spec in starting.items() if job_id in jobs and spec.get("mounts")}
    begun = [job.id for job in jobs.values() if job.attempt]
    awaited = {each for job in jobs.values() if job.after is not None for each in job.after["jobs"]}
    return ClusterState(
        jobs=jobs,
        starting=starting,
        run_as=load_run_as(conn, writers) if writers else {},
        tasks=tasks,
        hosts=found.hosts,
        gpus=found.gpus,
        leases=found.leases,
        last_host=conn.execute(_LAST_HOST).scalar(),
        ports={row.task_id: row.port for row in conn.execute(_PORTS)},
        progress=_load_progress(conn, _PROGRESS_OF, records.JobProgress, begun),
        ended=job_states(conn, awaited - jobs.keys()),
        windows=load_windows(conn),
        in_logs=_load_progress(conn, _IN_LOGS_OF, records.ProgressInLog, begun),
    )


def load_gpu_leases(conn: Connection) -> GpuLeases:
    leases: dict[str, dict[int, str]] = {}
    for uuid, slot, task_id in conn.execute(_LEASES):
        leases.setdefault(uuid, {})[slot] = task_id
    hosts = [records.Host._make(row) for row in conn.execute(_HOSTS)]
    return GpuLeases(hosts, [records.Gpu._make(row) for row in conn.execute(_GPUS)], leases)


def succeeded_jobs(conn: Connection, limit: int) -> list[records.Job]:
    """Return the latest successful jobs with GPUs, by time of submission."""
    query = _ALL_JOBS.where(col(Job.state) == JobState.SUCCEEDED, col(Job.gpu_seconds) > 0)
    newest = conn.execute(query.order_by(col(Job.submitted_at).desc()).limit(limit)).all()
    return [records.Job._make(row) for row in reversed(newest)]


def tasks_of(conn: Connection, job_ids: Sequence[str], *, live: bool = False) -> list[records.Task]:
    """Return tasks of these jobs, oldest first; with `live` only those that have not ended."""
    query = _LIVE_TASKS if live else _TASKS
    return [records.Task._make(row) for row in conn.execute(query.where(col(Task.job_id).in_(job_ids)))]


def has_tasks_elsewhere(conn: Connection, host_id: str) -> bool:
    """Return whether any task was ever placed on another host."""
    return conn.execute(select(col(Task.id)).where(col(Task.host_id) != host_id).limit(1)).first() is not None


def live_tasks(conn: Connection, host_id: str) -> list[records.Task]:
    return [records.Task._make(row) for row in conn.execute(_LIVE_TASKS.where(col(Task.host_id) == host_id))]


def ended_beside_live(conn: Connection, state: ClusterState) -> Mapping[str, list[records.Task]]:
    """Return the ended tasks of the current attempt, by job that holds GPUs."""
    holders = [job.id for job in state.jobs.values() if job.state in HOLDS_GPUS]
    ended: dict[str, list[records.Task]] = {}
    if holders:
        for task in map(records.Task._make, conn.execute(_ENDED_OF, {"these": holders})):
            if task.attempt == state.jobs[task.job_id].attempt:
                ended.setdefault(task.job_id, []).append(task)
    return ended


def _load_specs(conn: Connection, job_ids: set[str]) -> Mapping[str, Mapping[str, Any]]:
    if not job_ids:
        return {}
    rows: list[tuple[str, Mapping[str, Any]]] = [tuple(row) for row in conn.execute(_SPECS_OF, {"these": [*job_ids]})]
    return dict(rows)


def _load_progress(
    conn: Connection, query: Select[tuple[object, ...]], record: type[_P], job_ids: Sequence[str]
) -> Mapping[str, _P]:
    """Load the records of these jobs by job id."""
    if not job_ids:
        return {}
    return {found.job_id: found for found in map(record._make, conn.execute(query, {"these": job_ids}))}
