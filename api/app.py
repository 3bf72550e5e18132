"""ASGI application: routes, errors, sessions, and the lifespan of the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

from fastapi import Depends, FastAPI, Request
from fastapi.routing import APIRoute
from sqlalchemy import select
from sqlmodel import col
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import schedulearn
from schedulearn.api import openapi, problems
from schedulearn.api.access.credentials import Credentials
from schedulearn.api.access.guard import COOKIE, SECURE_COOKIE, Guard
from schedulearn.api.access.permissions import Access, Rules, needs
from schedulearn.api.access.sign_in import ProxyUsers
from schedulearn.api.answers.health import Health
from schedulearn.api.answers.problem import Problem
from schedulearn.api.edge.bodies import ONE, Bodies
from schedulearn.api.edge.origins import Origins
from schedulearn.api.feature import Feature
from schedulearn.api.files import routes as files
from schedulearn.api.last_resort import LastResort
from schedulearn.api.reach import find_report_url
from schedulearn.api.routes import (
    disk,
    events,
    hosts,
    jobs,
    legacy,
    metrics,
    page,
    policy,
    reports,
    resources,
    sessions,
    telemetry,
    timeline,
)
from schedulearn.api.routes.inputs import code, data, data_sets
from schedulearn.api.routes.page import CSP
from schedulearn.api.settings import Settings
from schedulearn.api.stream import Broadcaster
from schedulearn.api.tls.fingerprints import fingerprint_for_workers
from schedulearn.api.turns import Turns
from schedulearn.scheduler.cluster import Cluster, MakeHost
from schedulearn.scheduler.hosts.embedded import embedded_host
from schedulearn.scheduler.hosts.fleet import MakeRuntime
from schedulearn.scheduler.policies.plugins import load_policies
from schedulearn.scheduler.store.models import Job
from schedulearn.scheduler.store.owned import OWNED

_CSP = CSP.format(nonce="").encode()


def create_app(
    settings: Settings,
    make_host: MakeHost = embedded_host,
    make_runtime: MakeRuntime | None = None,
    broadcaster: Broadcaster | None = None,
    credentials: Credentials | None = None,
    report_certificate: str | None = None,
    features: Sequence[Feature] = (),
) -> ASGIApp:
    """Return the application with its access control.

    `broadcaster` wakes and ends the streams. `make_host` and `make_runtime` replace the hosts in tests.
    `report_certificate`: the certificate that workers trust if no authority vouches for the service."""
    for feature in features:
        feature.load_tables()
    broadcaster, known = broadcaster or Broadcaster(), credentials or Credentials(settings.token)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, str | int]]:
        load_policies(settings.policies)
        broadcaster.bind()
        cluster = Cluster(
            settings.data,
            settings,
            make_host=make_host,
            make_runtime=make_runtime,
            find_report_url=partial(find_report_url, settings),
            on_commit=broadcaster.beat,
            features=[make for each in features if (make := each.load_worker()) is not None],
            own_port=settings.port,
            report_certificate=report_certificate,
        )
        app.state.cluster, app.state.broadcaster = cluster, broadcaster
        known.open(cluster.db)
        cluster.clock_watch.on_step = partial(known.open, cluster.db)  # sessions then end later or earlier
        cluster.start()
        try:
            host = cluster.host
            yield {"runtime": host.runtime_name, "simulated_gpus": host.simulated_gpus, "unknown": host.unknown}
        finally:
            broadcaster.close()
            cluster.close()

    app = FastAPI(
        title="Schedulearn",
        version=schedulearn.__version__,
        lifespan=lifespan,
        max_body_size=ONE.size,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # both load scripts from other origins
        redoc_url=None,
        dependencies=[Depends(problems.check_query)],
        responses={"default": {"model": Problem}},
        telemetry={"tracing": False, "metrics": False, "logs": False},  # unused, and each request would check
    )
    app.state.turns, app.state.comparisons = Turns(), None
    if settings.sign_in_max_age:
        known.max_age = settings.sign_in_max_age * 86_400
    app.state.credentials, app.state.token_required = known, settings.token is not None
    app.state.cookie = SECURE_COOKIE if settings.is_opened_by_tls else COOKIE
    app.state.settings = settings
    app.state.fingerprint = fingerprint_for_workers(report_certificate) if report_certificate else None
    problems.install(app)
    app.get("/healthz", tags=["health"])(healthz)  # before all others: it is requested most often
    routed = (
        jobs, code, files, data, data_sets, hosts, disk, policy,
        reports, events, metrics, legacy, telemetry, resources, timeline, sessions, page,
    )  # fmt: skip
    routers = [module.router for module in routed]
    routers += [router for each in features for router in each.load_routers()]
    for router in routers:
        app.include_router(router)
    openapi.complete(app)

    async def owner_of(kind: str, name: str) -> str | None:
        cluster: Cluster = app.state.cluster
        table = Job if kind == "job" else OWNED[kind].table
        query = select(col(table.user)).where(col(table.id) == name)
        return await cluster.db.aread(lambda conn: conn.execute(query).scalar())

    routes = [*app.router.routes, *(route for router in routers for route in router.routes)]
    app.state.rules = Rules(routes)
    large = (each.path_regex for each in routes if isinstance(each, APIRoute) and each.max_body_size is not None)
    bounded = Bodies(app, large)
    trusts_proxy = settings.behind_proxy and settings.token is not None  # all requests come from the proxy's address
    guarded = Guard(
        bounded,
        known,
        owner_of,
        app.state.rules,
        needs_token=settings.token is not None,
        hides=settings.hide_jobs,
        pages=settings.page_origins,
        trusts_proxy=trusts_proxy,
        containers_reach_us=lambda: cast(Cluster, app.state.cluster).containers_reach_us,
        proxy_users=ProxyUsers(settings.sign_in_proxy) if settings.sign_in_proxy is not None else None,
    )
    inner: ASGIApp = _Headers(LastResort(Origins(guarded, behind_proxy=trusts_proxy, pages=settings.page_origins)))
    if settings.page_origins:
        inner = CORSMiddleware(inner, settings.page_origins, allow_methods=["*"], allow_headers=["*"])
    for each in features:
        inner = each.wrap(inner, app.state)
    return _AsOpened(LastResort(inner)) if settings.public_url_has_tls else LastResort(inner)


@needs(Access.NOTHING)
async def healthz(request: Request) -> Health:
    """Return 200 while jobs are scheduled, else 503 with a code.

    503 means that jobs can't be stored or scheduled."""
    cluster: Cluster = request.app.state.cluster
    if (trouble := cluster.trouble) is not None:
        raise trouble
    return Health(status="ok", version=schedulearn.__version__)


class _AsOpened:
    """Middleware that sets the scheme to https: a proxy that terminates TLS forwards requests without it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scheme = {"http": "https", "websocket": "wss"}.get(scope["type"])
        await self.app(scope if scheme is None else {**scope, "scheme": scheme}, receive, send)


class _Headers:
    """Middleware that adds security headers to every response."""

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
                    given.append((b"content-security-policy", _CSP))
                message["headers"] = [
                    *given,
                    (b"x-content-type-options", b"nosniff"),
                    (b"referrer-policy", b"no-referrer"),
                ]
            await send(message)

        await self.app(scope, receive, with_headers)
