"""Versions of what is learned of a family, for one owner: a version is the jobs that ended in a time, and models are
fitted to these. One version is in use; a family without any has learned from all its jobs. Every function takes the
connection of its caller's transaction."""

from __future__ import annotations

from typing import cast

from sqlalchemy import ColumnElement, Index, Table, and_, delete, func, insert, inspect, or_, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import Update
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.core.predictions.drift import RECENT, Drift
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.columns import InstantColumn
from schedulearn.scheduler.store.models import Job
from schedulearn.scheduler.store.people.kin import Kin, owned_by, owner_column

MAX_VERSIONS = 10
"""Of a family: the oldest goes."""


class ModelVersion(SQLModel, table=True):
    """What a family's models are fitted to."""

    __tablename__ = "model_version"
    __table_args__ = (Index("model_version_of_family", "family", "owner", "number", unique=True),)

    seq: int | None = Field(default=None, primary_key=True)
    family: str
    owner: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Whose jobs of the family: see `Kin`."""
    number: int
    """From 1."""
    since: float | None = Field(default=None, sa_type=InstantColumn)
    """Jobs that ended from then on; None: from the first."""
    until: float | None = Field(default=None, sa_type=InstantColumn)
    """And before then; None: it learns from each that ends."""
    made_at: float = Field(sa_type=InstantColumn)
    used_since: float = Field(sa_type=InstantColumn)
    """When it came into use, by itself or by being pinned: predictions from then on are its own."""
    why: str
    in_use: bool
    pinned: bool


_TABLE = cast(Table, inspect(ModelVersion).local_table)


def of_version() -> tuple[type[ModelVersion], ColumnElement[bool]]:
    """For an outer join with jobs: the version in use of each job's family."""
    return ModelVersion, and_(
        col(ModelVersion.family) == col(Job.family),
        col(ModelVersion.owner) == owner_column(),
        col(ModelVersion.in_use).is_(True),
    )


def belongs() -> ColumnElement[bool]:
    """That a job belongs to the version of its family, joined by `of_version`."""
    ended, since, until = col(Job.finished_at), col(ModelVersion.since), col(ModelVersion.until)
    return and_(or_(since.is_(None), ended >= since), or_(until.is_(None), ended < until))


def versions(conn: Connection, kin: Kin) -> list[ModelVersion]:
    """The oldest first; empty: all jobs count."""
    query = select(ModelVersion).where(_of_kin(kin)).order_by(col(ModelVersion.number))
    return [ModelVersion(**row._mapping) for row in conn.execute(query)]


def samples_in(conn: Connection, version: ModelVersion) -> int:
    """Jobs that ended well in its time and are still there."""
    query = (
        select(func.count())
        .select_from(Job)
        .join(ModelVersion, and_(col(ModelVersion.family) == col(Job.family), col(ModelVersion.seq) == version.seq))
        .where(owned_by(version.owner), col(Job.state) == JobState.SUCCEEDED, col(Job.gpu_seconds) > 0, belongs())
    )
    return int(conn.execute(query).scalar_one())


def in_use(conn: Connection, kin: Kin) -> ModelVersion | None:
    """None: all jobs of the family count, and always did."""
    return next((each for each in versions(conn, kin) if each.in_use), None)


def begin(conn: Connection, kin: Kin, drift: Drift, now: float) -> None:
    """A new version, in use from now on; the one before ends where it begins."""
    known = versions(conn, kin) or _first(conn, kin, now)
    number = known[-1].number + 1
    why = (
        f"Half of the last {RECENT} predictions were off by a factor of at least {drift.now:.2f}; before, 90 % were "
        f"off by at most {drift.before:.2f}."
    )
    conn.execute(_of(kin, known[-1].number).values(in_use=False, until=drift.since))
    _add(conn, kin, number=number, since=drift.since, made_at=now, used_since=now, why=why)
    conn.execute(delete(_TABLE).where(_of_kin(kin), _TABLE.c.number <= number - MAX_VERSIONS))


def pin(conn: Connection, kin: Kin, number: int, now: float) -> None:
    """The family's models are fitted to this version until it is unpinned. Raises NotFoundError where there is none,
    ConflictError if none of its jobs is left."""
    known = {each.number: each for each in versions(conn, kin)}
    if number not in known:
        there = f"there are {', '.join(map(str, known))}" if known else "all of its jobs are used"
        raise NotFoundError(f"family {kin.family!r} has no version {number}: {there}")
    if not samples_in(conn, known[number]):
        raise ConflictError(f"no job of version {number} of {kin.family!r} is left: pin another version")
    _use(conn, kin, number, now, pinned=True)
    message = f"Predictions of the family {kin.family} use version {number} now."
    repository.add_event(conn, now, "predictions.pinned", message=message, about=f"family:{kin.family}")


def unpin(conn: Connection, kin: Kin, now: float) -> None:
    """The newest version is in use again, and new ones are made."""
    known = versions(conn, kin)
    if any(each.pinned for each in known):
        _use(conn, kin, known[-1].number, now, pinned=False)
        message = f"Predictions of the family {kin.family} use the newest version again."
        repository.add_event(conn, now, "predictions.unpinned", message=message, about=f"family:{kin.family}")


def _use(conn: Connection, kin: Kin, number: int, now: float, *, pinned: bool) -> None:
    conn.execute(update(_TABLE).where(_of_kin(kin)).values(in_use=False, pinned=False))
    conn.execute(_of(kin, number).values(in_use=True, pinned=pinned, used_since=now))


def _of_kin(kin: Kin) -> ColumnElement[bool]:
    return and_(_TABLE.c.family == kin.family, _TABLE.c.owner == kin.owner)


def _of(kin: Kin, number: int) -> Update:
    return update(_TABLE).where(_of_kin(kin), _TABLE.c.number == number)


def _first(conn: Connection, kin: Kin, now: float) -> list[ModelVersion]:
    """What was in use so far, as a version."""
    _add(conn, kin, number=1, since=None, made_at=now, used_since=now, why="All jobs of the family.")
    return versions(conn, kin)


def _add(conn: Connection, kin: Kin, **values: object) -> None:
    conn.execute(insert(_TABLE), [{**kin._asdict(), **values, "until": None, "in_use": True, "pinned": False}])
