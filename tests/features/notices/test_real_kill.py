"""A real service, killed while a real receiver has a notice and has not answered."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from clusters import wait_for
from services import Service


class Slow:
    """Receiver that answers nothing until `answers` is set."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.answers = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                outer.answers.wait(30)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    return  # the sender is gone

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.answers.set()
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.process
def test_a_notice_under_way_at_a_kill_comes_again_with_its_id(tmp_path: Path, slow: Slow) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("notice_networks: [127.0.0.0/8]\n")
    with Service(tmp_path / "data", "--config", str(config)) as service:
        address = f"http://127.0.0.1:{slow.server.server_port}/"
        service.call("PUT", "/api/v1/notify/own", {"address": address, "every_job": True})
        job = service.submit_shell("true")
        wait_for(lambda: slow.got, what="the notice to be under way")
        service.kill()
        slow.answers.set()
        service.start()
        wait_for(lambda: len(slow.got) == 2, what="the notice again")
        shown = f"/api/v1/jobs/{job}/notices"
        wait_for(lambda: service.call("GET", shown)["items"][0]["state"] == "sent", what="it to be recorded")
        last = service.submit_shell("true")
        wait_for(lambda: slow.got[-1]["job"]["id"] == last, what="a later one, after which none is left")
    first, again, _ = slow.got
    assert first["delivery"] == again["delivery"]
    assert first["job"]["id"] == again["job"]["id"] == job
