"""kill -9 of the service at any moment: no acknowledged job is lost, none runs twice, no GPU is leased twice."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import httpx
import pytest
from lease_checks import check_intervals, check_leases
from services import IMAGE, Service

pytestmark = pytest.mark.process

ENDED = ("succeeded", "failed", "cancelled", "timeout")


def crash_through(served: Service, command: str, image: str, seed: int, crashes: int, jobs: int) -> list[str]:
    """Submits `jobs` jobs while the service is killed `crashes` times at random moments; returns those acknowledged."""
    dice = random.Random(seed)
    acknowledged: list[str] = []
    done = threading.Event()

    def submit() -> None:
        with httpx.Client(base_url=served.http.base_url, timeout=10) as client:
            for number in range(jobs):
                body = {
                    "name": f"job {number}", "type": "t", "container_image": image, "launcher": "none",
                    "command": command.replace("NAME", f"{seed}-{number}"), "required_gpus": dice.randint(1, 2),
                }  # fmt: skip
                while True:
                    try:
                        answer = client.post("/jobs", json=body, headers={"Idempotency-Key": f"{seed}-{number}"})
                        assert answer.status_code == 201, answer.text
                        acknowledged.append(answer.json()["id"])
                        break
                    except httpx.TransportError:
                        time.sleep(0.05)
                time.sleep(dice.random() * 0.1)
        done.set()

    thread = threading.Thread(target=submit)
    thread.start()
    for _ in range(crashes):
        time.sleep(dice.random() * 1.2)
        served.kill()
        check_leases(served)
        served.start(wait=dice.random() < 0.5)
    served.wait_ready()
    thread.join(timeout=60)
    assert done.is_set()
    return acknowledged


def check_all(served: Service, acknowledged: list[str], marks: Path | None) -> None:
    assert len(set(acknowledged)) == len(acknowledged)
    for job_id in acknowledged:
        job = served.wait(job_id, *ENDED, seconds=120)
        assert job["state"] == "succeeded", (job, served.log()[-3000:])
        assert len(job["tasks"]) == 1, "it was started twice"
    assert served.rows("SELECT count(*) FROM job") == [(len(acknowledged),)]
    assert served.rows("SELECT count(*) FROM lease") == [(0,)]
    check_intervals(served)
    if marks is not None:
        for mark in marks.iterdir():
            assert mark.read_text().count("ran") == 1, f"{mark.name} ran more than once"
        assert len(list(marks.iterdir())) == len(acknowledged)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (0, 2, 3))])
def test_local_jobs_survive_crashes_of_the_service(tmp_path: Path, seed: int) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with Service(tmp_path / "data") as served:
        command = f"sh -c 'echo ran >> {marks}/NAME; sleep 0.4'"
        acknowledged = crash_through(served, command, IMAGE, seed, crashes=5, jobs=12)
        check_all(served, acknowledged, marks)


@pytest.mark.long
@pytest.mark.docker
@pytest.mark.parametrize("seed", range(3))
def test_containers_survive_crashes_of_the_service(
    tmp_path: Path, docker_url: str, worker_image: str, seed: int
) -> None:
    with Service(tmp_path / "data", runtime="docker", env={"DOCKER_HOST": docker_url}) as served:
        acknowledged = crash_through(served, "sleep 0.5", worker_image, seed, crashes=4, jobs=8)
        check_all(served, acknowledged, None)


def test_a_job_that_runs_the_queue_and_the_policy_survive_a_crash(tmp_path: Path) -> None:
    with Service(tmp_path / "data", gpus=2) as served:
        assert served.http.put("/api/v1/policy", json={"algorithm": "round-robin"}).status_code == 200
        flag = tmp_path / "go"
        script = f"echo before; until [ -e {flag} ]; do sleep 0.02; done; echo after"
        job_id = served.submit_shell(script, gpus=2)
        before = served.wait(job_id, "running")
        waiting = served.submit("true")
        served.kill()
        served.start()
        after = served.job(job_id)
        assert after["state"] == "running"
        assert after["gpus"] == before["gpus"]
        assert served.http.get("/api/v1/policy").json()["algorithm"] == "round-robin"
        flag.touch()
        assert served.wait(job_id, "succeeded")["attempt"] == 1
        assert served.logs(job_id) == "before\nafter\n"
        served.wait(waiting, "succeeded")
