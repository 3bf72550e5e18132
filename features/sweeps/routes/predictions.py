"""Routes of predictions, and of model versions of families."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.engine import Connection

from schedulearn.api.answers.problem import problems
from schedulearn.api.state import actor_of, cluster_of
from schedulearn.features.sweeps.answers.advice import (
    CalibrationsOut,
    FamilyCalibrationOut,
    LengthPredictionOut,
    MetricCalibrationOut,
    MetricPredictionOut,
    MetricPredictionsOut,
    ModelVersionOut,
    ModelVersionsOut,
    PredictionsOut,
)
from schedulearn.scheduler.core.planning.job_family import MAX
from schedulearn.scheduler.errors import ForbiddenError
from schedulearn.scheduler.store.people.kin import Kin, owner_of
from schedulearn.scheduler.store.predictions import lengths, metric_predictions, versions

router = APIRouter(prefix="/api/v1/predictions", tags=["experiments"])

Window = Query(ge=1, le=lengths.MAX_KEPT, description="number of newest predictions of successful jobs that count")

Whose = Query(max_length=100, description="user whose jobs of the family count; default: you")


class VersionIn(BaseModel):
    """Model version of a family to use."""

    model_config = ConfigDict(extra="forbid")

    family: str = Field(min_length=1, max_length=MAX)
    user: str = Field(default="", max_length=100, description="user whose jobs of the family count; default: you")
    version: int | None = Field(
        ge=1, le=1 << 31, description="version to pin; null: use the newest, and make new ones when needed"
    )


@router.get("", responses=problems(422))
def predictions(
    request: Request,
    family: Annotated[str | None, Query(max_length=MAX, description="only jobs of this family")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="maximum number of `items`")] = 50,
    window: Annotated[int | None, Window] = None,
) -> PredictionsOut:
    """Return the newest predictions of run times and metrics.

    Each was made at the submission of a job, and is shown with the actual value. The response also says how often the
    intervals held, for the newest `window` predictions, or all of at most 10,000."""
    with cluster_of(request).db.read() as db:
        found, items = lengths.calibration(db, family, window), lengths.predictions(db, family, limit)
        compared, held = metric_predictions.held(db, family, window)
        reached = metric_predictions.predictions(db, family, limit)
    metrics = MetricPredictionsOut(
        compared=compared, held=held, items=[MetricPredictionOut.of(each) for each in reached]
    )
    return PredictionsOut(**found._asdict(), items=[LengthPredictionOut.of(each) for each in items], metrics=metrics)


@router.get("/families", responses=problems(403, 422))
def families(
    request: Request,
    window: Annotated[int, Window] = 100,
    limit: Annotated[int, Query(ge=1, le=1000, description="maximum number of `items`")] = 100,
    user: Annotated[str, Whose] = "",
) -> CalibrationsOut:
    """Return the recent prediction errors of each family.

    They are for the jobs of a user or their group. The model version in use is included."""
    with cluster_of(request).db.read() as db:
        owner = _owner(db, request, user)
        found = [
            FamilyCalibrationOut.shown(family, each, versions.in_use(db, Kin(family, owner)))
            for family, each in lengths.calibrations(db, owner, window, limit)
        ]
        metrics = metric_predictions.calibrations(db, owner, window, limit)
    return CalibrationsOut(items=found, metrics=[MetricCalibrationOut(**each._asdict()) for each in metrics])


@router.get("/versions", responses=problems(403, 422))
def model_versions(
    request: Request,
    family: Annotated[str, Query(min_length=1, max_length=MAX)],
    user: Annotated[str, Whose] = "",
) -> ModelVersionsOut:
    """Return the model versions of a family.

    They belong to the jobs of a user or their group. A new version begins when predictions become worse."""
    with cluster_of(request).db.read() as db:
        return _versions(db, Kin(family, _owner(db, request, user)))


@router.put("/versions", responses=problems(403, 404, 409, 422))
def use_version(request: Request, body: VersionIn) -> ModelVersionsOut:
    """Pin a model version of a family; null unpins it.

    Predictions and advice then use only the jobs of this version, and no new version is made."""
    cluster = cluster_of(request)
    now = cluster.service.clock()

    def change(db: Connection) -> ModelVersionsOut:
        kin = Kin(body.family, _owner(db, request, body.user))
        if body.version is None:
            versions.unpin(db, kin, now)
        else:
            versions.pin(db, kin, body.version, now)
        return _versions(db, kin)

    answer = cluster.db.write(change)
    cluster.profiles.relearn(body.family)
    return answer


def _owner(db: Connection, request: Request, user: str) -> str:
    """Return the owner whose jobs count.

    Raises ForbiddenError for another user, except for admins."""
    actor = actor_of(request)
    if user and user != actor.name and not actor.is_admin:
        raise ForbiddenError(f"only {user} and admins may see predictions from these jobs", field="user")
    return owner_of(db, user or actor.name)


def _versions(db: Connection, kin: Kin) -> ModelVersionsOut:
    found = versions.versions(db, kin)
    return ModelVersionsOut(
        family=kin.family, items=[ModelVersionOut.of(each, versions.samples_in(db, each)) for each in found]
    )
