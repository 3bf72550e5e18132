"""The service with this machine's GPU: a job is pinned and recognised, a stranger respected, energy and cost count."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from bench.gpu.machine import ROOT, TRAIN, Machine, started
from bench.gpu.report import Check, Skipped, passed

T = TypeVar("T")
SERVE = ROOT / ".venv/bin/schedulearn"
WAIT_S = 120.0
CONTAINER_S = 3600.0
"""The image with CUDA may have to be built."""


class Service:
    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid

    def ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def gpu(self, uuid: str) -> dict[str, Any]:
        found = [gpu for gpu in self.ask("/api/v1/gpus") if gpu["uuid"] == uuid]
        return dict(found[0]) if found else {}

    def submit(self, name: str, image: str, command: str, env: dict[str, str], gpus: int = 1) -> str:
        body = {
            "name": name, "type": "Pytorch", "container_image": image, "command": command, "required_gpus": gpus,
            "launcher": "none", "elastic": False, "env": env, "user": "gpu-check",
        }  # fmt: skip
        return str(self.ask("/api/v1/jobs", body)["id"])

    def job(self, job: str) -> dict[str, Any]:
        return dict(self.ask(f"/api/v1/jobs/{job}"))

    def wait(self, what: str, probe: Callable[[], T], seconds: float = WAIT_S) -> T:
        end = time.monotonic() + seconds
        while not (found := probe()):
            if time.monotonic() > end:
                raise RuntimeError(f"waited {seconds:.0f} s for {what}")
            time.sleep(0.5)
        return found


@contextmanager
def service(runtime: str, environment: Path | None) -> Iterator[Service]:
    if not SERVE.exists():
        raise Skipped(f"{SERVE} is missing: run `make setup`")
    with socket.socket() as probe, tempfile.TemporaryDirectory(prefix="schedulearn-gpu-check-") as data:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        own = {} if environment is None else {"SCHEDULEARN_ENVIRONMENTS": json.dumps({"gpu-check": str(environment)})}
        command = [SERVE, "serve", "--port", str(port), "--data", data, "--runtime", runtime]
        with (
            open(Path(data) / "serve.log", "w") as log,
            subprocess.Popen(command, env={**os.environ, **own}, stdout=log, stderr=log) as process,
        ):
            try:
                served = Service(f"http://127.0.0.1:{port}", process.pid)
                served.wait("the service", lambda: process.poll() is not None or _answers(served))
                if process.poll() is not None:
                    said = (Path(data) / "serve.log").read_text().strip()
                    raise RuntimeError(f"the service ended: {said[-200:]}")
                yield served
            finally:
                process.terminate()


def _answers(served: Service) -> bool:
    try:
        return bool(served.ask("/api/v1/gpus"))
    except (urllib.error.URLError, OSError):
        return False


def local_job(machine: Machine) -> Iterator[Check]:
    """A job by local processes, then a stranger on the same GPU."""
    uuid = machine.needs_gpu()["uuid"]
    machine.needs_training()
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    train = f"{sys.executable} {TRAIN} resnet50 --batch 32 --seconds 90"
    with service("process", Path(sys.prefix)) as served:
        job = served.submit("gpu-check", "gpu-check", train, {"PYTHONPATH": path})
        served.wait("the job's process on the GPU", lambda: (served.gpu(uuid).get("reading") or {}).get("processes"))
        time.sleep(20)
        seen = served.gpu(uuid)
        recognised = seen["state"] == "used" and not seen["occupied_by"]
        yield passed("the job's process is its own", recognised, f"{seen['state']}, {seen['jobs']}", f"used, {job}")
        yield from _no_memory(served, uuid)
        ended = served.wait("the job to end", lambda: _ended(served, job), 300)
        good = ended["state"] == "succeeded"
        yield passed("a pinned job by local processes", good, ended["state"], "succeeded")
        yield from _energy(served)
        with started("resnet18", "--batch", 16, "--seconds", 60, SCHEDULEARN_JOB_ID="") as stranger:
            taken = served.wait("the stranger to be seen", lambda: served.gpu(uuid)["occupied_by"])
            named = str(stranger.pid) in taken
            waits = served.submit("gpu-check waits", "gpu-check", "true", {})
            time.sleep(10)
            status = served.job(waits)["state"]
            yield passed("a stranger is respected", named and status == "queued", f"{taken}; {status}", "seen; queued")
        served.wait("the GPU to be free again", lambda: _ended(served, waits))


def _no_memory(served: Service, uuid: str) -> Iterator[Check]:
    """The service, whose probe is in its own process here, is not among those that hold memory of the GPU."""
    pids = {each["pid"] for each in served.gpu(uuid)["reading"]["processes"]}
    yield passed(
        "the service holds no memory of the GPU", served.pid not in pids, f"{sorted(pids)}", f"not {served.pid}"
    )


def _energy(served: Service) -> Iterator[Check]:
    """It is added up once a minute."""

    def drawn() -> dict[str, Any] | None:
        rows = served.ask("/api/v1/usage?by=user&gpu_hour_price=2")
        return next((dict(row) for row in rows if row["user"] == "gpu-check" and row["energy_kwh"] > 0), None)

    row = served.wait("the energy of the job", drawn)
    measured = f"{3600 * row['energy_kwh']:.1f} kJ, {row['gpu_hours']:.3f} GPU-hours, cost {row['cost']:.3f}"
    yield passed("energy and cost of the job", row["cost"] > 0, measured, "above 0")


def _ended(served: Service, job: str) -> dict[str, Any] | None:
    found = served.job(job)
    return found if found["state"] in ("succeeded", "failed", "cancelled", "timeout") else None


def docker_with_gpus() -> None:
    """Raises Skipped where containers get no GPUs."""
    if shutil.which("docker") is None:
        raise Skipped("Docker is missing")
    info = subprocess.run(["docker", "info", "--format", "{{json .}}"], capture_output=True, text=True, check=False)
    if info.returncode != 0:
        raise Skipped(f"no Docker Engine answers: {info.stderr.strip()[:100]}")
    said = json.loads(info.stdout)
    if "nvidia" not in (said.get("Runtimes") or {}) and not said.get("DiscoveredDevices"):
        raise Skipped("its Docker gives no GPUs to containers: install the NVIDIA container toolkit")


def container_job(machine: Machine) -> Iterator[Check]:
    """One name of a framework, which must mean the image with CUDA here."""
    machine.needs_gpu()
    docker_with_gpus()
    code = "import torch; print(torch.cuda.device_count(), torch.ones(1000, device='cuda').sum().item())"
    with service("docker", None) as served:
        job = served.submit("gpu-check", "schedulearn/pytorch", f'python -c "{code}"', {})
        ended = served.wait("the job in a container", lambda: _ended(served, job), CONTAINER_S)
        good = ended["state"] == "succeeded"
        yield passed("a job in a container with CUDA", good, f"{ended['state']}: {ended['message']}", "succeeded")
