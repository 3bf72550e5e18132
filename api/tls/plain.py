"""Requests without TLS: only reports of jobs and the health check.

This applies to a service that has TLS. A job's container knows no authority that vouches for the service. Its reports
go over Docker's bridge within one machine, with a token that is good for nothing else.
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from schedulearn.api.problems import problem_response
from schedulearn.scheduler.reports import access, membership

_ALIVE = "/healthz"
_REPORTS = (access.PATH, membership.PATH)
_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?")
_SECURE = ("https", "wss")


class OnlyReports:
    """Middleware around the whole application."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["scheme"] in _SECURE or _may_be_plain(scope):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        address = f"https://{host}" if _HOST.fullmatch(host) else "https"
        detail = f"this service speaks TLS: use {address}"
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4403, "reason": detail[:120]})
            return
        if address != "https" and scope["method"] in ("GET", "HEAD") and "text/html" in headers.get("accept", ""):
            query = scope["query_string"].decode("latin-1")
            target = address + scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
            # Temporary: a browser would keep a permanent one when the service has no TLS any more.
            await RedirectResponse(target, 307, {"cache-control": "no-store"})(scope, receive, send)
            return
        await problem_response(403, "needs_tls", detail)(scope, receive, send)


def _may_be_plain(scope: Scope) -> bool:
    return scope["path"] == _ALIVE or (scope.get("method") == "POST" and scope["path"] in _REPORTS)
