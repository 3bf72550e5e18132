"""Jobs: submit, list, look at, cancel, change the priority of, and read the logs of."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, TypeAdapter
from pydantic_core import ErrorDetails, to_json
from sqlalchemy import Row
from sqlalchemy.engine import Connection
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.event import EventPage
from schedulearn.api.answers.job import (
    Batch,
    DeletedJob,
    EtaOut,
    JobDetail,
    JobNow,
    JobOut,
    JobPage,
    OriginalJob,
    TaskOut,
    seen_by,
)
from schedulearn.api.answers.log import LogEnd, LogText
from schedulearn.api.answers.model import Answer, json_bytes, values_of
from schedulearn.api.answers.problem import problems
from schedulearn.api.answers.process import ProcessesOut
from schedulearn.api.job_standing import admitted, standing_of
from schedulearn.api.large_bodies import MANY, check_keys, decoded, request_of
from schedulearn.api.logs.stream import Piece, log_chunks
from schedulearn.api.logs.times import LineStamps
from schedulearn.api.problems import InvalidBody, parse_body
from schedulearn.api.requests import WITH_KEY, PriorityIn, RowId, idempotency_key
from schedulearn.api.state import Cluster, actor_of, broadcaster_of, cluster_of, quotas_of
from schedulearn.api.stream import Broadcaster, event_stream, last_event_id, sse, sse_response, wants_sse
from schedulearn.api.turns import turns_of
from schedulearn.scheduler.control import service
from schedulearn.scheduler.control.service import JobRows
from schedulearn.scheduler.control.submission.sources import is_settled, settled
from schedulearn.scheduler.core.instants import Instant
from schedulearn.scheduler.core.outcomes.interruptions import interruptions_of
from schedulearn.scheduler.core.people import Actor
from schedulearn.scheduler.core.prices import cost_of
from schedulearn.scheduler.core.states import WAITS, JobState
from schedulearn.scheduler.errors import ForbiddenError, InvalidError, QuotaError
from schedulearn.scheduler.runtimes.log_masking import parts_of
from schedulearn.scheduler.specs.env_masking import with_values_of
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.specs.written import written
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.accounting.usage import usage_of_job
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.job_list import JobFilter, Sort, run_pages_of
from schedulearn.scheduler.store.job_rows import with_keys

router = APIRouter(prefix="/api/v1", tags=["jobs"])

_JOB = TypeAdapter(JobSpec)
_BATCH_LIMIT = 10_000
_QUICK = 32 << 10
"""Bytes of a body that is checked at once: a larger one takes a thread."""
REMOVED_S = 10.0
"""For which a deletion waits for the end of the job's containers."""
_TOLD = 50
_PAGE_BYTES, _CHUNK = 4 << 20, 100
"""Of a page of jobs, and how many of them are read at a time."""
_REFUSED = problems(409, 422)
_AS_SPEC = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/JobSpec"}}}}
_NEW = JobNow()
_SPEC: dict[int | str, dict[str, Any]] = {
    200: {"description": "job in the format of POST", **_AS_SPEC},
    **problems(404),
}


def json_body(*, several: bool = False) -> dict[str, Any]:
    """OpenAPI part of a route that stores jobs; their body is parsed in a thread if it is large."""
    return {**request_of(JobSpec, several=several), **WITH_KEY}


@router.post("/jobs", status_code=201, response_model=JobOut, responses=_REFUSED, openapi_extra=json_body())
@needs(Access.USER)
async def submit(
    request: Request,
    env_from: Annotated[str | None, Query(description="ID of an equal job, from which masked values are taken")] = (
        None
    ),
    refuse_late: Annotated[bool, Query(description="refuse the job if it is expected to miss its deadline")] = False,
) -> Response:
    """Submit a job. It is durable when the response comes.

    The original five keys are a complete job. If the job has a deadline, `late` says whether it can be met; this takes
    at most a second."""
    await check_rate(request)
    spec = await job_of(request)
    if env_from is not None:
        source = await cluster_of(request).db.aread(lambda db: repository.get_job(db, env_from))
        if not actor_of(request).may_change(source.user):
            raise ForbiddenError(
                f"job {env_from} belongs to {source.user or 'no user'}: only the owner and admins may use its values",
                field="env_from",
            )
        spec = with_values_of(spec, with_keys(source._asdict()))
    now = JobNow()
    if spec.deadline is not None and not await _is_repeated(request):
        _name_user(request, [spec])
        now = await run_in_threadpool(admitted, cluster_of(request), spec, refuse_late)
    return await store_one(request, spec, now)


async def store_one(request: Request, spec: JobSpec, now: JobNow = _NEW) -> Response:
    """Store a job, and answer as the route does that was asked: the original's have names of their own."""
    original = not request.scope["path"].startswith("/api/")

    def show(rows: JobRows) -> JobOut:
        job = JobOut.of(with_keys(rows[0]), now)
        return OriginalJob.beside(job) if original else job

    return await stored(request, [spec], show)


def parse_job(body: bytes) -> JobSpec:
    """Raises InvalidBody."""
    return parse_body(_JOB, JobSpec, body)


async def job_of(request: Request, parse: Callable[[bytes], JobSpec] = parse_job) -> JobSpec:
    """The job that a request holds; a large one is read in a thread. Raises what `parse` raises."""
    body = await request.body()
    return parse(body) if len(body) <= _QUICK else await run_in_threadpool(parse, body)


async def check_rate(request: Request) -> None:
    """Check the submissions per minute, before the body is read. Raises QuotaError."""
    try:
        quotas_of(request).check_submissions({actor_of(request).name: 1})
    except QuotaError:
        if not await _is_repeated(request):
            raise


async def _is_repeated(request: Request) -> bool:
    """Return whether a request repeats one whose jobs are stored: it submits nothing."""
    key = idempotency_key(request)
    return key is not None and await cluster_of(request).db.aread(lambda conn: service.is_known(conn, key))


@router.post(
    "/jobs:batch",
    status_code=201,
    response_model=Batch,
    responses={**_REFUSED, **problems(413)},
    max_body_size=MANY.size,
    openapi_extra=json_body(several=True),
)
@needs(Access.USER)
async def submit_batch(request: Request) -> Response:
    """Submit a batch of jobs, all or none.

    A batch has at most 10,000 jobs and 2 MiB."""
    await check_rate(request)
    repeated = await _is_repeated(request)
    body = await request.body()
    async with turns_of(request).large(request):
        return await asyncio.wrap_future(await run_in_threadpool(_store_batch, request, body, repeated))


def _store_batch(request: Request, body: bytes, repeated: bool) -> Future[Response]:
    MANY.check(body)
    given = decoded(body)
    if not isinstance(given, list):
        raise InvalidError("a batch is a list of jobs", field="body")
    if not 1 <= len(given) <= _BATCH_LIMIT:
        raise InvalidError(f"a batch holds 1 to {_BATCH_LIMIT} jobs, not {len(given)}")
    check_keys(given)
    if not repeated:
        quotas_of(request).check_submissions({actor_of(request).name: len(given)})
    specs = _jobs_of(given)
    asked, cluster = specs, cluster_of(request)
    _name_user(request, specs)
    if not is_settled(specs):
        specs = settled(specs, cluster.code, cluster.settings.code_git_hosts)
    return cluster.service.submit(
        specs,
        idempotency_key(request),
        _batch,
        asked,
    )


def _batch(rows: JobRows) -> Response:
    """A `Batch`, job by job: nobody else gets a word in while one of 10,000 is written by one call."""
    jobs = b",".join(json_bytes(JobOut.of(with_keys(row))) for row in rows)
    return Response(b'{"items":[' + jobs + b"]}", 201, media_type="application/json")


def _jobs_of(given: Sequence[object]) -> list[JobSpec]:
    """Raises InvalidBody, with the first errors only."""
    specs: list[JobSpec] = []
    errors: list[ErrorDetails] = []
    for index, each in enumerate(given):
        try:
            specs.append(parse_job(to_json(each)))
        except InvalidBody as error:
            errors += [ErrorDetails(**{**found, "loc": (index, *found["loc"])}) for found in error.errors]
            if len(errors) >= _TOLD:
                break
    if errors:
        raise InvalidBody(errors, list[JobSpec])
    return specs


async def stored(request: Request, specs: Sequence[JobSpec], show: Callable[[JobRows], BaseModel]) -> Response:
    """The answer is written before the jobs are stored: what can't be shown is not kept."""

    def answer(rows: JobRows) -> Answer:
        return Answer(show(rows), 201)

    cluster, asked = cluster_of(request), specs
    _name_user(request, specs)
    if not is_settled(specs):
        specs = await run_in_threadpool(settled, specs, cluster.code, cluster.settings.code_git_hosts)
    return await asyncio.wrap_future(cluster.service.submit(specs, idempotency_key(request), answer, asked))


def _name_user(request: Request, specs: Sequence[JobSpec]) -> None:
    actor = actor_of(request)
    for spec in specs:
        spec.user = actor.user_of(spec.user)


@router.post("/jobs:preview", responses=_REFUSED, openapi_extra=request_of(JobSpec))
@needs(Access.VIEWER)
async def preview_job(request: Request) -> EtaOut:
    """Predict when a job would start and end if it were submitted now.

    Nothing is stored. A held job counts as released at once. It takes at most some seconds."""
    spec = await job_of(request)
    _name_user(request, [spec])
    async with turns_of(request).computing(request):
        eta, until = await run_in_threadpool(cluster_of(request).forecaster.predict_job, spec)
    return EtaOut.of(eta, until)


@router.get("/jobs")
def list_jobs(
    request: Request,
    state: Annotated[list[JobState] | None, Query(description="only these states")] = None,
    user: str | None = None,
    q: Annotated[str | None, Query(max_length=200, description="text in the name or ID")] = None,
    label: Annotated[list[str] | None, Query(max_length=20, description="label of the job, as KEY=VALUE")] = None,
    sweep: Annotated[str | None, Query(max_length=64, description="ID of the sweep of the jobs")] = None,
    schedule: Annotated[str | None, Query(max_length=64, description="ID of the schedule of the jobs")] = None,
    host: Annotated[str | None, Query(description="host of a container of the job, now or before")] = None,
    ended_since: Annotated[
        Instant | None, Query(description="end of the job at or after this time, or not ended yet")
    ] = None,
    ended_until: Annotated[Instant | None, Query(description="end of the job before this time")] = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    order: Annotated[Literal["newest", "oldest"], Query(description="which jobs come first")] = "newest",
    sort: Annotated[
        Sort | None,
        Query(description="property to sort by, instead of `order`; a minus sign sorts in descending order"),
    ] = None,
) -> JobPage:
    """List jobs, newest first.

    `order=oldest` lists them as they wait in a queue; `sort` sorts by a property. A page ends early if its jobs have
    more than 4 MiB of text: `next` continues."""
    cluster = cluster_of(request)
    states = [each.value for each in state or ()]
    among = JobFilter(
        user=user,
        text=q,
        labels=dict(map(_label, label or ())),
        sweep=sweep,
        schedule=schedule,
        host=host,
        ended_since=ended_since.timestamp() if ended_since else None,
        ended_until=ended_until.timestamp() if ended_until else None,
    )
    now = time.time()
    with cluster.db.read() as db:

        def rows_after(last: str | None, most: int) -> Sequence[Row[Any]]:
            return repository.list_jobs(
                db,
                states=states,
                among=among,
                sort=sort,
                now=now,
                after=last,
                limit=most,
                oldest_first=order == "oldest",
            )

        items, more = page_of(cluster, db, rows_after, cursor, limit, actor_of(request))
        return JobPage(items=items, next=items[-1].id if more else None, counts=repository.count_jobs(db, among))


def _label(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not name or not equals:
        raise InvalidError(f"{given!r} is not KEY=VALUE", field="label")
    return name, value


@router.get("/jobs/{job_id}", responses=problems(404))
async def get_job(request: Request, job_id: str) -> JobDetail:
    cluster = cluster_of(request)
    return await cluster.db.aread(lambda db: detail(cluster, db, job_id, actor_of(request)))


@router.get("/jobs/{job_id}/spec", response_class=Response, responses=_SPEC)
async def get_spec(request: Request, job_id: str) -> Response:
    """Return a job as its user would write it, to submit it again.

    It has the five required keys, and those that differ from the defaults. Values of variables are masked. `POST
    /api/v1/jobs?env_from=ID` takes them from the job."""
    row = await cluster_of(request).db.aread(lambda db: repository.get_job(db, job_id))
    return Response(json.dumps(written(seen_by(actor_of(request), row._asdict()))), media_type="application/json")


@router.patch("/jobs/{job_id}", response_model=JobDetail, responses=problems(404, 409, 422))
def change_priority(request: Request, job_id: str, body: PriorityIn) -> Response:
    cluster = cluster_of(request)
    return cluster.service.set_priority(job_id, body.priority, _answer(cluster, actor_of(request)))


@router.post("/jobs/{job_id}/cancel", response_model=JobDetail, responses=problems(404, 409, 422))
def cancel(request: Request, job_id: str) -> Response:
    """Cancel a job: SIGTERM, then SIGKILL after the grace period.

    Repeating it changes nothing."""
    cluster = cluster_of(request)
    return cluster.service.cancel(job_id, _answer(cluster, actor_of(request)))


@router.post("/jobs/{job_id}/hold", response_model=JobDetail, responses=problems(404, 409, 422))
def hold(request: Request, job_id: str) -> Response:
    """Hold a waiting job: it does not start before its release, and keeps its place in the queue.

    Repeating it changes nothing. A running job can't be held: pause it."""
    cluster = cluster_of(request)
    return cluster.service.hold(job_id, _answer(cluster, actor_of(request)))


@router.post("/jobs/{job_id}/pause", response_model=JobDetail, responses=problems(404, 409, 422))
def pause(request: Request, job_id: str) -> Response:
    """Pause an elastic job: it saves a checkpoint, gives its GPUs back, and waits held.

    A waiting job is held. Repeating it changes nothing. A rigid job that has started is refused."""
    cluster = cluster_of(request)
    return cluster.service.pause(job_id, _answer(cluster, actor_of(request)))


@router.post("/jobs/{job_id}/release", response_model=JobDetail, responses=problems(404, 409, 422))
@router.post("/jobs/{job_id}/resume", response_model=JobDetail, responses=problems(404, 409, 422))
def release(request: Request, job_id: str) -> Response:
    """Release a held job, or resume a paused one: the policy may start it.

    Repeating it changes nothing."""
    cluster = cluster_of(request)
    return cluster.service.release(job_id, _answer(cluster, actor_of(request)))


@router.delete("/jobs/{job_id}", response_model=JobDetail, responses=problems(404, 409, 422))
def delete(request: Request, job_id: str) -> Response:
    """Cancel a job, as `POST /api/v1/jobs/{id}/cancel` does."""
    return cancel(request, job_id)


@router.post("/jobs/{job_id}/purge", response_model=DeletedJob, responses=problems(404, 409, 422))
async def purge(request: Request, job_id: str) -> Response:
    """Delete a finished job with log, checkpoints and measurements.

    Its events and its usage stay. This can't be undone."""
    cluster = cluster_of(request)
    return await deleted(cluster, job_id, lambda db, job: Answer(DeletedJob(id=job.id, name=job.name)))


async def deleted(cluster: Cluster, job_id: str, answer: service.Answer[Response]) -> Response:
    """Delete a finished job, after its containers are removed.

    The containers are removed a moment after the job's end. The request waits for that."""
    deadline = time.monotonic() + REMOVED_S
    row = await cluster.db.aread(lambda db: repository.get_job(db, job_id))
    while JobState(row.state).terminal and cluster.shows(job_id) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    return await run_in_threadpool(cluster.service.delete, job_id, answer, shown=cluster.shows)


@router.get("/jobs/{job_id}/events", response_model=EventPage, responses=problems(404))
async def job_events(
    request: Request, job_id: str, after: RowId = 0, limit: Annotated[int, Query(ge=1, le=1000)] = 500
) -> EventPage | Response:
    """Return the events of a job, oldest first.

    A client that accepts only server-sent events gets a stream."""
    db = cluster_of(request).db
    await db.aread(lambda connection: repository.get_job(connection, job_id))
    if wants_sse(request):
        return sse_response(
            event_stream(db, broadcaster_of(request), last_event_id(request, after), actor_of(request), job_id)
        )
    rows = await db.aread(lambda c: repository.list_events(c, after=after, job_id=job_id, limit=limit))
    return EventPage.of(rows, actor_of(request))


@router.get("/jobs/{job_id}/logs", responses=problems(404), response_class=Response)
def job_logs(
    request: Request,
    job_id: str,
    follow: bool = False,
    offset: Annotated[RowId, Query(description="number of bytes of the log to skip")] = 0,
    timestamps: Annotated[
        bool, Query(description="begin each line with its time in UTC, or - if it is unknown")
    ] = False,
) -> Response:
    """Return stdout and stderr of all attempts, as text.

    A client that accepts server-sent events gets a stream: `log` with text and its times, then `end`. The event ID is
    the offset to resume from."""
    cluster, broadcaster = cluster_of(request), broadcaster_of(request)
    with cluster.db.read() as db:
        repository.get_job(db, job_id)
    events = wants_sse(request)
    chunks = log_chunks(
        cluster.logs,
        task_sequence(cluster, job_id),
        broadcaster,
        last_event_id(request, offset),
        follow or events,
        parts_of(cluster.secrets.env_of(job_id).values()),
    )
    if events:
        return sse_response(_log_events(chunks, broadcaster))

    async def text() -> AsyncIterator[bytes]:
        stamps = LineStamps() if timestamps else None
        async for piece in chunks:
            shown = stamps.stamp(piece.text, piece.times) if stamps else piece.text
            yield shown.encode("utf-8", "replace")

    return StreamingResponse(
        text(), media_type="text/plain; charset=utf-8", headers={"x-content-type-options": "nosniff"}
    )


async def _log_events(chunks: AsyncIterator[Piece], broadcaster: Broadcaster) -> AsyncIterator[bytes]:
    yield b": connected\n\n"
    async for position, text, attempt, rank, times in chunks:
        log = LogText(text=text, attempt=attempt, rank=rank, times=times)
        yield sse(log, event="log", event_id=position) if text else b": alive\n\n"
    if not broadcaster.closing:  # else the stream ends because the service does: the reader comes back for the rest
        yield sse(LogEnd(), event="end")


def _answer(cluster: Cluster, actor: Actor) -> service.Answer[Response]:
    return lambda db, job: Answer(detail(cluster, db, job.id, actor))


def detail(cluster: Cluster, db: Connection, job_id: str, actor: Actor) -> JobDetail:
    """Raises NotFoundError."""
    job = repository.get_job(db, job_id)
    [now] = standing_of(cluster, db, [job])
    [values] = values_of([job])
    tasks = tasks_of(db, [job_id])
    interruptions = interruptions_of(tasks, elastic=job.elastic, waits=JobState(job.state) in WAITS)
    used = usage_of_job(db, job_id, time.time())
    cost = cost_of(used.hours_of, cluster.settings.gpu_prices)
    return JobDetail.of(
        seen_by(actor, values),
        now,
        tasks=[TaskOut.model_validate(task) for task in tasks],
        removed=JobState(job.state).terminal and not cluster.shows(job_id),
        energy_kwh=used.energy,
        cost=None if cost is None else round(cost, 4),
        currency=cluster.settings.currency,
        run_pages=run_pages_of(db, job_id),
        interruptions=interruptions.times,
        repeated_seconds=interruptions.repeated_s,
    )


@router.get("/jobs/{job_id}/processes", responses=problems(404, 409, 422, 502))
@needs(Access.OWN)
def processes(
    request: Request,
    job_id: str,
    rank: Annotated[
        int | None, Query(ge=0, le=1_000_000, description="rank of the container; default: the first")
    ] = None,
) -> ProcessesOut:
    """Return the processes in a container of a job, with their load.

    Only the job's user and admins can see them. The host is asked, which may take some seconds."""
    return ProcessesOut.of(*cluster_of(request).running_tasks.load(job_id, rank))


def show_jobs(cluster: Cluster, db: Connection, rows: Sequence[Row[Any]], actor: Actor) -> list[JobOut]:
    """As `actor` may see them."""
    return [
        JobOut.of(seen_by(actor, values), now)
        for values, now in zip(values_of(rows), standing_of(cluster, db, rows), strict=True)
    ]


def page_of(
    cluster: Cluster,
    db: Connection,
    rows_after: Callable[[str | None, int], Sequence[Row[Any]]],
    last: str | None,
    limit: int,
    actor: Actor,
) -> tuple[list[JobOut], bool]:
    """At most `limit` jobs of at most _PAGE_BYTES together, but one at least, and whether more follow. `rows_after`:
    an id -> so many rows behind it."""
    shown: list[JobOut] = []
    size = 0
    while True:
        wanted = min(_CHUNK, limit - len(shown))
        rows = rows_after(last, wanted + 1)
        for job in show_jobs(cluster, db, rows[:wanted], actor):
            size += len(json_bytes(job))
            if shown and size > _PAGE_BYTES:
                return shown, True
            shown.append(job)
        if len(rows) <= wanted or len(shown) >= limit:
            return shown, len(rows) > wanted
        last = shown[-1].id


def task_sequence(cluster: Cluster, job_id: str) -> Callable[[str | None], str | None]:
    """For `log_chunks`: the tasks of a job, in order, as they come to be."""

    def after(task: str | None) -> str | None:
        with cluster.db.read() as db:
            job = repository.get_job(db, job_id)
            ids = [row.id for row in tasks_of(db, [job_id]) if row.started_at is not None]
        position = ids.index(task) + 1 if task in ids else 0
        if position < len(ids):
            return str(ids[position])
        return "" if JobState(job.state).terminal else None

    return after
