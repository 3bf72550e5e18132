"""The original Schedulearn's routes, at the root, so that its users' scripts work unchanged."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, WebSocket
from pydantic import TypeAdapter
from sqlalchemy import Row
from sqlalchemy.engine import Connection
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.websockets import WebSocketDisconnect

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.job import JobOut, OriginalJob, OriginalJobDetail
from schedulearn.api.answers.model import Answer, AnswerModel
from schedulearn.api.answers.problem import problems
from schedulearn.api.logs.stream import log_chunks
from schedulearn.api.problems import parse_body, problem_response
from schedulearn.api.routes import jobs
from schedulearn.api.state import actor_of, broadcaster_of, cluster_of
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.errors import NotFoundError, UnknownPolicyError
from schedulearn.scheduler.runtimes.log_masking import parts_of
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of

router = APIRouter(tags=["original routes"])


_OBJECT = TypeAdapter(dict[str, Any])
_FIRST_NAMES = {"image": "container_image", "no_of_gpus": "required_gpus"}


class Message(AnswerModel):
    message: str


router.add_api_route(
    "/jobs",
    jobs.submit,
    methods=["POST"],
    status_code=201,
    response_model=OriginalJob,
    openapi_extra=jobs.json_body(),
)


@router.post(
    "/api/v1/post",
    status_code=201,
    response_model=JobOut,
    responses=problems(409, 422),
    openapi_extra=jobs.json_body(),
)
@needs(Access.USER)
async def post(request: Request) -> Response:
    """Submit a job, as in the first versions of the original.

    Two keys have other names than in `POST /jobs`."""
    await jobs.check_rate(request)
    return await jobs.store_one(request, await jobs.job_of(request, _with_first_names))


def _with_first_names(body: bytes) -> JobSpec:
    renamed = {_FIRST_NAMES.get(key, key): value for key, value in parse_body(_OBJECT, dict, body).items()}
    return jobs.parse_job(json.dumps(renamed).encode())


@router.get("/jobs/{job_id}")
async def get_job(request: Request, job_id: str) -> OriginalJobDetail:
    cluster = cluster_of(request)

    def read(db: Connection) -> OriginalJobDetail:
        shown = jobs.detail(cluster, db, job_id, actor_of(request))
        return OriginalJobDetail.beside(shown, tasks_of(db, [job_id]))

    return await cluster.db.aread(read)


@router.get("/jobs")
def list_jobs(request: Request, limit: Annotated[int, Query(ge=1, le=1000)] = 1000) -> list[OriginalJob]:
    """Return the newest jobs as a list, at most 4 MiB."""
    cluster = cluster_of(request)
    with cluster.db.read() as db:

        def rows_after(last: str | None, most: int) -> Sequence[Row[Any]]:
            return repository.list_jobs(db, after=last, limit=most)

        shown, _ = jobs.page_of(cluster, db, rows_after, None, limit, actor_of(request))
        tasks = defaultdict(list)
        for task in tasks_of(db, [job.id for job in shown]):
            tasks[task.job_id].append(task)
        return [OriginalJob.beside(job, tasks[job.id]) for job in shown]


@router.delete("/jobs/{job_id}", response_model=Message, responses=problems(404, 409))
async def delete_job(request: Request, job_id: str) -> Response:
    """Cancel a job, or delete it if it has ended."""
    cluster = cluster_of(request)
    row = await cluster.db.aread(lambda db: repository.get_job(db, job_id))
    if JobState(row.state).terminal:
        return await jobs.deleted(cluster, job_id, lambda db, job: Answer(Message(message="Job deleted successfully")))
    return await run_in_threadpool(
        cluster.service.cancel, job_id, lambda db, job: Answer(Message(message="Job cancelled"))
    )


@router.put("/algorithm/{algorithm}", response_model=Message)
def change_algorithm(request: Request, algorithm: str) -> Response:
    """Change the policy, as `PUT /api/v1/policy` without parameters."""
    cluster = cluster_of(request)
    try:
        return cluster.service.set_policy(
            algorithm, answer=lambda db, choice: Answer(Message(message=f"Algorithm changed to {choice.algorithm}"))
        )
    except UnknownPolicyError as error:
        return problem_response(400, error.code, error.detail)


@router.websocket("/jobs/{job_id}/logs")
@needs(Access.VIEWER)
async def logs_socket(socket: WebSocket, job_id: str) -> None:
    """Send the log of a job as text messages, until the job has ended."""
    cluster = cluster_of(socket)
    try:
        with cluster.db.read() as db:
            repository.get_job(db, job_id)
    except NotFoundError:
        await socket.close(4404, "there is no such job")
        return
    await socket.accept()

    async def send() -> None:
        hidden = parts_of(cluster.secrets.env_of(job_id).values())
        tasks = jobs.task_sequence(cluster, job_id)
        chunks = log_chunks(cluster.logs, tasks, broadcaster_of(socket), 0, follow=True, hidden=hidden)
        async for piece in chunks:
            if piece.text:
                await socket.send_text(piece.text)
        await socket.close(1001 if broadcaster_of(socket).closing else 1000)

    async def hang_up() -> None:
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass

    # Whichever ends first, ends the other: a reader that has gone must not keep us reading logs for nobody.
    tasks = [asyncio.create_task(send()), asyncio.create_task(hang_up())]
    _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception) and not isinstance(result, WebSocketDisconnect):
            raise result
