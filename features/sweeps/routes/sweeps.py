"""Routes of sweeps: start, list, show, cancel and retry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from sqlalchemy import Row
from sqlalchemy.engine import Connection
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import Answer, AnswerModel
from schedulearn.api.answers.problem import problems
from schedulearn.api.large_bodies import MANY, body_as, request_of
from schedulearn.api.requests import WITH_KEY, RowId, idempotency_key
from schedulearn.api.state import actor_of, cluster_of
from schedulearn.features.sweeps import table as store
from schedulearn.features.sweeps.answers.sweep import ObjectiveOut, RunOut, SweepDetail, SweepOut, SweepPage
from schedulearn.features.sweeps.service import settled_sweep
from schedulearn.features.sweeps.spec import SweepSpec, parameters_of
from schedulearn.features.sweeps.steps import SweepState
from schedulearn.features.sweeps.worker import worker_of
from schedulearn.scheduler.specs.env_masking import shown_job

router = APIRouter(prefix="/api/v1", tags=["sweeps"])

States = Annotated[list[SweepState] | None, Query(description="only these states")]
PageSize = Annotated[int, Query(ge=1, le=100)]
RunsAfter = Annotated[RowId, Query(description="only runs with a number above this")]
RunsShown = Annotated[int, Query(ge=1, le=1000, description="maximum number of runs in the table")]


def starts(spec: type[BaseModel], answer: type[AnswerModel]) -> dict[str, Any]:
    """Return settings of a route that starts a sweep or experiment."""
    return {
        "status_code": 201,
        "response_model": answer,
        "responses": problems(409, 413, 422),
        "max_body_size": MANY.size,
        "openapi_extra": {**request_of(spec), **WITH_KEY},
    }


@router.post("/sweeps", **starts(SweepSpec, SweepOut))
@needs(Access.USER)
def start_sweep(request: Request, body: Annotated[SweepSpec, body_as(SweepSpec)]) -> Response:
    """Start a sweep.

    It is durable when the response comes. The job of each run is checked first."""
    return started(request, body.job, lambda: body, _one)


def started(
    request: Request,
    job: dict[str, Any],
    sweep: Callable[[], SweepSpec],
    shown: Callable[[Connection, Row[Any]], AnswerModel],
    *,
    design: Callable[[], dict[str, object]] | None = None,
    is_open: bool = False,
) -> Response:
    """Store a request as a sweep.

    `job`: job of the runs. Its user becomes the sender, except that admins may name another user. `sweep` and `design`
    are called after that."""
    key, actor, cluster = idempotency_key(request), actor_of(request), cluster_of(request)
    job["user"] = actor.user_of(job.get("user"))
    cluster.service.check_room()
    asked = sweep()
    return worker_of(request).use_cases.start(
        settled_sweep(asked, cluster.code, cluster.settings.code_git_hosts),
        key,
        lambda db, row: Answer(shown(db, row), 201),
        asked=asked,
        design=None if design is None else design(),
        is_open=is_open,
    )


@router.get("/sweeps", responses=problems(404))
def list_sweeps(
    request: Request,
    state: States = None,
    user: str | None = None,
    cursor: str | None = None,
    limit: PageSize = 20,
) -> SweepPage:
    """List sweeps, newest first."""
    with cluster_of(request).db.read() as db:
        rows, following = store.list_sweeps(db, states=state or (), user=user, after=cursor, limit=limit)
        return SweepPage(items=_shown(db, rows), next=following)


@router.get("/sweeps/{sweep_id}", responses=problems(404))
def get_sweep(
    request: Request,
    sweep_id: str,
    metric: Annotated[
        str | None, Query(max_length=64, description="name of the metric; default: the sweep's own")
    ] = None,
    goal: Annotated[
        Literal["min", "max"] | None, Query(description="whether a lower or higher value is better")
    ] = None,
    after: RunsAfter = 0,
    limit: RunsShown = 1000,
) -> SweepDetail:
    """Return a sweep with the table of its runs."""
    with cluster_of(request).db.read() as db:
        row = store.get_sweep(db, sweep_id)
        own = row.spec["metric"]
        by = ObjectiveOut(name=metric or own["name"], goal=goal or own["goal"])
        runs = store.list_runs(db, sweep_id, by.name, after=after, limit=limit + 1)
        more, runs = len(runs) > limit, runs[:limit]
        best = store.best_run(db, sweep_id, by.name, highest=by.goal == "max")
        return SweepDetail.of(
            row,
            store.progress_of(db, [sweep_id])[sweep_id],
            parameters_of(row.spec),
            metric=by,
            job=shown_job(row.spec["job"], to_owner=actor_of(request).may_change(row.user)),
            best=RunOut.of(best, by.goal, row.state) if best is not None else None,
            logged=sorted(store.logged_metrics(db, [run.job_id for run in runs if run.job_id is not None])),
            table=[RunOut.of(run, by.goal, row.state) for run in runs],
            next=runs[-1].number if more else None,
        )


@router.post("/sweeps/{sweep_id}/cancel", response_model=SweepOut, responses=problems(404, 409))
def cancel_sweep(request: Request, sweep_id: str) -> Response:
    """Cancel a sweep: no more runs start, its jobs are cancelled.

    Repeating it changes nothing."""
    return worker_of(request).use_cases.cancel(sweep_id, _answer)


@router.post("/sweeps/{sweep_id}/retry", response_model=SweepOut, responses=problems(404, 409, 422))
def retry_sweep(request: Request, sweep_id: str) -> Response:
    """Start unsuccessful runs again with new jobs.

    These are runs that failed, reached their time limit, were cancelled or never started."""
    return worker_of(request).use_cases.retry(sweep_id, _answer)


def _answer(db: Connection, row: Row[Any]) -> Response:
    return Answer(_one(db, row))


def _one(db: Connection, row: Row[Any]) -> SweepOut:
    [shown] = _shown(db, [row])
    return shown


def _shown(db: Connection, rows: Sequence[Row[Any]]) -> list[SweepOut]:
    progress = store.progress_of(db, [row.id for row in rows])
    return [SweepOut.of(row, progress[row.id], parameters_of(row.spec)) for row in rows]
