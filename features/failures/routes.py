"""Route for failures of jobs, grouped by cause."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from sqlalchemy import select
from sqlmodel import col

from schedulearn.api.answers.model import AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.instants import epoch
from schedulearn.api.job_failures import failures_of
from schedulearn.api.state import cluster_of
from schedulearn.scheduler.core.instants import Instant
from schedulearn.scheduler.reports.failure_advice import FailureKind
from schedulearn.scheduler.store.job_list import FAILED
from schedulearn.scheduler.store.models import Job

router = APIRouter(prefix="/api/v1", tags=["jobs"])
_WEEK_S = 7 * 86_400
_MOST = 200
"""Maximum failed jobs of one answer; the end of each one's log is read."""
_NAMED = 5


class FailedJobOut(AnswerModel):
    id: str
    name: str
    user: str
    finished_at: At


class FailureGroupOut(AnswerModel):
    """Jobs that failed for the same cause."""

    kind: FailureKind
    cause: str
    step: str = Field(description="next step as a sentence; empty: unknown")
    count: int = Field(description="number of jobs")
    newest: list[FailedJobOut] = Field(description=f"the last {_NAMED} jobs, newest first")


class FailuresOut(AnswerModel):
    items: list[FailureGroupOut] = Field(description="groups, largest first")
    jobs: int = Field(description=f"number of failed jobs that were grouped: the last {_MOST} at most")
    complete: bool = Field(description="whether these are all failed jobs of the period")


@router.get("/failures", responses=problems(422))
def get_failures(
    request: Request,
    since: Annotated[Instant | None, Query(description="start of the period; default: 7 days ago")] = None,
    user: Annotated[str | None, Query(max_length=200, description="only jobs of this user")] = None,
) -> FailuresOut:
    """Return why jobs failed, grouped by cause."""
    cluster = cluster_of(request)
    begin = epoch(since, time.time() - _WEEK_S)
    query = select(Job).where(col(Job.state).in_(FAILED), col(Job.finished_at) >= begin)
    if user is not None:
        query = query.where(col(Job.user) == user)
    with cluster.db.read() as db:
        rows = db.execute(query.order_by(col(Job.finished_at).desc(), col(Job.id).desc()).limit(_MOST + 1)).all()
        complete, rows = len(rows) <= _MOST, rows[:_MOST]
        failures = failures_of(cluster, db, rows, {})
    groups: dict[tuple[FailureKind, str], FailureGroupOut] = {}
    for row in rows:
        failure = failures[row.id]
        group = groups.setdefault(
            (failure.kind, failure.cause),
            FailureGroupOut(kind=failure.kind, cause=failure.cause, step=failure.step, count=0, newest=[]),
        )
        group.count += 1
        if len(group.newest) < _NAMED:
            group.newest.append(
                FailedJobOut(id=row.id, name=row.name, user=row.user or "", finished_at=row.finished_at)
            )
    items = sorted(groups.values(), key=lambda group: -group.count)
    return FailuresOut(items=items, jobs=len(rows), complete=complete)
