"""Handler of unexpected errors.

The response is a problem document with a reference. The log has the same reference and all details.
"""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedulearn.api.problems import ProblemResponse, problem_json, unforeseen_problem
from schedulearn.scheduler.errors import SchedulearnError

log = logging.getLogger(__name__)

_INTERNAL_ERROR = 1011  # close code of a WebSocket


class LastResort:
    """Middleware around all handlers of requests.

    An event stream that fails sends the problem as its last event. Any other response that has begun is cut off, so
    that no client takes it for complete."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        begun: Message | None = None

        async def noting(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = message
            await send(message)

        try:
            await self.app(scope, receive, noting)
        except ClientDisconnect:
            return  # the client has gone
        except Exception as error:
            if begun is not None and (known := _known(error)) is not None and not _is_event_stream(begun):
                # A dependency failed during the response. The server cuts off a response that has no end.
                log.warning(
                    "the response to %s %r was interrupted: %s", scope.get("method"), scope["path"][:500], known
                )
                return
            reference = secrets.token_hex(4)
            method, path = scope.get("method", "WEBSOCKET"), scope["path"][:500]
            log.error("%s %r failed, reference %s", method, path, reference, exc_info=error)
            if scope["type"] == "websocket":
                with suppress(Exception):  # it may be closed already
                    await send({"type": "websocket.close", "code": _INTERNAL_ERROR, "reason": _reason(reference)})
            elif begun is None:
                await ProblemResponse(unforeseen_problem(reference), 500)(scope, receive, send)
            elif _is_event_stream(begun):
                told = b"event: problem\ndata: " + problem_json(unforeseen_problem(reference)) + b"\n\n"
                await send({"type": "http.response.body", "body": told, "more_body": False})
            else:
                raise


def _known(error: Exception) -> SchedulearnError | None:
    """Return the SchedulearnError that a route raised, also if it came too late for an exception handler."""
    cause = error if isinstance(error, SchedulearnError) else error.__cause__
    return cause if isinstance(cause, SchedulearnError) else None


def _reason(reference: str) -> str:
    return f"internal error, reference {reference}"


def _is_event_stream(start: Message) -> bool:
    return any(name == b"content-type" and b"text/event-stream" in value for name, value in start.get("headers", ()))
