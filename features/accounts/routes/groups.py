"""Routes for groups of users and their quotas."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import BeforeValidator, Field
from sqlalchemy.engine import Connection
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import Answer, AnswerModel
from schedulearn.api.answers.problem import problems
from schedulearn.api.state import cluster_of, quotas_of
from schedulearn.features.accounts.routes.quotas import BoundsIn, QuotaUse, uses_of
from schedulearn.scheduler.core.planning.guarantees import Guarantees, borrowed_now, overbooked
from schedulearn.scheduler.core.planning.quotas import Bounds, QuotaHolder
from schedulearn.scheduler.specs.texts import whole
from schedulearn.scheduler.store.people import groups as store
from schedulearn.scheduler.store.people.quotas import held_by_type
from schedulearn.scheduler.store.people.visibility import seeing_all

router = APIRouter(prefix="/api/v1", tags=["people"])

GROUP_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]*$"
GroupName = Annotated[str, Path(min_length=1, max_length=100, pattern=GROUP_NAME)]
Member = Annotated[str, Path(min_length=1, max_length=100, description="user whose jobs count for the group")]


_GPU_TYPE = r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$"
GuaranteedType = Annotated[str, Field(min_length=1, max_length=100, pattern=_GPU_TYPE)]
GuaranteedGpus = Annotated[int, Field(ge=1, le=10**9), BeforeValidator(whole)]


class GroupIn(BoundsIn):
    """Limits and guarantee of a group. A missing value means no limit, or no guarantee."""

    guarantee: dict[GuaranteedType, GuaranteedGpus] = Field(
        default_factory=dict,
        max_length=20,
        description="GPUs that the group gets back from others whenever its jobs need them, by GPU type or part of "
        "one; `any`: GPUs of any type, in addition to the others",
    )


class GroupOut(AnswerModel):
    name: str
    members: list[str]
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
    guarantee: dict[str, int] = Field(description="guaranteed GPUs by type; `any`: of any type, in addition")
    borrowed: int | None = Field(
        description="GPUs that it holds beyond its guarantee; null: no group has a guarantee, or in the response to a "
        "change"
    )
    used: QuotaUse | None = Field(description="current use of all its users together; null in the response to a change")


class GroupList(AnswerModel):
    items: list[GroupOut]
    problem: str | None = Field(
        description="how the guarantees exceed the GPUs of the cluster, as a sentence; null: they don't"
    )


@router.get("/groups")
@needs(Access.ADMIN)
def list_groups(request: Request) -> GroupList:
    """Return all groups with quotas and current use."""
    with cluster_of(request).db.read() as db:
        why = overbooked(store.load_groups(db).guarantees, store.gpus_by_type(db))
    problem = f"{why[0].upper()}{why[1:]}. Lower guarantees, or add hosts." if why is not None else None
    return GroupList(items=groups_shown(request), problem=problem)


@router.put("/groups/{name}", response_model=GroupOut, responses=problems(422))
def set_group(request: Request, name: GroupName, body: GroupIn) -> Response:
    """Create a group, or change its quota and its guarantee.

    The quota limits the group's users together; each user's own quota also applies. It takes effect at the next
    submission and the next decision. Guaranteed GPUs that the group does not use are lent to others. Guarantees that
    together exceed the cluster are refused."""
    bounds, now = Bounds(**body.model_dump(exclude={"guarantee"})), time.time()

    def change(conn: Connection) -> Response:
        store.set_group(conn, name, bounds, now, body.guarantee)
        return _answer(conn, name)

    return _changed(request, change)


@router.delete("/groups/{name}", status_code=204, responses=problems(404, 422))
def remove_group(request: Request, name: GroupName) -> Response:
    """Delete a group. Its users are then in no group."""
    now = time.time()

    def change(conn: Connection) -> Response:
        store.remove_group(conn, name, now)
        return Response(status_code=204)

    return _changed(request, change)


@router.put("/groups/{name}/members/{user}", response_model=GroupOut, responses=problems(404, 422))
def add_member(request: Request, name: GroupName, user: Member) -> Response:
    """Add a user to a group. The user leaves any other group.

    The user's usage of the last seven days then counts for this group."""
    now = time.time()

    def change(conn: Connection) -> Response:
        store.add_member(conn, name, user, now)
        return _answer(conn, name)

    return _changed(request, change)


@router.delete("/groups/{name}/members/{user}", status_code=204, responses=problems(404, 422))
def remove_member(request: Request, name: GroupName, user: Member) -> Response:
    """Remove a user from a group. The user is then in no group."""
    now = time.time()

    def change(conn: Connection) -> Response:
        store.remove_member(conn, name, user, now)
        return Response(status_code=204)

    return _changed(request, change)


def groups_shown(request: Request, names: Sequence[str] | None = None) -> list[GroupOut]:
    """Return these groups, or all, with their current use."""
    with seeing_all(), cluster_of(request).db.read() as db:
        groups = store.load_groups(db)
        held = held_by_type(db)
    shown = [name for name in groups.bounds if names is None or name in names]
    uses = uses_of(request, [QuotaHolder(name, is_group=True) for name in shown])
    return [
        _group(groups, name, uses.get(QuotaHolder(name, is_group=True)), _borrowed(groups, name, held))
        for name in shown
    ]


def _borrowed(groups: store.Groups, name: str, held: Mapping[str, Counter[str]]) -> int | None:
    """Return the GPUs that a group borrows. `held`: user -> GPU type -> number."""
    if not groups.guarantees:
        return None
    together: Counter[str] = Counter()
    for user in groups.members(name):
        together.update(held.get(user, {}))
    return borrowed_now(Guarantees(groups.guarantees), name, together)


def _group(groups: store.Groups, name: str, used: QuotaUse | None, borrowed: int | None) -> GroupOut:
    return GroupOut(
        name=name,
        members=groups.members(name),
        guarantee=dict(groups.guarantees.get(name, {})),
        borrowed=borrowed,
        used=used,
        **asdict(groups.bounds[name]),
    )


def _answer(conn: Connection, name: str) -> Response:
    return Answer(_group(store.load_groups(conn), name, None, None))


def _changed(request: Request, change: Callable[[Connection], Response]) -> Response:
    answered = quotas_of(request).change(change)
    cluster_of(request).loop.wake()
    return answered
