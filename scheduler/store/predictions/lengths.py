"""How long jobs were predicted to take, and how long they took. Every function takes the connection of its caller's
transaction."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    ColumnElement,
    Index,
    Row,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    inspect,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.core.predictions.drift import LOOKED_AT, Residual, drift_of
from schedulearn.scheduler.core.predictions.features import Given, features_of
from schedulearn.scheduler.core.predictions.lengths import REMEMBERED, EndedJob, Prediction, score
from schedulearn.scheduler.core.predictions.regression import SCORED
from schedulearn.scheduler.core.predictions.run_times import RunTime
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.store.columns import InstantColumn
from schedulearn.scheduler.store.models import Job, Profile
from schedulearn.scheduler.store.people.kin import Kin, of_family, of_kin
from schedulearn.scheduler.store.predictions import versions

MAX_KEPT = 10_000
LATE_S = 60.0  # what is said later of a job that runs is no prediction
MAX_RUN_TIMES = 1000
_AT_ONCE = 500  # ids in one query


class LengthPrediction(SQLModel, table=True):
    """What was predicted of one job when it came; it outlives the job."""

    __tablename__ = "length_prediction"
    __table_args__ = (Index("length_prediction_by_family", "family", "owner", "seq"),)

    seq: int | None = Field(default=None, primary_key=True)
    job_id: str = Field(unique=True)
    family: str
    owner: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Whose job it was: see `Kin`."""
    predicted_at: float = Field(sa_type=InstantColumn)
    jobs: int
    """On how many that had ended it rests."""
    value: float
    """GPU-seconds in all; this and the next two."""
    low: float
    high: float
    stretch: float = Field(default=1.0, sa_column_kwargs={"server_default": "1"})
    """Factor by which earlier scores had stretched the interval."""
    ended_at: float | None = Field(default=None, sa_type=InstantColumn)
    actual: float | None = None
    """GPU-seconds; None: it has not ended, or not well."""


_TABLE = cast(Table, inspect(LengthPrediction).local_table)
_SETTLE = (
    update(_TABLE)
    .where(_TABLE.c.job_id == bindparam("of_job"))
    .values(ended_at=bindparam("ended"), actual=bindparam("took"))
)


class Calibration(NamedTuple):
    """Of the predictions whose jobs ended well."""

    compared: int
    held: int
    """Jobs that took as long as their interval said."""
    median_factor: float | None
    """By which half of the predictions were off at most; None: nothing to compare. The next one too."""
    mean_error: float | None
    """Mean of how far each was off, as a share of what came."""


def given_of(conn: Connection, job_ids: Sequence[str]) -> dict[str, Given]:
    """What jobs are given."""
    found: dict[str, Given] = {}
    for begin in range(0, len(job_ids), _AT_ONCE):
        some = job_ids[begin : begin + _AT_ONCE]
        rows = conn.execute(select(col(Job.id), *_GIVEN).outerjoin(*_REPORTED).where(col(Job.id).in_(some)))
        found |= {row[0]: _given(row[1:]) for row in rows}
    return found


_GIVEN = (col(Job.spec), col(Job.required_gpus), col(Profile.epochs))
_REPORTED = (Profile, col(Profile.job_id) == col(Job.id))


def _given(row: Sequence[Any]) -> Given:
    spec, gpus, epochs = row
    return Given(
        spec["command"], gpus, spec.get("batch_size"), spec.get("epochs") or epochs, sorted(spec.get("data", ()))
    )


def ended_jobs(conn: Connection, kin: Kin, *, hints: bool = False) -> list[EndedJob]:
    """The jobs of a family that ended well last, of the version in use: those of the owner, and with `hints` those of
    all others where the owner has none."""
    found = _ended_jobs(conn, of_kin(kin))
    return _ended_jobs(conn, of_family(kin.family)) if hints and not found else found


def _ended_jobs(conn: Connection, which: ColumnElement[bool]) -> list[EndedJob]:
    query = (
        select(col(Job.gpu_seconds), *_GIVEN)
        .outerjoin(*_REPORTED)
        .outerjoin(*versions.of_version())
        .where(
            which, col(Job.state) == JobState.SUCCEEDED, col(Job.gpu_seconds) > 0, versions.belongs(),
        )
        .order_by(col(Job.finished_at).desc())
        .limit(REMEMBERED)
    )  # fmt: skip
    return [EndedJob(features_of(_given(row[1:])), row[0]) for row in conn.execute(query)]


def run_times(conn: Connection, job_ids: Sequence[str] | None = None) -> list[RunTime]:
    """Return the run times of rigid jobs that have ended, those that ended first in front.

    `job_ids`: at most MAX_RUN_TIMES ids; None: the latest MAX_RUN_TIMES."""
    query = select(col(Job.user), col(Job.required_gpus), col(Job.run_seconds)).where(
        col(Job.finished_at).is_not(None),
        col(Job.elastic).is_(False),
        col(Job.required_gpus) > 0,
        col(Job.run_seconds) > 0,
    )
    if job_ids is not None:
        query = query.where(col(Job.id).in_(job_ids))
    rows = conn.execute(query.order_by(col(Job.finished_at).desc()).limit(MAX_RUN_TIMES))
    return [RunTime(*row) for row in rows][::-1]


def scores_of(conn: Connection, kin: Kin) -> list[float]:
    """How far the last predictions of a family were off, by the version in use."""
    used = versions.in_use(conn, kin)
    since = used.used_since if used is not None else 0.0
    query = _compared().where(_of_kin(kin), _TABLE.c.predicted_at >= since).limit(SCORED)
    return [score(_prediction(row), row.actual) for row in conn.execute(query)]


class SettledLength(NamedTuple):
    job_id: str
    owner: str
    ended_at: float
    actual: float | None


def ended_since(conn: Connection, family: str) -> list[SettledLength]:
    """The jobs of a family that have ended since their predictions were looked at."""
    query = (
        select(col(Job.id), col(LengthPrediction.owner), col(Job.state), col(Job.gpu_seconds), col(Job.finished_at))
        .join(LengthPrediction, col(LengthPrediction.job_id) == col(Job.id))
        .where(
            col(LengthPrediction.family) == family,
            col(LengthPrediction.ended_at).is_(None),
            col(Job.finished_at).is_not(None),
        )
    )
    return [
        SettledLength(row.id, row.owner, row.finished_at, row.gpu_seconds if row.state == JobState.SUCCEEDED else None)
        for row in conn.execute(query)
    ]


def settle(conn: Connection, settled: Sequence[SettledLength]) -> None:
    """Writes down how long jobs took."""
    conn.execute(
        _SETTLE, [{"of_job": each.job_id, "ended": each.ended_at, "took": each.actual or None} for each in settled]
    )


def renew_version(conn: Connection, kin: Kin, now: float) -> bool:
    """Makes a new version where the predictions of the one in use have become worse, unless it is pinned."""
    used = versions.in_use(conn, kin)
    if used is not None and used.pinned:
        return False
    since = used.used_since if used is not None else 0.0
    query = (
        select(_TABLE.c.ended_at, _TABLE.c.value, _TABLE.c.actual)
        .where(_of_kin(kin), _TABLE.c.predicted_at >= since, _TABLE.c.actual.is_not(None))
        .order_by(_TABLE.c.ended_at.desc(), _TABLE.c.seq.desc())
        .limit(LOOKED_AT)
    )
    drift = drift_of([Residual(*row) for row in conn.execute(query)][::-1])
    if drift is not None:
        versions.begin(conn, kin, drift, now)
    return drift is not None


def without_prediction(conn: Connection, job_ids: Sequence[str], now: float) -> list[str]:
    """Those of them that have none yet, and have not run for long."""
    return come_lately(conn, job_ids, now, exists().where(col(LengthPrediction.job_id) == col(Job.id)))


def come_lately(conn: Connection, job_ids: Sequence[str], now: float, known: ColumnElement[bool]) -> list[str]:
    """Those of them that are not `known`, and of which what is said now is said before one can know: a model may have
    learned from a job that has ended."""
    early = and_(col(Job.finished_at).is_(None), or_(col(Job.started_at).is_(None), col(Job.started_at) > now - LATE_S))
    found: list[str] = []
    for begin in range(0, len(job_ids), _AT_ONCE):
        some = col(Job.id).in_(job_ids[begin : begin + _AT_ONCE])
        found += conn.execute(select(col(Job.id)).where(some, early, not_(known))).scalars()
    return found


def remember(conn: Connection, kin: Kin, found: Mapping[str, Prediction], now: float) -> None:
    """Keeps the first predictions of jobs, and of all the newest MAX_KEPT."""
    conn.execute(
        insert(_TABLE),
        [{"job_id": job_id, **kin._asdict(), "predicted_at": now, **each._asdict()} for job_id, each in found.items()],
    )
    newest = conn.execute(select(func.max(_TABLE.c.seq))).scalar() or 0
    conn.execute(delete(_TABLE).where(_TABLE.c.seq <= newest - MAX_KEPT))


def predictions(conn: Connection, family: str | None, limit: int) -> list[LengthPrediction]:
    """The newest ones."""
    query = select(LengthPrediction).order_by(col(LengthPrediction.seq).desc()).limit(limit)
    if family is not None:
        query = query.where(col(LengthPrediction.family) == family)
    return [LengthPrediction(**row._mapping) for row in conn.execute(query)]


def calibration(conn: Connection, family: str | None, window: int | None = None) -> Calibration:
    """Of all that are kept, or of one family's; `window`: of so many that were made last."""
    query = _compared().limit(window)
    if family is not None:
        query = query.where(_TABLE.c.family == family)
    return _calibration(list(conn.execute(query)))


def calibrations(conn: Connection, owner: str, window: int, limit: int) -> list[tuple[str, Calibration]]:
    """Of each family of an owner, by its last `window` predictions whose jobs ended well; the family that was
    predicted last comes first."""
    newest = func.row_number().over(partition_by=_TABLE.c.family, order_by=_TABLE.c.seq.desc())
    ranked = (
        select(_TABLE, newest.label("place")).where(_TABLE.c.owner == owner, _TABLE.c.actual.is_not(None)).subquery()
    )
    query = select(ranked).where(ranked.c.place <= window).order_by(ranked.c.seq.desc())
    found: dict[str, list[Row[Any]]] = {}
    for row in conn.execute(query):
        found.setdefault(row.family, []).append(row)
    return [(family, _calibration(rows)) for family, rows in list(found.items())[:limit]]


def _calibration(rows: Sequence[Row[Any]]) -> Calibration:
    factors = sorted(max(row.actual / row.value, row.value / row.actual) for row in rows)
    return Calibration(
        compared=len(rows),
        held=sum(row.low <= row.actual <= row.high for row in rows),
        median_factor=factors[(len(factors) - 1) // 2] if factors else None,
        mean_error=statistics.fmean(abs(row.actual - row.value) / row.actual for row in rows) if rows else None,
    )


def _of_kin(kin: Kin) -> ColumnElement[bool]:
    return and_(_TABLE.c.family == kin.family, _TABLE.c.owner == kin.owner)


def _compared() -> Any:
    """Predictions whose jobs ended well, the newest first."""
    columns = (_TABLE.c.value, _TABLE.c.low, _TABLE.c.high, _TABLE.c.jobs, _TABLE.c.stretch, _TABLE.c.actual)
    return select(*columns).where(_TABLE.c.actual.is_not(None)).order_by(_TABLE.c.seq.desc())


def _prediction(row: Row[Any]) -> Prediction:
    return Prediction(row.value, row.low, row.high, row.jobs, row.stretch)
