"""Connections of those who need no token: half-sent requests, endless headers, and very many of both."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from clusters import wait_for
from matrices import each
from services import Service
from websockets.sync.client import connect

from schedulearn.api.edge.connections import ConnectionLimits, Connections, bounded

FEW_FILES = ("sh", "-c", 'ulimit -n 256; exec "$0" "$@"')
HALF_A_HEAD = b"GET /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Rest: "
HALF_A_BODY = (
    b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path / "data", under=FEW_FILES) as served:
        yield served


@each([HALF_A_HEAD, HALF_A_BODY, b""], "half")
def test_300_half_sent_requests_at_256_files_stop_nothing(service: Service, half: bytes) -> None:
    with ExitStack() as held:
        for _ in range(300):
            attack = held.enter_context(closing(socket.create_connection(("127.0.0.1", service.port))))
            attack.sendall(half)
        job_id = service.submit("true")
        assert service.wait(job_id, "succeeded")["exit_code"] == 0
        assert "Too many open files" not in service.log()


@pytest.mark.process
def test_the_service_opens_as_many_files_as_it_may(tmp_path: Path) -> None:
    soft = ("sh", "-c", 'ulimit -Sn 256; exec "$0" "$@"')
    with Service(tmp_path / "data", under=soft) as served:
        assert served.process is not None
        limits = Path(f"/proc/{served.process.pid}/limits").read_text()
        [line] = [line for line in limits.splitlines() if line.startswith("Max open files")]
        allowed, possible = line.split()[3:5]
        assert int(allowed) == min(int(possible), 65_536) > 256


# --- the limits themselves, with small numbers ---


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        return
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/short":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"short"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"begun ", "more_body": True})
    if scope["path"] == "/stream":
        await receive()  # until the reader leaves
    await send({"type": "http.response.body", "body": b"done"})


@contextmanager
def serving(**limits: Any) -> Iterator[int]:
    config = uvicorn.Config(application, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    chosen = ConnectionLimits(**{"connections": 100, "of_a_peer": 100, **limits})
    server = uvicorn.Server(bounded(config, Connections(chosen)))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started, what="the server")
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)


def ask(port: int, request: bytes) -> bytes:
    with closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as connection:
        connection.sendall(request)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except ConnectionResetError:
        pass
    return found


def get(path: str = "/", headers: bytes = b"") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n".encode() + headers + b"\r\n"


@pytest.mark.parametrize(
    "large",
    [
        get(headers=b"X-Large: " + b"x" * 70_000 + b"\r\n"),
        get(headers=b"X: y\r\n" * 12_000),
        get("/" + "x" * 70_000),
        b"GET / HTTP/1.1\r\nX-Endless: " + b"x" * 200_000,
    ],
    ids=["one header", "many headers", "path", "endless"],
)
def test_a_head_has_a_limit(large: bytes) -> None:
    with serving() as port:
        answer = ask(port, large)
        assert answer.startswith(b"HTTP/1.1 431 "), answer[:200]
        assert b"application/problem+json" in answer
        assert b"200 OK" in ask(port, get(headers=b"X-Large: " + b"x" * 60_000 + b"\r\n"))


def test_a_large_body_is_none_of_the_heads_business() -> None:
    with serving() as port:
        body = b"x" * 500_000
        head = b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 500000\r\n\r\n"
        assert b"200 OK" in ask(port, head + body)


def test_requests_after_each_other_have_a_limit_each() -> None:
    with serving() as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(5):
            assert client.get("/", headers={"x-large": "x" * 50_000}).status_code == 200
        with closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" + get(headers=b"X: " + b"x" * 300_000 + b"\r\n"))
            assert b" 431 " in read_all(connection)


def test_answers_that_tell_their_length_come_whole_and_in_order() -> None:
    with serving() as port:
        post = b"POST /short HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}"
        requests = [b"HEAD /short HTTP/1.1\r\nHost: h\r\n\r\n", post, get("/short")]
        answers = ask(port, b"".join(requests)).split(b"HTTP/1.1 ")[1:]
        assert [answer[:3] for answer in answers] == [b"200", b"100", b"200", b"200"]
        assert [answer.partition(b"\r\n\r\n")[2] for answer in answers] == [b"", b"", b"short", b"short"]


@pytest.mark.parametrize("half", [HALF_A_HEAD, HALF_A_BODY, b""], ids=["head", "body", "nothing"])
def test_what_does_not_come_in_time_is_not_waited_for(half: bytes) -> None:
    with serving(receive_s=0.2) as port:
        assert ask(port, half).startswith(b"HTTP/1.1 408 ")


def test_an_answer_may_take_longer() -> None:
    with serving(receive_s=0.01) as port, closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as reader:
        reader.sendall(b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
        while b"begun" not in reader.recv(65536):
            pass
        # The sweep that ends this one had the stream before it.
        assert ask(port, HALF_A_HEAD).startswith(b"HTTP/1.1 408 ")
        reader.setblocking(False)
        with pytest.raises(BlockingIOError):
            reader.recv(1)


def test_those_that_work_are_kept_and_those_that_only_wait_make_room() -> None:
    with serving(connections=4, of_a_peer=4) as port, ExitStack() as held:
        client = held.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20))
        stream = held.enter_context(client.stream("GET", "/stream"))
        read = stream.iter_bytes()
        assert next(read) == b"begun "
        log = held.enter_context(connect(f"ws://127.0.0.1:{port}/"))
        first = held.enter_context(closing(socket.create_connection(("127.0.0.1", port), timeout=20)))
        first.sendall(HALF_A_HEAD)
        for _ in range(8):
            held.enter_context(closing(socket.create_connection(("127.0.0.1", port)))).sendall(HALF_A_BODY)
        assert b"200 OK" in ask(port, get())
        assert read_all(first) == b""  # it was the first to go
        log.ping().wait(10)


@pytest.mark.parametrize(
    ("limits", "status"),
    [({"connections": 20, "of_a_peer": 2}, 429), ({"connections": 2, "of_a_peer": 20}, 503)],
    ids=["of a peer", "of all"],
)
def test_where_all_work_a_newcomer_is_told_to_come_back(limits: dict[str, int], status: int) -> None:
    with serving(**limits) as port, ExitStack() as held:
        client = held.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20))
        streams = [held.enter_context(client.stream("GET", "/stream")).iter_bytes() for _ in range(2)]
        assert [next(stream) for stream in streams] == [b"begun ", b"begun "]
        answer = ask(port, get())
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert b"retry-after: 1" in answer.lower()
        held.close()
        wait_for(lambda: b"200 OK" in ask(port, get()), what="room")


def test_a_socket_that_ends_leaves_its_room_to_others() -> None:
    with serving(connections=20, of_a_peer=2) as port:
        for _ in range(6):
            with connect(f"ws://127.0.0.1:{port}/"):
                pass
        wait_for(lambda: b"200 OK" in ask(port, get()), what="room")
