"""Limits of connections, and of requests while they are incomplete.

The number of connections is limited, in total and per peer. The time and size of an incomplete request are limited too.
Connecting needs no token. Still, connections that wait for the rest of a request never use up the files of the process.
At the limit, the connection that has waited longest is cut; the newcomer is not refused.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

from starlette.datastructures import MutableHeaders
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from schedulearn.api.problems import ProblemResponse, problem_response

_FILES = 65_536
"""Maximum number of open files that the process asks for, within what it is allowed."""
_SWEEP_S = 1.0


@dataclass(frozen=True)
class ConnectionLimits:
    connections: int
    of_a_peer: int
    head_bytes: int = 64 << 10
    """Bytes of the request line and all headers."""
    receive_s: float = 20.0
    """Seconds in which the head of a request must be complete, and more of its body must come."""


def raise_file_limit() -> int:
    """Raise the limit of open files as far as allowed, to at most _FILES, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _FILES if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def limits_for(files: int) -> ConnectionLimits:
    """Return limits that use half of the files for connections.

    The rest is for the database, engines, logs and jobs. One peer gets half of the connections, so that nobody shuts
    out all others."""
    connections = max(8, min(files // 2, 10_000))
    return ConnectionLimits(connections, connections // 2)


class Bounded(Protocol):
    """Interface of what is counted: transports, and connections that become one."""

    def get_extra_info(self, name: str, default: Any = None) -> Any: ...
    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Connections:
    """Open connections of a server. All calls are from its event loop."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._peers: dict[Bounded, str] = {}
        self._counts: Counter[str] = Counter()
        self._waiting: dict[Bounded, float] = {}
        """Connection without a complete request -> time since when, longest first."""
        self._sweeper: asyncio.TimerHandle | None = None

    def enter(self, transport: Bounded) -> int:
        """Admit a new connection, if need be in place of one that only waits.

        Returns 0, or the status of the refusal: 429 if this peer has too many connections, 503 if all together have."""
        peername = transport.get_extra_info("peername")
        peer = str(peername[0]) if peername else ""
        own_limit = self._counts[peer] >= self.limits.of_a_peer
        if (own_limit or len(self._peers) >= self.limits.connections) and not self._cut_one(
            peer if own_limit else None
        ):
            return 429 if own_limit else 503
        self._peers[transport] = peer
        self._counts[peer] += 1
        self.waits(transport)
        return 0

    def waits(self, transport: Bounded) -> None:
        """Note that a connection has no complete request, and has just sent something of one."""
        if transport not in self._peers:
            return
        loop = asyncio.get_running_loop()
        self._waiting.pop(transport, None)
        self._waiting[transport] = loop.time()
        if self._sweeper is None:
            self._sweeper = loop.call_later(_SWEEP_S, self._sweep)

    def works(self, transport: Bounded) -> None:
        """Note that a connection's request is complete."""
        self._waiting.pop(transport, None)

    def leave(self, transport: Bounded) -> None:
        self._waiting.pop(transport, None)
        peer = self._peers.pop(transport, None)
        if peer is None:
            return
        self._counts[peer] -= 1
        if not self._counts[peer]:
            del self._counts[peer]

    def _cut_one(self, peer: str | None) -> bool:
        """End the connection, of this peer or any, that has waited longest. False if there is none."""
        found = next((each for each in self._waiting if peer is None or self._peers[each] == peer), None)
        if found is None:
            return False
        self.leave(found)
        found.abort()
        return True

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        late = loop.time() - self.limits.receive_s
        for transport in [each for each, since in self._waiting.items() if since < late]:
            self.works(transport)
            refuse(transport, problem_response(408, "request_timeout", "the rest of the request did not come in time"))
        self._sweeper = loop.call_later(_SWEEP_S, self._sweep) if self._waiting else None


def refuse(transport: Bounded, response: ProblemResponse) -> None:
    """Answer before, or without, a complete request, and end the connection."""
    headers = MutableHeaders(raw=response.raw_headers)
    headers["connection"] = "close"
    lines = [f"HTTP/1.1 {response.status_code} ".encode(), *(b"\r\n" + b": ".join(pair) for pair in headers.raw)]
    transport.write(b"".join(lines) + b"\r\n\r\n" + bytes(response.body))
    transport.close()


class BoundedHttp(HttpToolsProtocol):
    def __init__(self, bounds: Connections, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bounds = bounds
        self._head: int | None = 0
        """Bytes of an incomplete head; None: no head is being read."""
        self._came = False
        """Whether a part of an incomplete request has just come: the time limit starts again."""
        self.before_open: Callable[[], None] | None = None
        """Gives up the place of the connection that has become this one."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.before_open is not None:
            self.before_open()
        if status := self._bounds.enter(transport):
            response = problem_response(
                status, "too_many_connections", "too many connections are open: try again later"
            )
            response.headers["retry-after"] = "1"
            refuse(transport, response)

    def connection_lost(self, exc: Exception | None) -> None:
        self._bounds.leave(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        while data and self._head is not None and not self.transport.is_closing():
            room = self._bounds.limits.head_bytes - self._head
            if room <= 0:
                self._unset_keepalive_if_required()
                detail = f"the request line and the headers have at most {self._bounds.limits.head_bytes} bytes"
                refuse(self.transport, problem_response(431, "headers_too_large", detail))
                return
            piece, data = data[:room], data[room:]
            self._head += len(piece)
            super().data_received(piece)
        if data and not self.transport.is_closing():
            super().data_received(data)
        if self._came:  # most requests come at once, and are complete by now
            self._came = False
            self._bounds.waits(self.transport)

    def send_400_response(self, msg: str) -> None:
        refuse(self.transport, problem_response(400, "bad_request", msg))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._head is None:
            self._head = 0
            self._came = True

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._came = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._came = False
        self._bounds.works(self.transport)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self.transport.is_closing() and not self.pipeline:
            self._bounds.waits(self.transport)
        super().on_response_complete()

    def handle_websocket_upgrade(self) -> None:
        self._came = False
        self._bounds.works(self.transport)
        super().handle_websocket_upgrade()


class BoundedSocket(WebSocketsSansIOProtocol):
    def __init__(self, bounds: Connections, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bounds = bounds

    def connection_lost(self, exc: Exception | None) -> None:
        self._bounds.leave(self.transport)
        super().connection_lost(exc)


def bounded(config: Config, bounds: Connections) -> Config:
    """Return the same configuration of a server, whose connections have these limits."""
    config.http = cast(Any, partial(BoundedHttp, bounds))
    config.ws = cast(Any, partial(BoundedSocket, bounds))
    # All connections of the backlog are accepted at once, each with a file.
    config.backlog = max(8, min(2048, bounds.limits.connections // 2))
    return config
