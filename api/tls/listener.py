"""Listener that detects TLS by the first byte of each connection.

Both kinds of connections come to one port: links, and reports of jobs from before TLS was on, use the same address. A
connection that has not sent its first byte, or not finished the handshake, counts as waiting: the same limits apply.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from schedulearn.api.edge.connections import BoundedHttp, Connections

if TYPE_CHECKING:
    from schedulearn.api.tls.certificates import Certificate

log = logging.getLogger(__name__)

_HANDSHAKE = b"\x16"
_AT_ONCE = 100
"""Maximum connections accepted before other tasks have their turn."""
_REST_S = 1.0
"""Pause after a failure to accept, for example if the process runs out of files."""
_SHUTDOWN_S = 5.0
"""Seconds in which the other side must agree to the end of a connection."""


def open_tls_listeners(
    server: uvicorn.Server, listeners: Iterable[socket.socket], certificate: Certificate, bounds: Connections
) -> None:
    """Open listeners in place of uvicorn's.

    `server` has started, without any listeners of its own."""
    make = cast(Callable[..., BoundedHttp], server.config.http_protocol_class)

    def make_protocol() -> BoundedHttp:
        return make(config=server.config, server_state=server.server_state, app_state=server.lifespan.state)

    for listener in listeners:
        tls_listener = TlsListener(listener, certificate, bounds, make_protocol)
        server.servers.append(cast(asyncio.Server, tls_listener))
        tls_listener.open(server.config.backlog)


class TlsListener:
    """One listening socket, with the interface of uvicorn's servers.

    All calls are from the event loop."""

    def __init__(
        self,
        listener: socket.socket,
        certificate: Certificate,
        bounds: Connections,
        make_protocol: Callable[[], BoundedHttp],
    ) -> None:
        self.certificate = certificate
        self.bounds = bounds
        self.make_protocol = make_protocol
        self.loop = asyncio.get_running_loop()
        self.knocks: set[Knock] = set()
        self._listener = listener
        self._rest: asyncio.TimerHandle | None = None

    def open(self, backlog: int) -> None:
        self._listener.setblocking(False)
        self._listener.listen(backlog)
        self._listen()

    def close(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
        if self._listener.fileno() >= 0:
            self.loop.remove_reader(self._listener.fileno())
        for knock in list(self.knocks):
            knock.abort()

    async def wait_closed(self) -> None:
        await asyncio.gather(*(knock.task for knock in self.knocks if knock.task is not None), return_exceptions=True)

    def _listen(self) -> None:
        self._rest = None
        self.loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("no connection can be accepted for a second: %s", error)
                self.loop.remove_reader(self._listener.fileno())
                self._rest = self.loop.call_later(_REST_S, self._listen)
                return
            Knock(self, connection, address).begin()


class Knock:
    """Connection that is not yet HTTP. The connection limits see it as a transport that can only be ended."""

    def __init__(self, tls_listener: TlsListener, connection: socket.socket, address: tuple[Any, ...]) -> None:
        self.task: asyncio.Task[None] | None = None
        self._tls_listener = tls_listener
        self._connection = connection
        self._address = address
        self._opening = False
        self._ended = False

    def begin(self) -> None:
        self._connection.setblocking(False)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls_listener.bounds.enter(self):  # refused; no response is possible before the handshake
            self._connection.close()
            return
        self._tls_listener.knocks.add(self)
        self._tls_listener.loop.add_reader(self._connection.fileno(), self._first_byte)

    def _first_byte(self) -> None:
        try:
            first = self._connection.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self.abort()
            return
        self._tls_listener.loop.remove_reader(self._connection.fileno())
        self.task = self._tls_listener.loop.create_task(self._open(with_tls=first == _HANDSHAKE))

    async def _open(self, *, with_tls: bool) -> None:
        self._opening = True
        protocol = self._tls_listener.make_protocol()
        protocol.before_open = self._leave
        timeout = self._tls_listener.bounds.limits.receive_s
        tls: dict[str, Any] = {}
        if with_tls:
            context = self._tls_listener.certificate.context()
            tls = {"ssl": context, "ssl_handshake_timeout": timeout, "ssl_shutdown_timeout": _SHUTDOWN_S}
        try:
            await self._tls_listener.loop.connect_accepted_socket(lambda: protocol, self._connection, **tls)
        except (OSError, asyncio.CancelledError) as error:  # it left, has no TLS version in common, or was cut
            log.debug("the connection of %s failed: %s", self._address, error)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Note that the connection is open, or gone."""
        self._ended = True
        self._tls_listener.bounds.leave(self)
        self._tls_listener.knocks.discard(self)

    # --- transport interface for the connection limits ---

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._address if name == "peername" else default

    def write(self, data: bytes) -> None:
        """Write nothing: before TLS nobody could read it."""

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self._ended:
            return
        if self.task is not None:
            self.task.cancel()
            if self._opening:  # then the task closes the connection; a task that never ran can't
                return
        self._leave()
        self._tls_listener.loop.remove_reader(self._connection.fileno())
        self._connection.close()
