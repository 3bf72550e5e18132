"""Routes for logins of command lines.

A command line asks, a signed-in user approves on the page, and the command line takes the token."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator
from sqlalchemy.engine import Connection
from starlette.responses import Response

from schedulearn.api.access.logins import Approval, LoginRequest, LoginState
from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import Answer, AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.state import actor_of, cluster_of, credentials_of, grant_of
from schedulearn.features.accounts.routes.tokens import DEFAULT_DAYS, NewToken, shown_token
from schedulearn.scheduler.core.people import Actor, Role, least
from schedulearn.scheduler.errors import ConflictError, InvalidError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.people import tokens as store
from schedulearn.scheduler.store.people.acting import ACTOR, ADDRESS
from schedulearn.scheduler.store.people.tokens import Token

router = APIRouter(prefix="/api/v1", tags=["people"])

MAX_TOKENS = 100
"""Tokens of one owner, above which no login makes another."""
_POLL_S = 2.0
_MAX_BODY = 4096  # bytes: anybody may send one
Code = Annotated[str, StringConstraints(min_length=1, max_length=40)]


class LoginIn(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    host: str = Field(default="", max_length=60, description="name of the machine that asks")
    account: str = Field(default="", max_length=60, description="account on that machine")
    role: Role | None = Field(
        default=None,
        description="maximum role of the token; default: the approver's. `admin` only if the approver chooses it",
    )

    @field_validator("host", "account")
    @classmethod
    def _shown(cls, name: str) -> str:
        if not name.isprintable():
            raise ValueError("must be text that can be shown, in one line")
        return name


class LoginOut(AnswerModel):
    code: str = Field(description="code that the page shows too; both must be equal")
    secret: str = Field(description="value that gets the token; only the command line has it")
    path: str = Field(description="path of the page that approves the login")
    expires_in: float = Field(description="seconds until the login ends")
    interval: float = Field(description="seconds between two questions for the token")


class LoginSecretIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    secret: str = Field(max_length=200)


class LoginAnswer(AnswerModel):
    state: LoginState
    token: NewToken | None = Field(description="the token, once; null unless the login was approved")


class AskedLogin(AnswerModel):
    code: str
    state: LoginState
    host: str = Field(description="name of the machine, as it says itself")
    account: str = Field(description="account on the machine, as it says itself")
    address: str = Field(description="address from which the request came")
    asked_at: At
    expires_in: float = Field(description="seconds until the login ends")
    role: Role = Field(
        description="role that the token gets by default: the one asked for, at most your own, not admin"
    )
    roles: list[Role] = Field(description="roles that you may give, lowest first")


class ApprovalIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    role: Role | None = Field(default=None, description="maximum role of the token; default: as shown")


@router.post(
    "/logins", status_code=201, response_model=LoginOut, responses=problems(413, 422, 429), max_body_size=_MAX_BODY
)
@needs(Access.NOTHING)
def ask_for_login(request: Request, body: LoginIn) -> Response:
    """Ask for a token. A signed-in user approves it on the page within ten minutes."""
    logins = credentials_of(request).logins
    found, secret = logins.ask(body.host, body.account, ADDRESS.get(), body.role)
    path = f"/ui/login?code={found.code}"
    left = logins.seconds_left(found)
    made = LoginOut(code=found.code, secret=secret, path=path, expires_in=left, interval=_POLL_S)
    return Answer(made, 201, headers={"cache-control": "no-store"})


@router.post(
    "/logins/token", response_model=LoginAnswer, responses=problems(404, 409, 413, 422), max_body_size=_MAX_BODY
)
@needs(Access.NOTHING)
def take_token(request: Request, body: LoginSecretIn) -> Response:
    """Return the token of an approved login, once, or the state of the login."""
    logins = credentials_of(request).logins
    found = logins.take(body.secret)
    if found.approval is None:
        return _answer(found.state, None)
    if not found.approval.holds():
        return _answer(LoginState.REFUSED, None)
    try:
        return _create_token(request, found, found.approval)
    except BaseException:
        logins.put_back(body.secret, found)
        raise


@router.get("/logins/{code}", responses=problems(404, 429))
@needs(Access.VIEWER)
def show_login(request: Request, code: Code) -> AskedLogin:
    """Return who asks for a token."""
    return _shown(request, credentials_of(request).logins.find(actor_of(request), code))


@router.post("/logins/{code}/approve", response_model=AskedLogin, responses=problems(404, 409, 422, 429))
@needs(Access.VIEWER)
def approve_login(request: Request, code: Code, body: ApprovalIn) -> Response:
    """Approve a login. Its token is yours, with at most your role."""
    actor, credentials, grant = actor_of(request), credentials_of(request), grant_of(request)
    found = credentials.logins.find(actor, code)
    role = body.role or _usual_role(actor, found)
    if not actor.role.includes(role):
        raise InvalidError(f"{actor.name} is {actor.role} here, so a token can't be {role}", field="role")
    approval = Approval(actor, role, lambda: grant is None or credentials.holds(grant))
    return Answer(_decide(request, code, approval))


@router.post("/logins/{code}/refuse", response_model=AskedLogin, responses=problems(404, 409, 429))
@needs(Access.VIEWER)
def refuse_login(request: Request, code: Code) -> Response:
    """Refuse a login."""
    return Answer(_decide(request, code, None))


def _decide(request: Request, code: str, approval: Approval | None) -> AskedLogin:
    actor, logins = actor_of(request), credentials_of(request).logins

    def change(conn: Connection) -> LoginRequest:
        found = logins.decide(actor, code, approval)
        what = "denied" if approval is None else f"approved, with the role {approval.role}"
        message = f"The login of {found.account or 'somebody'} at {found.host or found.address} was {what}."
        kind = "login.denied" if approval is None else "login.approved"
        repository.add_event(conn, time.time(), kind, message=message)
        return found

    return _shown(request, cluster_of(request).db.write(change))


def _create_token(request: Request, found: LoginRequest, approval: Approval) -> Response:
    credentials, db, actor = credentials_of(request), cluster_of(request).db, approval.actor
    with db.read() as conn:
        own = sum((token.owner or credentials.own) == actor.name for token in store.list_tokens(conn))
    if own >= MAX_TOKENS:
        raise ConflictError(f"{actor.name} has {own} tokens: revoke those that are not in use")
    ends = time.time() + DEFAULT_DAYS * 86400
    ends = min(ends, actor.tokens_end_at) if actor.tokens_end_at is not None else ends

    def answer(row: Token, token: str) -> Response:
        return _answer(found.state, shown_token(request, row, token))

    name = f"{found.account or actor.name}@{found.host or found.address} {found.code}"
    acting = ACTOR.set(actor.name)
    try:
        return credentials.create_token(
            db, name[:100], answer, maker=actor, owner=actor.name, role=approval.role, expires_at=ends
        )
    finally:
        ACTOR.reset(acting)


def _answer(state: LoginState, token: NewToken | None) -> Response:
    return Answer(LoginAnswer(state=state, token=token), headers={"cache-control": "no-store"})


def _usual_role(actor: Actor, found: LoginRequest) -> Role:
    """Return the role where the approver chooses none. It is never admin, for anybody may ask for that."""
    return least(least(found.role or Role.USER, actor.role), Role.USER)


def _shown(request: Request, found: LoginRequest) -> AskedLogin:
    actor, most = actor_of(request), actor_of(request).role
    asked = found.approval.role if found.approval is not None else _usual_role(actor, found)
    roles = [role for role in (Role.VIEWER, Role.USER, Role.ADMIN) if most.includes(role)]
    left = credentials_of(request).logins.seconds_left(found)
    return AskedLogin.model_validate({**vars(found), "expires_in": left, "role": asked, "roles": roles})
