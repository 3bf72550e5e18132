"""Limits of request bodies: bytes, and the number of JSON values.

They are checked before anything is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedulearn.api.problems import problem_response
from schedulearn.scheduler.errors import InvalidError, TooLargeError

_FEW = 8 << 10
"""Bytes of a body that is certainly within all limits."""
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


@dataclass(frozen=True)
class Bound:
    size: int
    """Bytes."""
    values: int
    """Values of objects and lists together, at any depth."""

    def check(self, body: bytes) -> None:
        """Raise TooLargeError or InvalidError for a body above the limits."""
        if len(body) > self.size:
            raise TooLargeError(f"the body has {len(body)} bytes; this route takes at most {self.size >> 10} KiB")
        if _separators(body) > self.values and _separators(_STRING.sub(b"", body)) > self.values:
            raise InvalidError(f"the body has more than {self.values} values: send less at once", field="body")


ONE = Bound(1 << 20, 5_000)
"""Limit of every route that declares no other: one job has at most some 2,600 values."""


def _separators(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


class Bodies:
    """Middleware that limits request bodies.

    Routes of the paths in `own` have their own limits: see `api/large_bodies.py`."""

    def __init__(self, app: ASGIApp, own: Iterable[re.Pattern[str]]) -> None:
        self.app = app
        self._own = tuple(own)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD") or self._is_small(scope):
            await self.app(scope, receive, send)
            return
        if any(pattern.match(scope["path"]) for pattern in self._own):
            await self.app(scope, receive, _with_problem(scope, receive, send))
            return
        body, last = await _body_of(receive)
        try:
            ONE.check(body)
        except (TooLargeError, InvalidError) as error:
            await problem_response(error.http_status, error.code, error.detail)(scope, receive, send)
            return
        given = iter([*([{"type": "http.request", "body": body, "more_body": False}] if last is None else [last])])

        async def replay() -> Message:
            message: Message | None = next(given, None)
            return message or await receive()

        await self.app(scope, replay, send)

    def _is_small(self, scope: Scope) -> bool:
        length = Headers(scope=scope).get("content-length", "")
        return length.isascii() and length.isdigit() and len(length) < 10 and int(length) <= _FEW


def _with_problem(scope: Scope, receive: Receive, send: Send) -> Send:
    """Return a `send` that replaces Starlette's plain answer to a large body by a problem document."""
    replaced = False

    async def sent(message: Message) -> None:
        nonlocal replaced
        start = message["type"] == "http.response.start" and message["status"] == 413
        if start and Headers(raw=message["headers"]).get("content-type", "").startswith("text/plain"):
            replaced = True
            problem = problem_response(413, "too_large", "the body is larger than this route takes: send less at once")
            await problem(scope, receive, send)
        elif not replaced:
            await send(message)

    return sent


async def _body_of(receive: Receive) -> tuple[bytes, Message | None]:
    """Return the body, up to where it is too large, and the message that cut it off."""
    pieces, size = [], 0
    while size <= ONE.size:
        message = await receive()
        if message["type"] != "http.request":
            return b"", message
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if not message.get("more_body"):
            break
    return b"".join(pieces), None
