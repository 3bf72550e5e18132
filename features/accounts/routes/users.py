"""Routes for user accounts and `whoami`."""

from __future__ import annotations

import os
import time
from typing import Annotated, Self

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from sqlalchemy.engine import Connection
from starlette.responses import Response

from schedulearn.api.access.permissions import Need, Permission, needs, refused_to
from schedulearn.api.answers.model import Answer, AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.state import actor_of, cluster_of, credentials_of, grant_of, quotas_of
from schedulearn.features.accounts.routes.groups import GroupOut, groups_shown
from schedulearn.features.accounts.routes.quotas import QuotaOut, quotas_shown
from schedulearn.scheduler.control.people import OfJobs, OfThings, remove_person, set_ids
from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.core.planning.quotas import NO_QUOTA
from schedulearn.scheduler.core.task import HIGHEST_ID, RunAs
from schedulearn.scheduler.errors import ConflictError, InvalidError
from schedulearn.scheduler.specs.texts import whole
from schedulearn.scheduler.store.people import accounts
from schedulearn.scheduler.store.people.accounts import Account
from schedulearn.scheduler.store.people.visibility import SEES_ONLY

router = APIRouter(prefix="/api/v1", tags=["people"])

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]*$"
UserName = Annotated[str, Path(min_length=1, max_length=100)]
HostId = Annotated[int, Field(strict=True, ge=1, le=HIGHEST_ID), BeforeValidator(whole)]
"""ID of a user or group on the hosts. 0 is excluded: it is root's."""


class Ids(BaseModel):
    """As whom on the hosts their jobs write."""

    model_config = ConfigDict(extra="forbid")

    uid: HostId | None = Field(
        default=None,
        description="of their account on the hosts, as which their jobs write folders there; null: none do",
    )
    gid: HostId | None = Field(default=None, description="of its group; goes with `uid`")
    gids: list[HostId] = Field(default_factory=list, max_length=64, description="its further groups")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.uid is None) != (self.gid is None) or (self.gids and self.uid is None):
            raise ValueError("uid and gid go together, and gids with both: name all of them, or none")
        return self

    def run_as(self, user: str) -> RunAs | None:
        """Return the IDs for jobs of `user`; None without a uid. Raises InvalidError for the service's own uid."""
        if self.uid is None or self.gid is None:
            return None
        if self.uid == os.geteuid():
            raise InvalidError(
                f"uid {self.uid} runs this service, whose files hold everybody's secrets: {user} needs another one",
                field="uid",
            )
        return RunAs(user, self.uid, self.gid, tuple(self.gids))


class UserIn(Ids):
    name: str = Field(min_length=1, max_length=100, pattern=_NAME, description="their jobs have it as `user`")
    role: Role = Role.USER


class UserChange(Ids):
    """What is left out stays; `uid`, `gid` and `gids` are changed together."""

    role: Role | None = None


class UserOut(AnswerModel):
    id: int = Field(description="never given again, also not to a new user of the same name")
    name: str
    role: Role
    created_at: At
    uid: int | None = Field(description="as which their jobs write folders of the hosts; null: none do")
    gid: int | None
    gids: list[int]


class UserList(AnswerModel):
    items: list[UserOut]


class WhoAmI(AnswerModel):
    name: str
    role: Role
    sees_all_jobs: bool = Field(description="false: only your own, by the setting hide_jobs")
    token_id: int | None = Field(description="the token by which you are known; null: you run the service")
    expires_at: At | None = Field(description="when what you are known by ends; null: it does not by itself")
    logged_in: bool = Field(description="true: by a token or a session; false: by your account on this machine")
    refused: dict[Permission, str] = Field(description="what you may not do here, and why; you may do all else")
    quota: QuotaOut | None = Field(description="what you may have, and have; null: there is no bound")
    group: GroupOut | None = Field(description="your group: what you all may have together; null: you are in none")


@router.get("/whoami")
def who_am_i(request: Request) -> WhoAmI:
    """Who the service takes you for, and what you may have."""
    actor = actor_of(request)
    bounded = quotas_of(request).of(actor.name) is not NO_QUOTA
    quota = quotas_shown(request, [actor.name])[0] if bounded else None
    name = quotas_of(request).in_force.group_of.get(actor.name)
    group = next(iter(groups_shown(request, [name])), None) if name is not None else None
    return WhoAmI.model_validate(
        {
            **vars(actor),
            "sees_all_jobs": SEES_ONLY.get() is None,
            "logged_in": grant_of(request) is not None,
            "refused": refused_to(actor, request.app.state.rules),
            "quota": quota,
            "group": group,
        }
    )


@router.get("/users")
@needs(Need.ADMIN)
def list_users(request: Request) -> UserList:
    """All but the account that runs the service, which is always an admin."""
    with cluster_of(request).db.read() as db:
        return UserList(items=[UserOut.model_validate(each) for each in accounts.list_accounts(db)])


@router.post("/users", status_code=201, response_model=UserOut, responses=problems(409, 422))
def add_user(request: Request, body: UserIn) -> Response:
    """A person or program with a role; they need a token to be known. Jobs with their name as `user` are theirs."""
    credentials, now = credentials_of(request), time.time()
    if body.name == credentials.own:
        raise ConflictError(f"{body.name} runs this service, and is its admin already", field="name")
    ids, writable = body.run_as(body.name), cluster_of(request).settings.writable_data_sets

    def change(conn: Connection) -> Response:
        account = accounts.add_account(conn, body.name, body.role, now)
        return _answer(account if ids is None else set_ids(conn, body.name, ids, writable, now), 201)

    return credentials.change(cluster_of(request).db, change)


@router.patch("/users/{name}", response_model=UserOut, responses=problems(404, 409, 422))
def change_user(request: Request, name: UserName, body: UserChange) -> Response:
    """In force at once: the role for all their tokens and sessions, the uid for tasks that start from now on. A number
    with which a job runs stays its user's until it ends (409)."""
    now, ids, writable = time.time(), body.run_as(name), cluster_of(request).settings.writable_data_sets

    def change(conn: Connection) -> Response:
        account = accounts.get_account(conn, name)
        if body.role is not None:
            account = accounts.set_role(conn, name, body.role, now)
        if body.model_fields_set & Ids.model_fields.keys():
            account = set_ids(conn, name, ids, writable, now)
        return _answer(account)

    return credentials_of(request).change(cluster_of(request).db, change)


@router.delete("/users/{name}", status_code=204, responses=problems(404, 409, 422))
def remove_user(
    request: Request,
    name: UserName,
    jobs: Annotated[OfJobs | None, Query(description="that have not ended, and sweeps")] = None,
    secrets: Annotated[OfThings | None, Query(description="kept ones are for jobs of theirs that go on")] = None,
    data: Annotated[OfThings | None, Query(description="data sets and models; admins may change kept ones")] = None,
) -> Response:
    """Revokes their tokens, and ends their sessions and streams. What is kept belongs to NAME~ID from then on, so that
    a new user of the old name gets nothing of it. 409 says what they have of which the request says nothing."""
    now, cluster = time.time(), cluster_of(request)

    def change(conn: Connection) -> None:
        remove_person(conn, name, jobs, secrets, data, now)

    quotas_of(request).change(change)
    credentials_of(request).open(cluster.db)
    cluster.service.wake()
    return Response(status_code=204)


def _answer(account: Account, status: int = 200) -> Response:
    return Answer(UserOut.model_validate(account), status)
