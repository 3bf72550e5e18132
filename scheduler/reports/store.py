"""What a job reports of itself, and how it is kept: merged into bounded rows, so that a long job needs no more room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.instants import EARLIEST, LATEST
from schedulearn.scheduler.core.states import JobStatus
from schedulearn.scheduler.errors import ConflictError
from schedulearn.scheduler.sim.replay import FinishedJob
from schedulearn.scheduler.specs.job import MAX_GPUS
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.models import Gpu, Metric, Observation, Profile

MAX_ROWS = 200  # observations of a job: allocations x batches
COUNT_CAP = 200  # so many passes weigh against newer ones, at most
MAX_POINTS = 240  # of a metric
MAX_NAMES = 32  # metrics of a job
NOISE = "noise_scale"  # the metric by which its course is kept
STALL = "stall_seconds"  # the metric by which workers tell how long a resize kept them from training

Seconds = Annotated[float, Field(gt=0, le=86_400)]
Batch = Annotated[int, Field(ge=1, le=1 << 31)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ObservationIn(Strict):
    """The typical pass of one kind, of those measured since the last report."""

    num_nodes: int = Field(ge=1, le=MAX_GPUS)
    num_gpus: int = Field(ge=1, le=MAX_GPUS)
    atomic_batch: Batch = Field(description="samples a GPU in one pass")
    passes: int = Field(ge=1, le=1_000_000, description="passes that were measured")
    grad_time: Seconds = Field(description="seconds of a pass without synchronising")
    iter_time: Seconds = Field(description="seconds of a pass with it")

    @model_validator(mode="after")
    def _possible(self) -> ObservationIn:
        if self.num_nodes > self.num_gpus:
            raise ValueError(f"num_nodes ({self.num_nodes}) exceeds num_gpus ({self.num_gpus})")
        return self


class BatchIn(Strict):
    """What the job allows, and what it does now."""

    init: Batch = Field(description="M0: the whole batch that the learning rate was chosen for")
    max: Batch
    min_local: Batch = 1
    max_local: Batch | None = None
    accumulate: bool = True
    atomic: Batch = Field(description="samples a GPU in one pass, now")
    accumulation: int = Field(ge=0, le=1_000_000)
    why: str = Field(default="", max_length=500)

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
    """What `POST /api/v1/reports` takes. A report with any wrong value is refused as a whole."""

    attempt: int = Field(ge=1, le=1 << 31)
    batch: BatchIn
    observations: list[ObservationIn] = Field(default_factory=list, max_length=64)
    noise_scale: float | None = Field(default=None, ge=0, le=1e18)
    progress: ProgressIn | None = None
    metrics: list[MetricIn] = Field(default_factory=list, max_length=500)


def store_report(db: Connection, job_id: str, report: ReportIn, now: float) -> bool:
    """Merges a report into the job's rows; True if that may change what is known of its speed. Raises NotFoundError,
    or ConflictError for a job that has ended: its workers are to give up."""
    job = repository.get_job(db, job_id)
    if JobStatus(job.status).terminal:
        raise ConflictError(f"job {job_id} has ended: {job.status}")
    known = db.execute(select(Profile).where(col(Profile.job_id) == job_id)).one_or_none()
    changed = known is None or _differs(known, report)
    # Reports of an attempt that was replaced still tell about speed, but not about where the job stands.
    if known is None or report.attempt >= known.attempt:
        _store_profile(db, job_id, report, known is None, now)
        points = list(report.metrics)
        if report.noise_scale is not None and report.progress is not None:
            points.append(MetricIn(name=NOISE, step=report.progress.steps, value=report.noise_scale, at=now))
        _store_metrics(db, job_id, points)
    if report.observations:
        _store_observations(db, job_id, _gpu_type(db, job_id), report.observations, now)
    return changed or bool(report.observations)


def observations_of(db: Connection, job_ids: Sequence[str]) -> list[Row[Any]]:
    """Oldest change first."""
    query = select(Observation).where(col(Observation.job_id).in_(job_ids)).order_by(col(Observation.at))
    return list(db.execute(query))


def profile_of(db: Connection, job_id: str) -> Row[Any] | None:
    return db.execute(select(Profile).where(col(Profile.job_id) == job_id)).one_or_none()


def metrics_of(db: Connection, job_id: str) -> dict[str, list[list[float]]]:
    """name -> [step, value, time] of each point."""
    return {row.name: row.points for row in db.execute(select(Metric).where(col(Metric.job_id) == job_id))}


def load_finished_jobs(db: Connection, limit: int) -> list[FinishedJob]:
    """The last jobs that ended well, by time of submission, with all that tells how they went."""
    jobs = repository.list_succeeded(db, limit)
    ids = [job.id for job in jobs]
    tasks: dict[str, list[Any]] = {}
    for task in tasks_of(db, ids):
        tasks.setdefault(task.job_id, []).append(task)
    points: dict[tuple[str, str], list[list[float]]] = {}
    told = select(Metric).where(col(Metric.job_id).in_(ids), col(Metric.name).in_([NOISE, STALL]))
    for row in db.execute(told):
        points[row.job_id, row.name] = row.points
    return [
        FinishedJob(
            job,
            tasks.get(job.id, []),
            [(step, phi, at) for step, phi, at in points.get((job.id, NOISE), [])],
            sum(value for _, value, _ in points.get((job.id, STALL), [])),
        )
        for job in jobs
    ]


def thinned(points: list[list[float]], limit: int = MAX_POINTS) -> list[list[float]]:
    """The same curve in at most `limit` points: every second one goes, as often as needed; its ends stay."""
    while len(points) > limit:
        points = points[:-1:2] + points[-1:]
    return points


def _differs(known: Row[Any], report: ReportIn) -> bool:
    batch = report.batch
    bounds = (batch.init, batch.max, batch.min_local, batch.max_local, batch.accumulate)
    stored = (known.init_batch, known.max_batch, known.min_local, known.max_local, known.accumulate)
    return bounds != stored or report.noise_scale != known.noise_scale


def _store_profile(db: Connection, job_id: str, report: ReportIn, new: bool, now: float) -> None:
    batch = report.batch
    values: dict[str, Any] = {
        "attempt": report.attempt, "reported_at": now, "init_batch": batch.init, "max_batch": batch.max,
        "min_local": batch.min_local, "max_local": batch.max_local, "accumulate": batch.accumulate,
        "atomic_batch": batch.atomic, "accumulation": batch.accumulation, "why": batch.why,
    }  # fmt: skip
    if report.noise_scale is not None or new:
        values["noise_scale"] = report.noise_scale  # what was known is not forgotten at the start of an attempt
    if report.progress is not None or new:
        values.update((report.progress or ProgressIn(epoch=0)).model_dump())
    if new:
        db.execute(insert(Profile).values(job_id=job_id, **values))
    else:
        db.execute(update(Profile).where(col(Profile.job_id) == job_id).values(**values))


def _gpu_type(db: Connection, job_id: str) -> str:
    """Of the GPUs that the job had last."""
    tasks = tasks_of(db, [job_id])
    uuids = [uuid for task in tasks[-1:] for uuid in task.gpu_uuids]
    return db.execute(select(col(Gpu.type)).where(col(Gpu.uuid).in_(uuids)).limit(1)).scalar() or "gpu"


def _store_observations(
    db: Connection, job_id: str, gpu_type: str, observations: Iterable[ObservationIn], now: float
) -> None:
    rows = observations_of(db, [job_id])
    known = {(r.gpu_type, r.num_nodes, r.num_gpus, r.atomic_batch): r for r in rows}
    new = 0
    for seen in observations:
        key = (gpu_type, seen.num_nodes, seen.num_gpus, seen.atomic_batch)
        where = (
            (col(Observation.job_id) == job_id)
            & (col(Observation.gpu_type) == gpu_type)
            & (col(Observation.num_nodes) == seen.num_nodes)
            & (col(Observation.num_gpus) == seen.num_gpus)
            & (col(Observation.atomic_batch) == seen.atomic_batch)
        )
        if key in known:
            old = min(known[key].passes, COUNT_CAP)
            total = old + seen.passes
            means = {
                name: (old * getattr(known[key], name) + seen.passes * getattr(seen, name)) / total
                for name in ("grad_time", "iter_time")
            }
            db.execute(update(Observation).where(where).values(passes=min(total, COUNT_CAP), at=now, **means))
        else:
            values = seen.model_dump()
            values["passes"] = min(seen.passes, COUNT_CAP)
            db.execute(insert(Observation).values(job_id=job_id, gpu_type=gpu_type, at=now, **values))
            known[key] = db.execute(select(Observation).where(where)).one()
            new += 1
    for row in rows[: max(0, len(rows) + new - MAX_ROWS)]:  # those that were not seen for the longest time
        db.execute(
            delete(Observation).where(
                col(Observation.job_id) == job_id,
                col(Observation.gpu_type) == row.gpu_type,
                col(Observation.num_nodes) == row.num_nodes,
                col(Observation.num_gpus) == row.num_gpus,
                col(Observation.atomic_batch) == row.atomic_batch,
                col(Observation.at) == row.at,
            )
        )


def _store_metrics(db: Connection, job_id: str, metrics: Iterable[MetricIn]) -> None:
    by_name: dict[str, list[list[float]]] = {}
    for metric in metrics:
        by_name.setdefault(metric.name, []).append([float(metric.step), metric.value, round(metric.at, 3)])
    if not by_name:
        return
    known = metrics_of(db, job_id)
    for name, points in by_name.items():
        if name in known:
            where = (col(Metric.job_id) == job_id) & (col(Metric.name) == name)
            # An attempt that began again from a checkpoint logs some steps anew: the later word counts.
            kept = [point for point in known[name] if point[0] < points[0][0]]
            db.execute(update(Metric).where(where).values(points=thinned(kept + points)))
        elif len(known) < MAX_NAMES:
            db.execute(insert(Metric).values(job_id=job_id, name=name, points=thinned(points)))
            known[name] = points
