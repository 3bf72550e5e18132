"""The service as users run it, `schedulearn serve`, in a process that tests may kill at any moment."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

PLAIN = "plain"
"""An image name that means this machine's own programs in the process runtime: no Horovod needed."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Served:
    """`start`, `kill` (-9) and `start` again over the same data; `stop` ends it in order."""

    def __init__(
        self, data: Path, runtime: str = "process", gpus: int | None = 4, env: dict[str, str] | None = None
    ) -> None:
        """`gpus`: so many simulated ones; None: those that NVML shows."""
        self.data = data
        self.runtime = runtime
        self.gpus = gpus
        self.port = free_port()
        self.env = {**os.environ, "SCHEDULEARN_ENVIRONMENTS": f'{{"{PLAIN}": "/usr"}}', **(env or {})}
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=10)
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Served:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.http.close()

    def start(self, *, wait: bool = True) -> None:
        flags = {"port": self.port, "data": self.data, "runtime": self.runtime}
        if self.gpus is not None:
            flags["simulate-gpus"] = self.gpus
        command = [str(Path(sys.executable).parent / "schedulearn"), "serve"]
        command += [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        self.data.mkdir(parents=True, exist_ok=True)
        with (self.data / "service.log").open("ab") as log:
            self.process = subprocess.Popen(command, env=self.env, stdout=log, stderr=log, start_new_session=True)
        if wait:
            self.wait_ready()

    def wait_ready(self, seconds: float = 30.0) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process is not None
            if self.process.poll() is not None:
                raise AssertionError(f"the service ended:\n{self.log()}")
            try:
                if self.http.get("/healthz").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.02)
        raise AssertionError(f"the service is not ready after {seconds} s:\n{self.log()}")

    def kill(self) -> None:
        """kill -9, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            self.process = None

    def log(self) -> str:
        return (self.data / "service.log").read_text(errors="replace")

    def submit(self, command: str, gpus: int = 1, **fields: Any) -> str:
        body = {
            "name": "job", "type": "Pytorch", "container_image": PLAIN, "command": command, "required_gpus": gpus,
            "launcher": "none", **fields,
        }  # fmt: skip
        answer = self.http.post("/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/api/v1/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def wait(self, job_id: str, *states: str, seconds: float = 60.0) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while (job := self.job(job_id))["state"] not in states:
            if time.monotonic() > end:
                raise AssertionError(f"job {job_id} is not {states} after {seconds} s: {job}\n{self.log()[-3000:]}")
            time.sleep(0.05)
        return job

    def logs(self, job_id: str) -> str:
        return self.http.get(f"/api/v1/jobs/{job_id}/logs").text

    def rows(self, query: str) -> list[Any]:
        """Straight from the database file, also while the service is dead."""
        with closing(sqlite3.connect(self.data / "schedulearn.db", timeout=10)) as connection:
            return connection.execute(query).fetchall()


def check_intervals(served: Served) -> None:
    """From the history of tasks: no GPU was in two tasks at a time, no job in two attempts at a time."""
    rows = served.rows("SELECT job_id, attempt, id, gpu_uuids, started_at, finished_at FROM task WHERE started_at > 0")
    spans: dict[str, list[tuple[float, float, str]]] = {}
    attempts: dict[tuple[str, str], tuple[float, float]] = {}
    for job_id, attempt, task_id, gpus, started, finished in rows:
        end = finished or time.time()
        for uuid in gpus.strip("[]").split(", "):
            spans.setdefault(uuid, []).append((started, end, task_id))
        first, last = attempts.get((job_id, f"attempt {attempt}"), (started, end))
        attempts[job_id, f"attempt {attempt}"] = (min(first, started), max(last, end))
    for (job_id, name), (first, last) in attempts.items():
        spans.setdefault(job_id, []).append((first, last, name))
    for key, found in spans.items():
        found.sort()
        for (_, end, before), (begin, _, after) in pairwise(found):
            assert begin >= end - 0.005, f"{key} was in {before} and {after} at a time"


def check_leases(served: Served) -> None:
    """Right now: each leased GPU belongs to one live task."""
    leases = Counter(uuid for (uuid,) in served.rows("SELECT gpu_uuid FROM lease"))
    assert all(count == 1 for count in leases.values()), leases
    orphans = served.rows("SELECT l.task_id FROM lease l JOIN task t ON t.id = l.task_id WHERE t.state = 'ended'")
    assert orphans == []
