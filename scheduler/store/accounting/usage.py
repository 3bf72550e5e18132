"""GPU-hours and energy by user, label and day.

They are summed from the history of tasks, including the tasks of deleted jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from sqlalchemy import Index, delete, func, insert, select
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.core.cluster_state import run_seconds
from schedulearn.scheduler.core.gpu_sharing import Holding, Sharing
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.columns import InstantColumn, json_column
from schedulearn.scheduler.store.models import Gpu, Job, Task

DAY_S = 86_400


class DeletedTask(SQLModel, table=True):
    """Usage by a task of a deleted job, which stays in the reports."""

    __tablename__ = "deleted_task"
    __table_args__ = (Index("deleted_task_by_end", "finished_at"),)

    id: str = Field(primary_key=True)
    job_id: str
    user: str
    labels: dict[str, str] = Field(sa_column=json_column())
    created_at: float = Field(sa_type=InstantColumn)
    finished_at: float | None = Field(default=None, sa_type=InstantColumn)
    gpu_uuids: list[str] = Field(sa_column=json_column())
    energy_joules: float


@dataclass
class Usage:
    """One row of a report; fields that it is not grouped by are empty."""

    day: str
    user: str
    label: str
    gpu_hours: float = 0.0
    energy_kwh: float = 0.0
    jobs: int = 0
    hours_of: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Type of GPU -> its share of `gpu_hours`; "": GPUs whose type is not given."""

    @property
    def energy(self) -> float | None:
        """Energy in kWh; None: GPUs were held, and none of them measures it.

        MIG devices and simulated GPUs don't measure it."""
        return None if self.gpu_hours and not self.energy_kwh else round(self.energy_kwh, 6)


@dataclass(frozen=True)
class ReceivedService:
    """Service that a job has received."""

    run_seconds: float = 0.0
    gpu_seconds: float = 0.0


def live_service(tasks: Iterable[Any], now: float) -> dict[str, ReceivedService]:
    """Return the service of live `tasks` until `now`, by job id.

    A job's row counts the service of a task only once the task has ended."""
    found: dict[str, ReceivedService] = {}
    for task in tasks:
        before, seconds = found.get(task.job_id, ReceivedService()), run_seconds(task, now)
        found[task.job_id] = ReceivedService(
            before.run_seconds + (seconds if task.rank == 0 else 0.0),
            before.gpu_seconds + seconds * len(task.gpu_uuids),
        )
    return found


def gpu_types(db: Connection, uuids: Collection[str] | None = None) -> dict[str, str]:
    """Return UUID -> type of these GPUs or of all, including those that are gone."""
    query = select(col(Gpu.uuid), col(Gpu.type))
    return {row.uuid: row.type for row in db.execute(query if uuids is None else query.where(col(Gpu.uuid).in_(uuids)))}


def usage(
    db: Connection,
    since: float,
    until: float,
    now: float,
    *,
    by: Sequence[str] = ("user",),
    label: str = "",
    types: Mapping[str, str] | None = None,
) -> list[Usage]:
    """Return the usage from `since` to `until`, grouped by `by`.

    Groups are any of "day" (UTC), "user" and "label" (the value of the label named `label`). GPUs count from their
    lease, even before the container runs, until the task is gone or until `now`. A paused task still holds its GPUs, so
    pauses count. Tasks that hold a GPU at the same time share its time. Energy is distributed evenly over a task's
    time. `types`: GPU types by UUID, needed for `hours_of`."""
    found: dict[tuple[str, str, str], Usage] = {}
    jobs: dict[tuple[str, str, str], set[str]] = {}
    sharing = _sharing(db, since, until, now)
    for row in chain(*map(db.execute, _tasks_between(since, until))):
        end = row.finished_at or now
        joules_a_second = row.energy_joules / max(1e-9, end - row.created_at)
        for begin, finish in (
            days_between(max(since, row.created_at), min(until, end))
            if "day" in by
            else [(max(since, row.created_at), min(until, end))]
        ):
            seconds = max(0.0, finish - begin)
            key = (
                day_of(begin) if "day" in by else "",
                row.user if "user" in by else "",
                row.labels.get(label, "") if "label" in by else "",
            )
            entry = found.setdefault(key, Usage(*key))
            for uuid in row.gpu_uuids:
                hours = sharing.seconds(uuid, begin, finish) / 3600
                entry.gpu_hours += hours
                if types is not None:
                    entry.hours_of[types.get(uuid, "")] += hours
            entry.energy_kwh += seconds * joules_a_second / 3.6e6
            jobs.setdefault(key, set()).add(row.job_id)
    for key, entry in found.items():
        entry.jobs = len(jobs[key])
    return [found[key] for key in sorted(found)]


def usage_of_job(db: Connection, job_id: str, now: float) -> Usage:
    """Return the usage of one job, with the types of its GPUs."""
    found = Usage("", "", "", jobs=1)
    columns = (
        col(Task.created_at), col(Task.finished_at), col(Task.gpu_uuids), col(Task.energy_joules), col(Task.host_id),
    )  # fmt: skip
    tasks = db.execute(select(*columns).where(col(Task.job_id) == job_id)).all()
    if not any(task.gpu_uuids for task in tasks):
        found.energy_kwh = sum(task.energy_joules for task in tasks) / 3.6e6
        return found
    begin, end = min(task.created_at for task in tasks), max(task.finished_at or now for task in tasks)
    sharing = _sharing(db, begin, end, now, {task.host_id for task in tasks})
    types = gpu_types(db, {uuid for task in tasks for uuid in task.gpu_uuids})
    for task in tasks:
        found.energy_kwh += task.energy_joules / 3.6e6
        for uuid in task.gpu_uuids:
            hours = sharing.seconds(uuid, task.created_at, task.finished_at or now) / 3600
            found.gpu_hours += hours
            found.hours_of[types.get(uuid, "")] += hours
    return found


def _tasks_between(since: float, until: float) -> Iterator[Any]:
    """Yield the queries for tasks of existing jobs and for tasks of deleted jobs."""
    for task, job in ((Task, Job), (DeletedTask, DeletedTask)):
        query = select(
            col(task.job_id), col(task.created_at), col(task.finished_at), col(task.gpu_uuids),
            col(task.energy_joules), col(job.user), col(job.labels),
        )  # fmt: skip
        query = query if task is DeletedTask else query.join(Job, col(Job.id) == col(Task.job_id))
        yield query.where(
            col(task.created_at) < until, col(task.finished_at).is_(None) | (col(task.finished_at) > since)
        )


def _sharing(db: Connection, since: float, until: float, now: float, hosts: Collection[str] | None = None) -> Sharing:
    """Return the sharing of GPUs in a time, among the tasks of all users.

    Tasks that the requesting user may not see are included. `hosts`: tasks of other hosts are left out. Tasks of
    deleted jobs have no host, and are included."""
    schema = {None: "main" if db.dialect.name == "sqlite" else "public"}  # the tables, not the views of one user
    found: list[Holding] = []
    for task in (Task, DeletedTask):
        query = select(col(task.created_at), func.coalesce(col(task.finished_at), now), col(task.gpu_uuids)).where(
            col(task.created_at) < until, col(task.finished_at).is_(None) | (col(task.finished_at) > since)
        )
        if task is Task and hosts is not None:
            query = query.where(col(Task.host_id).in_(hosts))
        found += [Holding(*row) for row in db.execute(query.execution_options(schema_translate_map=schema))]
    return Sharing(found)


def day_of(at: float) -> str:
    """Return the day in UTC: "2026-11-23"."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def days_between(begin: float, end: float) -> list[tuple[float, float]]:
    """Split a span by days (UTC)."""
    parts = []
    while begin < end:
        midnight = (begin // DAY_S + 1) * DAY_S
        parts.append((begin, min(end, midnight)))
        begin = midnight
    return parts


def delete_job(conn: Connection, job: repository.JobRow, now: float) -> list[str]:
    """Delete an ended job with its tasks and reports; return the ids of the tasks.

    Its events stay, and an event about the deletion is added."""
    columns = [Task.id, Task.job_id, Task.created_at, Task.finished_at, Task.gpu_uuids, Task.energy_joules]
    used = select(*map(col, columns), col(Job.user), col(Job.labels)).join(Job, col(Job.id) == col(Task.job_id))
    tasks = [row._asdict() for row in conn.execute(used.where(col(Task.job_id) == job.id))]
    if tasks:
        conn.execute(insert(DeletedTask), tasks)
    conn.execute(delete(Job).where(col(Job.id) == job.id))
    repository.count_deleted(conn, "jobs", 1)
    message = f"Deleted with its log, checkpoints and measurements: {job.name}."
    data = {"name": job.name, "user": job.user, "state": job.state, "submitted_at": job.submitted_at}
    repository.add_event(conn, now, "job.deleted", code="deleted", message=message, job_id=job.id, data=data)
    return [str(task["id"]) for task in tasks]


def unknown_tasks(conn: Connection, names: set[str]) -> set[str]:
    """Return those of `names` that are no task's id."""
    return names - set(conn.execute(select(col(Task.id))).scalars()) if names else set()
