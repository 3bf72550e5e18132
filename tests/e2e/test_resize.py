"""Real training that is resized or killed while it runs: every sample of an epoch once, and it learns the same."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from lease_checks import check_intervals, check_leases
from services import Service
from training import ROOT, Training, kill, last_attempt, processes_of, resize, serve, wait_until, worker_of

from schedulearn.api.reach import bridge_address
from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime

pytestmark = [
    pytest.mark.long,
    pytest.mark.horovod,
    pytest.mark.skipif(
        not os.environ.get("SCHEDULEARN_TEST_TRAINING"),
        reason="NOT tested here: resizing and killing real training takes 10 minutes. Run `make test-training`",
    ),
]


@pytest.fixture
def served(tmp_path: Path, horovod_env: Path) -> Iterator[Service]:
    with serve(tmp_path / "data", horovod_env) as service:
        yield service


SEEDS = (0, 1, 2)
EPOCHS = 16


@pytest.fixture(scope="module")
def unresized(tmp_path_factory: pytest.TempPathFactory, horovod_env: Path) -> float:
    """The accuracy that the job comes to by itself, averaged over the seeds."""
    folder = tmp_path_factory.mktemp("unresized")
    with serve(folder / "data", horovod_env) as served:
        jobs = [Training(served, folder / str(seed), "horovod", f"--epochs {EPOCHS} --seed {seed}") for seed in SEEDS]
        found = [job.finish() for job in jobs]
        for job in jobs:
            job.check_samples(EPOCHS)
    return sum(found) / len(found)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["restart", "in-place"])
def test_a_job_that_is_resized_while_it_trains_learns_the_same(
    served: Service, tmp_path: Path, unresized: float, how: str
) -> None:
    accuracies, stalls = [], []
    for seed in SEEDS:
        resize(served, 1)
        flags = f"--epochs {EPOCHS} --pause 0.2 --seed {seed}"
        job = Training(served, tmp_path / str(seed), "horovod", flags, resize=how)
        for size in (1, 2, 4, 1):
            resize(served, size)
            job.wait_for(size)
        job.hurry()
        accuracies.append(job.finish())
        job.check_samples(EPOCHS)
        job.check_losses()
        assert [(before, after) for before, after, _ in job.stalls()] == [(1, 2), (2, 4), (4, 1)]
        stalls += [seconds for _, _, seconds in job.stalls()]
        found = served.job(job.id)
        assert found["restarts"] == (3 if how == "restart" else 0)
        if how == "restart":
            assert [task["exit_code"] for task in found["tasks"]] == [75, 75, 75, 0]
        else:
            assert [task["exit_code"] for task in found["tasks"]] == [0, 0, 0, 0]
            assert max(stalls) <= 6, stalls
        profile = served.http.get(f"/api/v1/jobs/{job.id}/profile").json()
        assert profile["progress"]["epochs"] == EPOCHS
        assert profile["noise_scale"] > 0
        measured = [value for _, value, _ in profile["metrics"]["stall_seconds"]]
        assert measured == pytest.approx(stalls[-3:], abs=1.0), "the policies reckon with another stall"
    assert abs(sum(accuracies) / len(accuracies) - unresized) <= 0.01
    check_intervals(served)
    check_leases(served)
    print(f"{how}: stalls of {', '.join(f'{seconds:.2f}' for seconds in stalls)} s")


def test_whatever_is_killed_the_job_finishes(served: Service, tmp_path: Path) -> None:
    epochs = 10
    resize(served, 2)
    job = Training(served, tmp_path / "out", "horovod", f"--epochs {epochs} --pause 0.03 --ballast 30")
    checkpoints = served.data / "checkpoints" / job.id
    job.wait_for(2)
    wait_until(lambda: list(checkpoints.glob("*.json")), "a checkpoint")
    kill(worker_of(job.id, rank=1))  # one worker
    wait_until(lambda: last_attempt(job) == 2, "the second attempt")
    served.kill()  # the service, while training goes on
    wait_until(lambda: list(checkpoints.glob("*.partial")), "a checkpoint being written")
    kill(*processes_of(job.id))  # and the whole of the job, just then
    served.start()
    wait_until(lambda: last_attempt(job) == 3, "the third attempt")
    job.finish()
    job.check_samples(epochs)
    found = served.job(job.id)
    # No exit code: nobody saw how it ended, or the service had begun less than 15 s before, when whatever was killed
    # counts as lost with the engine.
    assert [task["exit_code"] in (137, None) for task in found["tasks"][:2]] == [True, True]
    assert (found["tasks"][2]["exit_code"], len(found["tasks"]), found["restarts"]) == (0, 3, 2)
    for before, after in pairwise(lines := job.lines()):
        if after["attempt"] > before["attempt"]:
            again = [line for line in lines if line["attempt"] == before["attempt"] and line["step"] >= after["step"]]
            lost = max(line["at"] for line in again) - min(line["at"] for line in again) if again else 0.0
            assert lost < 2 + 4, f"{lost:.1f} s of work were lost, with a checkpoint every 2 s"


def test_the_measured_profile_and_not_the_request_decides_who_gets_gpus(served: Service, tmp_path: Path) -> None:
    """Two jobs ask for the same. The time of one goes with its samples, of which each GPU has fewer; the other's steps
    take as long on any number of GPUs, which are not worth their price to it."""
    answer = served.http.put(
        "/api/v1/policy", json={"algorithm": "goodput", "metric": "cost", "params": {"base_s": 3600}}
    )
    assert answer.status_code == 200, answer.text
    jobs = {
        name: Training(served, tmp_path / name, "horovod", "--epochs 1000", flags, required_gpus=2)
        for name, flags in (("well", "--pause-per-sample 0.002"), ("badly", "--pause 0.13"))
    }

    def gpus() -> dict[str, int]:
        return {name: len(served.job(job.id)["gpus"]) for name, job in jobs.items()}

    def predicted(name: str) -> list[float]:
        profile = served.http.get(f"/api/v1/jobs/{jobs[name].id}/profile").json()
        return [prediction["goodput"] for prediction in profile["predictions"]]

    def measured(name: str) -> set[int]:
        profile = served.http.get(f"/api/v1/jobs/{jobs[name].id}/profile").json()
        return {observation["num_gpus"] for observation in profile["observations"]}

    # Before that, what two GPUs would do is a guess, and the same for both.
    wait_until(lambda: all(2 in measured(name) for name in jobs), "both measured on two GPUs", 150)
    wait_until(lambda: gpus()["well"] > gpus()["badly"] >= 1, "more GPUs for the job that uses them", 150)
    well, badly = predicted("well"), predicted("badly")
    assert well[1] / well[0] > badly[1] / badly[0]  # by how much depends on what else the machine does
    for job in jobs.values():
        served.http.delete(f"/jobs/{job.id}")
    for job in jobs.values():
        served.wait(job.id, "cancelled", seconds=60)


@pytest.mark.docker
def test_containers_report_through_the_bridge_and_go_on_from_their_volume(
    tmp_path: Path, docker_url: str, worker_image: str
) -> None:
    env = {
        "DOCKER_HOST": docker_url,
        "SCHEDULEARN_POLICIES": json.dumps([f"{ROOT / 'tests/support/resizing.py'}:Sized"]),
        "SCHEDULEARN_REPORT_INTERVAL": "1",
    }
    with Service(tmp_path / "data", runtime="docker", env=env) as served:
        resize(served, 1)
        body = json.loads((ROOT / "worker_images/examples/digits/job-sdk.json").read_text())
        job = served.submit(body.pop("command") + " --epochs 10000 --max-batch 64", **{**body, "launcher": "horovod"})

        def measured_on() -> set[int]:
            profile = served.http.get(f"/api/v1/jobs/{job}/profile").json()
            return {observation["num_gpus"] for observation in profile["observations"]}

        served.wait(job, "running", seconds=120)
        wait_until(lambda: measured_on() == {1}, "a report of one worker", 120)
        resize(served, 2)
        wait_until(lambda: measured_on() == {1, 2}, "a report of two workers", 120)
        assert "schedulearn: continues at epoch" in served.logs(job)
        profile = served.http.get(f"/api/v1/jobs/{job}/profile").json()
        assert profile["progress"]["steps"] > 0
        served.http.delete(f"/jobs/{job}")
        served.wait(job, "cancelled", seconds=60)
        # From the bridge, reports are taken and nothing else, whatever name is used.
        gateway = bridge_address()
        assert gateway is not None
        url = f"http://{gateway}:{served.port}"
        assert httpx.post(f"{url}/api/v1/reports").status_code == 401
        for host in (f"{gateway}:{served.port}", "127.0.0.1", "localhost"):
            assert httpx.get(f"{url}/api/v1/jobs", headers={"host": host}).status_code == 403
    docker = DockerRuntime("local", docker_url, tmp_path / "data", cluster_of(served))
    try:
        assert docker.checkpoints.jobs() == [job]
        for task in docker.observe():
            docker.remove(task.task_id)
        docker.checkpoints.drop(job)
        assert docker.checkpoints.jobs() == []
    finally:
        docker.close()


def cluster_of(served: Service) -> str:
    [(found,)] = served.rows("SELECT value FROM meta WHERE key = 'cluster_id'")
    return str(found)


def test_with_torchrun_too(served: Service, tmp_path: Path) -> None:
    epochs = 5
    job = Training(
        served, tmp_path / "out", "torchrun", f"--epochs {epochs} --pause 0.02 --batch 64 --max-batch 64 --max-local 16"
    )
    for size in (1, 2):
        resize(served, size)
        job.wait_for(size)
    assert job.finish() > 0.8
    job.check_samples(epochs)
    assert {len(line["seen"]) for line in job.lines()} <= set(range(1, 18)), "more in one pass than fits"
