"""How long jobs were predicted to take, and took."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from schedulearn.api.answers.advice import LengthPredictionOut, PredictionsOut
from schedulearn.api.answers.problem import problems
from schedulearn.api.state import cluster_of
from schedulearn.scheduler.core.planning.job_family import MOST
from schedulearn.scheduler.store.experiments import lengths

router = APIRouter(prefix="/api/v1", tags=["experiments"])


@router.get("/predictions", responses=problems(422))
def predictions(
    request: Request,
    family: Annotated[str | None, Query(max_length=MOST, description="only jobs of this family")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="of `items`")] = 50,
) -> PredictionsOut:
    """The newest predictions of lengths, made when each job came, with what came; and how often the intervals held, of
    all 10,000 that are kept."""
    with cluster_of(request).db.read() as db:
        found, items = lengths.calibration(db, family), lengths.predictions(db, family, limit)
    return PredictionsOut(
        compared=found.compared,
        held=found.held,
        median_factor=found.median_factor,
        items=[LengthPredictionOut.of(each) for each in items],
    )
