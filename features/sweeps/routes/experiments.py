"""Routes of experiments. `routes/sweeps.py` cancels and retries them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from sqlalchemy import Row
from sqlalchemy.engine import Connection
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.problem import problems
from schedulearn.api.large_bodies import body_as
from schedulearn.api.state import cluster_of
from schedulearn.api.turns import COMPUTING
from schedulearn.features.sweeps import table as store
from schedulearn.features.sweeps.answers.experiment import (
    AnalysisOut,
    ExperimentDetail,
    ExperimentOut,
    ExperimentPage,
    TrialOut,
)
from schedulearn.features.sweeps.experiment_spec import ExperimentSpec, factors_of
from schedulearn.features.sweeps.routes.sweeps import PageSize, RunsAfter, RunsShown, States, started, starts
from schedulearn.features.sweeps.spec import MAX_RUNS, parameters_of
from schedulearn.scheduler.errors import InvalidError

router = APIRouter(prefix="/api/v1", tags=["experiments"])


@router.post("/experiments", **starts(ExperimentSpec, ExperimentOut))
@needs(Access.USER)
def start_experiment(request: Request, body: Annotated[ExperimentSpec, body_as(ExperimentSpec)]) -> Response:
    """Start an experiment, which is stored as a sweep.

    It is durable when the response comes. The job of each run is checked first."""
    return started(request, body.job, body.sweep, _one, design=body.design_of)


@router.get("/experiments", responses=problems(404))
def list_experiments(
    request: Request,
    state: States = None,
    user: str | None = None,
    cursor: str | None = None,
    limit: PageSize = 20,
) -> ExperimentPage:
    """List experiments and searches, newest first."""
    with cluster_of(request).db.read() as db:
        rows, following = store.list_sweeps(db, states=state or (), user=user, after=cursor, limit=limit, designed=True)
        return ExperimentPage(items=_shown(db, rows), next=following)


@router.get("/experiments/{sweep_id}", responses=problems(404))
def get_experiment(
    request: Request,
    sweep_id: str,
    after: RunsAfter = 0,
    limit: RunsShown = 1000,
) -> ExperimentDetail:
    """Return an experiment, or any sweep, with the results of its runs."""
    with cluster_of(request).db.read() as db:
        row = store.get_sweep(db, sweep_id)
        by = row.spec["metric"]
        runs = store.list_runs(db, sweep_id, by["name"], after=after, limit=limit + 1)
        more, runs = len(runs) > limit, runs[:limit]
        return ExperimentDetail.shown(
            row,
            store.progress_of(db, [sweep_id])[sweep_id],
            responses=_responses(runs),
            table=[TrialOut.of(run, by["goal"], row.state, results=run.results) for run in runs],
            next=runs[-1].number if more else None,
        )


@router.get("/experiments/{sweep_id}/analysis", responses=problems(404, 422), dependencies=COMPUTING)
def analyze_experiment(
    request: Request,
    sweep_id: str,
    response: Annotated[
        str, Query(min_length=1, max_length=64, description="name of the response to analyze")
    ] = "run_time",
    confidence: Annotated[float, Query(ge=0.5, le=0.999, description="confidence of the intervals")] = 0.95,
) -> AnalysisOut:
    """Return an analysis of variance: which factors change a response.

    It uses all runs that have the response."""
    from schedulearn.features.sweeps.models.anova import Trial, analyze  # loads SciPy, which most processes don't need

    with cluster_of(request).db.read() as db:
        row = store.get_sweep(db, sweep_id)
        runs = store.list_runs(db, sweep_id, row.spec["metric"]["name"], limit=MAX_RUNS)
    factors = factors_of(row.design, parameters_of(row.spec))
    responses = _responses(runs)
    trials = [
        Trial({name: run.params[name] for name in factors}, run.results[response])
        for run in runs
        if run.results and response in run.results
    ]
    try:
        return AnalysisOut.of(response, responses, analyze(trials, factors, confidence))
    except ValueError as error:
        known = f"; its runs have {', '.join(responses)}" if responses and response not in responses else ""
        raise InvalidError(f"{error}{known}", field="response") from error


def _responses(runs: Sequence[Row[Any]]) -> list[str]:
    return sorted({name for run in runs for name in run.results or ()})


def _one(db: Connection, row: Row[Any]) -> ExperimentOut:
    [shown] = _shown(db, [row])
    return shown


def _shown(db: Connection, rows: Sequence[Row[Any]]) -> list[ExperimentOut]:
    progress = store.progress_of(db, [row.id for row in rows])
    return [ExperimentOut.shown(row, progress[row.id]) for row in rows]
