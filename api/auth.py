"""Who may talk to the service: everybody on this machine while it listens on loopback, else holders of its token or of
a named one.

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
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedulearn.api.named_tokens import NamedTokens
from schedulearn.api.problems import problem_response
from schedulearn.api.settings import LOOPBACK
from schedulearn.scheduler.reports import access as reporting
from schedulearn.scheduler.reports import membership as rosters

COOKIE = "schedulearn_token"
OPEN_PATHS = ("/healthz", "/ui/", "/api/v1/session")
"""No data behind these: liveness, the page's own files, and the exchange of a token for a cookie."""


class Guard:
    """Lets a request through if it carries the token or a named one, or, where the service has no token, if it comes
    from this machine's own tools or pages: a page of another site must not drive a service that trusts the loopback
    address."""

    def __init__(self, app: ASGIApp, token: str | None, named: NamedTokens) -> None:
        self.app = app
        self.token = token
        self.named = named

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        malformed = _malformed(headers)
        name = None if malformed else self._named(headers)
        refusal = malformed or self._refusal(scope, headers, name is not None)
        if refusal is None:
            await self.app(scope, receive, send if name is None else self._while_known(name, send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4401 if refusal[0] == 401 else 4403, "reason": refusal[2]})
        else:
            status, code, detail = refusal
            response = problem_response(status, code, detail)
            if status == 401:
                response.headers["www-authenticate"] = "Bearer"
            await response(scope, receive, send)

    def _named(self, headers: Headers) -> str | None:
        """The named token that a request carries; a service that asks for none looks at none."""
        found = (self.named.find(given) for given in _carried(headers)) if self.token is not None else ()
        return next((digest for digest in found if digest is not None), None)

    def _while_known(self, digest: str, send: Send) -> Send:
        """`send` until the token is revoked: then a stream ends with what it would have sent next."""
        over = False

        async def guarded(message: Message) -> None:
            nonlocal over
            if over:
                return
            if not self.named.knows(digest):
                if message["type"] == "http.response.body" and message.get("more_body"):
                    over, message = True, {"type": message["type"], "body": b"", "more_body": False}
                elif message["type"] == "websocket.send":
                    over, message = True, {"type": "websocket.close", "code": 4401, "reason": "the token was revoked"}
            await send(message)

        return guarded

    def _refusal(self, scope: Scope, headers: Headers, named: bool) -> tuple[int, str, str] | None:
        path = scope["path"]
        if path in (reporting.PATH, rosters.PATH):
            return None  # asks for the token of a job, which is good for nothing else
        if self.token is not None:
            if named or path in ("/", "/ui") or path.startswith(OPEN_PATHS):
                return None
            if any(same_token(given, self.token) for given in _carried(headers)):
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


def _malformed(headers: Headers) -> tuple[int, str, str] | None:
    """Why a request can't be answered whatever it asks for; after this both headers can be taken apart."""
    for name, prefix in (("host", "//"), ("origin", "")):
        try:
            _ = urlsplit(prefix + headers.get(name, "")).port
        except ValueError:
            return 400, "bad_request", f"the header {name.title()} is no address"
    return None


def _carried(headers: Headers) -> list[str]:
    """The tokens that a request carries."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    found = [given.strip()] if scheme.lower() == "bearer" else []
    # The page's event streams and sockets can't send headers, so its cookie counts too; SameSite keeps it at home,
    # and the origin is checked in case a browser does not.
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return found
    origin = headers.get("origin")
    if cookie is not None and (origin is None or urlsplit(origin).netloc == headers.get("host")):
        found.append(cookie.value)
    return found


def same_token(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())


def stored_token(data_dir: Path) -> str:
    """The generated token of this data directory, made at the first call, readable by its owner only."""
    path = data_dir / "token"
    if not path.exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
            handle.write(secrets.token_urlsafe(24))
    return path.read_text().strip()
