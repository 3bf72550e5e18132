"""What workers report of their jobs, and what is known of a job's speed."""

from __future__ import annotations

import math
import time
from collections import Counter

from fastapi import APIRouter, Request
from pydantic import TypeAdapter
from sqlalchemy.engine import Connection
from starlette.exceptions import HTTPException

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.problem import problems
from schedulearn.api.answers.report import (
    BatchOut,
    FitOut,
    LoggedProgressOut,
    ObservationOut,
    PredictionOut,
    ProfileOut,
    ProgressOut,
    ReportAnswer,
    RosterOut,
)
from schedulearn.api.edge.bodies import Bound
from schedulearn.api.large_bodies import request_of
from schedulearn.api.problems import InvalidBody, parse_body
from schedulearn.api.state import Cluster, cluster_of
from schedulearn.api.stream import Broadcaster
from schedulearn.scheduler.core.plain_errors import fault_of
from schedulearn.scheduler.core.profile import JobProfile
from schedulearn.scheduler.errors import InvalidError, UnauthorizedError
from schedulearn.scheduler.reports.membership import MembershipIn, record_report, roster_for
from schedulearn.scheduler.reports.rate import RateLimit
from schedulearn.scheduler.reports.records import LastReport
from schedulearn.scheduler.reports.store import (  # fmt: skip
    ReportIn,
    metric_of,
    metrics_from_log,
    metrics_of,
    note_implausible,
    observations_of,
    profile_of,
    progress_in_log,
    store_report,
)
from schedulearn.scheduler.store import repository

router = APIRouter(prefix="/api/v1", tags=["reports"])

_PROBLEMS = problems(401, 404, 409, 422, 429)
_BOUND = Bound(256 << 10, 5_000)
_READ_BY_HAND = 1 << 50
"""A body that is refused by its size is refused by the route, as it comes."""
_REPORT, _MEMBERSHIP = TypeAdapter(ReportIn), TypeAdapter(MembershipIn)


MAX_GPUS = 16  # that the profile predicts for


@router.post("/reports", responses=_PROBLEMS, max_body_size=_READ_BY_HAND, openapi_extra=request_of(ReportIn))
@needs(Access.JOB_TOKEN)
async def report(request: Request) -> ReportAnswer:
    """Store a report of the worker SDK, authenticated by the job's token.

    A report with any invalid value is refused as a whole. The response has the fitted speed of the job, for the choice
    of its batch size."""
    cluster = cluster_of(request)
    job_id, body = await _of_a_worker(request, cluster, cluster.report_rate)
    now = cluster.service.clock()
    try:
        given = parse_body(_REPORT, ReportIn, body)
    except InvalidBody as error:
        fault = fault_of(error.errors[0], ReportIn)
        why = f"{fault.field or 'the body'}: {fault.message}"[:300]
        await cluster.db.awrite(lambda db: note_implausible(db, job_id, why, now))
        raise
    if await cluster.db.awrite(lambda db: store_report(db, job_id, given, now)):
        cluster.profiles.touch(job_id)
    profile = cluster.profiles.get(job_id)
    policy = cluster.service.current_policy()
    metric = await cluster.db.aread(lambda db: metric_of(db, job_id)) if len(policy.metrics) > 1 else None
    return ReportAnswer(
        models=profile.for_worker() if profile else {},
        gpu_type=next(iter(profile.goodput.models)) if profile else None,
        use_efficiency=policy.uses_efficiency_for(metric),
    )


@router.post(
    "/reports/membership", responses=_PROBLEMS, max_body_size=_READ_BY_HAND, openapi_extra=request_of(MembershipIn)
)
@needs(Access.JOB_TOKEN)
async def membership(request: Request) -> RosterOut:
    """Return the membership of a job that is resized in place.

    Workers authenticate with the job's token. The response is delayed until there is news, at most `hold` seconds. For
    the first worker, news is a new generation; for a new worker, the rendezvous."""
    cluster = cluster_of(request)
    broadcaster: Broadcaster = request.app.state.broadcaster
    job_id, body = await _of_a_worker(request, cluster, cluster.membership_rate)
    said = parse_body(_MEMBERSHIP, MembershipIn, body)
    now = cluster.service.clock()
    if said.leads and await cluster.db.awrite(lambda db: record_report(db, job_id, said, now)):
        cluster.loop.wake()
    until = time.monotonic() + said.hold
    waiter = broadcaster.join()
    try:
        while True:
            roster = await cluster.db.aread(lambda db: roster_for(db, job_id, said))
            left = until - time.monotonic()
            if roster.has_news_for(said) or left <= 0 or broadcaster.closing:
                return RosterOut.model_validate(roster)
            await broadcaster.wait(waiter, left)
    finally:
        broadcaster.leave(waiter)


async def _of_a_worker(request: Request, cluster: Cluster, rate: RateLimit) -> tuple[str, bytes]:
    """The job whose token the request carries, and the request's body, which is not read from one that asks too often.
    Raises UnauthorizedError, HTTPException, InvalidError."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    job_id = cluster.reports.job_of(token.strip()) if scheme.lower() == "bearer" else None
    if job_id is None:
        raise UnauthorizedError("a report needs the token of its job, as in SCHEDULEARN_JOB_TOKEN")
    if wait_s := rate.wait_s(job_id):
        headers = {"retry-after": str(math.ceil(wait_s))}
        raise HTTPException(
            429, f"too many requests of job {job_id}: try again in {math.ceil(wait_s)} s", headers=headers
        )
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _BOUND.size:
            raise InvalidError(f"a report has at most {_BOUND.size} bytes", field="body")
    _BOUND.check(body)
    return job_id, body


@router.get("/jobs/{job_id}/profile", responses=problems(404))
async def get_profile(request: Request, job_id: str) -> ProfileOut:
    """Return the measured and predicted speed of a job.

    It has observations, the fitted model, predictions for 1 to 16 GPUs, the knee, and the batch size with its
    reason."""
    cluster = cluster_of(request)
    return await cluster.db.aread(lambda db: _profile(cluster, db, job_id))


def _profile(cluster: Cluster, db: Connection, job_id: str) -> ProfileOut:
    repository.get_job(db, job_id)
    row = profile_of(db, job_id)
    profile = cluster.profiles.get(job_id)
    on_host = Counter(gpu.host_id for gpu in repository.load_hosts(db).gpus)
    predictions = predict(profile, max(on_host.values(), default=1)) if profile else []
    fits = profile.for_worker() if profile else {}
    return ProfileOut.model_validate(
        {
            "reported_at": row.reported_at if row is not None else None,
            "observations": [ObservationOut.model_validate(seen) for seen in observations_of(db, [job_id])],
            "noise_scale": row.noise_scale if row is not None else None,
            "fits": [
                FitOut(gpu_type=name, parameters=model, relative_error=profile.errors[name])
                for name, model in fits.items()
                if profile
            ],
            "predictions": predictions,
            "knee": knee([prediction.goodput for prediction in predictions]) if predictions else None,
            "batch": BatchOut.model_validate(row) if row is not None else None,
            "progress": ProgressOut.model_validate(row) if row is not None else None,
            "logged_progress": _logged_progress(db, job_id, row),
            "metrics": metrics_of(db, job_id),
            "metrics_from_log": metrics_from_log(db, job_id),
        }
    )


def _logged_progress(db: Connection, job_id: str, reported: LastReport | None) -> LoggedProgressOut | None:
    found = progress_in_log(db, job_id) if reported is None or not reported.epochs else None
    return None if found is None else LoggedProgressOut.model_validate(found)


def predict(profile: JobProfile, gpus_per_host: int) -> list[PredictionOut]:
    """For 1 to MAX_GPUS GPUs, packed onto as few hosts as possible."""
    gpus = range(1, MAX_GPUS + 1)
    nodes = [-(-k // gpus_per_host) for k in gpus]
    best = profile.goodput.best(nodes, gpus)
    return [
        PredictionOut(
            num_gpus=k,
            num_nodes=nodes[index],
            throughput=float(best.throughput[index]),
            goodput=float(best.goodput[index]),
            atomic_batch=int(best.atomic_batch[index]),
            accumulation=int(best.accumulation[index]),
        )
        for index, k in enumerate(gpus)
    ]


def knee(goodputs: list[float]) -> int:
    """The last GPU that adds at least half of what the first one does. `goodputs`: of 1, 2, ... GPUs."""
    count = 1
    while count < len(goodputs) and goodputs[count] - goodputs[count - 1] >= goodputs[0] / 2:
        count += 1
    return count
