"""Jobs that are resized in place, while the service or a worker is killed in the middle of it, and in containers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from lease_checks import check_intervals, check_leases
from services import Service
from training import ROOT, Training, kill, last_attempt, member_of, resize, serve, wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.horovod,
    pytest.mark.skipif(
        not os.environ.get("SCHEDULEARN_TEST_TRAINING"),
        reason="NOT tested here: resizing and killing real training takes 10 minutes. Run `make test-training`",
    ),
]
EPOCHS = 12


@pytest.fixture
def served(tmp_path: Path, horovod_env: Path) -> Iterator[Service]:
    with serve(tmp_path / "data", horovod_env) as service:
        yield service
        check_intervals(service)
        check_leases(service)


def train(served: Service, out: Path, flags: str = "") -> Training:
    return Training(served, out, "horovod", f"--epochs {EPOCHS} --pause 0.3 {flags}", resize="in-place")


def finish(job: Training) -> None:
    job.hurry()
    job.finish()
    job.check_samples(EPOCHS)


def test_a_resize_outlives_the_service(served: Service, tmp_path: Path) -> None:
    """It is killed right after it has decided, while the new workers start; and again while some leave. Their loaders
    have processes of their own, which must outlive the request to leave too."""
    job = train(served, tmp_path / "out", "--num-workers 1")
    job.wait_for(1)
    resize(served, 3)
    member_of(job.id, 1)
    served.kill()
    before = len(job.lines())
    wait_until(lambda: len(job.lines()) > before + 20, "training without the service")
    served.start()
    job.wait_for(3)
    resize(served, 1)
    served.kill()
    served.start()
    job.wait_for(1)
    finish(job)
    assert served.job(job.id)["restarts"] == 0


def test_a_new_worker_that_is_killed_leaves_the_others_in_peace(served: Service, tmp_path: Path) -> None:
    job = train(served, tmp_path / "out")
    job.wait_for(1)
    resize(served, 2)
    kill(member_of(job.id, 1))
    job.wait_for(2)  # with another one
    finish(job)
    found = served.job(job.id)
    assert found["restarts"] == 0
    assert [(task["rank"], task["outcome"]) for task in found["tasks"]] == [
        (0, "completed"), (1, "resized"), (2, "completed"),
    ]  # fmt: skip


def test_a_worker_that_is_killed_while_it_trains_costs_what_a_restart_does(served: Service, tmp_path: Path) -> None:
    resize(served, 2)
    job = train(served, tmp_path / "out")
    job.wait_for(2)
    checkpoints = served.data / "checkpoints" / job.id
    wait_until(lambda: list(checkpoints.glob("*.json")), "a checkpoint")
    kill(member_of(job.id, 1))
    wait_until(lambda: last_attempt(job) == 2, "the second attempt")
    resize(served, 1)
    job.wait_for(1)
    finish(job)
    assert served.job(job.id)["restarts"] == 1


def test_a_job_that_is_cancelled_while_it_grows_leaves_nothing(served: Service, tmp_path: Path) -> None:
    job = train(served, tmp_path / "out")
    job.wait_for(1)
    resize(served, 3)
    member_of(job.id, 2)
    served.http.delete(f"/jobs/{job.id}")
    served.wait(job.id, "cancelled", seconds=60)
    assert served.rows("SELECT task_id FROM lease") == []


def test_scripts_that_do_not_meet_are_told_why(served: Service) -> None:
    """Two workers would train alone, each the whole of it."""
    resize(served, 2)
    job = served.submit(
        "python -c pass", container_image="horovod", elastic=True, max_gpus=2, launcher="horovod", resize="in-place"
    )
    found = served.wait(job, "failed", "succeeded")
    assert found["state"] == "failed"
    assert "schedulearn.worker.torch" in found["message"]


@pytest.mark.docker
def test_containers_come_and_go_while_a_job_trains(tmp_path: Path, docker_url: str, worker_image: str) -> None:
    env = {
        "DOCKER_HOST": docker_url,
        "SCHEDULEARN_POLICIES": json.dumps([f"{ROOT / 'tests/support/resizing.py'}:Sized"]),
        "SCHEDULEARN_REPORT_INTERVAL": "1",
    }
    with Service(tmp_path / "data", runtime="docker", env=env) as served:
        resize(served, 1)
        body = json.loads((ROOT / "worker_images/examples/digits/job-sdk.json").read_text())
        body |= {"launcher": "horovod", "resize": "in-place"}
        job = served.submit(body.pop("command") + " --epochs 10000 --max-batch 64", **body)

        def profile(what: str) -> list[float]:
            return [v for _, v, _ in served.http.get(f"/api/v1/jobs/{job}/profile").json()["metrics"].get(what, [])]

        served.wait(job, "running", seconds=120)
        wait_until(lambda: profile("loss"), "a report of one worker", 120)
        for times, gpus in enumerate((2, 4, 1), 1):
            resize(served, gpus)
            wait_until(lambda: len(profile("stall_seconds")) == times, f"{gpus} workers", 120)  # noqa: B023
        print("stalls:", profile("stall_seconds"))
        assert max(profile("stall_seconds")) <= 6
        wait_until(lambda: len(served.job(job)["gpus"]) == 1, "the end of those that left")
        assert served.job(job)["restarts"] == 0
        assert [len(task["gpu_uuids"]) for task in served.job(job)["tasks"]] == [1, 1, 1, 1]
        check_leases(served)
        served.http.delete(f"/jobs/{job}")
        served.wait(job, "cancelled", seconds=60)
        check_intervals(served)
