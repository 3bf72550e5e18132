"""Routes for named tokens. Admins see and revoke all, others their own."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import Answer, AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.requests import RowId
from schedulearn.api.state import actor_of, cluster_of, credentials_of
from schedulearn.scheduler.core.people import Actor, Role, least
from schedulearn.scheduler.errors import ForbiddenError, InvalidError, NotFoundError
from schedulearn.scheduler.store.people import accounts
from schedulearn.scheduler.store.people import tokens as store
from schedulearn.scheduler.store.people.tokens import Token

router = APIRouter(prefix="/api/v1", tags=["people"])

Days = Annotated[float, Field(gt=0, le=3660)]


DEFAULT_DAYS = 90


class TokenIn(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, allow_inf_nan=False)

    name: str = Field(min_length=1, max_length=100, description="display name, such as its owner or purpose")
    user: str | None = Field(
        default=None, max_length=100, description="owner of the token; only for admins; default: you"
    )
    role: Role | None = Field(
        default=None, description="maximum role of the token; default: the owner's, but `admin` only on request"
    )
    expires_in_days: Days | None = Field(default=DEFAULT_DAYS, description="days until it expires; null: never")

    @field_validator("name")
    @classmethod
    def _shown(cls, name: str) -> str:
        if not name.isprintable():
            raise ValueError("must be text that can be shown, in one line")
        return name


class TokenOut(AnswerModel):
    id: int
    name: str
    owner: str
    role: Role = Field(description="maximum role of the token; its owner's role also limits it")
    created_at: At
    expires_at: At | None = Field(description="time at which it expires; null: never")
    last_used_at: At | None = Field(description="time of the last use, to the minute; null: never")


class NewToken(TokenOut):
    token: str = Field(description="value to send as `Authorization: Bearer TOKEN`; it is never shown again")
    certificate: str | None = Field(
        description="fingerprint for SCHEDULEARN_CA; null: a public authority signed the certificate, or there is no "
        "TLS"
    )


class TokenList(AnswerModel):
    required: bool = Field(
        description="whether a token is required; false: the account that runs the service needs none on loopback"
    )
    items: list[TokenOut]


@router.get("/tokens")
@needs(Access.USER)
def list_tokens(request: Request) -> TokenList:
    """Return named tokens, without their values: only hashes are stored."""
    actor, own = actor_of(request), credentials_of(request).own
    with cluster_of(request).db.read() as db:
        items = [TokenOut.model_validate(_values(row, own)) for row in store.list_tokens(db)]
    mine = [item for item in items if actor.is_admin or item.owner == actor.name]
    return TokenList(required=request.app.state.token_required, items=mine)


@router.post("/tokens", status_code=201, response_model=NewToken, responses=problems(403, 404, 409, 422))
@needs(Access.USER)
def create_token(request: Request, body: TokenIn) -> Response:
    """Create a token for yourself, or as an admin for another user.

    It never has more rights, or a later end, than the token that creates it. It is revoked together with that token.
    Only this response shows it."""
    actor, credentials, db = actor_of(request), credentials_of(request), cluster_of(request).db
    owner = body.user or actor.name
    role = _role_for(request, actor, owner, body.role)
    ends = None if body.expires_in_days is None else time.time() + body.expires_in_days * 86400
    if actor.tokens_end_at is not None:
        ends = min(ends or actor.tokens_end_at, actor.tokens_end_at)

    def answer(row: Token, token: str) -> Response:
        return Answer(shown_token(request, row, token), 201, headers={"cache-control": "no-store"})

    return credentials.create_token(db, body.name, answer, maker=actor, owner=owner, role=role, expires_at=ends)


@router.delete("/tokens/{token_id}", status_code=204, responses=problems(403, 404))
@needs(Access.VIEWER)
def revoke_token(request: Request, token_id: RowId) -> Response:
    """Revoke a token and all tokens made with it.

    Their open streams and sessions end. A viewer may revoke only the token that sends the request."""
    actor, credentials, db = actor_of(request), credentials_of(request), cluster_of(request).db
    with db.read() as conn:
        found = next((token for token in store.list_tokens(conn) if token.id == token_id), None)
    if found is None or not (actor.may_change(found.owner or credentials.own) or found.id == actor.token_id):
        raise NotFoundError(f"there is no token {token_id}")
    credentials.change(db, lambda conn: store.remove_token(conn, token_id, time.time()))
    return Response(status_code=204)


def shown_token(request: Request, row: Token, token: str) -> NewToken:
    """Return the response that shows a new token, the only time."""
    trust = request.app.state.fingerprint
    return NewToken.model_validate({**_values(row, credentials_of(request).own), "token": token, "certificate": trust})


def _role_for(request: Request, maker: Actor, owner: str, asked: Role | None) -> Role:
    """Return the role of a new token: the one asked for, else at most `user`.

    Raises ForbiddenError or InvalidError for more than its owner or maker may, NotFoundError for an unknown owner."""
    credentials = credentials_of(request)
    if owner == credentials.own and maker.is_admin:
        most = Role.ADMIN
    elif owner == maker.name:
        most = maker.role
    elif not maker.is_admin:
        raise ForbiddenError(f"{maker.name} may make tokens only for {maker.name}", field="user")
    else:
        with cluster_of(request).db.read() as db:
            most = accounts.get_account(db, owner).role
    if asked is not None and not most.includes(asked):
        raise InvalidError(f"{owner} is {most} here, so a token can't be {asked}", field="role")
    return asked or least(most, Role.USER)


def _values(row: Token, own: str) -> dict[str, object]:
    return {**row._asdict(), "owner": row.owner or own}
