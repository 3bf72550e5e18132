"""An engine that is not to be trusted sends us elsewhere: nobody else ever hears from us."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime, ping

Answer = Callable[[str, str], tuple[int, dict[str, str], bytes]]
TASK = "schedulearn-j-1-0"


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """An HTTP server; yields its host and port. `answer`: (method, path) -> (status, headers, body)."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, body = answer(self.command, self.path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def victim() -> Iterator[tuple[str, list[str]]]:
    """A server that nobody should talk to, and what reached it."""
    heard: list[str] = []

    def answer(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        heard.append(f"{method} {path}")
        return 200, {"Content-Type": "application/json"}, b"{}"

    with serving(answer) as where:
        yield where, heard


@pytest.fixture(params=[301, 302, 303, 307, 308])
def hostile(request: pytest.FixtureRequest, victim: tuple[str, list[str]]) -> Iterator[str]:
    """An engine that tells its version, and answers all else with a redirect."""

    def answer(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        if path.endswith("/version"):
            return 200, {"Content-Type": "application/json"}, json.dumps({"ApiVersion": "1.41"}).encode()
        return request.param, {"Location": f"http://{victim[0]}/api/v1/hosts/local/cordon"}, b""

    with serving(answer) as where:
        yield f"tcp://{where}"


def test_no_request_follows_a_redirect(hostile: str, victim: tuple[str, list[str]], tmp_path: Path) -> None:
    runtime = DockerRuntime("h", hostile, tmp_path, "c")
    asks: list[Callable[[], object]] = [
        runtime.survey,
        runtime.observe,
        lambda: runtime.images.has("x"),
        lambda: list(runtime.images.fetch("x")),
        lambda: list(runtime.images.save("x")),
        lambda: runtime.images.load(iter([b"x"])),
        runtime.disk,
        lambda: runtime.images.remove("x"),
        lambda: runtime.stop(TASK, 1),
        lambda: runtime.pause(TASK),
        lambda: runtime.remove(TASK),
        runtime.checkpoints.jobs,
        lambda: list(runtime.checkpoints.save("j")),
        lambda: runtime.checkpoints.load("j", iter([b"x"])),
    ]
    for ask in asks:
        with pytest.raises(RuntimeFault, match="redirect"):
            ask()
    runtime.close()
    assert victim[1] == []


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "HEAD"])
def test_neither_does_a_stream(hostile: str, victim: tuple[str, list[str]], method: str) -> None:
    engine = Engine(hostile)
    with pytest.raises(RuntimeFault, match="redirect"), engine.errors("x"), engine.stream(method, "/x") as stream:
        list(stream.chunks())
    engine.close()
    assert victim[1] == []


def test_what_redirects_its_version_is_no_engine(victim: tuple[str, list[str]]) -> None:
    def answer(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        return 307, {"Location": f"http://{victim[0]}{path}"}, b""

    with serving(answer) as where:
        assert "redirect" in (ping(f"tcp://{where}") or "")
    assert victim[1] == []


def test_an_answer_that_nothing_has_changed_is_no_redirect() -> None:
    """Which an engine gives to the start of what runs, and to the stop of what does not."""

    def answer(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        body = json.dumps({"ApiVersion": "1.41"}).encode() if path.endswith("/version") else b""
        return (200 if body else 304), {"Content-Type": "application/json"}, body

    with serving(answer) as where:
        engine = Engine(f"tcp://{where}")
        engine.api.start("x")
        engine.api.stop("x")
        engine.close()
