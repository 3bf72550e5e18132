"""Reports of jobs, merged into a bounded number of rows.

A long job needs no more space than a short one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field, model_validator
from sqlalchemy import ColumnElement, Select, delete, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import SQLModel, col

from schedulearn.scheduler.core.instants import EARLIEST, LATEST
from schedulearn.scheduler.core.model import METRICS
from schedulearn.scheduler.core.model import Metric as JobMetric
from schedulearn.scheduler.core.outcomes.in_place import IN_PLACE
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.errors import ConflictError
from schedulearn.scheduler.reports.plausibility import goes_backwards, impossible_passes
from schedulearn.scheduler.reports.records import BatchLimits, LastReport, LoggedProgress, MeasuredPasses, MetricPoint
from schedulearn.scheduler.specs.job import MAX_GPUS
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.models import Event, Gpu, Job, Metric, PassMeasurement, Profile, ReadLog

MAX_ROWS = 200  # observations of a job: allocations x batch sizes
COUNT_CAP = 200  # maximum weight of older micro-steps against newer ones
MAX_POINTS = 240  # of a metric
MIN_STARTUP_S = 0.5  # clocks and reports are no more precise
MAX_NAMES = 32  # metrics of a job
NOISE = "noise_scale"  # the metric that holds the history of the noise scale
IMPLAUSIBLE = "report.implausible"  # the kind of event for ignored values
SAID_AGAIN_S = 3600.0
STALL = "stall_seconds"  # the metric by which workers report how long a resize interrupted training

Seconds = Annotated[float, Field(gt=0, le=86_400)]
Batch = Annotated[int, Field(ge=1, le=1 << 31)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class ObservationIn(Strict):
    """Typical micro-step of one configuration since the last report."""

    num_nodes: int = Field(ge=1, le=MAX_GPUS)
    num_gpus: int = Field(ge=1, le=MAX_GPUS)
    atomic_batch: Batch = Field(description="samples per GPU in one micro-step")
    passes: int = Field(ge=1, le=1_000_000, description="number of measured micro-steps")
    grad_time: Seconds = Field(description="seconds of a micro-step without synchronization")
    iter_time: Seconds = Field(description="seconds of a micro-step with synchronization")

    @model_validator(mode="after")
    def _possible(self) -> ObservationIn:
        if self.num_nodes > self.num_gpus:
            raise ValueError(f"num_nodes ({self.num_nodes}) exceeds num_gpus ({self.num_gpus})")
        return self


class BatchIn(Strict):
    """Batch sizes that the job allows, and its current one."""

    init: Batch = Field(description="M0: total batch size that the learning rate was chosen for")
    max: Batch
    min_local: Batch = 1
    max_local: Batch | None = None
    accumulate: bool = True
    atomic: Batch = Field(description="current samples per GPU in one micro-step")
    accumulation: int = Field(ge=0, le=1_000_000)
    why: str = Field(default="", max_length=500)

    @property
    def limits(self) -> BatchLimits:
        return BatchLimits(self.init, self.max, self.min_local, self.max_local, self.accumulate)

    @model_validator(mode="after")
    def _ordered(self) -> BatchIn:
        if self.init > self.max:
            raise ValueError(f"init ({self.init}) exceeds max ({self.max})")
        if self.max_local is not None and self.min_local > self.max_local:
            raise ValueError(f"min_local ({self.min_local}) exceeds max_local ({self.max_local})")
        return self


class ProgressIn(Strict):
    epoch: int = Field(ge=0, le=1 << 31)
    epochs: int | None = Field(default=None, ge=0, le=1 << 31)
    position: int = Field(default=0, ge=0, le=1 << 53, description="samples of this epoch that are done")
    epoch_samples: int = Field(default=0, ge=0, le=1 << 53)
    steps: int = Field(default=0, ge=0, le=1 << 53)


class MetricIn(Strict):
    name: str = Field(min_length=1, max_length=64, pattern=r"^[\w./ -]+$")
    step: int = Field(ge=0, le=1 << 53)
    value: float
    at: float = Field(gt=EARLIEST, le=LATEST, description="seconds since the epoch")


class ReportIn(Strict):
    """Report of `POST /api/v1/reports`.

    A report with any invalid value is refused as a whole."""

    attempt: int = Field(ge=1, le=1 << 31)
    batch: BatchIn
    observations: list[ObservationIn] = Field(default_factory=list, max_length=64)
    noise_scale: float | None = Field(default=None, ge=0, le=1e18)
    progress: ProgressIn | None = None
    metrics: list[MetricIn] = Field(default_factory=list, max_length=500)


def _columns(table: type[SQLModel], fields: Sequence[str]) -> Select[tuple[object, ...]]:
    """Select the columns of a record, in the order of its fields."""
    return select(*(col(getattr(table, name)) for name in fields))


_PASSES = _columns(PassMeasurement, MeasuredPasses._fields).order_by(col(PassMeasurement.at))
_METRIC = select(col(Job.metric))
_LAST_REPORT = _columns(Profile, LastReport._fields)


def metric_of(conn: Connection, job_id: str) -> JobMetric | None:
    """Return the job's own objective, if it has one."""
    found = conn.execute(_METRIC.where(col(Job.id) == job_id)).scalar()
    return next((metric for metric in METRICS if metric == found), None)


def store_report(conn: Connection, job_id: str, report: ReportIn, now: float) -> bool:
    """Merge a report into the job's rows. Return True if the job's profile may change.

    Raises NotFoundError, or ConflictError for a job that has ended, whose workers must give up.
    """
    job = repository.get_job(conn, job_id)
    if JobState(job.state).terminal:
        raise ConflictError(f"job {job_id} has ended: {job.state}")
    known = profile_of(conn, job_id)
    report, doubts = _plausible(conn, job, known, report, now)
    if doubts:
        note_implausible(conn, job_id, "; ".join(doubts), now)
    changed = known is None or _differs(known, report)
    # Reports of a replaced attempt are still valid for speed, but not for progress.
    if known is None or report.attempt >= known.attempt:
        _store_profile(conn, job_id, report, known is None, job.started_at, now)
        points = list(report.metrics)
        if report.noise_scale is not None and report.progress is not None:
            points.append(MetricIn(name=NOISE, step=report.progress.steps, value=report.noise_scale, at=now))
        _store_metrics(conn, job_id, points)
    if report.observations:
        _store_observations(conn, job_id, _gpu_type(conn, job_id), report.observations, now)
    return changed or bool(report.observations)


def note_implausible(conn: Connection, job_id: str, why: str, now: float) -> None:
    """Write an event, at most once per hour and job, since a program may go on for long."""
    query = select(func.max(col(Event.at))).where(col(Event.job_id) == job_id, col(Event.kind) == IMPLAUSIBLE)
    last = conn.execute(query).scalar()
    if last is None or not 0 <= now - last < SAID_AGAIN_S:
        message = f"Ignored implausible reports of its workers: {why}."
        repository.add_event(conn, now, IMPLAUSIBLE, code="implausible", message=message, job_id=job_id)


class _Reporting(Protocol):
    """Properties of a reporting job that are needed here."""

    @property
    def id(self) -> str: ...
    @property
    def submitted_at(self) -> float: ...
    @property
    def started_at(self) -> float | None: ...
    @property
    def resize(self) -> str: ...


def _plausible(
    conn: Connection, job: _Reporting, known: LastReport | None, report: ReportIn, now: float
) -> tuple[ReportIn, list[str]]:
    """Return the report without impossible values, and the reasons."""
    told_at: dict[tuple[int, int, int], float] = {}
    for passes in observations_of(conn, [job.id]) if report.observations else ():
        told_at[passes.shape] = max(passes.at, told_at.get(passes.shape, 0.0))
    began = job.submitted_at if job.started_at is None else job.started_at
    impossible = impossible_passes(report.observations, told_at, began, now)
    doubts = list(impossible.values())
    kept = [seen for index, seen in enumerate(report.observations) if index not in impossible]
    changes: dict[str, object] = {"observations": kept} if impossible else {}
    # Workers that join in place may continue from an earlier position.
    follows = known is not None and report.attempt == known.attempt and job.resize != IN_PLACE
    why = goes_backwards(known, report.progress) if follows and known and report.progress else None
    if why is not None:
        doubts.append(why)
        changes["progress"] = None
    return (report.model_copy(update=changes) if changes else report), doubts


def observations_of(conn: Connection, job_ids: Sequence[str]) -> list[MeasuredPasses]:
    """Return the measurements of jobs, oldest change first."""
    return [MeasuredPasses._make(row) for row in conn.execute(_PASSES.where(col(PassMeasurement.job_id).in_(job_ids)))]


def profile_of(conn: Connection, job_id: str) -> LastReport | None:
    row = conn.execute(_LAST_REPORT.where(col(Profile.job_id) == job_id)).one_or_none()
    return None if row is None else LastReport._make(row)


def last_reports(conn: Connection, job_ids: Sequence[str]) -> dict[str, LastReport]:
    """Return job id -> last report, for jobs that have one."""
    query = _LAST_REPORT.add_columns(col(Profile.job_id)).where(col(Profile.job_id).in_(job_ids))
    return {job_id: LastReport._make(report) for *report, job_id in conn.execute(query)}


def metrics_of(conn: Connection, job_id: str) -> dict[str, list[list[float]]]:
    """Return name -> [step, value, time] of each point, as shown by the API."""
    return {row.name: row.points for row in conn.execute(select(Metric).where(col(Metric.job_id) == job_id))}


def progress_in_log(conn: Connection, job_id: str) -> LoggedProgress | None:
    """Return the progress in the log of the job's current attempt; None if it shows none."""
    query = _columns(ReadLog, LoggedProgress._fields).join(Job, col(Job.id) == col(ReadLog.job_id))
    current = (col(Job.attempt) == col(ReadLog.attempt)) & col(ReadLog.fraction).is_not(None)
    row = conn.execute(query.where(col(ReadLog.job_id) == job_id, current)).one_or_none()
    return None if row is None else LoggedProgress._make(row)


def metrics_from_log(conn: Connection, job_id: str) -> list[str]:
    """Return the names of the metrics that were read from the job's log."""
    query = select(col(Metric.name)).where(col(Metric.job_id) == job_id, col(Metric.from_log))
    return sorted(conn.execute(query).scalars())


def points_of(conn: Connection, job_id: str, names: Sequence[str]) -> dict[str, list[MetricPoint]]:
    """Return name -> points, for metrics that the job has logged."""
    query = select(col(Metric.name), col(Metric.points))
    rows = conn.execute(query.where(col(Metric.job_id) == job_id, col(Metric.name).in_(names)))
    return {name: [MetricPoint._make(point) for point in points] for name, points in rows}


def thinned(points: list[list[float]], limit: int = MAX_POINTS) -> list[list[float]]:
    """Return the same curve with at most `limit` points.

    Every second point is removed, as often as needed. The first and last points stay.
    """
    while len(points) > limit:
        points = points[:-1:2] + points[-1:]
    return points


def _differs(known: LastReport, report: ReportIn) -> bool:
    return report.batch.limits != known.batch_limits or report.noise_scale != known.noise_scale


def _store_profile(
    conn: Connection, job_id: str, report: ReportIn, new: bool, started_at: float | None, now: float
) -> None:
    batch = report.batch
    values: dict[str, object] = {
        "attempt": report.attempt, "reported_at": now, **batch.limits._asdict(),
        "atomic_batch": batch.atomic, "accumulation": batch.accumulation, "why": batch.why,
    }  # fmt: skip
    if report.noise_scale is not None or new:
        values["noise_scale"] = report.noise_scale  # a known value is kept at the start of an attempt
    if report.progress is not None or new:
        values.update((report.progress or ProgressIn(epoch=0)).model_dump())
    if new and report.attempt == 1 and started_at is not None:
        values["startup_seconds"] = startup_seconds(started_at, report, now)
    if new:
        conn.execute(insert(Profile).values(job_id=job_id, **values))
    else:
        conn.execute(update(Profile).where(col(Profile.job_id) == job_id).values(**values))


def startup_seconds(started_at: float, report: ReportIn, now: float) -> float:
    """Return the time from the job's start to its first report, minus the time of the reported micro-steps."""
    trained = sum(seen.passes * seen.iter_time for seen in report.observations)
    return max(MIN_STARTUP_S, now - started_at - trained)


def _gpu_type(conn: Connection, job_id: str) -> str:
    """Return the type of the job's last GPUs."""
    tasks = tasks_of(conn, [job_id])
    uuids = [uuid for task in tasks[-1:] for uuid in task.gpu_uuids]
    return conn.execute(select(col(Gpu.type)).where(col(Gpu.uuid).in_(uuids)).limit(1)).scalar() or "gpu"


def _store_observations(
    conn: Connection, job_id: str, gpu_type: str, observations: Iterable[ObservationIn], now: float
) -> None:
    before = observations_of(conn, [job_id])
    known = {(passes.gpu_type, *passes.shape): passes for passes in before}
    new = 0
    for seen in observations:
        latest = MeasuredPasses(gpu_type=gpu_type, at=now, **seen.model_dump())
        key = (gpu_type, *latest.shape)
        if key in known:
            merged = _merged(known[key], latest)
            means = {"grad_time": merged.grad_time, "iter_time": merged.iter_time}
            conn.execute(
                update(PassMeasurement).where(_row(job_id, merged)).values(passes=merged.passes, at=now, **means)
            )
        else:
            merged = latest._replace(passes=min(latest.passes, COUNT_CAP))
            conn.execute(insert(PassMeasurement).values(job_id=job_id, **merged._asdict()))
            new += 1
        known[key] = merged
    for passes in before[: max(0, len(before) + new - MAX_ROWS)]:  # least recently reported
        conn.execute(delete(PassMeasurement).where(_row(job_id, passes), col(PassMeasurement.at) == passes.at))


def _merged(old: MeasuredPasses, latest: MeasuredPasses) -> MeasuredPasses:
    weight = min(old.passes, COUNT_CAP)
    total = weight + latest.passes
    return latest._replace(
        passes=min(total, COUNT_CAP),
        grad_time=(weight * old.grad_time + latest.passes * latest.grad_time) / total,
        iter_time=(weight * old.iter_time + latest.passes * latest.iter_time) / total,
    )


def _row(job_id: str, passes: MeasuredPasses) -> ColumnElement[bool]:
    """Return the condition for the row of this shape."""
    return (
        (col(PassMeasurement.job_id) == job_id)
        & (col(PassMeasurement.gpu_type) == passes.gpu_type)
        & (col(PassMeasurement.num_nodes) == passes.num_nodes)
        & (col(PassMeasurement.num_gpus) == passes.num_gpus)
        & (col(PassMeasurement.atomic_batch) == passes.atomic_batch)
    )


def _store_metrics(conn: Connection, job_id: str, metrics: Iterable[MetricIn]) -> None:
    by_name: dict[str, list[list[float]]] = {}
    for metric in metrics:
        by_name.setdefault(metric.name, []).append([float(metric.step), metric.value, round(metric.at, 3)])
    store_points(conn, job_id, by_name)


def store_points(
    conn: Connection, job_id: str, by_name: Mapping[str, list[list[float]]], *, from_log: bool = False
) -> None:
    """Add points to the curves of a job. Reports of its workers replace what was read `from_log`, never vice versa."""
    if not by_name:
        return
    rows = conn.execute(select(Metric).where(col(Metric.job_id) == job_id))
    known = {row.name: row for row in rows}
    names = sum(row.from_log == from_log for row in known.values())
    for name, points in by_name.items():
        row = known.get(name)
        if row is not None and row.from_log == from_log:
            # An attempt that restarted from a checkpoint logs some steps again: the later values count.
            kept = [point for point in row.points if point[0] < points[0][0]]
            counts_all = len(kept) == len(row.points)
            extremes = _extremes(kept + points, (row.lowest, row.highest) if counts_all else ())
            where = (col(Metric.job_id) == job_id) & (col(Metric.name) == name)
            conn.execute(update(Metric).where(where).values(points=thinned(kept + points), **extremes))
        elif names < MAX_NAMES and (row is None or row.from_log):
            names += 1
            values = {"points": thinned(points), "from_log": from_log, **_extremes(points)}
            conn.execute(delete(Metric).where(col(Metric.job_id) == job_id, col(Metric.name) == name))
            conn.execute(insert(Metric).values(job_id=job_id, name=name, **values))


def _extremes(points: Sequence[Sequence[float]], before: Sequence[float | None] = ()) -> dict[str, float]:
    """Return the extremes of these points, and of those `before`, whose points may have been removed by thinning."""
    values = [point[1] for point in points]
    known = [value for value in before if value is not None] + values
    return {"last": values[-1], "lowest": min(known), "highest": max(known)}
