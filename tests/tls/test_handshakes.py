"""Connections that have not come as far as a request: told apart by their first byte, counted and bounded as all."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from clusters import wait_for
from servers.authorities import Authority
from services import Service

from schedulearn.api.edge.connections import ConnectionLimits, Connections, bounded
from schedulearn.api.tls.certificates import Certificate
from schedulearn.api.tls.listener import Knock, TlsListener, open_tls_listeners

FEW_FILES = ("sh", "-c", 'ulimit -n 256; exec "$0" "$@"')
HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01"
GET = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


@pytest.mark.process
@pytest.mark.parametrize("half", [b"", HALF_A_HELLO, b"GET / HTTP/1.1\r\nHost: "], ids=["nothing", "hello", "get"])
def test_300_half_begun_connections_at_256_files_stop_nothing(attacked: Service, half: bytes) -> None:
    with ExitStack() as held:
        for _ in range(300):
            attack = held.enter_context(closing(socket.create_connection(("127.0.0.1", attacked.port))))
            attack.sendall(half)
        job_id = attacked.submit("true")
        assert attacked.wait(job_id, "succeeded")["exit_code"] == 0
        assert "Too many open files" not in attacked.log()


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path / "data", "--host", "0.0.0.0", token="correct-horse", under=FEW_FILES) as served:
        yield served


# --- the limits themselves, with small numbers ---


async def application(scope: Any, receive: Any, send: Any) -> None:
    scheme = scope["scheme"].encode()
    headers = [(b"content-length", b"%d" % len(scheme))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": scheme})


class Served(uvicorn.Server):
    def __init__(self, certificate: Certificate, limits: ConnectionLimits) -> None:
        config = uvicorn.Config(
            application, loop="uvloop", log_level="error", lifespan="off", timeout_graceful_shutdown=1
        )
        self.bounds = Connections(limits)
        super().__init__(bounded(config, self.bounds))
        self.certificate = certificate
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        open_tls_listeners(self, [self.listener], self.certificate, self.bounds)


@contextmanager
def serving(authority: Authority, **limits: Any) -> Iterator[Served]:
    cert, key = authority.issue("localhost")
    chosen = ConnectionLimits(**{"connections": 100, "of_a_peer": 100, **limits})
    server = Served(Certificate(cert, key, own=False), chosen)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started and len(server.servers) == 1, what="the server")
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join(20)
        server.listener.close()
        assert not thread.is_alive()


def begin(server: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def read_all(connection: socket.socket) -> bytes:
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except (ConnectionResetError, ssl.SSLEOFError):
        pass
    return found


def ask(server: Served, authority: Authority) -> bytes:
    context = ssl.create_default_context(cafile=str(authority.file))
    with begin(server) as raw, context.wrap_socket(raw, server_hostname="localhost") as connection:
        connection.sendall(GET)
        return read_all(connection)


def test_both_kinds_are_served_at_one_port(authority: Authority) -> None:
    with serving(authority) as server:
        assert ask(server, authority).endswith(b"https")
        with begin(server) as plain:
            plain.sendall(GET[:1])
            plain.sendall(GET[1:])
            assert read_all(plain).endswith(b"http")


def test_it_must_begin_in_time(authority: Authority) -> None:
    with serving(authority, receive_s=1.0) as server:
        for half in (b"", HALF_A_HELLO):
            with begin(server) as late:
                late.sendall(half)
                assert read_all(late) == b"", "it was cut"
        wait_for(lambda: not server.bounds._peers, what="the end of all")
        assert ask(server, authority).endswith(b"https")


def test_what_has_waited_longest_makes_room(authority: Authority) -> None:
    with serving(authority, connections=10, of_a_peer=10) as server, ExitStack() as held:
        waiting = [held.enter_context(begin(server)) for _ in range(30)]
        for half in waiting[20:]:
            half.sendall(HALF_A_HELLO)
        assert ask(server, authority).endswith(b"https")
        for cut in waiting[:20]:
            assert read_all(cut) == b""


def test_what_is_neither_or_leaves_is_forgotten(authority: Authority) -> None:
    with serving(authority) as server:
        for said in (b"\x16" + b"\xff" * 50, b"\x00\x01\x02", HALF_A_HELLO, b""):
            with begin(server) as other:
                other.sendall(said)
                other.shutdown(socket.SHUT_WR)
                read_all(other)
        wait_for(lambda: not server.bounds._peers, what="the end of all")
        assert ask(server, authority).endswith(b"https")


def test_old_versions_of_tls_are_refused(authority: Authority) -> None:
    context = ssl.create_default_context(cafile=str(authority.file))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated|TLSv1_1 is deprecated"):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with serving(authority) as server, begin(server) as raw, pytest.raises(ssl.SSLError):
        context.wrap_socket(raw, server_hostname="localhost")


def test_a_connection_cut_before_its_handshake_ran_is_closed_and_forgotten(authority: Authority) -> None:
    """A task that is cancelled before its first step runs nothing, not even `finally`."""

    async def cut() -> bytes:
        cert, key = authority.issue("localhost")
        bounds = Connections(ConnectionLimits(connections=100, of_a_peer=100))
        server, client = socket.socketpair()
        with socket.create_server(("127.0.0.1", 0)) as listener, client:
            tls_listener = TlsListener(
                listener, Certificate(cert, key, own=False), bounds, lambda: pytest.fail("opened")
            )
            knock = Knock(tls_listener, server, ("a peer", 1))
            bounds.enter(knock)
            tls_listener.knocks.add(knock)
            client.sendall(HALF_A_HELLO)
            knock._first_byte()
            tls_listener.close()
            await tls_listener.wait_closed()
            assert not bounds._peers
            return read_all(client)

    assert asyncio.run(cut()) == b""


def test_it_stops_though_some_have_not_begun(authority: Authority) -> None:
    with ExitStack() as held, serving(authority) as server:
        for half in (b"", HALF_A_HELLO):
            held.enter_context(begin(server)).sendall(half)
        assert ask(server, authority).endswith(b"https")
