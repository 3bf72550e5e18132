"""docker-compose.yml as a user brings it up, on a real engine: jobs report, outlive it, and go when told. With
`make test-training` they grow to four GPUs as well, which takes minutes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from clusters import wait_for

pytestmark = [pytest.mark.long, pytest.mark.docker, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]

# Each sample takes its time, so that two workers are twice as fast, on any machine.
SCRIPT = """
import time
import horovod.torch as hvd
import torch
import schedulearn.worker.torch as worker

hvd.init()
data = torch.utils.data.TensorDataset(torch.randn(4096, 8), torch.randn(4096, 1))
model = torch.nn.Linear(8, 1)
run = worker.Run(64, 64, min_local=4)
loader = run.loader(data)
optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.01), model)
for epoch in run.epochs(10_000, model=model):
    for x, y in loader:
        optimizer.zero_grad()
        time.sleep(0.004 * len(x))
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
"""
# Beside the real file: reports and decisions that a test need not wait for long.
QUICK = {"SCHEDULEARN_REPORT_INTERVAL": "3", "SCHEDULEARN_INTERVAL": "5", "SCHEDULEARN_SIMULATE_GPUS": "4"}


GOODPUT: dict[str, Any] = {"algorithm": "goodput", "metric": "speed", "params": {"base_s": 3600}}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Project:
    """One `docker compose up`, under a name and at a port of its own."""

    def __init__(self, compose: list[str], engine: str, folder: Path) -> None:
        self.engine = engine
        self.name = f"schedulearn-test-{uuid.uuid4().hex[:8]}"
        self.port = free_port()
        quick = folder / "quick.json"
        quick.write_text(json.dumps({"services": {"schedulearn": {"environment": QUICK}}}))
        self._words = [*compose, "-p", self.name, "-f", str(ROOT / "docker-compose.yml"), "-f", str(quick)]
        self._env = {
            **os.environ,
            "DOCKER_HOST": engine,
            "DOCKER_SOCKET": engine.removeprefix("unix://"),
            "SCHEDULEARN_PORT": str(self.port),
            # The network of a build on this machine is what the machine's own is.
            "BUILD_NETWORK": "host",
        }

    def run(self, *words: str, stdin: bytes = b"", code: int = 0) -> bytes:
        done = subprocess.run(
            [*self._words, *words], env=self._env, input=stdin, capture_output=True, timeout=600, check=False
        )
        assert done.returncode == code, (done.stdout + done.stderr).decode(errors="replace")[-4000:]
        return done.stdout

    def docker(self, *words: str) -> list[str]:
        done = subprocess.run(["docker", *words], env=self._env, capture_output=True, text=True, check=True)
        return done.stdout.split()

    def left(self, cluster: str) -> list[str]:
        """Containers and volumes of the project, and of its jobs."""
        labels = [f"schedulearn.cluster={cluster}", f"com.docker.compose.project={self.name}"]
        return [
            name
            for label in labels
            for name in self.docker("ps", "-aq", "--filter", f"label={label}")
            + self.docker("volume", "ls", "-q", "--filter", f"label={label}")
        ]


@pytest.fixture
def project(docker_url: str, worker_image: str, tmp_path: Path) -> Iterator[Project]:
    if not docker_url.startswith("unix://"):
        pytest.skip(f"NOT tested here: docker-compose.yml needs the engine's socket, and this one is {docker_url}")
    found = subprocess.run([ROOT / "scripts/dev-compose.sh"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"NO DOCKER COMPOSE, so docker-compose.yml is NOT tested: {found.stderr.strip()}")
    words = found.stdout.strip().splitlines()[-1].removeprefix("COMPOSE=").split()
    made = Project(words, docker_url, tmp_path)
    yield made
    made.run("down", "-v")


def test_under_compose_jobs_report_and_grow_outlive_the_service_and_are_uninstalled(project: Project) -> None:
    project.run("up", "-d", "--build")
    log = wait_for(
        lambda: text if "SCHEDULEARN_TOKEN=$(" in (text := project.run("logs").decode()) else "",
        seconds=60,
        what="ready",
    )
    [size] = project.docker("image", "inspect", "--format", "{{.Size}}", "schedulearn/server")
    assert int(size) < 600e6, "the docker command without the engine that Debian ships with it"
    project.run("exec", "-T", "schedulearn", "docker", "--version")
    project.run("exec", "-T", "schedulearn", "ssh", "-V")
    [page] = re.findall(r"Schedulearn is ready: (\S+)/ui/", log)
    assert page == f"http://127.0.0.1:{project.port}"
    assert "`docker compose exec -T schedulearn cat /data/token` shows it" in log
    token = project.run("exec", "-T", "schedulearn", "cat", "/data/token").decode()
    http = httpx.Client(base_url=page, headers={"authorization": f"Bearer {token}"}, timeout=10)
    assert http.get("/ui/").status_code == 200
    cluster = ""
    try:
        job = submit(http)
        container = wait_for(lambda: project.docker("ps", "-q", "--filter", f"label=schedulearn.job={job}"), seconds=60)
        [cluster] = project.docker(
            "inspect", "--format", '{{index .Config.Labels "schedulearn.cluster"}}', container[0]
        )
        # Longer than the minute that a first report may take, for machines that do much else.
        wait_for(
            lambda: 1 in measured(http, job), seconds=180, what=f"a report: {project.run('logs').decode()[-2000:]}"
        )
        if os.environ.get("SCHEDULEARN_TEST_TRAINING"):
            choose(http, **GOODPUT)
            wait_for(lambda: 4 in measured(http, job), seconds=480, what="a profile of four GPUs")
            choose(http, algorithm="fifo")  # which resizes nothing: the service shall not end in the middle of that
            wait_for(lambda: http.get(f"/api/v1/jobs/{job}").json()["state"] == "running", seconds=120)

        saved = project.run("exec", "-T", "schedulearn", "schedulearn", "backup", "-")
        project.run("down")
        assert project.docker("ps", "-q", "--filter", f"label=schedulearn.job={job}"), "the job goes on without it"
        listed = project.run("run", "--rm", "-T", "schedulearn", "uninstall", "--keep-images", stdin=b"n\n", code=130)
        assert f"schedulearn-{job}-" in listed.decode()
        project.run("run", "--rm", "-T", "schedulearn", "uninstall", "--keep-images", "--yes")
        project.run("down", "-v")
        assert project.left(cluster) == []

        project.run("run", "--rm", "-T", "schedulearn", "restore", "-", stdin=saved)
        assert project.run("run", "--rm", "-T", "--entrypoint", "cat", "schedulearn", "/data/token").decode() == token
    finally:
        http.close()
        for name in project.docker("ps", "-aq", "--filter", f"label=schedulearn.cluster={cluster or 'none'}"):
            project.docker("rm", "-f", "-v", name)


def choose(http: httpx.Client, **policy: Any) -> None:
    answer = http.put("/api/v1/policy", json=policy)
    assert answer.status_code == 200, answer.text


def submit(http: httpx.Client) -> str:
    body = {
        "name": "paced", "type": "Pytorch", "container_image": "schedulearn/horovod-cpu", "required_gpus": 1,
        "elastic": True, "max_gpus": 4, "command": "python -c \"import os; exec(os.environ['SCRIPT'])\"",
        "env": {"SCRIPT": SCRIPT, "OMP_NUM_THREADS": "1"},
    }  # fmt: skip
    answer = http.post("/api/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def measured(http: httpx.Client, job: str) -> set[int]:
    """On how many GPUs the job has been measured."""
    state: dict[str, Any] = http.get(f"/api/v1/jobs/{job}").json()
    assert state["state"] not in ("failed", "succeeded"), (state, http.get(f"/api/v1/jobs/{job}/logs").text[-3000:])
    profile = http.get(f"/api/v1/jobs/{job}/profile").json()
    return {seen["num_gpus"] for seen in profile["observations"]}
