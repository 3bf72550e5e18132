"""Who had which GPU when."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from schedulearn.api.answers.model import AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.instants import epoch
from schedulearn.api.state import cluster_of
from schedulearn.scheduler.core.instants import Instant
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.store import history

router = APIRouter(prefix="/api/v1", tags=["timeline"])
_DAY_S = 86_400
MOST_SPANS = 20_000


class LaneOut(AnswerModel):
    uuid: str
    host: str = Field(validation_alias="host_id")
    index: int = Field(validation_alias="ordinal")
    present: bool = Field(description="false: its host no longer shows it")


class SpanOut(AnswerModel):
    """One container, from when it was given its GPUs until it was seen gone."""

    job: str
    name: str
    user: str
    attempt: int
    rank: int
    lanes: list[int] = Field(description="its GPUs, as positions in `lanes` of the answer")
    claimed_at: At
    started_at: At | None
    finished_at: At | None
    outcome: str


class TimelineOut(AnswerModel):
    since: At
    until: At
    lanes: list[LaneOut] = Field(description="every GPU that there is or was, by host and index")
    spans: list[SpanOut] = Field(description="newest first")
    complete: bool = Field(description="false: there are more spans than `limit`; the oldest are left out")


@router.get("/timeline", responses=problems(422))
def timeline(
    request: Request,
    since: Annotated[Instant | None, Query(description="default: a day ago")] = None,
    until: Annotated[Instant | None, Query(description="default: now")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_SPANS)] = 5000,
) -> TimelineOut:
    """Which jobs held which GPUs at some time between the two."""
    end = epoch(until, time.time())
    begin = epoch(since, end - _DAY_S)
    if begin >= end:
        raise InvalidError("since must be before until", field="since")
    with cluster_of(request).db.read() as db:
        gpus = history.all_gpus(db)
        rows, complete = history.tasks_between(db, begin, end, limit)
    lane = {gpu.uuid: position for position, gpu in enumerate(gpus)}
    return TimelineOut.model_validate(
        {
            "since": begin,
            "until": end,
            "lanes": [LaneOut.model_validate(gpu) for gpu in gpus],
            "spans": [
                {
                    "job": row.job_id,
                    "name": row.name,
                    "user": row.user,
                    "attempt": row.attempt,
                    "rank": row.rank,
                    "lanes": [lane[uuid] for uuid in row.gpu_uuids if uuid in lane],
                    "claimed_at": row.created_at,
                    "started_at": row.started_at,
                    "finished_at": row.finished_at,
                    "outcome": row.outcome,
                }
                for row in rows
            ],
            "complete": complete,
        }
    )
