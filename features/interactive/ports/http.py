"""Forwarding of HTTP requests to a job's port.

Bodies are streamed. Connections are reused for a few seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpcore
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from schedulearn.features.interactive.ports.headers import Origin, to_browser
from schedulearn.features.interactive.ports.relay import Connect, JobNetwork

log = logging.getLogger(__name__)

CONNECTIONS = 20
"""Maximum connections to one port for requests: a job has some left for sockets and `forward`."""
_KEEP_S = 5.0
_POOL_S = 60.0

StillKnown = Callable[[], bool]


class JobGone(Exception):
    """The job does not answer any more, or not in valid HTTP."""


@dataclass
class _Pool:
    connections: httpcore.AsyncConnectionPool
    users: int = 0
    closing: asyncio.TimerHandle | None = None


@dataclass
class Pools:
    """Connections to ports, closed soon after the last request."""

    _pools: dict[tuple[str, int], _Pool] = field(default_factory=dict)
    _closed: set[asyncio.Task[None]] = field(default_factory=set)

    @asynccontextmanager
    async def of(self, job_id: str, port: int, connect: Connect) -> AsyncIterator[httpcore.AsyncConnectionPool]:
        key = (job_id, port)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = _Pool(
                httpcore.AsyncConnectionPool(
                    max_connections=CONNECTIONS, keepalive_expiry=_KEEP_S, network_backend=JobNetwork(connect)
                )
            )
        if pool.closing is not None:
            pool.closing.cancel()
            pool.closing = None
        pool.users += 1
        try:
            yield pool.connections
        finally:
            pool.users -= 1
            if not pool.users:
                pool.closing = asyncio.get_running_loop().call_later(_KEEP_S, self._close, key)

    def _close(self, key: tuple[str, int]) -> None:
        task = asyncio.ensure_future(self._pools.pop(key).connections.aclose())
        self._closed.add(task)
        task.add_done_callback(self._closed.discard)

    async def aclose(self) -> None:
        for pool in list(self._pools.values()):
            if pool.closing is not None:
                pool.closing.cancel()
            await pool.connections.aclose()
        self._pools.clear()


async def pass_on(
    pool: httpcore.AsyncConnectionPool,
    scope: Scope,
    receive: Receive,
    send: Send,
    headers: list[tuple[bytes, bytes]],
    origin: Origin,
    idle_s: float | None,
    known: StillKnown,
) -> None:
    """Pass on one request, and its response.

    Raises JobGone before the response has begun, ClientDisconnect, and what connecting to a job raises."""
    body = _Body(receive)
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    chunked = any(name == b"transfer-encoding" for name, _ in scope["headers"])
    if chunked and not lengths:
        headers = [*headers, (b"transfer-encoding", b"chunked")]
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    request = httpcore.Request(
        scope["method"],
        httpcore.URL(scheme=b"http", host=b"localhost", port=origin.port, target=target),
        headers=headers,
        content=body if chunked or lengths else None,
        extensions={"timeout": {"connect": None, "read": idle_s, "write": idle_s, "pool": _POOL_S}},
    )
    if not (chunked or lengths):
        await body.skip()
    exchange = asyncio.create_task(_exchange(pool, request, send, origin, known))
    gone = asyncio.create_task(body.gone())
    try:
        await asyncio.wait((exchange, gone), return_when=asyncio.FIRST_COMPLETED)
        if not exchange.done():
            exchange.cancel()
            await asyncio.gather(exchange, return_exceptions=True)
            raise ClientDisconnect
        exchange.result()
    finally:
        for task in (exchange, gone):
            task.cancel()
        await asyncio.gather(exchange, gone, return_exceptions=True)


async def _exchange(
    pool: httpcore.AsyncConnectionPool, request: httpcore.Request, send: Send, origin: Origin, known: StillKnown
) -> None:
    try:
        response = await pool.handle_async_request(request)
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        if isinstance(error, httpcore.ConnectError | httpcore.ConnectTimeout | httpcore.PoolTimeout):
            raise
        raise JobGone(f"the job did not answer: {error or type(error).__name__}") from error
    try:
        headers = to_browser(response.headers, origin)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        async for piece in response.aiter_stream():
            if not known():
                raise ClientDisconnect  # the response gets no end, so that no client takes it for complete
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        log.info("the response of a job's port was interrupted: %s", error or type(error).__name__)
        raise ClientDisconnect from error
    finally:
        await response.aclose()


class _Body:
    """The body of a request, piece by piece; then the end of its connection."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._read = asyncio.Event()
        self._gone = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._gone = True
                self._read.set()
                raise ClientDisconnect
            more = message.get("more_body", False)
            if not more:
                self._read.set()
            if data := message.get("body", b""):
                yield data

    async def skip(self) -> None:
        """Skip the body of a request that has none."""
        async for _ in self:
            pass

    async def gone(self) -> None:
        """Return when the client no longer waits for the response."""
        await self._read.wait()
        while not self._gone:
            self._gone = (await self._receive())["type"] == "http.disconnect"
