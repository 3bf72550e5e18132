"""Routes for quotas of users."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import Answer, AnswerModel
from schedulearn.api.answers.problem import problems
from schedulearn.api.state import cluster_of, quotas_of
from schedulearn.scheduler.core.planning.quotas import EVERYBODY, Quota, QuotaHolder
from schedulearn.scheduler.core.task import GIB
from schedulearn.scheduler.specs.texts import whole
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.people import quotas as store
from schedulearn.scheduler.store.people.quota_book import used_hours
from schedulearn.scheduler.store.people.visibility import seeing_all

router = APIRouter(prefix="/api/v1", tags=["people"])

_MAX = 10**9
Bound = Annotated[int, Field(ge=0, le=_MAX), BeforeValidator(whole)] | None
Duration = Annotated[float, Field(gt=0, le=3.2e8)] | None
UserName = Annotated[
    str, Path(min_length=1, max_length=100, description="user; `*`: default for users without their own quota")
]


class BoundsIn(BaseModel):
    """Limits of a user or group. A missing value means no limit."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)

    gpus: Bound = Field(default=None, description="maximum GPUs held at once")
    gpu_hours: float | None = Field(default=None, ge=0, le=_MAX, description="maximum GPU-hours within seven days")
    waiting: Bound = Field(default=None, description="maximum jobs that have not started")
    submissions: Bound = Field(default=None, description="maximum jobs submitted within a minute")
    cpu_jobs: Bound = Field(default=None, description="maximum jobs without GPUs that run at once")
    cpus: float | None = Field(
        default=None, ge=0, le=_MAX, description="maximum processors requested by running jobs without GPUs together"
    )
    memory_gib: float | None = Field(
        default=None,
        ge=0,
        le=_MAX,
        description="maximum GiB of memory requested by running jobs without GPUs together",
    )
    priority: Annotated[int, Field(ge=0, le=100), BeforeValidator(whole)] | None = Field(
        default=None, description="highest priority of a job"
    )
    max_duration: Duration = Field(default=None, description="maximum `max_duration` of a job, in seconds")
    default_duration: Duration = Field(
        default=None, description="`max_duration` of jobs that state none, in seconds; at most the maximum"
    )


class QuotaIn(BoundsIn):
    """Limits of a user. A missing value means no limit."""

    weight: float = Field(
        default=1.0, ge=0.001, le=1000, description="weight against other users, with the setting fair_share"
    )


class QuotaUse(AnswerModel):
    gpus: int
    gpu_hours: float
    waiting: int
    cpu_jobs: int
    cpus: float
    memory_gib: float


class QuotaOut(AnswerModel):
    user: str = Field(description="user; `*`: default for users without their own quota")
    gpus: int | None
    gpu_hours: float | None
    waiting: int | None
    submissions: int | None
    cpu_jobs: int | None
    cpus: float | None
    memory_gib: float | None
    priority: int | None
    max_duration: float | None
    default_duration: float | None
    weight: float
    used: QuotaUse | None = Field(description="current use; null for `*`")


class QuotaList(AnswerModel):
    items: list[QuotaOut]


@router.get("/quotas")
@needs(Access.ADMIN)
def list_quotas(request: Request) -> QuotaList:
    """Return all quotas with the current use of each user."""
    with cluster_of(request).db.read() as db:
        users = list(store.load_quotas(db))
    return QuotaList(items=quotas_shown(request, users))


@router.put("/quotas/{name}", response_model=QuotaOut, responses=problems(422))
def set_quota(request: Request, name: UserName, body: QuotaIn) -> Response:
    """Set a quota. It takes effect at the next submission and decision.

    Running jobs are not stopped because of it."""
    quota, now = Quota(**body.model_dump()), time.time()
    made = Answer(QuotaOut(user=name, used=None, **asdict(quota)))
    quotas_of(request).change(lambda conn: store.set_quota(conn, name, quota, now))
    cluster_of(request).loop.wake()
    return made


@router.delete("/quotas/{name}", status_code=204, responses=problems(404))
def remove_quota(request: Request, name: UserName) -> Response:
    """Delete a user's quota. The quota of `*` then applies."""
    now = time.time()
    quotas_of(request).change(lambda conn: store.remove_quota(conn, name, now))
    cluster_of(request).loop.wake()
    return Response(status_code=204)


def quotas_shown(request: Request, users: Sequence[str]) -> list[QuotaOut]:
    """Return the quotas of these users, with their current use."""
    book = quotas_of(request)
    uses = uses_of(request, [QuotaHolder(user) for user in users if user != EVERYBODY])
    return [QuotaOut(user=user, used=uses.get(QuotaHolder(user)), **asdict(book.of(user))) for user in users]


def uses_of(request: Request, holders: Sequence[QuotaHolder]) -> dict[QuotaHolder, QuotaUse]:
    """Return what each holder currently uses of the bounded resources."""
    with seeing_all(), cluster_of(request).db.read() as db:
        quotas = replace(quotas_of(request).in_force, used_hours=used_hours(db, time.time()))
        held = quotas.by_holder(repository.held_gpus(db))
        without_gpus = store.cpu_use_of(db, quotas)
        return {
            holder: QuotaUse(
                gpus=held[holder],
                gpu_hours=quotas.hours_of(holder),
                waiting=store.count_waiting(db, holder),
                cpu_jobs=int(without_gpus[holder].jobs),
                cpus=without_gpus[holder].cpus,
                memory_gib=without_gpus[holder].memory / GIB,
            )
            for holder in holders
        }
