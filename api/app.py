"""The application: routes, errors, sessions, and the cluster's life from start to stop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import Depends, FastAPI, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import schedulearn
from schedulearn.api import openapi, problems
from schedulearn.api.answers.health import Health, SessionOut
from schedulearn.api.answers.model import Answer
from schedulearn.api.answers.problem import Problem
from schedulearn.api.auth import COOKIE, Guard, same_token
from schedulearn.api.edge.origins import Origins
from schedulearn.api.files import routes as files
from schedulearn.api.last_resort import LastResort
from schedulearn.api.named_tokens import NamedTokens
from schedulearn.api.reach import find_report_url
from schedulearn.api.routes import (
    code,
    data_sets,
    disk,
    events,
    hosts,
    jobs,
    legacy,
    metrics,
    page,
    policy,
    reports,
    sweeps,
    telemetry,
    timeline,
    tokens,
    usage,
    webhooks,
)
from schedulearn.api.routes.page import CSP
from schedulearn.api.settings import Settings
from schedulearn.api.stream import Pulse
from schedulearn.scheduler.cluster import Cluster, MakeHost
from schedulearn.scheduler.hosts.embedded import embedded_host
from schedulearn.scheduler.hosts.fleet import MakeRuntime
from schedulearn.scheduler.policies.plugins import load_policies

_BODY_LIMIT = 32 << 20


def create_app(
    settings: Settings,
    make_host: MakeHost = embedded_host,
    make_runtime: MakeRuntime | None = None,
    pulse: Pulse | None = None,
) -> ASGIApp:
    """The guarded application. `pulse` wakes and ends the streams. `make_host` and `make_runtime` replace the choice of
    the hosts, for tests."""
    pulse, named = pulse or Pulse(), NamedTokens()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        load_policies(settings.policies)
        pulse.bind()
        cluster = Cluster(
            settings.data,
            settings,
            make_host=make_host,
            make_runtime=make_runtime,
            find_report_url=partial(find_report_url, settings),
            on_commit=pulse.beat,
            own_port=settings.port,
        )
        app.state.cluster, app.state.pulse = cluster, pulse
        named.open(cluster.db)
        cluster.start()
        try:
            yield
        finally:
            pulse.close()
            cluster.close()

    app = FastAPI(
        title="Schedulearn",
        version=schedulearn.__version__,
        lifespan=lifespan,
        max_body_size=_BODY_LIMIT,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # both load scripts from other origins
        redoc_url=None,
        dependencies=[Depends(problems.check_query)],
        responses={"default": {"model": Problem}},
    )
    app.state.tokens, app.state.token_required = named, settings.token is not None
    problems.install(app)
    _submission_routes(app)
    routed = (
        jobs, code, files, sweeps, data_sets, hosts, disk, policy, reports, events, metrics, legacy, usage, telemetry,
        timeline, tokens, webhooks, page,
    )  # fmt: skip
    for module in routed:
        app.include_router(module.router)
    _session(app, settings, named)
    openapi.complete(app)
    guarded = Guard(app, settings.token, named)
    trusts_proxy = settings.behind_proxy and settings.token is not None  # all come from the proxy's address
    return _Headers(LastResort(Origins(guarded, behind_proxy=trusts_proxy)))


def _submission_routes(app: FastAPI) -> None:
    """Serves submissions without FastAPI's machinery, which costs more than all the rest of them: scripts submit
    thousands in a row. The routes of `jobs` and `legacy` stand behind these and document them."""
    for path in ("/api/v1/jobs", "/jobs"):
        app.router.routes.append(Route(path, jobs.submit, methods=["POST"], include_in_schema=False))


def _session(app: FastAPI, settings: Settings, named: NamedTokens) -> None:
    @app.get("/healthz", tags=["health"])
    def healthz() -> Health:
        return Health(status="ok", version=schedulearn.__version__)

    @app.post("/api/v1/session", response_model=SessionOut, tags=["health"])
    async def session(request: Request) -> Response:
        """Trades a token for a cookie, for the page: its event streams can't send headers."""
        response = Answer(SessionOut(status="ok"))
        if settings.token is None:
            return response
        try:
            given = (await request.json()).get("token", "")
        except (ValueError, AttributeError, RecursionError):
            given = ""
        if not isinstance(given, str) or not (same_token(given, settings.token) or named.find(given)):
            return problems.problem_response(401, "unauthorized", "that is no token of this service")
        response.set_cookie(COOKIE, given, httponly=True, samesite="strict", max_age=30 * 86400)
        return response


class _Headers:
    """Security headers on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                if not any(name == b"content-security-policy" for name, _ in given):
                    given.append((b"content-security-policy", CSP.format(nonce="").encode()))
                message["headers"] = [
                    *given,
                    (b"x-content-type-options", b"nosniff"),
                    (b"referrer-policy", b"no-referrer"),
                ]
            await send(message)

        await self.app(scope, receive, with_headers)
