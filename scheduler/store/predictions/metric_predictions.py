"""What the metrics of jobs were predicted to end with, and ended with. Every function takes the connection of its
caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    ColumnElement,
    Index,
    Select,
    Table,
    UniqueConstraint,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.core.predictions.features import features_of
from schedulearn.scheduler.core.predictions.lengths import REMEMBERED
from schedulearn.scheduler.core.predictions.metrics import LARGEST, MIN_REACHED, MetricPrediction, Reached, score
from schedulearn.scheduler.core.predictions.regression import SCORED
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.store.columns import InstantColumn
from schedulearn.scheduler.store.models import Job, Metric
from schedulearn.scheduler.store.people.kin import Kin, of_family, of_kin
from schedulearn.scheduler.store.predictions import versions
from schedulearn.scheduler.store.predictions.lengths import MAX_KEPT, come_lately, given_of

MAX_METRICS = 8
"""Of a family: those that most of its jobs logged."""


class PredictedMetric(SQLModel, table=True):
    """What was predicted of one metric of one job when it came; it outlives the job."""

    __tablename__ = "metric_prediction"
    __table_args__ = (
        UniqueConstraint("job_id", "metric"),
        Index("metric_prediction_by_family", "family", "owner", "metric", "seq"),
    )

    seq: int | None = Field(default=None, primary_key=True)
    job_id: str
    family: str
    owner: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Whose job it was: see `Kin`."""
    metric: str
    predicted_at: float = Field(sa_type=InstantColumn)
    model: str
    jobs: int
    """On how many that had ended it rests."""
    value: float
    low: float
    high: float
    stretch: float = Field(default=1.0, sa_column_kwargs={"server_default": "1"})
    """Factor by which earlier scores had stretched the interval."""
    ended_at: float | None = Field(default=None, sa_type=InstantColumn)
    actual: float | None = None
    """The last value; None: the job has not ended, or not well, or has logged none."""


_TABLE = cast(Table, inspect(PredictedMetric).local_table)
_SETTLE = (
    update(_TABLE).where(_TABLE.c.seq == bindparam("of")).values(ended_at=bindparam("ended"), actual=bindparam("came"))
)


class MetricCalibration(NamedTuple):
    """Of the predictions of one metric of a family whose jobs ended well."""

    family: str
    metric: str
    compared: int
    held: int
    """Values that lie in their interval."""
    mean_error: float
    """Mean of how far each was off, in the unit of the metric."""


class SettledMetric(NamedTuple):
    seq: int
    ended_at: float
    actual: float | None


def reached(conn: Connection, kin: Kin, left_out: Collection[str], *, hints: bool = False) -> dict[str, list[Reached]]:
    """Metric -> what the jobs of a family that ended well last came to, of the version in use, the newest first: those
    of the owner, and with `hints` those of all others where the owner's tell nothing."""
    found = _reached(conn, of_kin(kin), left_out)
    return _reached(conn, of_family(kin.family), left_out) if hints and not found else found


def _reached(conn: Connection, which: ColumnElement[bool], left_out: Collection[str]) -> dict[str, list[Reached]]:
    newest = (
        select(col(Job.id), col(Job.finished_at))
        .outerjoin(*versions.of_version())
        .where(which, col(Job.state) == JobState.SUCCEEDED, versions.belongs())
        .order_by(col(Job.finished_at).desc())
        .limit(REMEMBERED)
        .subquery()
    )
    query = (
        select(col(Metric.job_id), col(Metric.name), col(Metric.last))
        .join(newest, newest.c.id == col(Metric.job_id))
        .where(func.abs(col(Metric.last)) < LARGEST, col(Metric.name).not_in(left_out))
        .order_by(newest.c.finished_at.desc(), newest.c.id)
    )
    values: dict[str, dict[str, float]] = {}
    for row in conn.execute(query):
        values.setdefault(row.name, {})[row.job_id] = row.last
    names = sorted((name for name in values if len(values[name]) >= MIN_REACHED), key=lambda n: (-len(values[n]), n))
    names = names[:MAX_METRICS]
    jobs = list(dict.fromkeys(job_id for name in names for job_id in values[name]))
    features = {job_id: features_of(given) for job_id, given in given_of(conn, jobs).items()}
    return {name: [Reached(features[job_id], last) for job_id, last in values[name].items()] for name in names}


def scores_of(conn: Connection, kin: Kin, metric: str) -> list[float]:
    """How far the last predictions of a metric were off, by the version in use."""
    used = versions.in_use(conn, kin)
    since = used.used_since if used is not None else 0.0
    mine = (_TABLE.c.owner == kin.owner, _TABLE.c.metric == metric, _TABLE.c.predicted_at >= since)
    query = _compared(kin.family).where(*mine).limit(SCORED)
    return [
        score(MetricPrediction(row.value, row.low, row.high, row.jobs, row.model, row.stretch), row.actual)
        for row in conn.execute(query)
    ]


def without_prediction(conn: Connection, job_ids: Sequence[str], now: float) -> list[str]:
    """Those of them that have none yet, and have not run for long."""
    return come_lately(conn, job_ids, now, exists().where(col(PredictedMetric.job_id) == col(Job.id)))


def remember(conn: Connection, kin: Kin, found: Mapping[str, Mapping[str, MetricPrediction]], now: float) -> None:
    """Keeps the first predictions of jobs, by metric, and of all the newest MAX_KEPT."""
    conn.execute(
        insert(_TABLE),
        [
            {"job_id": job_id, **kin._asdict(), "metric": metric, "predicted_at": now, **each._asdict()}
            for job_id, metrics in found.items()
            for metric, each in metrics.items()
        ],
    )
    newest = conn.execute(select(func.max(_TABLE.c.seq))).scalar() or 0
    conn.execute(delete(_TABLE).where(_TABLE.c.seq <= newest - MAX_KEPT))


def ended_since(conn: Connection, family: str) -> list[SettledMetric]:
    """The predictions of a family whose jobs have ended since they were looked at."""
    query = (
        select(_TABLE.c.seq, col(Job.state), col(Job.finished_at), col(Metric.last))
        .join(Job, col(Job.id) == _TABLE.c.job_id)
        .outerjoin(Metric, and_(col(Metric.job_id) == _TABLE.c.job_id, col(Metric.name) == _TABLE.c.metric))
        .where(_TABLE.c.family == family, _TABLE.c.ended_at.is_(None), col(Job.finished_at).is_not(None))
    )
    return [
        SettledMetric(row.seq, row.finished_at, row.last if row.state == JobState.SUCCEEDED else None)
        for row in conn.execute(query)
    ]


def settle(conn: Connection, settled: Sequence[SettledMetric]) -> None:
    """Writes down what metrics ended with."""
    conn.execute(_SETTLE, [{"of": each.seq, "ended": each.ended_at, "came": each.actual} for each in settled])


def predictions(conn: Connection, family: str | None, limit: int) -> list[PredictedMetric]:
    """The newest ones."""
    query = select(PredictedMetric).order_by(col(PredictedMetric.seq).desc()).limit(limit)
    if family is not None:
        query = query.where(col(PredictedMetric.family) == family)
    return [PredictedMetric(**row._mapping) for row in conn.execute(query)]


def held(conn: Connection, family: str | None, window: int | None) -> tuple[int, int]:
    """How many predictions have been compared with what came, of the newest `window` of them, and how many held."""
    newest = _compared(family).limit(window).subquery()
    row = conn.execute(select(func.count(), func.sum(_holds(newest)))).one()
    return row[0], row[1] or 0


def calibrations(conn: Connection, owner: str, window: int, limit: int) -> list[MetricCalibration]:
    """Of each metric of each family of an owner, by its last `window` predictions whose jobs ended well; what was
    predicted last comes first."""
    newest = func.row_number().over(partition_by=(_TABLE.c.family, _TABLE.c.metric), order_by=_TABLE.c.seq.desc())
    ranked = (
        select(_TABLE, newest.label("place")).where(_TABLE.c.owner == owner, _TABLE.c.actual.is_not(None)).subquery()
    )
    query = (
        select(
            ranked.c.family, ranked.c.metric, func.count(), func.sum(_holds(ranked)),
            func.avg(func.abs(ranked.c.actual - ranked.c.value)),
        )
        .where(ranked.c.place <= window)
        .group_by(ranked.c.family, ranked.c.metric)
        .order_by(func.max(ranked.c.seq).desc())
        .limit(limit)
    )  # fmt: skip
    return [MetricCalibration(*row) for row in conn.execute(query)]


def _holds(of: Any) -> Any:
    return case((and_(of.c.actual >= of.c.low, of.c.actual <= of.c.high), 1), else_=0)


def _compared(family: str | None) -> Select[Any]:
    """Predictions whose jobs ended well, the newest first."""
    query = select(_TABLE).where(_TABLE.c.actual.is_not(None)).order_by(_TABLE.c.seq.desc())
    return query if family is None else query.where(_TABLE.c.family == family)
