"""Authentication and authorization of all requests.

A token or a session identifies a client, and its role decides what it may do. On loopback, the account that runs the
service is identified by its connection. Other accounts of this machine need a token.

The ASGI middleware wraps the whole application, so that no route, stream or socket can be forgotten.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import lru_cache
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedulearn.api.access.addresses import address_of
from schedulearn.api.access.credentials import Credentials, Grant
from schedulearn.api.access.peers import Address, Peers
from schedulearn.api.access.permissions import Access, Rule, Rules, lacking
from schedulearn.api.access.sign_in import ProxyUsers
from schedulearn.api.edge.headers import first_values
from schedulearn.api.problems import problem_response
from schedulearn.api.settings import LOOPBACK, TOKEN_LENGTH
from schedulearn.scheduler.core.people import Actor, Role
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.private_files import write_private
from schedulearn.scheduler.store.people.acting import ACTOR, ADDRESS
from schedulearn.scheduler.store.people.visibility import SEES_ONLY

COOKIE = "schedulearn_session"
SECURE_COOKIE = f"__Host-{COOKIE}"
"""Cookie over TLS. No other host, and no connection without TLS, can set it."""

Refusal = tuple[int, str, str]
OwnerOf = Callable[[str, str], Awaitable[str | None]]
"""(`job` or `sweep`, its id) -> its user; None: it does not exist."""


class Guard:
    """Middleware that passes on requests of known clients with the necessary role.

    If the service has no token, its own account needs none on loopback. Pages of other sites in that account's browser
    are refused."""

    def __init__(
        self,
        app: ASGIApp,
        credentials: Credentials,
        owner_of: OwnerOf,
        rules: Rules,
        *,
        needs_token: bool,
        hides: bool = False,
        pages: Collection[str] = (),
        trusts_proxy: bool = False,
        containers_reach_us: Callable[[], bool] = lambda: True,
        proxy_users: ProxyUsers | None = None,
    ) -> None:
        """`needs_token`: the account that runs the service needs one too. `hides`: users see only their own jobs.
        `trusts_proxy`: a proxy appends the sender's address to a header.
        `pages`: origins of other pages that may use the service. `containers_reach_us`: a container may have the
        network of this machine. `proxy_users`: users whom a trusted proxy names."""
        self.app = app
        self.credentials = credentials
        self.owner_of = owner_of
        self.rules = rules
        self.needs_token = needs_token
        self.hides = hides
        self.pages = frozenset(pages)
        self.proxy_users = proxy_users
        self.trusts_proxy = trusts_proxy
        self._own = Actor(credentials.own, Role.ADMIN)
        self._peers = Peers(containers_reach_us)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = first_values(scope)
        rule = self.rules.of(scope.get("method", "WS"), scope["path"])
        grant: Grant | None = None
        refusal = _malformed(headers)
        if refusal is None and rule.need is not Access.JOB_TOKEN:
            grant = self._known(scope, headers)
            refusal = await self._refusal(scope, headers, rule, grant)
        actor = grant.actor if grant is not None else self._own
        if refusal is None:
            refusal = await self._forbidden(rule, actor)
        address = address_of(scope, trusts_proxy=self.trusts_proxy)
        if refusal is not None:
            if refusal[0] == 401 and bearer_of(headers) is not None:
                self.credentials.note_refusal(address)
            await _refuse(scope, receive, send, refusal)
            return
        is_known = rule.need.role is not None  # a route that needs no role has no actor
        scope.setdefault("state", {}).update(actor=actor if is_known else None, grant=grant)
        acting = ACTOR.set(actor.name if is_known else "")
        coming = ADDRESS.set(address)
        seeing = SEES_ONLY.set(
            actor.name if self.hides and is_known and not (actor.is_admin or actor.counts_all) else None
        )
        try:
            if grant is None:
                await self.app(scope, receive, send)
            else:
                await self.app(scope, self._heard_while_known(grant, receive), self._while_known(grant, send))
        finally:
            ACTOR.reset(acting)
            ADDRESS.reset(coming)
            SEES_ONLY.reset(seeing)

    def _known(self, scope: Scope, headers: Mapping[str, str]) -> Grant | None:
        given = bearer_of(headers)
        if given is not None:
            return self.credentials.find(given)
        # The page's event streams and sockets can't send headers, so its cookie counts too. SameSite keeps other sites
        # from sending it; the origin is checked in case a browser ignores SameSite.
        cookie = cookie_of(headers, secure=is_secure(scope))
        grant = self.credentials.find_session(cookie) if cookie is not None and _is_own_origin(headers) else None
        if grant is None or not grant.proxy_user:
            return grant
        # Whoever signs out at the proxy, or as somebody else, leaves the cookie of the former user behind.
        named = self.proxy_users.user_of(scope) if self.proxy_users is not None else ""
        return grant if named == grant.proxy_user else None

    def _while_known(self, grant: Grant, send: Send) -> Send:
        """Wrap `send`: after the grant has ended, a stream ends instead of sending its next message."""
        over = False

        async def guarded(message: Message) -> None:
            nonlocal over
            if over:
                return
            if not self.credentials.holds(grant):
                if message["type"] == "http.response.body" and message.get("more_body"):
                    over, message = True, {"type": message["type"], "body": b"", "more_body": False}
                elif message["type"] == "websocket.send":
                    over, message = True, {"type": "websocket.close", "code": 4401, "reason": "the token was revoked"}
            await send(message)

        return guarded

    def _heard_while_known(self, grant: Grant, receive: Receive) -> Receive:
        """Wrap `receive`: after the grant has ended, a socket's messages are replaced by a disconnect."""

        async def guarded() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive" and not self.credentials.holds(grant):
                return {"type": "websocket.disconnect", "code": 4401, "reason": "the token was revoked"}
            return message

        return guarded

    async def _refusal(
        self, scope: Scope, headers: Mapping[str, str], rule: Rule, grant: Grant | None
    ) -> Refusal | None:
        """Return why a request is refused whatever the role of its sender."""
        if self.needs_token:
            if grant is not None or rule.need is Access.NOTHING:
                return None
            return 401, "unauthorized", _NEEDS_TOKEN
        return await self._loopback_refusal(scope, headers, rule, grant)

    async def _loopback_refusal(
        self, scope: Scope, headers: Mapping[str, str], rule: Rule, grant: Grant | None
    ) -> Refusal | None:
        server, client = scope.get("server"), scope.get("client")
        if server is not None and server[0] not in LOOPBACK:
            # Job containers connect through Docker's bridge, only for reports, whatever host they name.
            return 403, "foreign_host", f"on {server[0]} this service accepts only reports of jobs"
        address = _address("//" + headers.get("host", ""))
        host = address.host if address is not None else None
        if host not in LOOPBACK:
            return 403, "foreign_host", f"this service answers on {', '.join(LOOPBACK)} only, not as {host!r}"
        if not _is_own_origin(headers) and headers["origin"] not in self.pages:
            return 403, "foreign_origin", f"pages of {headers['origin']} may not use this service"
        if grant is not None or rule.need is Access.NOTHING:
            return None
        if bearer_of(headers) is not None:
            return 401, "unauthorized", "invalid or expired token"
        if client is None or server is None or not await self._is_own_account(client, server):
            detail = f"{self.credentials.own} runs this service; other accounts and containers need a token"
            return 401, "unauthorized", detail
        return None

    async def _is_own_account(self, client: Address, server: Address) -> bool:
        if not self._peers.knows(client):
            await asyncio.to_thread(self._peers.is_own_account, client, server)
        return self._peers.is_own_account(client, server)

    async def _forbidden(self, rule: Rule, actor: Actor) -> Refusal | None:
        """Return why the sender may not do what the request asks for."""
        role = rule.need.role
        if role is None:
            return None
        if not actor.role.includes(role):
            return 403, "forbidden", lacking(actor, role)
        if actor.is_admin or rule.need is not Access.OWN or rule.what is None:
            return None
        owner = await self.owner_of(*rule.what)
        if owner is None or owner == actor.name:
            return None
        kind, name = rule.what
        if self.hides:
            return 404, "not_found", f"there is no {kind} {name!r}"
        return (
            403,
            "forbidden",
            f"{kind} {name} belongs to {owner or 'no user'}: only the owner and admins may change it",
        )


_NEEDS_TOKEN = "this service requires a token: send it as 'Authorization: Bearer TOKEN'"  # noqa: S105


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    status, code, detail = refusal
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 4000 + status, "reason": detail})
        return
    response = problem_response(status, code, detail)
    if status == 401:
        response.headers["www-authenticate"] = "Bearer"
    await response(scope, receive, send)


class _Address(NamedTuple):
    netloc: str
    host: str | None


@lru_cache(64)  # most requests name the same one
def _address(url: str) -> _Address | None:
    """Return the address in a URL; None if it is invalid."""
    try:
        found = urlsplit(url)
        _ = found.port
    except ValueError:
        return None
    return _Address(found.netloc, found.hostname)


def _malformed(headers: Mapping[str, str]) -> Refusal | None:
    """Return why a request with an invalid header is refused. Otherwise Host and Origin can be parsed."""
    for name, prefix in (("host", "//"), ("origin", "")):
        if _address(prefix + headers.get(name, "")) is None:
            return 400, "bad_request", f"invalid address in the header {name.title()}"
    return None


def _is_own_origin(headers: Mapping[str, str]) -> bool:
    origin = headers.get("origin")
    if origin is None:
        return True
    address = _address(origin)
    return address is not None and address.netloc == headers.get("host")


def bearer_of(headers: Mapping[str, str]) -> str | None:
    """Return the token in a request's header."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


def is_secure(scope: Scope) -> bool:
    return scope["scheme"] in ("https", "wss")


def cookie_of(headers: Mapping[str, str], *, secure: bool) -> str | None:
    """Return the session in a request's cookie. `secure`: the request came over TLS."""
    cookies = headers.get("cookie")
    if cookies is None:
        return None
    try:
        found = SimpleCookie(cookies).get(SECURE_COOKIE if secure else COOKIE)
    except CookieError:
        return None
    return found.value if found is not None else None


def stored_token(data_dir: Path) -> str:
    """Return the generated token of a data folder. The first call creates it, readable only by its owner.

    Raises InvalidError for a token that is too short: an empty one would let everybody in."""
    path = data_dir / "token"
    if not path.exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        write_private(path, secrets.token_urlsafe(24).encode())
    token = path.read_text().strip()
    if len(token) < TOKEN_LENGTH:
        raise InvalidError(f"{path} holds no token of at least {TOKEN_LENGTH} characters: remove it to get a new one")
    return token
