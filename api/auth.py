"""Who may talk to the service: everybody on this machine while it listens on loopback, else holders of the token.

A pure ASGI layer around the whole application, so that no route, stream or socket can be forgotten.
"""

from __future__ import annotations

import hmac
import os
import secrets
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from schedulearn.api.problems import problem_response
from schedulearn.api.settings import LOOPBACK
from schedulearn.scheduler import reporting, rosters

COOKIE = "schedulearn_token"
OPEN_PATHS = ("/healthz", "/ui/", "/api/v1/session")
"""No data behind these: liveness, the page's own files, and the exchange of a token for a cookie."""


class Guard:
    """Lets a request through if it carries the token, or, without a token, if it comes from this machine's own tools
    or pages: a page of another site must not drive a service that trusts the loopback address."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app = app
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4401 if refusal[0] == 401 else 4403, "reason": refusal[2]})
        else:
            status, code, detail = refusal
            response = problem_response(status, code, detail)
            if status == 401:
                response.headers["www-authenticate"] = "Bearer"
            await response(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str, str] | None:
        path = scope["path"]
        if path in (reporting.PATH, rosters.PATH):
            return None  # asks for the token of a job, which is good for nothing else
        if self.token is not None:
            if path in ("/", "/ui") or path.startswith(OPEN_PATHS) or _matches(headers, self.token):
                return None
            return 401, "unauthorized", "this service needs its token: send it as 'Authorization: Bearer TOKEN'"
        server = scope.get("server")
        if server is not None and server[0] not in LOOPBACK:
            # Job containers come in by Docker's bridge, for reports only, whatever host they name.
            return 403, "foreign_host", f"on {server[0]} this service takes only reports of jobs"
        host = urlsplit(f"//{headers.get('host', '')}").hostname
        if host not in LOOPBACK:
            return 403, "foreign_host", f"this service answers on {', '.join(LOOPBACK)} only, not as {host!r}"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return 403, "foreign_origin", f"pages of {origin} may not use this service"
        return None


def _matches(headers: Headers, token: str) -> bool:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and same_token(given.strip(), token):
        return True
    # The page's event streams and sockets can't send headers, so its cookie counts too; SameSite keeps it at home,
    # and the origin is checked in case a browser does not.
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return False
    origin = headers.get("origin")
    at_home = origin is None or urlsplit(origin).netloc == headers.get("host")
    return cookie is not None and at_home and same_token(cookie.value, token)


def same_token(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def stored_token(data_dir: Path) -> str:
    """The generated token of this data directory, made at the first call, readable by its owner only."""
    path = data_dir / "token"
    if not path.exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
            handle.write(secrets.token_urlsafe(24))
    return path.read_text().strip()
