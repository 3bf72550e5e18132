"""Routes for secrets; values are never returned."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import Answer, AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.state import actor_of, cluster_of
from schedulearn.scheduler.core.people import Actor
from schedulearn.scheduler.errors import ForbiddenError
from schedulearn.scheduler.runtimes.log_masking import SHORTEST
from schedulearn.scheduler.store.people.secrets import SHARED

router = APIRouter(prefix="/api/v1", tags=["people"])

SecretName = Annotated[str, Path(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Shared = Annotated[bool, Query(description="secret for the jobs of all users; only for admins")]


class SecretIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    value: str = Field(
        min_length=SHORTEST, max_length=16_384, pattern=r"^[^\x00]*$", description="value, which is never shown again"
    )


class SecretOut(AnswerModel):
    name: str
    owner: str = Field(description="user whose jobs may use it; empty: all users")
    created_at: At
    changed_at: At


class SecretSet(AnswerModel):
    name: str
    owner: str


class SecretList(AnswerModel):
    items: list[SecretOut]


@router.get("/secrets")
@needs(Access.USER)
def list_secrets(request: Request) -> SecretList:
    """Return the names of secrets that your jobs may use.

    Admins see all names. Values are never returned."""
    actor = actor_of(request)
    found = cluster_of(request).secrets.list_for(None if actor.is_admin else actor.name)
    return SecretList(items=[SecretOut.model_validate(secret) for secret in found])


@router.put("/secrets/{name}", response_model=SecretSet, responses=problems(403, 422))
@needs(Access.USER)
def set_secret(request: Request, name: SecretName, body: SecretIn, shared: Shared = False) -> Response:
    """Create or change a secret. Jobs that start later get its value."""
    owner = _owner(actor_of(request), shared)
    answer = Answer(SecretSet(name=name, owner=owner))
    cluster_of(request).secrets.put(owner, name, body.value, time.time())
    return answer


@router.delete("/secrets/{name}", status_code=204, responses=problems(403, 404))
@needs(Access.USER)
def remove_secret(request: Request, name: SecretName, shared: Shared = False) -> Response:
    """Delete a secret. Jobs that start later don't get it."""
    cluster_of(request).secrets.remove(_owner(actor_of(request), shared), name, time.time())
    return Response(status_code=204)


def _owner(actor: Actor, shared: bool) -> str:
    if shared and not actor.is_admin:
        raise ForbiddenError("only admins can set or remove secrets of all users", field="shared")
    return SHARED if shared else actor.name
