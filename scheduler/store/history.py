"""History of GPU allocations, policies, cluster utility and events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, delete, func, insert, literal_column, or_, select
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.core.states import UNFINISHED
from schedulearn.scheduler.store.gpus import MAX_POINTS
from schedulearn.scheduler.store.models import Event, Gpu, Job, PolicyChoice, Task
from schedulearn.scheduler.store.people.visibility import SEES_ONLY

EVENTS_SEARCHED = 100_000  # events that one search reads: bounds the duration of a search with few matches
PEOPLE = "*"
"""Actor of a search for what any person did."""


class ClusterMinute(SQLModel, table=True):
    """Cluster utility at the end of one minute, if the policy reports it.

    Kept as long as GpuMinute."""

    __tablename__ = "cluster_minute"

    minute: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    """Minutes since the epoch."""
    utility: float
    low: float | None = None
    high: float | None = None
    """Between `low` and `high` the policy keeps the number of hosts; None: it does not scale hosts."""


def tasks_between(db: Connection, since: float, until: float, limit: int) -> tuple[list[Row[Any]], bool]:
    """Return the tasks that existed at some time from `since` to `until`, newest first.

    Each row includes the job's name. Returns at most `limit` tasks, and whether these are all."""
    query = (
        select(
            col(Task.job_id), col(Job.name), col(Job.user), col(Task.attempt), col(Task.rank), col(Task.host_id),
            col(Task.gpu_uuids), col(Task.created_at), col(Task.started_at), col(Task.finished_at), col(Task.outcome),
            col(Task.stop), col(Job.state), col(Job.attempt).label("last_attempt"),
        )
        .join(Job, col(Job.id) == col(Task.job_id))
        .where(col(Task.created_at) < until)
        .where(col(Task.finished_at).is_(None) | (col(Task.finished_at) > since))
        .order_by((col(Task.seq) + 0).desc())  # not by the key itself: SQLite would scan all of history along it
        .limit(limit + 1)
    )  # fmt: skip
    rows: list[Row[Any]] = list(db.execute(query))
    return rows[:limit], len(rows) <= limit


def jobs_named(db: Connection, ids: Sequence[str]) -> list[Row[Any]]:
    """Return the columns that a timeline shows of unfinished jobs. Held jobs have no expected start."""
    columns = (
        col(Job.id), col(Job.name), col(Job.user), col(Job.state), col(Job.required_gpus), col(Job.submitted_at),
    )  # fmt: skip
    unfinished = col(Job.state).in_(UNFINISHED)
    return list(db.execute(select(*columns).where(col(Job.id).in_(ids), unfinished, col(Job.held_at).is_(None))))


def all_gpus(db: Connection) -> list[Row[Any]]:
    """Return all GPUs, including those no longer present: history names them."""
    query = select(col(Gpu.uuid), col(Gpu.host_id), col(Gpu.ordinal), col(Gpu.present))
    return list(db.execute(query.order_by(col(Gpu.host_id), col(Gpu.ordinal), col(Gpu.uuid))))


def policies_in_force(db: Connection, limit: int) -> list[Row[Any]]:
    """Return the last `limit` choices of a policy, oldest first."""
    return list(db.execute(select(PolicyChoice).order_by(col(PolicyChoice.id).desc()).limit(limit)))[::-1]


def add_minute(db: Connection, minute: int, utility: float, low: float | None, high: float | None) -> None:
    """Store the cluster's utility at the end of a minute, unless the minute exists."""
    if db.execute(select(col(ClusterMinute.minute)).where(col(ClusterMinute.minute) == minute)).first() is None:
        db.execute(insert(ClusterMinute).values(minute=minute, utility=utility, low=low, high=high))


def drop_minutes(db: Connection, before: int) -> None:
    """Delete the utility of minutes before this one."""
    db.execute(delete(ClusterMinute).where(col(ClusterMinute.minute) < before))


def utility_minutes(db: Connection, since: int, until: int) -> tuple[int, list[Row[Any]]]:
    """Return the minutes per row, and rows of means for minutes in [since, until).

    A row has the columns of ClusterMinute, with the first minute of its step. There are at most about MAX_POINTS rows.
    A minute without a row had no utility."""
    step = max(1, -(-(until - since) // MAX_POINTS))
    first = func.min(ClusterMinute.minute)
    means = [func.avg(col(getattr(ClusterMinute, name))).label(name) for name in ("utility", "low", "high")]
    query = (
        select(first.label("minute"), *means)
        .where(col(ClusterMinute.minute) >= since, col(ClusterMinute.minute) < until)
        .group_by(col(ClusterMinute.minute) // step)
        .order_by(first)
    )
    return step, list(db.execute(query))


def job_names(db: Connection, ids: Collection[str]) -> dict[str, str]:
    """Return the names of the jobs that still exist, by id."""
    query = select(col(Job.id), col(Job.name)).where(col(Job.id).in_(ids))
    return {row.id: row.name for row in db.execute(query)} if ids else {}


class EventSearch(NamedTuple):
    rows: list[Row[Any]]
    next_before: int | None
    """ID below which the search continues; None: it has read everything."""


def search_events(
    db: Connection,
    *,
    before: int | None = None,
    kinds: Sequence[str] = (),
    job_id: str | None = None,
    host_id: str | None = None,
    actor: str | None = None,
    about: str | None = None,
    since: float | None = None,
    until: float | None = None,
    text: str = "",
    limit: int = 100,
) -> EventSearch:
    """Return the newest events with an id below `before` that match all conditions.

    The newest comes first. `kinds`: prefixes of kinds. `text`: part of the message, or an exact code. `actor` may be
    `PEOPLE`. A search reads at most `EVENTS_SEARCHED` events: all of them, or with a job, an actor or a thing, its."""
    newest = before if before is not None else (db.execute(select(func.max(col(Event.id)))).scalar() or 0) + 1
    by_index = _by_index(job_id, actor, about)
    floor = _floor(db, newest, by_index)
    query = select(Event).where(col(Event.id) < newest, col(Event.id) >= floor, *by_index)
    if host_id is not None:
        query = query.where(col(Event.host_id) == host_id)
    if since is not None:
        query = query.where(col(Event.at) >= since)
    if until is not None:
        query = query.where(col(Event.at) < until)
    if kinds:
        query = query.where(or_(*(col(Event.kind).startswith(kind, autoescape=True) for kind in kinds)))
    if text:
        query = query.where(or_(col(Event.message).contains(text, autoescape=True), col(Event.code) == text))
    rows = list(db.execute(query.order_by(col(Event.id).desc()).limit(limit)))
    if len(rows) == limit:
        return EventSearch(rows, rows[-1].id)
    return EventSearch(rows, floor if _goes_on(db, floor, since) else None)


def _by_index(job_id: str | None, actor: str | None, about: str | None) -> list[ColumnElement[bool]]:
    """Return the conditions that have an index. An index of named things is used only where a literal says so."""
    nobody: ColumnElement[str] = literal_column("''")
    found: list[ColumnElement[bool]] = []
    if job_id is not None:
        found.append(col(Event.job_id) == job_id)
    if actor is not None:
        found.append(col(Event.actor) != nobody if actor == PEOPLE else col(Event.actor) == actor)
        found.append(col(Event.actor) != nobody)
    if about is not None:
        found += [col(Event.about) == about, col(Event.about) != nobody]
    return found


def _floor(db: Connection, newest: int, by_index: Sequence[ColumnElement[bool]]) -> int:
    """Return the smallest id that a search reads; 0: all.

    Views show the actor by a condition, which no index has."""
    if not by_index or SEES_ONLY.get() is not None:
        return max(0, newest - EVENTS_SEARCHED)
    last = select(col(Event.id)).where(col(Event.id) < newest, *by_index).order_by(col(Event.id).desc())
    return db.execute(last.offset(EVENTS_SEARCHED - 1).limit(1)).scalar() or 0


def _goes_on(db: Connection, floor: int, since: float | None) -> bool:
    """Return whether there are events below an id that a search from `since` has not read."""
    earlier = select(col(Event.at)).where(col(Event.id) < floor).order_by(col(Event.id).desc()).limit(1)
    at = db.execute(earlier).scalar()
    return at is not None and (since is None or at >= since)
