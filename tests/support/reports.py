"""What takes a worker's reports in place of the service."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from schedulearn.worker.environment import Environment


class ReportTaker:
    """Takes reports as the real one does; `answers` are the codes of the next ones."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.times: list[float] = []
        self.answers: list[int] = []
        taker = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                code = taker.answers.pop(0) if taker.answers else 200
                taker.bodies.append((code, self.headers["authorization"], body))
                taker.times.append(time.monotonic())
                self.send_response(code)
                if code == 429:
                    self.send_header("retry-after", "1")
                self.end_headers()
                self.wfile.write(b'{"models": {}}')

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def env(self, **changes: Any) -> Environment:
        values: dict[str, Any] = {
            "job_id": "j", "attempt": 1, "num_nodes": 1, "token": "j.x", "report_interval": 0.05,
            "report_url": self.url, "checkpoint_dir": None, "checkpoint_interval": 300.0,
        }  # fmt: skip
        return Environment(**{**values, **changes})

    def wait_for(self, count: int) -> None:
        end = time.monotonic() + 10
        while len(self.bodies) < count:
            assert time.monotonic() < end
            time.sleep(0.005)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/api/v1/reports"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
