"""What GPUs did over time, by host and by job, and how well used the policy found the cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from sqlalchemy import select
from sqlmodel import col

from schedulearn.api.answers.model import AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.answers.resources import ResourcesOut
from schedulearn.api.instants import epoch
from schedulearn.api.routes import resources
from schedulearn.api.state import Cluster, cluster_of
from schedulearn.scheduler.core.instants import Instant
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.store import gpus as store
from schedulearn.scheduler.store import history, hosts, repository
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.models import Gpu
from schedulearn.scheduler.telemetry.history import METRICS, SECONDS

router = APIRouter(prefix="/api/v1", tags=["telemetry"])
_REFUSED = problems(404, 422)
_YEAR_S = 366 * 86_400.0

Span = tuple[float, float]
Point = tuple[float, Sequence[float | None]]
"""(seconds since the epoch, then the `METRICS`)."""
From = Annotated[Instant | None, Query(alias="from", description="default: 10 minutes ago, or the start of the job")]
To = Annotated[Instant | None, Query(alias="to", description="default: now, or the end of the job")]


class GpuSeries(AnswerModel):
    uuid: str
    index: int
    host: str
    points: list[list[float | None]] = Field(
        description="[seconds since the epoch, then the `metrics`], oldest first; null: not measured"
    )


class TelemetryOut(AnswerModel):
    """At most 600 points per GPU.

    Points are single readings while these are in memory, else averages over minutes or longer."""

    since: At
    until: At
    step_s: int = Field(description="seconds between points; 1: single readings")
    metrics: list[str] = Field(
        description="utilization (percent), memory_bytes (used), temperature (degrees Celsius), power_w (watts)"
    )
    gpus: list[GpuSeries]
    resources: ResourcesOut = Field(
        description="processors, memory, network and disk of a job's containers or of a host"
    )


class UtilityOut(AnswerModel):
    """About 600 points at most, from policies that compute utility.

    There are no points for times in which another policy was in force."""

    since: At
    until: At
    step_s: int = Field(description="seconds between points")
    points: list[list[float | None]] = Field(
        description="[seconds since the epoch, utility, low, high], oldest first; between `low` and `high` the policy "
        "kept the number of hosts; null: it switched no hosts"
    )


@router.get("/cluster/utility", responses=problems(422))
def cluster_utility(
    request: Request,
    since: Annotated[Instant | None, Query(alias="from", description="default: a day ago")] = None,
    until: Annotated[Instant | None, Query(alias="to", description="default: now")] = None,
) -> UtilityOut:
    """Return the utility of the cluster by minute.

    Utility is the sum of the jobs' speedups divided by the number of usable GPUs. It is kept for `keep_telemetry`
    days."""
    end = epoch(until, time.time())
    begin = epoch(since, end - 86_400)
    _check(begin, end)
    with cluster_of(request).db.read() as db:
        step, rows = history.utility_minutes(db, int(begin // 60), int(-(-end // 60)))
    points = [[row.minute * 60.0, round(row.utility, 4), row.low, row.high] for row in rows]
    return UtilityOut.model_validate({"since": begin, "until": end, "step_s": 60 * step, "points": points})


@router.get("/hosts/{host_id}/telemetry", responses=_REFUSED)
def host_telemetry(request: Request, host_id: str, since: From = None, until: To = None) -> TelemetryOut:
    """Return telemetry of a host: GPUs, processors, memory and disk."""
    cluster, now = cluster_of(request), time.time()
    with cluster.db.read() as db:
        hosts.get_host(db, host_id)
        gpus = store.of_host(db, host_id)
    end = epoch(until, now)
    begin = epoch(since, end - SECONDS)
    _check(begin, end)
    taken = resources.of_host(cluster, host_id, begin, end, now)
    return _answer(cluster, gpus, {gpu.uuid: [(begin, end)] for gpu in gpus}, taken, begin, end, now)


@router.get("/jobs/{job_id}/telemetry", responses=_REFUSED)
def job_telemetry(request: Request, job_id: str, since: From = None, until: To = None) -> TelemetryOut:
    """Return telemetry of a job: its GPUs and containers.

    Each GPU is shown only for the time in which the job held it."""
    cluster, now = cluster_of(request), time.time()
    with cluster.db.read() as db:
        job = repository.get_job(db, job_id)
        tasks = [task for task in tasks_of(db, [job_id]) if task.started_at is not None]
        held = [(task.started_at or now, task.finished_at or now, task.gpu_uuids) for task in tasks]
        uuids = {uuid for *_, held_uuids in held for uuid in held_uuids}
        gpus = db.execute(
            select(Gpu).where(col(Gpu.uuid).in_(uuids)).order_by(col(Gpu.host_id), col(Gpu.ordinal))
        ).all()
    end = epoch(until, job.finished_at or now)
    begin = epoch(since, min((started for started, *_ in held), default=end - 1))
    spans: dict[str, list[Span]] = {}
    for started, finished, held_uuids in held:
        for uuid in held_uuids:
            spans.setdefault(uuid, []).append((started, finished))
    _check(begin, end)
    bounds = (job.cpus, job.memory_bytes)
    taken = resources.of_tasks(cluster, tasks, bounds, begin, end, now)
    return _answer(cluster, gpus, spans, taken, begin, end, now)


def _answer(
    cluster: Cluster,
    gpus: Sequence[Any],
    spans: Mapping[str, Sequence[Span]],
    taken: ResourcesOut,
    begin: float,
    end: float,
    now: float,
) -> TelemetryOut:
    step, points = 1, _from_memory(cluster, gpus, begin, end) if begin >= now - SECONDS - 60 else {}
    if not any(points.values()):
        step, points = _from_database(cluster, gpus, begin, end)
    series = [
        GpuSeries(
            uuid=gpu.uuid,
            index=gpu.ordinal,
            host=gpu.host_id,
            points=[[at, *values] for at, values in points[gpu.uuid] if _within(at, spans.get(gpu.uuid, ()), step)],
        )
        for gpu in gpus
    ]
    return TelemetryOut.model_validate(
        {"since": begin, "until": end, "step_s": step, "metrics": METRICS, "gpus": series, "resources": taken}
    )


def _check(begin: float, end: float) -> None:
    if not 0 < end - begin <= _YEAR_S:
        raise InvalidError("from must be before to, and by at most a year", field="from")


def _from_memory(cluster: Cluster, gpus: Sequence[Any], begin: float, end: float) -> dict[str, list[Point]]:
    telemetry = cluster.monitor.telemetry
    return {
        gpu.uuid: [(round(point.at, 3), point.values) for point in telemetry.points(gpu.uuid, begin, end)]
        for gpu in gpus
    }


def _from_database(
    cluster: Cluster, gpus: Sequence[Any], begin: float, end: float
) -> tuple[int, dict[str, list[Point]]]:
    minutes = 1
    found: dict[str, list[Point]] = {}
    with cluster.db.read() as db:
        for gpu in gpus:
            minutes, rows = store.minutes(db, gpu.uuid, int(begin // 60), int(-(-end // 60)))
            found[gpu.uuid] = [(row.minute * 60.0, [getattr(row, name) for name in METRICS]) for row in rows]
    return 60 * minutes, found


def _within(at: float, spans: Sequence[Span], step: int) -> bool:
    """Whether a point that stands for `step` seconds from `at` on touches one of the spans."""
    length = step if step > 1 else 0
    return any(begin <= at + length and at <= end for begin, end in spans)
