"""Who had which GPU when."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from sqlalchemy import Row

from schedulearn.api.answers.model import AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.answers.window import WindowOut
from schedulearn.api.instants import epoch
from schedulearn.api.state import cluster_of
from schedulearn.scheduler.core.instants import Instant
from schedulearn.scheduler.core.model import Basis
from schedulearn.scheduler.core.states import JobState, Reason
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.store import history
from schedulearn.scheduler.store.windows import load_windows

if TYPE_CHECKING:  # the simulator loads NumPy: only for those who have jobs
    from schedulearn.scheduler.sim.forecast import Eta

router = APIRouter(prefix="/api/v1", tags=["timeline"])
_DAY_S = 86_400
MAX_SPANS = 20_000
MAX_EXPECTED = 1000
End = Literal["succeeded", "failed", "cancelled", "replaced"]


class LaneOut(AnswerModel):
    uuid: str
    host: str = Field(validation_alias="host_id")
    index: int = Field(validation_alias="ordinal")
    present: bool = Field(description="whether its host still has it")


class SpanOut(AnswerModel):
    """Container, from the assignment of its GPUs to its end."""

    job: str
    name: str
    user: str
    attempt: int
    rank: int
    lanes: list[int] = Field(description="its GPUs, as indices into `lanes` of the response")
    claimed_at: At
    started_at: At | None
    finished_at: At | None
    outcome: str
    end: End | None = Field(
        description="outcome of the job in this container; replaced: the job continued in other containers; failed: "
        "also time limits and lost containers; null: not ended"
    )


class TimelineOut(AnswerModel):
    since: At
    until: At
    lanes: list[LaneOut] = Field(description="all present and past GPUs, by host and index")
    spans: list[SpanOut] = Field(description="newest first")
    complete: bool = Field(description="false: there are more spans than `limit`, and the oldest are left out")
    windows: list[WindowOut] = Field(description="maintenance windows that are not over, the next one first")


class ExpectedOut(AnswerModel):
    """Unfinished job with its expected start and end.

    Running jobs have no `start`: spans have theirs."""

    job: str = Field(validation_alias="id")
    name: str
    user: str
    gpus: int = Field(validation_alias="required_gpus")
    submitted_at: At
    start: At | None
    end: At | None
    latest: At | None = Field(description="latest end, by the uncertainty of the run times that it depends on")
    basis: Basis


class ExpectedList(AnswerModel):
    at: At = Field(description="time of the forecast")
    items: list[ExpectedOut] = Field(
        description="running jobs, then waiting jobs in the order of their expected starts"
    )
    complete: bool = Field(description="false: there are more jobs than `limit`")


_ENDS: Mapping[JobState, End] = {
    JobState.SUCCEEDED: "succeeded", JobState.FAILED: "failed", JobState.TIMEOUT: "failed",
    JobState.CANCELLED: "cancelled",
}  # fmt: skip


def _end_of(row: Row[Any]) -> End | None:
    if row.finished_at is None:
        return None
    if row.outcome == Reason.RESIZED:
        return "replaced"
    if row.attempt == row.last_attempt and (end := _ENDS.get(row.state)):
        return end
    return "replaced" if row.stop or row.outcome == Reason.COMPLETED else "failed"


@router.get("/timeline", responses=problems(422))
def timeline(
    request: Request,
    since: Annotated[Instant | None, Query(description="default: a day ago")] = None,
    until: Annotated[Instant | None, Query(description="default: now")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_SPANS)] = 5000,
) -> TimelineOut:
    """Return which jobs held which GPUs in a period."""
    end = epoch(until, time.time())
    begin = epoch(since, end - _DAY_S)
    if begin >= end:
        raise InvalidError("since must be before until", field="since")
    with cluster_of(request).db.read() as db:
        gpus = history.all_gpus(db)
        rows, complete = history.tasks_between(db, begin, end, limit)
        planned = load_windows(db)
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
                    "end": _end_of(row),
                }
                for row in rows
            ],
            "complete": complete,
            "windows": list(map(WindowOut.of, planned)),
        }
    )


@router.get("/timeline/expected")
def expected(request: Request, limit: Annotated[int, Query(ge=1, le=MAX_EXPECTED)] = 200) -> ExpectedList:
    """Return the expected start and end of unfinished jobs.

    The forecast is renewed about every 10 seconds. A new job is missing until then."""
    cluster = cluster_of(request)
    etas = cluster.forecaster.etas
    soonest = sorted(etas.jobs, key=lambda job: (etas.jobs[job].start is None, etas.jobs[job].start or 0.0, job))
    with cluster.db.read() as db:
        rows = {row.id: row for row in history.jobs_named(db, soonest[:limit])}
    items = [_expected(rows[job], etas.jobs[job]) for job in soonest[:limit] if job in rows]
    items.sort(key=lambda item: item.start is not None)
    return ExpectedList.model_validate({"at": etas.at, "items": items, "complete": len(soonest) <= limit})


def _expected(row: Row[Any], eta: Eta) -> ExpectedOut:
    start = None if row.state.holds_gpus else eta.start
    told = {"start": start, "end": eta.end, "latest": eta.latest, "basis": eta.basis}
    return ExpectedOut.model_validate({**row._asdict(), **told})
