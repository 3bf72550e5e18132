"""Named tokens: list, create, revoke."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.responses import Response

from schedulearn.api.answers.model import Answer, AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.named_tokens import NamedTokens, TokenRow
from schedulearn.api.requests import RowId
from schedulearn.api.state import cluster_of
from schedulearn.scheduler.store import tokens as store

router = APIRouter(prefix="/api/v1", tags=["tokens"])


class TokenIn(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    name: str = Field(min_length=1, max_length=100, description="for people: whose it is, or what for")

    @field_validator("name")
    @classmethod
    def _shown(cls, name: str) -> str:
        if not name.isprintable():
            raise ValueError("must be text that can be shown, in one line")
        return name


class TokenOut(AnswerModel):
    id: int
    name: str
    created_at: At
    last_used_at: At | None = Field(description="to the minute; null: never")


class NewToken(TokenOut):
    token: str = Field(description="send it as `Authorization: Bearer TOKEN`; it is shown this once")


class TokenList(AnswerModel):
    required: bool = Field(description="false: this service listens on loopback only, and asks for no token")
    items: list[TokenOut]


@router.get("/tokens")
def list_tokens(request: Request) -> TokenList:
    """Named tokens, without the tokens themselves: only their hashes are kept."""
    with cluster_of(request).db.read() as db:
        items = [TokenOut.model_validate(row) for row in store.list_tokens(db)]
    return TokenList(required=request.app.state.token_required, items=items)


@router.post("/tokens", status_code=201, response_model=NewToken, responses=problems(409, 422))
def create_token(request: Request, body: TokenIn) -> Response:
    """A token that may do what the service's own may. Only this answer shows the token."""

    def answer(row: TokenRow, token: str) -> Response:
        made = NewToken.model_validate({**row._asdict(), "token": token})
        return Answer(made, 201, headers={"cache-control": "no-store"})

    return _tokens_of(request).create(cluster_of(request).db, body.name, answer)


@router.delete("/tokens/{token_id}", status_code=204, responses=problems(404))
def revoke_token(request: Request, token_id: RowId) -> Response:
    """Revokes the token; its open streams end."""
    _tokens_of(request).revoke(cluster_of(request).db, token_id)
    return Response(status_code=204)


def _tokens_of(request: Request) -> NamedTokens:
    return cast(NamedTokens, request.app.state.tokens)
