"""The real application under a real server, over the fake runtime: what a client sees, without containers."""

from __future__ import annotations

import importlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import uvicorn
from clusters import wait_for
from fakes.runtime import FakeRuntime
from fastapi import FastAPI
from gpu_probes.memory import FakeProbe
from starlette.routing import WebSocketRoute

from schedulearn.api.app import create_app
from schedulearn.api.edge.connections import Connections, bounded, limits_for
from schedulearn.api.routes import legacy
from schedulearn.api.settings import load_settings
from schedulearn.features import FEATURES
from schedulearn.features.interactive.terminals import routes as terminals
from schedulearn.features.sweeps import advisor, searcher, tuner
from schedulearn.scheduler.core.host_facts import FoundGpu
from schedulearn.scheduler.hosts.embedded import EmbeddedHost
from schedulearn.scheduler.hosts.fleet import MakeRuntime

FIVE_KEYS: dict[str, Any] = {
    "name": "digits",
    "type": "Pytorch",
    "container_image": "schedulearn/horovod-cpu",
    "command": "python examples/digits/train.py",
    "required_gpus": 2,
}

PATIENCE_S = 120
"""Advice, and the comparison of all policies, take many seconds where the machine is busy."""
ROLES = ("viewer", "user", "admin")


@cache
def openapi() -> dict[str, Any]:
    """The description of the API that the service serves."""
    app: Any = create_app(load_settings(), features=FEATURES)
    while not isinstance(app, FastAPI):
        app = app.app
    return app.openapi()


def sockets() -> list[str]:
    """The paths of its WebSockets, which that description has not."""
    routes = [route for module in (legacy, terminals) for route in module.router.routes]
    return [route.path for route in routes if isinstance(route, WebSocketRoute)]


def described_routes() -> list[tuple[str, str]]:
    """(method, path with the names of its parameters as their values) of each route."""
    return [
        (method.upper(), path.replace("{", "").replace("}", ""))
        for path, methods in openapi()["paths"].items()
        for method in methods
    ]


@dataclass
class Api:
    http: httpx.Client
    runtime: FakeRuntime
    directory: Path

    def submit(self, **fields: Any) -> str:
        answer = self.http.post("/api/v1/jobs", json={**FIVE_KEYS, **fields})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/api/v1/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def wait(self, job_id: str, *states: str) -> dict[str, Any]:
        return wait_for(
            lambda: job if (job := self.job(job_id))["state"] in states else None,
            what=f"{job_id} to be {states}", pause=0.02,
        )  # fmt: skip

    def write_log(self, job_id: str, data: bytes, *, end: bool = False, attempt: int = 1) -> None:
        """What the runtime of a real host would leave in the log store."""
        from schedulearn.scheduler.runtimes.log_store import LogStore

        writer = LogStore(self.directory / "logs").writer(f"schedulearn-{job_id}-{attempt}-0")
        writer.append(data)
        writer.close() if end else writer.abandon()


def ask_here(module: str, question: object, timeout_s: float) -> str:
    """Answer as `ask_child` does, without a child process.

    A child process loads scikit-learn, which takes 2 s. tests/features/sweeps/advisor/test_*_commands.py cover it.
    """
    asked = importlib.import_module(f"schedulearn.features.sweeps.{module}")
    return str(asked.answer_to(json.dumps(question)))


@contextmanager
def serve_api(
    directory: Path,
    gpus: int = 4,
    probe: FakeProbe | None = None,
    make_runtime: MakeRuntime | None = None,
    gpu_types: Sequence[str] = (),
    **settings: Any,
) -> Iterator[Api]:
    """`make_runtime`: for further hosts. `gpu_types`: of each of the GPUs."""
    runtime = FakeRuntime("local")
    rows = [
        FoundGpu(f"GPU-{i}", i, gpu_types[i] if gpu_types else "simulated", 1 << 34, simulated=True)
        for i in range(gpus)
    ]
    app = create_app(
        load_settings(data=directory, **settings),
        lambda *_: EmbeddedHost("local", "fake", "fake", runtime, list(rows), probe=probe),
        make_runtime=make_runtime,
        features=FEATURES,
    )
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        log_level="warning",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=20,
        proxy_headers=False,
    )
    server = uvicorn.Server(bounded(config, Connections(limits_for(2048))))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started, what="the server")
        port = server.servers[0].sockets[0].getsockname()[1]
        headers = {"authorization": f"Bearer {settings['token']}"} if "token" in settings else {}
        with (
            httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=PATIENCE_S) as http,
            patch.object(advisor, "ask_child", ask_here),
            patch.object(searcher, "ask_child", ask_here),
            patch.object(tuner, "ask_child", ask_here),
        ):
            wait_for(lambda: http.get("/healthz").status_code != 503, what="the first scheduling cycle")
            yield Api(http, runtime, directory)
    finally:
        server.should_exit = True
        thread.join(timeout=60)
    assert not thread.is_alive()
    runtime.check()


def run_experiment(api: Api, body: dict[str, Any], kind: str = "experiments") -> str:
    """An experiment, or a search, of which each run has succeeded."""
    answer = api.http.post(f"/api/v1/{kind}", json=body)
    assert answer.status_code == 201, answer.text
    found = answer.json()["id"]
    finished: set[str] = set()

    def ended() -> bool:
        for job in api.http.get("/api/v1/jobs", params={"state": "running", "limit": 100}).json()["items"]:
            if job["sweep"] == found and job["id"] not in finished:
                finished.add(job["id"])
                api.runtime.finish(f"schedulearn-{job['id']}-1-0", 0)
        return bool(api.http.get(f"/api/v1/sweeps/{found}").json()["finished_at"])

    wait_for(ended, seconds=240, what="the end of all runs")
    return str(found)


def read_sse(response: httpx.Response, seconds: float = 10.0) -> Iterator[dict[str, Any]]:
    """{id, event, data} of each server-sent event."""
    found: dict[str, Any] = {}
    end = time.monotonic() + seconds
    for line in response.iter_lines():
        if time.monotonic() > end:
            raise AssertionError(f"no end of the stream within {seconds} s")
        if not line and found:
            yield found
            found = {}
        elif line and not line.startswith(":"):
            key, _, value = line.partition(": ")
            found[key] = json.loads(value) if key == "data" else value


def token_for(api: Api, name: str, role: str, **more: object) -> str:
    """Adds somebody, and makes a token for them."""
    made = api.http.post("/api/v1/users", json={"name": name, "role": role})
    assert made.status_code == 201, made.text
    answer = api.http.post("/api/v1/tokens", json={"name": f"{name}'s", "user": name, "role": role, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


@contextmanager
def known_by(api: Api, token: str) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=api.http.base_url, headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE_S
    ) as somebody:
        yield somebody
