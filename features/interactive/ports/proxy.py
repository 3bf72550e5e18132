"""Reverse proxy for the origins of jobs' ports.

It finds out who sends a request, and for which job and port, and passes it on. It is a middleware in front of the whole
application: at such an origin there is no page, no API and no session of the service."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qs, urlsplit

import httpcore
from sqlalchemy import select
from sqlmodel import col
from starlette.datastructures import Headers, State
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedulearn.api.access.credentials import Credentials
from schedulearn.api.access.guard import bearer_of, is_secure
from schedulearn.api.access.peers import Peers
from schedulearn.api.edge.origins import forwarding_header
from schedulearn.api.settings import LOOPBACK, Settings
from schedulearn.features.interactive.ports.headers import PORT_COOKIES, Origin, cookies_in, to_job
from schedulearn.features.interactive.ports.http import JobGone, Pools, pass_on
from schedulearn.features.interactive.ports.origins import PortKey, port_of
from schedulearn.features.interactive.ports.pages import told
from schedulearn.features.interactive.ports.relay import JobStream
from schedulearn.features.interactive.ports.sessions import PortSession
from schedulearn.features.interactive.ports.sockets import SocketRelay
from schedulearn.features.interactive.terminals.job_terminals import TooManyTerminalsError
from schedulearn.features.interactive.worker import Interactive
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.errors import SchedulearnError
from schedulearn.scheduler.runtimes.terminals.contract import NotRunningError
from schedulearn.scheduler.store.models import Job
from schedulearn.scheduler.store.people.acting import ACTOR

OWN = "/.schedulearn/"
"""Prefix of paths that no job receives."""
ENTER = f"{OWN}enter"


class _Job(NamedTuple):
    user: str
    state: JobState
    spec: Mapping[str, Any]
    message: str

    @property
    def ports(self) -> Mapping[str, int]:
        """Name -> port of its container."""
        found: Mapping[str, int] = self.spec.get("ports", {})
        return found


@dataclass(frozen=True)
class _Visit:
    """Request to a port, after it was admitted."""

    session: PortSession
    port: int
    origin: Origin
    known: Callable[[], bool]


class _Refused(Exception):
    def __init__(self, response: Response) -> None:
        self.response = response


class PortProxy:
    def __init__(self, app: ASGIApp, state: State) -> None:
        """`state`: of the application, which has a cluster while it runs."""
        self.app = app
        self._state = state
        self._settings: Settings = state.settings
        self._credentials: Credentials = state.credentials
        self._peers = Peers(lambda: self._cluster.containers_reach_us)
        self._pools = Pools()

    @property
    def _cluster(self) -> Cluster:
        return cast(Cluster, self._state.cluster)

    @property
    def _interactive(self) -> Interactive:
        return self._cluster.worker(Interactive)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, self._closing(receive), send)
            return
        key = self._key(scope) if scope["type"] in ("http", "websocket") else None
        if key is None:
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            if scope["path"].startswith(OWN):
                raise _Refused(self._enter(scope, headers, key))
            visit = await self._visit(scope, headers, key)
            acting = ACTOR.set(visit.session.actor.name)
            try:
                await self._pass_on(scope, receive, send, headers, visit)
            finally:
                ACTOR.reset(acting)
        except _Refused as refused:
            await _answer(scope, receive, send, refused.response)

    def _closing(self, receive: Receive) -> Receive:
        """Close connections to jobs before the application shuts down."""

        async def closing() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self._pools.aclose()
            return message

        return closing

    def _key(self, scope: Scope) -> PortKey | None:
        try:
            return port_of(Headers(scope=scope).get("host", ""), self._settings.ports_domain)
        except ValueError:
            return None  # the application says what is wrong with it

    def _enter(self, scope: Scope, headers: Headers, key: PortKey) -> Response:
        """Exchange a ticket for a cookie of this origin."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("ticket", [""])[0]
        asks = scope["path"] == ENTER and scope["type"] == "http"
        entered = self._interactive.port_sessions.enter(key, given) if asks else None
        if entered is None:
            detail = "this link was used before, or is too old: open the port again from the page of its job"
            return self._told(headers, key, 403, "ticket_used", detail)
        cookie, seconds = entered
        response = RedirectResponse("/", 303, {"cache-control": "no-store", "referrer-policy": "no-referrer"})
        secure = is_secure(scope)
        response.set_cookie(
            PORT_COOKIES[0] if secure else PORT_COOKIES[1],
            cookie,
            max_age=int(seconds),
            httponly=True,
            secure=secure,
            samesite="lax",  # a strict cookie would not be sent after the redirect with the ticket
        )
        return response

    async def _visit(self, scope: Scope, headers: Headers, key: PortKey) -> _Visit:
        """Admit a request. Raises _Refused."""
        outside = f"{'https' if is_secure(scope) else 'http'}://{headers['host']}"
        self._check_origin(scope, headers, outside)
        session = self._session(scope, headers, key)
        if session is None or not self._is_known(scope, session):
            detail = "open this port from the page of its job: you are not logged in here, or not any more"
            raise _Refused(self._told(headers, key, 401, "unauthorized", detail))
        query = select(col(Job.user), col(Job.state), col(Job.spec), col(Job.message)).where(col(Job.id) == key.job_id)
        row = await self._cluster.db.aread(lambda conn: conn.execute(query).first())
        job = _Job._make(row) if row is not None else None
        if job is None or key.name not in job.ports or not session.actor.may_change(job.user):
            raise _Refused(
                self._told(headers, key, 404, "not_found", f"there is no port {key.name} of a job {key.job_id}")
            )
        if JobState(job.state).terminal:
            self._interactive.port_sessions.forget(key.job_id)
            detail = f"job {key.job_id} has ended: {job.message.rstrip('.')}"
            raise _Refused(self._told(headers, key, 410, "job_ended", detail))
        port = job.ports[key.name]
        return _Visit(session, port, Origin(outside, port), partial(self._is_known, scope, session))

    def _check_origin(self, scope: Scope, headers: Headers, outside: str) -> None:
        """Raise _Refused for requests that a page of another origin caused, except plain links."""
        server = scope.get("server")
        if self._settings.token is None and server is not None and server[0] not in LOOPBACK:
            raise _Refused(told(headers, 403, "foreign_host", "job containers can't reach ports of jobs"))
        if not (self._settings.behind_proxy and self._settings.token is not None) and forwarding_header(headers):
            raise _Refused(told(headers, 403, "through_a_proxy", "the request came through a proxy: set behind_proxy"))
        origin = headers.get("origin")
        foreign = headers.get("sec-fetch-site", "").lower() in ("cross-site", "same-site")
        follows_link = scope.get("method") == "GET" and headers.get("sec-fetch-mode", "").lower() == "navigate"
        if (origin is not None and origin != outside) or (foreign and not follows_link):
            raise _Refused(told(headers, 403, "foreign_origin", "pages of other sites may not use this port"))

    def _session(self, scope: Scope, headers: Headers, key: PortKey) -> PortSession | None:
        bearer = bearer_of(headers)
        grant = self._credentials.find(bearer) if bearer is not None else None
        if grant is not None:
            return PortSession(key, grant.actor, grant, time.time())
        for name in PORT_COOKIES:
            for cookie in cookies_in(scope["headers"], name):
                if (found := self._interactive.port_sessions.find(key, cookie)) is not None:
                    return found
        return None

    def _is_known(self, scope: Scope, session: PortSession) -> bool:
        """Return whether the credential of a session is still valid."""
        if not session.actor.role.includes(Role.USER):
            return False
        if session.grant is not None:
            return self._credentials.holds(session.grant)
        client, server = scope.get("client"), scope.get("server")
        return client is not None and server is not None and self._peers.is_own_account(client, server)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, headers: Headers, visit: _Visit) -> None:
        cluster, key = self._cluster, visit.session.key
        sent = to_job(scope["headers"], visit.origin, cluster.reports.port_token(key.job_id), self._is_ours)
        connect = partial(self._interactive.terminals.connect, key.job_id, None, visit.port)
        idle_s = cluster.settings.terminal_idle
        try:
            if scope["type"] == "websocket":
                stream = await JobStream.open(connect)
                try:
                    await SocketRelay(stream, scope, receive, send, idle_s, visit.known).run(sent, visit.origin)
                finally:
                    stream.close()
                return
            async with self._pools.of(key.job_id, visit.port, connect) as pool:
                await pass_on(pool, scope, receive, send, sent, visit.origin, idle_s or None, visit.known)
        except NotRunningError as error:
            raise _Refused(self._told(headers, key, 503, error.code, error.detail, again=True)) from error
        except TooManyTerminalsError as error:
            raise _Refused(self._told(headers, key, 503, error.code, error.detail)) from error
        except SchedulearnError as error:
            raise _Refused(self._told(headers, key, error.http_status, error.code, error.detail, again=True)) from error
        except httpcore.PoolTimeout as error:
            detail = f"port {key.name} of job {key.job_id} has too many requests under way"
            raise _Refused(self._told(headers, key, 503, "too_many_requests", detail)) from error
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            detail = f"job {key.job_id} runs, but {error}"
            raise _Refused(self._told(headers, key, 502, "not_listening", detail, again=True)) from error
        except (JobGone, TimeoutError, httpcore.NetworkError) as error:
            detail = str(error) or "the job did not answer in time"
            raise _Refused(self._told(headers, key, 502, "bad_answer", detail)) from error

    def _is_ours(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and self._credentials.find(token.strip()) is not None

    def _told(
        self, headers: Headers, key: PortKey, status: int, code: str, detail: str, *, again: bool = False
    ) -> Response:
        """Return a refusal with a link to the job's page, if the address of that page is known."""
        page = self._settings.public_url
        if page is None and self._settings.loopback:
            port = urlsplit(f"//{headers['host']}").port
            page = f"{'https' if self._settings.has_tls else 'http'}://localhost" + (
                f":{port}" if port is not None else ""
            )
        link = (f"{page.rstrip('/')}/ui/jobs/{key.job_id}", "The page of the job") if page is not None else None
        return told(headers, status, code, detail, link=link, again=again)


async def _answer(scope: Scope, receive: Receive, send: Send, response: Response) -> None:
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    start = {"status": response.status_code, "headers": response.raw_headers}
    with suppress(OSError):  # raised by the server when the browser has gone
        await send({"type": "websocket.http.response.start", **start})
        await send({"type": "websocket.http.response.body", "body": bytes(response.body)})
