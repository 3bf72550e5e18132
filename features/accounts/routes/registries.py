"""Routes for logins to registries; passwords are never returned."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import Answer, AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.state import actor_of, cluster_of
from schedulearn.features.accounts.routes.groups import GROUP_NAME
from schedulearn.scheduler.core.people import Actor
from schedulearn.scheduler.core.registries import registry_named, registry_of
from schedulearn.scheduler.errors import ConflictError, ForbiddenError, InvalidError
from schedulearn.scheduler.hosts.registry_check import check_login
from schedulearn.scheduler.runtimes.contract import RegistryLogin
from schedulearn.scheduler.store.people.registry_logins import Holder

router = APIRouter(prefix="/api/v1", tags=["people"])

RegistryName = Annotated[
    str,
    Path(
        min_length=1, max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9.:-]*$",
        description="host of the registry as in names of images, with its port if it has one; `docker.io`: Docker Hub",
    ),
]  # fmt: skip
OfGroup = Annotated[
    str | None,
    Query(min_length=1, max_length=100, pattern=GROUP_NAME, description="login of this group; only for admins"),
]
Shared = Annotated[bool, Query(description="login for the jobs of all users; only for admins")]
_FORM = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?")
_asking: set[str] = set()
_lock = threading.Lock()


class RegistryLoginIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    username: str = Field(min_length=1, max_length=255, pattern=r"^[^\x00]*$")
    password: str = Field(
        min_length=4, max_length=16_384, pattern=r"^[^\x00]*$",
        description="password or access token, which is never shown again",
    )  # fmt: skip


class RegistryLoginOut(AnswerModel):
    registry: str = Field(validation_alias="host")
    user: str = Field(description="user whose jobs use it; empty: not of one user")
    group: str = Field(description="group whose users' jobs use it; empty: not of a group. Without both: all users")
    username: str
    created_at: At
    changed_at: At


class RegistryLoginList(AnswerModel):
    items: list[RegistryLoginOut]


class RegistryLoginSet(AnswerModel):
    registry: str
    user: str
    group: str
    checked: bool = Field(description="whether the registry accepted the login; false: it could not be asked")
    message: str


@router.get("/registries")
@needs(Access.USER)
def list_registry_logins(request: Request) -> RegistryLoginList:
    """Return the registry logins that your jobs may use, without passwords.

    Admins see all of them."""
    actor = actor_of(request)
    found = cluster_of(request).registry_logins.list_for(None if actor.is_admin else actor.name)
    return RegistryLoginList(items=[RegistryLoginOut.model_validate(login) for login in found])


@router.put("/registries/{name}", response_model=RegistryLoginSet, responses=problems(403, 404, 409, 422))
@needs(Access.USER)
def set_registry_login(
    request: Request, name: RegistryName, body: RegistryLoginIn, group: OfGroup = None, shared: Shared = False
) -> Response:
    """Create or change a login to a registry, with which hosts pull the images of jobs.

    A host asks the registry first: if it refuses the login, nothing is stored."""
    cluster, actor = cluster_of(request), actor_of(request)
    holder = _holder(actor, group, shared)
    if ":" in body.username or not body.username.isprintable():
        raise InvalidError("a username has no colon and no control characters: check it", field="username")
    login = RegistryLogin(_named(name), body.username, body.password)
    with _one_at_a_time(actor.name):
        check = check_login(cluster.agents, login)
    answer = Answer(
        RegistryLoginSet(
            registry=login.registry, user=holder.user, group=holder.group, checked=check.accepted, message=check.message
        )
    )
    cluster.registry_logins.put(holder, login, time.time())
    return answer


@router.delete("/registries/{name}", status_code=204, responses=problems(403, 404))
@needs(Access.USER)
def remove_registry_login(
    request: Request, name: RegistryName, group: OfGroup = None, shared: Shared = False
) -> Response:
    """Remove a login to a registry. Images that were pulled with it need another login from now on."""
    holder = _holder(actor_of(request), group, shared)
    cluster_of(request).registry_logins.remove(holder, registry_named(name), time.time())
    return Response(status_code=204)


def _holder(actor: Actor, group: str | None, shared: bool) -> Holder:
    if (group is not None or shared) and not actor.is_admin:
        field = "group" if group is not None else "shared"
        raise ForbiddenError("only admins can set or remove registry logins of groups and of all users", field=field)
    if group is not None and shared:
        raise InvalidError("a login is of a group or of all users, not both: name one of them", field="group")
    return Holder(group=group) if group is not None else Holder() if shared else Holder(user=actor.name)


def _named(name: str) -> str:
    registry = registry_named(name)
    if not _FORM.fullmatch(registry) or registry_of(f"{registry}/image") != registry:
        raise InvalidError(
            f"no image can be of the registry {registry!r}: write it as in names of images, e.g. registry.lab:5000",
            field="name",
        )
    return registry


@contextmanager
def _one_at_a_time(user: str) -> Iterator[None]:
    """Let each user ask one registry at a time: a slow one holds a thread of the service meanwhile."""
    with _lock:
        if user in _asking:
            raise ConflictError("another registry login of yours is being checked: try again when that has ended")
        _asking.add(user)
    try:
        yield
    finally:
        with _lock:
            _asking.discard(user)
