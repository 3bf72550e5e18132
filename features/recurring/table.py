"""Table and queries of schedules, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Index, Row, Text, delete, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.core.states import TERMINAL
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.specs.cron import Repetition
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.columns import InstantColumn, json_column
from schedulearn.scheduler.store.models import Job
from schedulearn.scheduler.store.owned import OWNED, Owned

MAX_OF_USER = 100
_AT_ONCE = 100
_AHEAD_S = 3 * 3600.0


class Schedule(SQLModel, table=True):
    """Job that is submitted again and again."""

    __table_args__ = (Index("schedule_by_next", "next_at"),)

    id: str = Field(primary_key=True)
    user: str
    cron: str
    time_zone: str
    overlap: str
    """An `Overlap`."""
    job: dict[str, Any] = Field(sa_column=json_column())
    """Keys of the job, with stored code."""
    created_at: float = Field(sa_type=InstantColumn)
    next_at: float | None = Field(default=None, sa_type=InstantColumn)
    """Time of the next run; None: it is paused, or there is no such time.

    It changes in the transaction that stores the job of a run, so that each time has at most one job."""
    paused_at: float | None = Field(default=None, sa_type=InstantColumn)
    message: str = Field(default="", sa_type=Text)
    """Why it is paused, or why the latest time had no run; empty: it had one."""
    last_at: float | None = Field(default=None, sa_type=InstantColumn)
    """Time of the latest run."""
    last_job: str | None = None
    runs: int = 0
    missed: int = 0
    idempotency_key: str | None = Field(default=None, unique=True)
    request_hash: str | None = None


ScheduleRow = Row[Any]


def _jobs_to_come(db: Connection) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for row in db.execute(select(col(Schedule.id), col(Schedule.job))):
        yield row.id, row.job


OWNED["schedule"] = Owned(Schedule, parts=(), jobs_to_come=_jobs_to_come)


def get_schedule(db: Connection, schedule_id: str) -> ScheduleRow:
    """Return a schedule. Raises NotFoundError."""
    row = db.execute(select(Schedule).where(col(Schedule.id) == schedule_id)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no schedule {schedule_id!r}")
    return row


def by_key(db: Connection, idempotency_key: str) -> ScheduleRow | None:
    return db.execute(select(Schedule).where(col(Schedule.idempotency_key) == idempotency_key)).one_or_none()


def list_schedules(
    db: Connection, user: str | None, after: str | None, limit: int
) -> tuple[Sequence[ScheduleRow], str | None]:
    """Return schedules, newest first, and `after` of the next page or None."""
    query = select(Schedule).order_by(col(Schedule.id).desc()).limit(limit + 1)
    if user is not None:
        query = query.where(col(Schedule.user) == user)
    if after is not None:
        query = query.where(col(Schedule.id) < after)
    rows = db.execute(query).all()
    return rows[:limit], rows[limit - 1].id if len(rows) > limit else None


def add(db: Connection, values: Mapping[str, Any], now: float) -> ScheduleRow:
    """Insert a schedule. Raises ConflictError if its user has too many."""
    mine = select(func.count()).select_from(Schedule).where(col(Schedule.user) == values["user"])
    if (db.execute(mine).scalar() or 0) >= MAX_OF_USER:
        raise ConflictError(f"{values['user']} has {MAX_OF_USER} schedules, the maximum: delete one first")
    db.execute(insert(Schedule), [values])
    row = get_schedule(db, values["id"])
    note(db, row, "created", f"Created: `{row.cron}` in {row.time_zone}.", now)
    return row


def remove(db: Connection, schedule_id: str, now: float) -> None:
    """Delete a schedule. Its jobs stay. Raises NotFoundError."""
    row = get_schedule(db, schedule_id)
    note(db, row, "deleted", "Deleted. Its jobs stay.", now)
    db.execute(delete(Schedule).where(col(Schedule.id) == schedule_id))


def change(db: Connection, schedule_id: str, **values: Any) -> None:
    db.execute(update(Schedule).where(col(Schedule.id) == schedule_id).values(**values))


def note(db: Connection, row: ScheduleRow, what: str, message: str, now: float, code: str = "") -> None:
    """Record an event of a schedule."""
    told = f"Schedule {row.id} ({row.job['name']}): {message}"
    repository.add_event(db, now, f"schedule.{what}", code=code or what, message=told, data={"schedule": row.id})


def due(db: Connection, now: float) -> Sequence[ScheduleRow]:
    """Return schedules whose time has come, earliest first."""
    query = select(Schedule).where(col(Schedule.next_at) <= now).order_by(col(Schedule.next_at), col(Schedule.id))
    return db.execute(query.limit(_AT_ONCE)).all()


def correct_times(db: Connection, now: float) -> None:
    """Bring next times forward that were found while the clock was ahead.

    Times that have run are not repeated, unless the clock was ahead by more than `_AHEAD_S`."""
    query = select(Schedule.id, Schedule.cron, Schedule.time_zone, Schedule.last_at, Schedule.next_at)  # type: ignore[call-overload]
    for row in db.execute(query.where(col(Schedule.next_at) > now)).all():
        ran = row.last_at is not None and now < row.last_at <= now + _AHEAD_S
        found = Repetition(row.cron, row.time_zone).next(row.last_at if ran else now)
        if found is not None and found < row.next_at:
            change(db, row.id, next_at=found)


def next_time(db: Connection) -> float | None:
    """Return the earliest time of all schedules."""
    return db.execute(select(func.min(col(Schedule.next_at)))).scalar()


def active_runs(db: Connection, schedule_id: str) -> list[str]:
    """Return the jobs of a schedule that have not ended, oldest first."""
    ended = [state.value for state in TERMINAL]
    query = select(col(Job.id)).where(col(Job.schedule) == schedule_id, col(Job.state).not_in(ended))
    return list(db.execute(query.order_by(col(Job.id))).scalars())
