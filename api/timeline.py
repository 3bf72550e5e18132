"""Who had which GPU when."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from schedulearn.api.answers import JsonResponse
from schedulearn.api.instants import epoch, iso
from schedulearn.api.schemas import Problem
from schedulearn.api.state import cluster_of
from schedulearn.scheduler.core.instants import Instant
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.store import history

router = APIRouter(prefix="/api/v1", tags=["timeline"])
_REFUSED: dict[int | str, dict[str, Any]] = {422: {"model": Problem}}
_DAY_S = 86_400
MOST_SPANS = 20_000


class LaneOut(BaseModel):
    uuid: str
    host: str
    index: int
    present: bool = Field(description="false: its host no longer shows it")


class SpanOut(BaseModel):
    """One container, from when it was given its GPUs until it was seen gone."""

    job: str
    name: str
    user: str
    attempt: int
    rank: int
    lanes: list[int] = Field(description="its GPUs, as positions in `lanes` of the answer")
    claimed_at: str
    started_at: str | None
    finished_at: str | None
    outcome: str


class TimelineOut(BaseModel):
    since: str
    until: str
    lanes: list[LaneOut] = Field(description="every GPU that there is or was, by host and index")
    spans: list[SpanOut] = Field(description="newest first")
    complete: bool = Field(description="false: there are more spans than `limit`; the oldest are left out")


@router.get("/timeline", response_model=TimelineOut, responses=_REFUSED)
def timeline(
    request: Request,
    since: Annotated[Instant | None, Query(description="default: a day ago")] = None,
    until: Annotated[Instant | None, Query(description="default: now")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_SPANS)] = 5000,
) -> Response:
    """Which jobs held which GPUs at some time between the two."""
    end = epoch(until, time.time())
    begin = epoch(since, end - _DAY_S)
    if begin >= end:
        raise InvalidError("since must be before until", field="since")
    with cluster_of(request).db.read() as db:
        gpus = history.all_gpus(db)
        rows, complete = history.tasks_between(db, begin, end, limit)
    lane = {gpu.uuid: position for position, gpu in enumerate(gpus)}
    return JsonResponse(
        {
            "since": iso(begin),
            "until": iso(end),
            "lanes": [
                {"uuid": gpu.uuid, "host": gpu.host_id, "index": gpu.ordinal, "present": gpu.present} for gpu in gpus
            ],
            "spans": [
                {
                    "job": row.job_id,
                    "name": row.name,
                    "user": row.user,
                    "attempt": row.attempt,
                    "rank": row.rank,
                    "lanes": [lane[uuid] for uuid in row.gpu_uuids if uuid in lane],
                    "claimed_at": iso(row.created_at),
                    "started_at": iso(row.started_at),
                    "finished_at": iso(row.finished_at),
                    "outcome": row.outcome,
                }
                for row in rows
            ],
            "complete": complete,
        }
    )
