"""Fast path for submissions, without FastAPI's machinery.

That machinery costs more than all the rest of a submission, and scripts submit thousands in a row."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from schedulearn.api.routes import jobs

_PATHS = ("/api/v1/jobs", "/jobs")


class Submissions:
    """Middleware around `app`, which serves submissions itself.

    The routes of the same paths in `app` document them, and its handlers answer their errors. All handlers must be
    registered before."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        handlers = {kind: handler for kind, handler in app.exception_handlers.items() if kind is not Exception}
        self._submit: ASGIApp = ExceptionMiddleware(_submit, handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in _PATHS or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        scope["app"] = self.app
        await self._submit(scope, receive, send)


async def _submit(scope: Scope, receive: Receive, send: Send) -> None:
    response = await jobs.submit(Request(scope, receive, send))
    await response(scope, receive, send)
