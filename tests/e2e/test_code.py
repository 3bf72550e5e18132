"""A folder that was never an image trains: its code is sent, and runs in containers of a real engine."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import docker
import pytest
from clusters import wait_for
from servers.wheels import make_wheel, serve_folder
from services import Service

from schedulearn.scheduler.core.job_image import layer_of, layer_tag, layered

pytestmark = pytest.mark.long

SCRIPT = """
import json, pathlib
import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(hvd.rank())
slope = json.loads(pathlib.Path("data/truth.json").read_text())["slope"]
model = torch.nn.Linear(1, 1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.3))
for step in range(60):
    x = torch.rand(64, 1)
    loss = ((model(x) - slope * x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if hvd.rank() == 0:
    pathlib.Path("learned.txt").write_text(f"{model.weight.item():.2f}")
    print("rank 0 of", hvd.size(), "in", pathlib.Path.cwd(), "learned", pathlib.Path("learned.txt").read_text())
"""


@pytest.mark.docker
@pytest.mark.horovod
def test_a_folder_trains_in_containers_on_two_gpus(
    tmp_path: Path, docker_url: str, worker_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "nets"
    (project / "data").mkdir(parents=True)
    (project / "train.py").write_text(SCRIPT)
    (project / "data" / "truth.json").write_text('{"slope": 3.0}')
    monkeypatch.chdir(project)
    env = {"DOCKER_HOST": docker_url, "SCHEDULEARN_DEFAULT_IMAGE": worker_image}
    with Service(tmp_path / "data", runtime="docker", env=env) as served:
        job = served.run("run", "-d", "--gpus", "2", "--", "python", "train.py").out.strip()
        served.wait(job, "succeeded", "failed", seconds=180)
        learned = re.search(r"rank 0 of 2 in /workspace learned ([0-9.]+)", served.logs(job))
        assert learned, served.logs(job)
        assert float(learned[1]) == pytest.approx(3.0, abs=0.5)
        (project / "train.py").write_text("import os; print('edited, in', os.getcwd(), sorted(os.listdir()))")
        again = served.run("run", "--", "python", "train.py")
        assert "edited, in /workspace ['data', 'train.py']" in again.out


@pytest.mark.docker
@pytest.mark.horovod
def test_requirements_become_a_layer_over_the_image_that_jobs_share(
    tmp_path: Path, docker_url: str, worker_image: str
) -> None:
    name = f"greeting{uuid.uuid4().hex[:8]}"  # nobody else on this engine has such a layer
    make_wheel(tmp_path / "wheels", name, "def main():\n    print('good morning')\n")
    client = docker.APIClient(base_url=docker_url)
    gateway = gateway_of(client, worker_image)
    with (
        serve_folder(tmp_path / "wheels", gateway) as index,
        Service(tmp_path / "data", runtime="docker", env={"DOCKER_HOST": docker_url}) as served,
    ):
        asked = ["--no-index", f"--find-links {index}", f"--trusted-host {gateway}", name]
        fields = {"container_image": worker_image, "launcher": "none", "requirements": asked}
        tag = layer_tag(layered(worker_image, layer_of(asked)))
        try:
            first = served.wait(served.submit(name, **fields), "succeeded", "failed", seconds=180)
            assert (first["state"], served.logs(first["id"])) == ("succeeded", "good morning\n"), first["message"]
            assert "job.pulling" in kinds(served, first["id"])
            base, made = client.inspect_image(worker_image), client.inspect_image(tag)
            assert made["Config"]["Labels"]["schedulearn.layer.base"] == base["Id"]
            same = ("Env", "WorkingDir", "Cmd", "Entrypoint")
            assert [made["Config"].get(key) or [] for key in same] == [base["Config"].get(key) or [] for key in same]
            assert made["Config"]["User"] == (base["Config"]["User"] or "0")
            program = f"python -c 'import {name}, torch; print(torch.__version__)'"
            again = served.wait(served.submit(program, **fields), "succeeded", "failed", seconds=120)
            assert again["state"] == "succeeded"
            assert "job.pulling" not in kinds(served, again["id"])
            wrong = served.submit("true", **{**fields, "requirements": ["--no-index", f"{name}==9"]})
            failed = served.wait(wrong, "succeeded", "failed", seconds=120)
            assert (failed["state"], failed["reason"]) == ("failed", "image_unavailable")
            assert f"No matching distribution found for {name}==9" in failed["message"]
            mine = {"label": f"schedulearn.layer.build={tag}"}
            wait_for(lambda: not client.containers(all=True, filters=mine), what="the end of what built the layer")
        finally:
            served.cancel_all()
            client.remove_image(tag, force=True)
            client.close()


def gateway_of(client: docker.APIClient, image: str) -> str:
    """Where a container finds this host. (An engine's first start leaves it out of the network: moby issue 26799.)"""
    container = client.create_container(image, ["sleep", "60"])["Id"]
    try:
        client.start(container)
        return str(client.inspect_container(container)["NetworkSettings"]["Networks"]["bridge"]["Gateway"])
    finally:
        client.remove_container(container, force=True)


def kinds(service: Service, job_id: str) -> list[str]:
    return [event["kind"] for event in service.call("GET", f"/api/v1/jobs/{job_id}/events")["items"]]
