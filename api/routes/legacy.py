"""The original Schedulearn's routes, at the root, so that its users' scripts work unchanged."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, WebSocket
from starlette.responses import Response
from starlette.websockets import WebSocketDisconnect

from schedulearn.api.answers.job import JobDetail, JobOut
from schedulearn.api.answers.model import Answer, AnswerModel
from schedulearn.api.logs.stream import log_chunks
from schedulearn.api.problems import problem_response
from schedulearn.api.routes import jobs
from schedulearn.api.state import actor_of, cluster_of, pulse_of
from schedulearn.scheduler.errors import NotFoundError, UnknownPolicyError
from schedulearn.scheduler.runtimes.log_masking import parts_of
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store import repository

router = APIRouter(tags=["original routes"])


class Message(AnswerModel):
    message: str


router.add_api_route(
    "/jobs",
    jobs.submit,
    methods=["POST"],
    status_code=201,
    response_model=JobOut,
    openapi_extra=jobs.json_body(JobSpec),
)
router.add_api_route("/jobs/{job_id}", jobs.get_job, methods=["GET"], response_model=JobDetail)


@router.get("/jobs")
def list_jobs(request: Request, limit: Annotated[int, Query(ge=1, le=1000)] = 1000) -> list[JobOut]:
    """The newest jobs as a bare list."""
    cluster = cluster_of(request)
    with cluster.db.read() as db:
        return jobs.show_jobs(cluster, db, repository.list_jobs(db, limit=limit), actor_of(request))


@router.delete("/jobs/{job_id}", response_model=Message)
def kill_job(request: Request, job_id: str) -> Response:
    """Cancels the job."""
    return cluster_of(request).service.cancel(job_id, lambda db, job: Answer(Message(message="Job cancelled")))


@router.put("/algorithm/{algorithm}", response_model=Message)
def change_algorithm(request: Request, algorithm: str) -> Response:
    """`PUT /api/v1/policy` without parameters."""
    cluster = cluster_of(request)
    try:
        return cluster.service.set_policy(
            algorithm, answer=lambda db, choice: Answer(Message(message=f"Algorithm changed to {choice.algorithm}"))
        )
    except UnknownPolicyError as error:
        return problem_response(400, error.code, error.detail)


@router.websocket("/jobs/{job_id}/logs")
async def logs_socket(socket: WebSocket, job_id: str) -> None:
    """The job's log from its start, as text messages, until the job has ended."""
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
        chunks = log_chunks(cluster.logs, tasks, pulse_of(socket), 0, follow=True, hidden=hidden)
        async for piece in chunks:
            if piece.text:
                await socket.send_text(piece.text)
        await socket.close(1001 if pulse_of(socket).closing else 1000)

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
