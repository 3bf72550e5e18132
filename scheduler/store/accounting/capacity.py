"""GPU capacity over time, and the share that jobs held."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import delete, func, insert, select, union_all
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.core.states import Parking
from schedulearn.scheduler.store.accounting.usage import DeletedTask, day_of, days_between
from schedulearn.scheduler.store.columns import InstantColumn
from schedulearn.scheduler.store.models import Gpu, Host, Task

_HOUR_S = 3600.0


class Capacity(SQLModel, table=True):
    """Number of GPUs from `at` until the next row."""

    at: float = Field(primary_key=True, sa_type=InstantColumn, sa_column_kwargs={"autoincrement": False})
    gpus: int


@dataclass
class DayOfCapacity:
    day: str
    gpu_hours: float = 0.0
    """GPU-hours of all GPUs available to jobs."""
    held_gpu_hours: float = 0.0
    """GPU-hours that jobs held. A shared GPU counts once, which equals the sum of the shares in `usage`."""


def note_capacity(conn: Connection, at: float) -> None:
    """Store the number of GPUs available to jobs, if it has changed.

    Unhealthy GPUs don't count, nor those of lost hosts and of hosts that are powered down."""
    gpus = conn.execute(
        select(func.count())
        .select_from(Gpu)
        .join(Host, col(Host.id) == col(Gpu.host_id))
        .where(col(Gpu.present), col(Gpu.fault) == "", col(Host.lost_at).is_(None))
        .where(col(Host.parking) != Parking.PARKED)
    ).scalar_one()
    last = conn.execute(select(col(Capacity.gpus)).order_by(col(Capacity.at).desc()).limit(1)).scalar()
    if gpus != (last or 0):
        conn.execute(delete(Capacity).where(col(Capacity.at) == at))
        conn.execute(insert(Capacity).values(at=at, gpus=gpus))


def capacity(db: Connection, since: float, until: float) -> tuple[float | None, list[DayOfCapacity]]:
    """Return the time since which capacity is known, or None, and its days.

    The days (UTC) are those from `since` to `until`, which is not in the future. GPUs held before capacity was known
    are left out: there is no total to compare them with."""
    first = db.execute(select(func.min(Capacity.at))).scalar()
    if first is None:
        return None, []
    since = max(since, first)
    if since >= until:
        return first, []
    found: dict[str, DayOfCapacity] = {}
    for begin, end, gpus in _levels(db, since, until):
        for left, right in days_between(begin, end):
            day = found.setdefault(day_of(left), DayOfCapacity(day_of(left)))
            day.gpu_hours += (right - left) * gpus / _HOUR_S
    for begin, end in _held(db, since, until):
        for left, right in days_between(begin, end):
            found[day_of(left)].held_gpu_hours += (right - left) / _HOUR_S
    return first, [found[day] for day in sorted(found)]


def _levels(db: Connection, since: float, until: float) -> Iterator[tuple[float, float, int]]:
    """Yield (begin, end, GPUs) without gaps from `since` to `until`."""
    before = select(func.max(Capacity.at)).where(col(Capacity.at) <= since).scalar_subquery()
    query = select(col(Capacity.at), col(Capacity.gpus)).where(col(Capacity.at) >= before, col(Capacity.at) < until)
    rows = [(row.at, row.gpus) for row in db.execute(query.order_by(col(Capacity.at)))]
    ends = [at for at, _ in rows[1:]] + [until]
    for (at, gpus), end in zip(rows, ends, strict=True):
        yield max(since, at), end, gpus


def _held(db: Connection, since: float, until: float) -> Iterator[tuple[float, float]]:
    """Yield the spans in which a task held a GPU; those of one GPU do not overlap."""
    spans = union_all(*(
        select(col(task.created_at), col(task.finished_at), col(task.gpu_uuids))
        .where(col(task.created_at) < until)
        .where(col(task.finished_at).is_(None) | (col(task.finished_at) > since))
        for task in (Task, DeletedTask)
    )).subquery()  # fmt: skip
    held_until: dict[str, float] = {}
    for begin, finish, uuids in db.execute(select(spans).order_by(spans.c.created_at)):
        end = until if finish is None else min(finish, until)
        for uuid in uuids:
            left = max(since, begin, held_until.get(uuid, since))
            if end > left:
                held_until[uuid] = end
                yield left, end
