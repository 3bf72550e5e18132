"""The main job on real input: a five-key job trains a CNN on handwritten digits with Horovod, and is watched."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import docker
import pytest
from clusters import wait_for
from docker.models.containers import Container
from services import Service

ROOT = Path(__file__).parents[2]
DIGITS = json.loads((ROOT / "worker_images/examples/digits/job.json").read_text())


def accuracy(log: str) -> float:
    found = re.findall(r"final test accuracy ([0-9.]+)", log)
    assert found, f"no accuracy in the log:\n{log[-3000:]}"
    return float(found[-1])


def test_the_example_is_just_the_five_keys() -> None:
    assert list(DIGITS) == ["name", "type", "container_image", "command", "required_gpus"]
    assert DIGITS["required_gpus"] == 2


@pytest.mark.process
@pytest.mark.docker
@pytest.mark.horovod
def test_digits_train_in_a_container_that_sees_just_its_two_gpus(
    tmp_path: Path, docker_url: str, worker_image: str
) -> None:
    with Service(tmp_path / "data", runtime="docker", env={"DOCKER_HOST": docker_url}) as served:
        answer = served.http.post("/jobs", json=DIGITS)
        assert answer.status_code == 201
        job_id = answer.json()["id"]
        running = served.wait(job_id, "running", seconds=120)
        leased = [gpu["uuid"] for gpu in running["gpus"]]
        assert len(set(leased)) == 2
        assert sorted(leased) == sorted(uuid for (uuid,) in served.rows("SELECT gpu_uuid FROM lease"))
        client = docker.DockerClient(base_url=docker_url)
        try:
            container = client.containers.get(f"schedulearn-{job_id}-1-0")
            env = dict(entry.split("=", 1) for entry in container.attrs["Config"]["Env"])
            assert env["NVIDIA_VISIBLE_DEVICES"] == ",".join(leased)
            config = container.attrs["HostConfig"]
            assert config["ShmSize"] == 8 << 30, "4 GiB a GPU"
            assert not config["Privileged"]
            assert not config["Binds"]
            assert {mount["Type"] for mount in container.attrs["Mounts"]} == {"volume"}, "it has a folder of the host"
            launcher = "horovodrun -np 2 -H localhost:2"  # soon: it follows the engine's init and our own first words
            wait_for(lambda: any(launcher in " ".join(row) for row in processes_of(container)), what=launcher)
        finally:
            client.close()
        ended = served.wait(job_id, "succeeded", "failed", seconds=180)
        log = served.logs(job_id)
        assert ended["state"] == "succeeded", log
        assert accuracy(log) > 0.90
        assert all(uuid in log for uuid in leased), "the workers did not see their GPUs"
        assert served.rows("SELECT count(*) FROM lease") == [(0,)]
        end = time.monotonic() + 20
        while (left := docker_names(docker_url, job_id)) and time.monotonic() < end:
            time.sleep(0.1)
        assert left == [], "its container was not removed"
        assert served.logs(job_id) == log, "its log was lost with its container"


def docker_names(url: str, job_id: str) -> list[str]:
    client = docker.DockerClient(base_url=url)
    try:
        found = client.api.containers(all=True, filters={"name": job_id})  # `list` fails if another's goes meanwhile
        return [name for container in found for name in container["Names"]]
    finally:
        client.close()


@pytest.mark.long
@pytest.mark.process
@pytest.mark.horovod
def test_digits_train_as_local_processes_where_there_is_no_docker(tmp_path: Path, horovod_env: Path) -> None:
    with Service(tmp_path / "data", runtime="process") as served:
        job_id = served.http.post("/jobs", json=DIGITS).json()["id"]
        ended = served.wait(job_id, "succeeded", "failed", seconds=180)
        log = served.logs(job_id)
        assert ended["state"] == "succeeded", log
        assert accuracy(log) > 0.90
        leased = ended["tasks"][0]["gpu_uuids"]
        assert all(uuid in log for uuid in leased)


@pytest.mark.long
@pytest.mark.process
@pytest.mark.horovod
def test_a_training_job_that_is_cancelled_leaves_no_process_behind(tmp_path: Path, horovod_env: Path) -> None:
    with Service(tmp_path / "data", runtime="process") as served:
        job_id = served.http.post("/jobs", json={**DIGITS, "command": DIGITS["command"] + " --epochs 1000"}).json()[
            "id"
        ]
        served.wait(job_id, "running", seconds=60)
        end = time.monotonic() + 60
        while "epoch" not in served.logs(job_id) and time.monotonic() < end:
            time.sleep(0.2)
        served.http.delete(f"/jobs/{job_id}")
        served.wait(job_id, "cancelled", seconds=30)
        assert _processes_of(job_id) == []


def _processes_of(job_id: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"SCHEDULEARN_JOB_ID={job_id}".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.process
@pytest.mark.horovod
@pytest.mark.parametrize("runtime", ["process", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_failing_job_shows_the_exit_code_of_its_command_not_of_its_launcher(
    tmp_path: Path, request: pytest.FixtureRequest, runtime: str
) -> None:
    env = {"DOCKER_HOST": request.getfixturevalue("docker_url")} if runtime == "docker" else {}
    image = request.getfixturevalue("worker_image") if runtime == "docker" else DIGITS["container_image"]
    if runtime == "process":
        request.getfixturevalue("horovod_env")
    with Service(tmp_path / "data", runtime=runtime, env=env) as served:
        jobs = {
            launcher: served.submit("sh -c 'exit 3'", 2, container_image=image, launcher=launcher)
            for launcher in ("horovod", "torchrun")
        }
        for launcher, job_id in jobs.items():
            job = served.wait(job_id, "failed", seconds=120)
            assert (job["exit_code"], job["reason"]) == (3, "command_failed"), (launcher, served.logs(job_id))
            assert "exit code 3" in job["message"], launcher


def processes_of(container: Container) -> list[list[str]]:
    """Whole lines, however wide the engine's terminal was. None for a moment, while the engine starts it."""
    return container.top(ps_args="-ww -eo pid,args")["Processes"] or []
