"""Sessions of browsers: a token, or the link of the start, is traded for a cookie; logging out ends it."""

from __future__ import annotations

import asyncio
import json
from typing import Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from schedulearn.api.access.guard import COOKIE, SECURE_COOKIE, cookie_of, is_secure
from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import Answer, AnswerModel
from schedulearn.api.answers.problem import problems
from schedulearn.api.problems import problem_response
from schedulearn.api.state import cluster_of, credentials_of
from schedulearn.scheduler.store.people.acting import ADDRESS

router = APIRouter(prefix="/api/v1", tags=["people"])

_LONGEST = 4096  # bytes of a body that holds a token: anybody may send one


class SessionOut(AnswerModel):
    status: Literal["ok"]


_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]}
            }
        },
    }
}


@router.post(
    "/session", response_model=SessionOut, responses=problems(401, 403, 413), max_body_size=1 << 50, openapi_extra=_BODY
)
@needs(Access.NOTHING)
async def log_in(request: Request) -> Response:
    """Create a browser session from a token, and set its cookie.

    The page needs it, because its event streams can't send headers. The session ends with the token, after seven days,
    or by logging out."""
    body = await _bounded_body(request)
    if body is None:
        return problem_response(413, "content_too_large", f"a token has no more than {_LONGEST} bytes")
    given = _token_in(body)
    session = await asyncio.to_thread(credentials_of(request).log_in, cluster_of(request).db, given) if given else None
    if session is None:
        credentials_of(request).note_refusal(ADDRESS.get())
        return problem_response(401, "unauthorized", "invalid token")
    cookie, seconds = session
    response = Answer(SessionOut(status="ok"), headers={"cache-control": "no-store"})
    secure = is_secure(request.scope)
    name = SECURE_COOKIE if secure else COOKIE
    response.set_cookie(name, cookie, httponly=True, samesite="strict", secure=secure, max_age=int(seconds))
    return response


@router.delete("/session", status_code=204)
@needs(Access.NOTHING)
async def log_out(request: Request) -> Response:
    """End the session of the cookie, and its streams."""
    secure = is_secure(request.scope)
    cookie = cookie_of(request.headers, secure=secure)
    if cookie is not None:
        await asyncio.to_thread(credentials_of(request).log_out, cluster_of(request).db, cookie)
    response = Response(status_code=204)
    name = SECURE_COOKIE if secure else COOKIE
    response.delete_cookie(name, httponly=True, samesite="strict", secure=secure)
    return response


async def _bounded_body(request: Request) -> bytes | None:
    """None: it is too long, and the rest of it was not read."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LONGEST:
            return None
    return body


def _token_in(body: bytes) -> str:
    try:
        given = json.loads(body).get("token", "")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return given if isinstance(given, str) else ""
