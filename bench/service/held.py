"""The longest time for which one request keeps others waiting: looks at the service, and submissions of a job.

Each request has a service of its own, to which one job was sent before.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path

from bench.measured_service import JOB, Service, service, verdict

MAX_S = 0.1
BATCH = 10_000
FAMILIES = [{**JOB, "command": f"{number} {'x' * 80}"} for number in range(BATCH)]
"""A body of nearly 2 MiB, as large as a batch may be."""
RUNS = [{"what": f"{number} {'x' * 180}"} for number in range(BATCH)]
"""A body of nearly 2 MiB, as large as that of a sweep may be."""
SWEEP = {
    "name": "bench",
    "job": {**{key: JOB[key] for key in JOB if key != "name"}, "command": "echo {what}"},
    "list": RUNS,
}
ELASTIC = 700
"""More than a comparison of policies plays on."""


class Asker:
    """Asks for the same again and again, over one connection, while something else is going on."""

    def __init__(self, target: Service, method: str, path: str, body: object = None, pause_s: float = 0.01) -> None:
        self.longest_s = 0.0
        self.computing_s = 0.0
        """The longest time for which the service computed meanwhile: other programs do not count."""
        self._target = target
        self._request = (method, path, json.dumps(body) if body is not None else None)
        self._pause_s = pause_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Asker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._target.port, timeout=60)
        while not self._over.wait(self._pause_s):
            began, computed = time.monotonic(), _computed(self._target.pid)
            connection.request(*self._request, headers={"content-type": "application/json"})
            connection.getresponse().read()
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            self.computing_s = max(self.computing_s, _computed(self._target.pid) - computed)
        connection.close()


def _ask(target: Service, method: str, path: str, body: bytes | None) -> None:
    """Computes nothing here: who asks beside it would wait for this process, not for the service."""
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=300)
    connection.request(method, path, body, {"content-type": "application/json"})
    answer = connection.getresponse()
    while answer.read(1 << 16):
        pass
    connection.close()
    if answer.status >= 400:
        raise RuntimeError(f"{method} {path} was refused: {answer.status}")


def _computed(pid: int) -> float:
    """Seconds that all threads of a process have computed."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def main() -> bool:
    waits = {**JOB, "required_gpus": 1, "elastic": True, "max_gpus": 8}
    requests: dict[str, tuple[str, str, object]] = {
        f"a batch of {BATCH} jobs": ("POST", "/api/v1/jobs:batch", [JOB] * BATCH),
        f"a batch of {BATCH} families": ("POST", "/api/v1/jobs:batch", FAMILIES),
        f"a sweep of {BATCH} runs": ("POST", "/api/v1/sweeps", SWEEP),
        f"a comparison of policies for {ELASTIC} jobs": ("GET", "/api/v1/policy/comparison", None),
    }
    kept = []
    for name, (method, path, body) in requests.items():
        sent = None if body is None else json.dumps(body).encode()
        with service("--runtime", "process", "--simulate-gpus", "1") as target:
            target.request("POST", "/jobs", {**JOB, "command": "sleep 3600"})
            if body is None:
                target.request("POST", "/api/v1/jobs:batch", [waits] * ELASTIC)
            looks, sends = Asker(target, "GET", "/healthz"), Asker(target, "POST", "/jobs", JOB, 0.05)
            time.sleep(3)
            began = time.monotonic()
            with looks, sends:
                _ask(target, method, path, sent)
            print(f"  {name} took {time.monotonic() - began:.1f} s")
            for what, asker in (("a look", looks), ("a submission", sends)):
                told = f"{1e3 * asker.longest_s:.0f} ms, {1e3 * asker.computing_s:.0f} ms of them computing"
                kept.append(verdict(f"{name}: longest wait of {what}", told, f"{1e3 * MAX_S:.0f} ms",
                                    asker.longest_s < MAX_S))  # fmt: skip
            for job in target.get("/api/v1/jobs?state=running")["items"]:
                target.request("DELETE", f"/api/v1/jobs/{job['id']}")
    return all(kept)
