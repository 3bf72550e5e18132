"""Routes for user accounts and `whoami`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from sqlalchemy.engine import Connection
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, Permission, needs, refused_to
from schedulearn.api.access.sign_in import MAX_ISSUER, MAX_SUBJECT
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
from schedulearn.scheduler.store.people import accounts, identities
from schedulearn.scheduler.store.people.accounts import Account
from schedulearn.scheduler.store.people.visibility import SEES_ONLY

router = APIRouter(prefix="/api/v1", tags=["people"])

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]*$"
UserName = Annotated[str, Path(min_length=1, max_length=100)]
HostId = Annotated[int, Field(strict=True, ge=1, le=HIGHEST_ID), BeforeValidator(whole)]
"""ID of a user or group on the hosts. 0 is excluded: it is root's."""


class Ids(BaseModel):
    """User and group IDs with which the jobs write on hosts."""

    model_config = ConfigDict(extra="forbid")

    uid: HostId | None = Field(
        default=None,
        description="user ID with which the user's jobs write folders of hosts; null: they write none",
    )
    gid: HostId | None = Field(default=None, description="group ID; requires `uid`")
    gids: list[HostId] = Field(default_factory=list, max_length=64, description="additional group IDs")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.uid is None) != (self.gid is None) or (self.gids and self.uid is None):
            raise ValueError("uid, gid and gids belong together: give all of them, or none")
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
    name: str = Field(
        min_length=1, max_length=100, pattern=_NAME, description="user name, which the user's jobs have as `user`"
    )
    role: Role = Role.USER


class UserChange(Ids):
    """Changes of a user. Missing keys stay the same.

    `uid`, `gid` and `gids` are changed together."""

    role: Role | None = None
    disabled: bool | None = Field(
        default=None, description="true: no token, session or sign-in of the user works, until it is false again"
    )


class IdentityIn(BaseModel):
    """Person at a provider."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    issuer: str = Field(
        min_length=1, max_length=MAX_ISSUER, description="URL of the OpenID Connect provider; `proxy`: a trusted proxy"
    )
    subject: str = Field(
        min_length=1, max_length=MAX_SUBJECT, description="the person's `sub` at the provider, or name at the proxy"
    )


class IdentityOut(AnswerModel):
    issuer: str
    subject: str
    signed_in_at: At | None = Field(description="time of the last sign-in; null: never")


class UserOut(AnswerModel):
    id: int = Field(
        description="ID of the account, which is never used again, not even for a new user of the same name"
    )
    name: str
    role: Role
    created_at: At
    uid: int | None = Field(
        description="user ID with which the user's jobs write folders of hosts; null: they write none"
    )
    gid: int | None
    gids: list[int]
    disabled_by: Literal["admin", "rules"] | None = Field(
        description="`admin`: an admin disabled the account; `rules`: no rule lets the person sign in any more; null: "
        "it is enabled"
    )
    identities: list[IdentityOut] = Field(description="persons at a provider or proxy who sign in as this user")


class UserList(AnswerModel):
    items: list[UserOut]


class WhoAmI(AnswerModel):
    name: str
    role: Role
    sees_all_jobs: bool = Field(description="false: you only see your own jobs, by the setting hide_jobs")
    token_id: int | None = Field(
        description="ID of your token; null: you signed in by a provider or proxy, or are the account that runs the "
        "service"
    )
    expires_at: At | None = Field(description="time at which your token or session expires; null: never")
    signed_in: bool = Field(description="true: by a session that a provider or proxy vouches for")
    logged_in: bool = Field(description="true: by a token or session; false: by your account on this machine")
    refused: dict[Permission, str] = Field(
        description="permissions that you lack, with the reason; you have all others"
    )
    quota: QuotaOut | None = Field(description="your quota and current use; null: no limit")
    group: GroupOut | None = Field(description="your group with its quota and current use; null: you are in no group")


@router.get("/whoami")
def who_am_i(request: Request) -> WhoAmI:
    """Return your user name, role and quota."""
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
@needs(Access.ADMIN)
def list_users(request: Request) -> UserList:
    """Return all users.

    The account that runs the service is always an admin, and is not listed."""
    with cluster_of(request).db.read() as db:
        found = identities.identities_by_account(db)
        return UserList(items=[_shown(each, found.get(each.id, ())) for each in accounts.list_accounts(db)])


@router.post("/users", status_code=201, response_model=UserOut, responses=problems(409, 422))
def add_user(request: Request, body: UserIn) -> Response:
    """Add a user: a person or program with a role.

    The user needs a token to log in. Jobs with this name as `user` belong to the user."""
    credentials, now = credentials_of(request), time.time()
    if body.name == credentials.own:
        raise ConflictError(f"{body.name} runs this service, and is its admin already", field="name")
    ids, writable = body.run_as(body.name), cluster_of(request).settings.writable_data_sets

    def change(conn: Connection) -> Response:
        account = accounts.add_account(conn, body.name, body.role, now)
        return _answer(conn, account if ids is None else set_ids(conn, body.name, ids, writable, now), 201)

    return credentials.change(cluster_of(request).db, change)


@router.patch("/users/{name}", response_model=UserOut, responses=problems(404, 409, 422))
def change_user(request: Request, name: UserName, body: UserChange) -> Response:
    """Change a user's role, or the IDs of the user's jobs on hosts.

    The role, and whether the user is disabled, take effect at once for all tokens and sessions. The IDs are used by
    tasks that start later. An ID can't be changed while a job runs with it (409)."""
    now, ids, writable = time.time(), body.run_as(name), cluster_of(request).settings.writable_data_sets

    def change(conn: Connection) -> Response:
        account = accounts.get_account(conn, name)
        if body.role is not None:
            account = accounts.set_role(conn, name, body.role, now)
        if body.disabled is not None:
            account = accounts.set_disabled(conn, name, "admin" if body.disabled else None, now)
        if body.model_fields_set & Ids.model_fields.keys():
            account = set_ids(conn, name, ids, writable, now)
        return _answer(conn, account)

    return credentials_of(request).change(cluster_of(request).db, change)


@router.put("/users/{name}/identities", response_model=UserOut, responses=problems(404, 409, 422))
def link_user(request: Request, name: UserName, body: IdentityIn) -> Response:
    """Let a person at a provider sign in as this user.

    The rules of sign-in then decide the user's role. Repeating it changes nothing."""
    now = time.time()

    def change(conn: Connection) -> Response:
        identities.link(conn, name, body.issuer, body.subject, now)
        return _answer(conn, accounts.get_account(conn, name))

    return credentials_of(request).change(cluster_of(request).db, change)


@router.delete("/users/{name}/identities", status_code=204, responses=problems(404))
def unlink_user(request: Request, name: UserName) -> Response:
    """Remove all identities of a user, and end the sessions that they began. Tokens stay."""
    now = time.time()
    credentials_of(request).change(cluster_of(request).db, lambda conn: identities.unlink(conn, name, now))
    return Response(status_code=204)


@router.delete("/users/{name}", status_code=204, responses=problems(404, 409, 422))
def remove_user(
    request: Request,
    name: UserName,
    jobs: Annotated[OfJobs | None, Query(description="treatment of unfinished jobs and sweeps")] = None,
    secrets: Annotated[
        OfThings | None, Query(description="treatment of secrets; kept ones serve jobs that continue")
    ] = None,
    data: Annotated[
        OfThings | None, Query(description="treatment of data sets and models; admins may change kept ones")
    ] = None,
) -> Response:
    """Remove a user with all tokens, sessions and streams.

    Objects that are kept then belong to NAME~ID, so that a new user of the same name does not get them. 409 lists
    objects for which the request has no choice."""
    now, cluster = time.time(), cluster_of(request)

    def change(conn: Connection) -> None:
        remove_person(conn, name, jobs, secrets, data, now)

    quotas_of(request).change(change)
    credentials_of(request).open(cluster.db)
    cluster.service.wake()
    return Response(status_code=204)


def _answer(conn: Connection, account: Account, status: int = 200) -> Response:
    found = identities.identities_by_account(conn).get(account.id, ())
    return Answer(_shown(account, found), status)


def _shown(account: Account, found: Sequence[identities.LinkedPerson]) -> UserOut:
    return UserOut.model_validate({**account._asdict(), "identities": found})
