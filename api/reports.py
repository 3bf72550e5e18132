"""What workers report of their jobs, and what is known of a job's speed."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, TypeAdapter
from sqlalchemy.engine import Connection
from starlette.responses import Response

from schedulearn.api.answers import JsonResponse
from schedulearn.api.instants import iso
from schedulearn.api.problems import parse_body
from schedulearn.api.schemas import Problem
from schedulearn.api.state import Cluster, cluster_of
from schedulearn.api.stream import Pulse
from schedulearn.scheduler.core.profile import JobProfile
from schedulearn.scheduler.errors import InvalidError, UnauthorizedError
from schedulearn.scheduler.reports.membership import MembershipIn, record_report, roster_for
from schedulearn.scheduler.reports.store import ReportIn, metrics_of, observations_of, profile_of, store_report
from schedulearn.scheduler.store import repository

router = APIRouter(prefix="/api/v1", tags=["reports"])

_PROBLEMS: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (401, 404, 409, 422)}
_LIMIT = 256 << 10  # bytes of a report
_REPORT, _MEMBERSHIP = TypeAdapter(ReportIn), TypeAdapter(MembershipIn)


def _body(schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"requestBody": {"required": True, "content": content}}


MOST_GPUS = 16  # that the profile predicts for


class ReportAnswer(BaseModel):
    models: dict[str, dict[str, float]] = Field(description="GPU type -> fitted step-time model; empty: none yet")
    gpu_type: str | None = Field(description="the one that the job was measured on last")
    use_efficiency: bool = Field(description="false under thesis-speed: the batch is chosen for throughput alone")


class RosterOut(BaseModel):
    generation: int
    members: list[int] = Field(description="in the order of their ranks in training")
    meeting: str = Field(description="address:port where the first one waits for the others; empty: nowhere yet")


class ObservationOut(BaseModel):
    gpu_type: str
    num_nodes: int
    num_gpus: int
    atomic_batch: int
    passes: int
    grad_time: float
    iter_time: float


class FitOut(BaseModel):
    gpu_type: str
    parameters: dict[str, float]
    relative_error: float = Field(description="root mean square over the observations")


class PredictionOut(BaseModel):
    num_gpus: int
    num_nodes: int
    throughput: float = Field(description="samples a second, at the best batch")
    goodput: float
    atomic_batch: int
    accumulation: int


class BatchOut(BaseModel):
    init: int
    max: int
    min_local: int
    max_local: int | None
    accumulate: bool
    atomic: int
    accumulation: int
    why: str


class ProgressOut(BaseModel):
    epoch: int
    epochs: int | None
    position: int
    epoch_samples: int
    steps: int


class ProfileOut(BaseModel):
    """What was measured of a job, and what follows from it. Empty lists and nulls until it has reported."""

    reported_at: str | None
    observations: list[ObservationOut]
    noise_scale: float | None
    fits: list[FitOut]
    predictions: list[PredictionOut]
    knee: int | None = Field(description="the last GPU that adds at least half of what the first one does")
    batch: BatchOut | None
    progress: ProgressOut | None
    metrics: dict[str, list[list[float]]] = Field(description="name -> [step, value, seconds since the epoch]")


@router.post("/reports", response_model=ReportAnswer, responses=_PROBLEMS, openapi_extra=_body("ReportIn"))
async def report(request: Request) -> Response:
    """For the worker SDK, with the token of its job. Refused as a whole if any value is wrong. Answers with what is
    known of the job's speed, for the choice of its batch."""
    cluster = cluster_of(request)
    job_id, body = await _of_a_worker(request, cluster)
    given = parse_body(_REPORT, ReportIn, body)
    now = cluster.service.clock()
    if await asyncio.wrap_future(cluster.db.submit(lambda db: store_report(db, job_id, given, now))):
        cluster.profiles.touch(job_id)
    profile = cluster.profiles.get(job_id)
    answer = {
        "models": profile.for_worker() if profile else {},
        "gpu_type": next(iter(profile.goodput.models)) if profile else None,
        "use_efficiency": cluster.service.current_policy().use_efficiency,
    }
    return JsonResponse(answer)


@router.post("/reports/membership", response_model=RosterOut, responses=_PROBLEMS, openapi_extra=_body("MembershipIn"))
async def membership(request: Request) -> Response:
    """For workers of a job that is resized in place, with its token: who belongs to it now. The answer waits for news,
    for `hold` seconds at most: to the first worker of another generation, to a new one of where the others meet."""
    cluster = cluster_of(request)
    pulse: Pulse = request.app.state.pulse
    job_id, body = await _of_a_worker(request, cluster)
    said = parse_body(_MEMBERSHIP, MembershipIn, body)
    now = cluster.service.clock()
    if said.leads and await asyncio.wrap_future(cluster.db.submit(lambda db: record_report(db, job_id, said, now))):
        cluster.loop.wake()
    until = time.monotonic() + said.hold
    waiter = pulse.join()
    try:
        while True:
            roster = await cluster.db.aread(lambda db: roster_for(db, job_id, said))
            left = until - time.monotonic()
            if roster.has_news_for(said) or left <= 0 or pulse.closing:
                return JsonResponse(roster)
            await pulse.wait(waiter, left)
    finally:
        pulse.leave(waiter)


async def _of_a_worker(request: Request, cluster: Cluster) -> tuple[str, bytes]:
    """The job whose token the request carries, and the request's body. Raises UnauthorizedError, InvalidError."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    job_id = cluster.reports.job_of(token.strip()) if scheme.lower() == "bearer" else None
    if job_id is None:
        raise UnauthorizedError("a report needs the token of its job, as in SCHEDULEARN_JOB_TOKEN")
    body = await request.body()
    if len(body) > _LIMIT:
        raise InvalidError(f"a report has at most {_LIMIT} bytes, not {len(body)}", field="body")
    return job_id, body


@router.get("/jobs/{job_id}/profile", response_model=ProfileOut, responses={404: {"model": Problem}})
async def get_profile(request: Request, job_id: str) -> Response:
    """Observations, fit, predictions for 1 to 16 GPUs, the knee, and the batch with its reason."""
    cluster = cluster_of(request)
    return JsonResponse(await cluster.db.aread(lambda db: profile_view(cluster, db, job_id)))


def profile_view(cluster: Cluster, db: Connection, job_id: str) -> dict[str, Any]:
    repository.get_job(db, job_id)
    row = profile_of(db, job_id)
    profile = cluster.profiles.get(job_id)
    sizes = [sum(gpu.host_id == host.id for gpu in found.gpus) for found in [repository.load_hosts(db)]
             for host in found.hosts]  # fmt: skip
    predictions = predict(profile, max([1, *sizes])) if profile else []
    batch = progress = None
    if row is not None:
        names = ("max_batch", "min_local", "max_local", "accumulate", "accumulation", "why", "init_batch")
        batch = {name.removesuffix("_batch"): getattr(row, name) for name in names}
        batch["atomic"] = row.atomic_batch
        progress = {name: getattr(row, name) for name in ProgressOut.model_fields}
    return {
        "reported_at": iso(row.reported_at) if row is not None else None,
        "observations": [
            {name: getattr(seen, name) for name in ObservationOut.model_fields}
            for seen in observations_of(db, [job_id])
        ],
        "noise_scale": row.noise_scale if row is not None else None,
        "fits": [
            {"gpu_type": name, "parameters": model, "relative_error": profile.errors[name]}
            for name, model in profile.for_worker().items()
        ] if profile else [],
        "predictions": predictions,
        "knee": knee([prediction["goodput"] for prediction in predictions]) if predictions else None,
        "batch": batch,
        "progress": progress,
        "metrics": metrics_of(db, job_id),
    }  # fmt: skip


def predict(profile: JobProfile, gpus_per_host: int) -> list[dict[str, Any]]:
    """For 1 to MOST_GPUS GPUs, packed onto as few hosts as possible."""
    gpus = range(1, MOST_GPUS + 1)
    nodes = [-(-k // gpus_per_host) for k in gpus]
    best = profile.goodput.best(nodes, gpus)
    return [
        {
            "num_gpus": k,
            "num_nodes": nodes[index],
            "throughput": float(best.throughput[index]),
            "goodput": float(best.goodput[index]),
            "atomic_batch": int(best.atomic_batch[index]),
            "accumulation": int(best.accumulation[index]),
        }
        for index, k in enumerate(gpus)
    ]


def knee(goodputs: list[float]) -> int:
    """The last GPU that adds at least half of what the first one does. `goodputs`: of 1, 2, ... GPUs."""
    count = 1
    while count < len(goodputs) and goodputs[count] - goodputs[count - 1] >= goodputs[0] / 2:
        count += 1
    return count
