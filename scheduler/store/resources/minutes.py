"""Use of CPU, memory, network and disk by tasks and hosts.

It has averages by minute, kept as long as those of GPUs, and the peak memory of each task. Every function takes the
connection of its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Column, ForeignKey, Integer, Row, bindparam, delete, func, select, text, update
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.store.columns import insert_missing
from schedulearn.scheduler.store.gpus import MAX_POINTS, whole_minutes
from schedulearn.scheduler.store.models import Host, Task


class TaskMinute(SQLModel, table=True):
    """Averages of one task over one minute; None: the engine does not report it."""

    __tablename__ = "task_minute"
    __table_args__ = ({"sqlite_with_rowid": False},)

    task_seq: int = Field(
        sa_column=Column(Integer, ForeignKey("task.seq", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    )
    minute: int = Field(primary_key=True)
    """Minutes since the epoch."""
    cpus: float | None = None
    """Number of cores that were busy for the task."""
    memory_bytes: float | None = None
    network_in: float | None = None
    """Bytes per second, as are the following fields."""
    network_out: float | None = None
    disk_read: float | None = None
    disk_written: float | None = None


class HostMinute(SQLModel, table=True):
    """Averages of one host over one minute."""

    __tablename__ = "host_minute"
    __table_args__ = ({"sqlite_with_rowid": False},)

    host_id: str = Field(primary_key=True)
    minute: int = Field(primary_key=True)
    cpus: float | None = None
    """Number of busy cores."""
    memory_bytes: float | None = None
    disk_bytes: float | None = None
    network_in: float | None = None
    """Bytes per second, as are the following fields."""
    network_out: float | None = None
    disk_read: float | None = None
    disk_written: float | None = None


TASK_METRICS = ("cpus", "memory_bytes", "network_in", "network_out", "disk_read", "disk_written")
HOST_METRICS = ("cpus", "memory_bytes", "disk_bytes", "network_in", "network_out", "disk_read", "disk_written")
Averages = Mapping[str, Sequence[float | None]]
"""Task or host -> averages in the order of `TASK_METRICS` or `HOST_METRICS`."""

_SOME = 500  # parameters of one statement


def add_minute(db: Connection, minute: int, tasks: Averages, hosts: Averages) -> None:
    """Store the averages of a minute.

    Existing rows stay. Tasks and hosts that were deleted meanwhile are skipped."""
    seqs = _seqs(db, list(tasks))
    rows = [
        {"task_seq": seqs[task_id], "minute": minute, **dict(zip(TASK_METRICS, values, strict=True))}
        for task_id, values in tasks.items()
        if task_id in seqs
    ]
    there = set(db.execute(select(col(Host.id))).scalars())
    host_rows = [
        {"host_id": host_id, "minute": minute, **dict(zip(HOST_METRICS, values, strict=True))}
        for host_id, values in hosts.items()
        if host_id in there
    ]
    for table, found in ((TaskMinute, rows), (HostMinute, host_rows)):
        if found:
            insert_missing(db, table, found)


def note_peaks(db: Connection, peaks: Mapping[str, int]) -> None:
    """Update the peak memory of tasks. `peaks`: task -> bytes."""
    if peaks:
        change = (
            update(Task)
            .where(col(Task.id) == bindparam("of_task"))
            .where(func.coalesce(col(Task.memory_peak), -1) < bindparam("peak"))
            .values(memory_peak=bindparam("peak"))
        )
        db.execute(change, [{"of_task": task_id, "peak": peak} for task_id, peak in peaks.items()])


def drop_minutes(db: Connection, before: int) -> None:
    """Delete the minutes before this one."""
    # By task, because the table is sorted by it: this avoids a full scan.
    for seq in db.execute(_TASKS_WITH_MINUTES).scalars().all():
        db.execute(delete(TaskMinute).where(col(TaskMinute.task_seq) == seq, col(TaskMinute.minute) < before))
    for host_id in db.execute(select(col(Host.id))).scalars().all():
        db.execute(delete(HostMinute).where(col(HostMinute.host_id) == host_id, col(HostMinute.minute) < before))


def task_minutes(db: Connection, task_id: str, since: int, until: int) -> tuple[int, list[Row[Any]]]:
    """Return the averages of one task, as `gpus.minutes` does for a GPU."""
    seq = select(col(Task.seq)).where(col(Task.id) == task_id).scalar_subquery()
    return _minutes(db, TaskMinute, col(TaskMinute.task_seq) == seq, TASK_METRICS, since, until)


def host_minutes(db: Connection, host_id: str, since: int, until: int) -> tuple[int, list[Row[Any]]]:
    """Return the averages of one host, as `gpus.minutes` does for a GPU."""
    return _minutes(db, HostMinute, col(HostMinute.host_id) == host_id, HOST_METRICS, since, until)


def mean_task_cpus(db: Connection, task_id: str, since: float, until: float) -> float | None:
    """Return the mean over the whole minutes of a time; None: not measured."""
    seq = select(col(Task.seq)).where(col(Task.id) == task_id).scalar_subquery()
    return _mean_cpus(db, TaskMinute, col(TaskMinute.task_seq) == seq, since, until)


def mean_host_cpus(db: Connection, host_id: str, since: float, until: float) -> float | None:
    """Return the same as `mean_task_cpus`, for a host."""
    return _mean_cpus(db, HostMinute, col(HostMinute.host_id) == host_id, since, until)


def _mean_cpus(
    db: Connection, table: type[TaskMinute] | type[HostMinute], which: Any, since: float, until: float
) -> float | None:
    query = select(func.avg(col(table.cpus))).where(which, whole_minutes(col(table.minute), since, until))
    found: float | None = db.execute(query).scalar()
    return found


def forget_host(db: Connection, host_id: str) -> None:
    db.execute(delete(HostMinute).where(col(HostMinute.host_id) == host_id))


def _minutes(
    db: Connection, table: type[TaskMinute] | type[HostMinute], which: Any, names: Sequence[str], since: int, until: int
) -> tuple[int, list[Row[Any]]]:
    step = max(1, -(-(until - since) // MAX_POINTS))
    minute = col(table.minute)
    first = func.min(minute)
    query = (
        select(first.label("minute"), *(func.avg(col(getattr(table, name))).label(name) for name in names))
        .where(which, minute >= since, minute < until)
        .group_by(minute // step)
        .order_by(first)
    )
    return step, list(db.execute(query))


def _seqs(db: Connection, task_ids: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for begin in range(0, len(task_ids), _SOME):
        some = task_ids[begin : begin + _SOME]
        rows = db.execute(select(col(Task.id), col(Task.seq)).where(col(Task.id).in_(some)))
        found |= {row.id: row.seq for row in rows}
    return found


_TASKS_WITH_MINUTES = text(
    """WITH RECURSIVE kept(seq) AS (
         SELECT min(task_seq) FROM task_minute
         UNION ALL
         SELECT (SELECT min(task_seq) FROM task_minute WHERE task_seq > kept.seq) FROM kept WHERE kept.seq IS NOT NULL
       ) SELECT seq FROM kept WHERE seq IS NOT NULL"""
)
"""Query that jumps from one task to the next along the key, past all minutes of each."""
