"""Routes of schedules: create, list, show, pause, resume and delete."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from sqlalchemy import Row
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import Answer, AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.requests import WITH_KEY, idempotency_key
from schedulearn.api.state import actor_of, cluster_of
from schedulearn.features.recurring import table
from schedulearn.features.recurring.spec import Overlap, ScheduleSpec
from schedulearn.features.recurring.worker import worker_of
from schedulearn.scheduler.core.people import Actor
from schedulearn.scheduler.specs.cron import Repetition
from schedulearn.scheduler.specs.env_masking import shown_job

router = APIRouter(prefix="/api/v1", tags=["schedules"])

_TIMES = 5


class ScheduleOut(AnswerModel):
    """Job that is submitted at the times of a cron expression."""

    id: str
    name: str = Field(description="name of its jobs")
    user: str
    every: str = Field(description="cron expression")
    time_zone: str
    overlap: Overlap
    paused_at: At | None = Field(description="time since which it is paused; null: it is not")
    message: str = Field(description="why it is paused, or why a time had no run; empty: neither")
    next_at: At | None = Field(description="time of the next run; null: none")
    last_at: At | None = Field(description="time of the latest run; null: there was none")
    last_job: str | None = Field(description="ID of the job of the latest run")
    runs: int
    missed: int = Field(description="number of times that had no run; each is told by an event `schedule.missed`")
    created_at: At


class ScheduleDetail(ScheduleOut):
    times: list[At] = Field(description="next times")
    job: dict[str, object] = Field(description="keys of its jobs; values in `env` are masked")


class SchedulePage(AnswerModel):
    items: list[ScheduleOut]
    next: str | None = Field(description="value of `cursor` for the next page; null on the last")


@router.post(
    "/schedules",
    status_code=201,
    response_model=ScheduleDetail,
    responses=problems(409, 422),
    openapi_extra=WITH_KEY,
)
@needs(Access.USER)
def create_schedule(request: Request, body: ScheduleSpec) -> Response:
    """Create a schedule: a job that is submitted at the times of a cron expression.

    Each run is an ordinary job, with the rights and quotas that its user has at that time."""
    actor = actor_of(request)
    user: Any = actor.user_of(body.job.get("user"))
    spec = body.model_copy(update={"job": {key: value for key, value in body.job.items() if key != "user"}})
    use_cases = worker_of(request).use_cases
    return use_cases.create(spec, user, idempotency_key(request), lambda _, row: Answer(_detail(row, actor), 201))


@router.get("/schedules")
def list_schedules(
    request: Request,
    user: str | None = None,
    cursor: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 100,
) -> SchedulePage:
    """List schedules, newest first."""
    with cluster_of(request).db.read() as db:
        rows, following = table.list_schedules(db, user, cursor, limit)
    return SchedulePage(items=[ScheduleOut.model_validate(_values(row)) for row in rows], next=following)


@router.get("/schedules/{schedule_id}", responses=problems(404))
def get_schedule(request: Request, schedule_id: str) -> ScheduleDetail:
    """Return a schedule with its job and its next times."""
    with cluster_of(request).db.read() as db:
        row = table.get_schedule(db, schedule_id)
    return _detail(row, actor_of(request))


@router.post("/schedules/{schedule_id}/pause", response_model=ScheduleDetail, responses=problems(404))
def pause_schedule(request: Request, schedule_id: str) -> Response:
    """Submit no further runs. Its jobs go on."""
    actor = actor_of(request)
    return worker_of(request).use_cases.pause(schedule_id, lambda _, row: Answer(_detail(row, actor)))


@router.post("/schedules/{schedule_id}/resume", response_model=ScheduleDetail, responses=problems(404, 422))
def resume_schedule(request: Request, schedule_id: str) -> Response:
    """Submit runs again, from the next time on."""
    actor = actor_of(request)
    return worker_of(request).use_cases.resume(schedule_id, lambda _, row: Answer(_detail(row, actor)))


@router.delete("/schedules/{schedule_id}", status_code=204, responses=problems(404))
def delete_schedule(request: Request, schedule_id: str) -> Response:
    """Delete a schedule. Its jobs stay."""
    worker_of(request).use_cases.delete(schedule_id)
    return Response(status_code=204)


def _values(row: Row[Any]) -> dict[str, Any]:
    return {**row._asdict(), "name": row.job["name"], "every": row.cron}


def _detail(row: Row[Any], actor: Actor) -> ScheduleDetail:
    following = Repetition(row.cron, row.time_zone).after(row.next_at or 0)
    times = [] if row.next_at is None else [row.next_at, *islice(following, _TIMES - 1)]
    job = shown_job(row.job, to_owner=actor.may_change(row.user))
    return ScheduleDetail.model_validate({**_values(row), "times": times, "job": job})
