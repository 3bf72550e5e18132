"""Real training that is resized or killed while it runs: every sample of an epoch once, and it learns the same."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import Served

from schedulearn.api.reach import bridge_address
from schedulearn.scheduler.runtimes.docker import DockerRuntime

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests/worker/script.py"
SAMPLES = 1437

pytestmark = [
    pytest.mark.horovod,
    pytest.mark.skipif(
        not os.environ.get("SCHEDULEARN_TEST_TRAINING"),
        reason="NOT tested here: resizing and killing real training takes 10 minutes. Run `make test-training`",
    ),
]


class Training:
    """One elastic job that runs tests/worker/script.py, and what its workers wrote down."""

    def __init__(self, served: Served, out: Path, launcher: str, *flags: str, **fields: Any) -> None:
        self.served = served
        self.out = out
        out.mkdir()
        command = " ".join(["python", str(SCRIPT), launcher, str(out), *flags])
        self.id = served.submit(
            command, container_image="horovod", elastic=True, max_gpus=4, launcher=launcher, **fields
        )

    def lines(self) -> list[dict[str, Any]]:
        """One for each pass of each worker that got anywhere, in order of time."""
        found = []
        for file in self.out.glob("seen-*.jsonl"):
            attempt = int(file.name.split("-")[1])
            text = file.read_text()
            found += [{**json.loads(line), "attempt": attempt} for line in text[: text.rfind("\n") + 1].splitlines()]
        return sorted(found, key=lambda line: line["at"])

    def lasting(self) -> list[dict[str, Any]]:
        """Without the steps that a later attempt did again from a checkpoint."""
        lines = self.lines()
        began = {}
        for line in lines:
            began.setdefault(line["attempt"], line["step"])
        return [
            line
            for line in lines
            if all(line["step"] < step for attempt, step in began.items() if attempt > line["attempt"])
        ]

    def wait_for(self, size: int, epoch: int, seconds: float = 90.0) -> None:
        """Until `size` workers have done some steps, in epoch `epoch` or later."""
        end = time.monotonic() + seconds
        while sum(line["size"] == size and line["epoch"] >= epoch for line in self.lines()) < 8 * size:
            job = self.served.job(self.id)
            assert job["state"] not in ("failed", "succeeded"), self.served.logs(self.id)[-3000:]
            assert time.monotonic() < end, (job, self.served.logs(self.id)[-3000:], self.served.log()[-2000:])
            time.sleep(0.05)

    def finish(self) -> float:
        """The final accuracy."""
        job = self.served.wait(self.id, "succeeded", "failed", seconds=150)
        log = self.served.logs(self.id)
        assert job["state"] == "succeeded", log[-3000:]
        return float(re.findall(r"final accuracy ([0-9.]+)", log)[-1])

    def check_samples(self, epochs: int) -> None:
        for epoch in range(epochs):
            seen = Counter(
                index
                for line in self.lasting()
                if line["epoch"] == epoch and line["weight"] > 0
                for index in line["seen"]
            )
            assert sorted(seen) == list(range(SAMPLES)), f"epoch {epoch} left out {SAMPLES - len(seen)} samples"
            assert set(seen.values()) == {1}, f"epoch {epoch} saw {seen.most_common(3)}"

    def losses(self) -> list[float]:
        """The mean over the workers of each step."""
        steps: dict[int, list[float]] = {}
        for line in self.lasting():
            steps.setdefault(line["step"], []).append(line["loss"])
        return [sum(values) / len(values) for _, values in sorted(steps.items())]


def resize(served: Served, gpus: int) -> None:
    answer = served.http.put("/api/v1/policy", json={"algorithm": "sized", "params": {"gpus": gpus}})
    assert answer.status_code == 200, answer.text


@pytest.fixture
def served(tmp_path: Path, horovod_env: Path) -> Iterator[Served]:
    env = {
        "SCHEDULEARN_POLICIES": json.dumps([f"{ROOT / 'tests/support/resizing.py'}:Sized"]),
        "SCHEDULEARN_ENVIRONMENTS": json.dumps({"horovod": str(horovod_env)}),
        "SCHEDULEARN_REPORT_INTERVAL": "1",
        "SCHEDULEARN_CHECKPOINT_INTERVAL": "2",
    }
    with Served(tmp_path / "data", env=env) as service:
        resize(service, 1)
        yield service


def test_a_job_that_is_resized_while_it_trains_learns_the_same(served: Served, tmp_path: Path) -> None:
    epochs = 16
    job = Training(served, tmp_path / "resized", "horovod", "--epochs", str(epochs), "--pause", "0.03")
    for size, epoch in ((1, 0), (2, 1), (4, 3), (1, 5)):
        resize(served, size)
        job.wait_for(size, epoch)
    accuracy = job.finish()
    assert [task["exit_code"] for task in served.job(job.id)["tasks"]] == [75, 75, 75, 0]
    assert served.job(job.id)["restarts"] == 3
    job.check_samples(epochs)
    losses = job.losses()
    sizes = [line["size"] for line in job.lasting()]
    assert sorted(set(sizes)) == [1, 2, 4]
    # No jump: around a resize, the loss is what it was, within what it varies by anyway.
    lines = job.lasting()
    for before, after in pairwise(lines):
        if after["attempt"] > before["attempt"]:
            step = after["step"]
            left, right = losses[max(0, step - 30) : step], losses[step : step + 30]
            assert sum(right) / len(right) < 1.3 * sum(left) / len(left) + 0.05, f"the loss jumps at step {step}"
    resize(served, 1)
    plain = Training(served, tmp_path / "plain", "horovod", "--epochs", str(epochs))
    assert abs(plain.finish() - accuracy) <= 0.01
    plain.check_samples(epochs)
    profile = served.http.get(f"/api/v1/jobs/{job.id}/profile").json()
    assert {observation["num_gpus"] for observation in profile["observations"]} == {1, 2, 4}
    assert profile["progress"]["epochs"] == epochs
    assert profile["noise_scale"] > 0
    assert len(profile["metrics"]["accuracy"]) >= 5


def test_whatever_is_killed_the_job_finishes(served: Served, tmp_path: Path) -> None:
    epochs = 10
    resize(served, 2)
    job = Training(served, tmp_path / "out", "horovod", f"--epochs {epochs} --pause 0.03 --ballast 30")
    checkpoints = served.data / "checkpoints" / job.id
    job.wait_for(2, 0)
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
    assert [task["exit_code"] for task in served.job(job.id)["tasks"]] in ([137, 137, 0], [137, None, 0])
    for before, after in pairwise(lines := job.lines()):
        if after["attempt"] > before["attempt"]:
            again = [line for line in lines if line["attempt"] == before["attempt"] and line["step"] >= after["step"]]
            lost = max(line["at"] for line in again) - min(line["at"] for line in again) if again else 0.0
            assert lost < 2 + 4, f"{lost:.1f} s of work were lost, with a checkpoint every 2 s"


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come within {seconds} s"
        time.sleep(0.002)


def last_attempt(job: Training) -> int:
    return max((line["attempt"] for line in job.lines()), default=0)


def environments(job_id: str) -> Iterator[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                found = (entry / "environ").read_bytes()
                if f"SCHEDULEARN_JOB_ID={job_id}".encode() in found:
                    yield int(entry.name), found


def processes_of(job_id: str) -> list[int]:
    return [pid for pid, _ in environments(job_id)]


def worker_of(job_id: str, rank: int) -> int:
    [pid] = [pid for pid, env in environments(job_id) if f"HOROVOD_RANK={rank}".encode() in env.split(b"\0")]
    return pid


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_the_measured_profile_and_not_the_request_decides_who_gets_gpus(served: Served, tmp_path: Path) -> None:
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
    with Served(tmp_path / "data", runtime="docker", env=env) as served:
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
        assert "schedulearn: goes on at epoch" in served.logs(job)
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
        assert docker.checkpoints() == [job]
        for task in docker.observe():
            docker.remove(task.task_id)
        docker.drop_checkpoints(job)
        assert docker.checkpoints() == []
    finally:
        docker.close()


def cluster_of(served: Served) -> str:
    [(found,)] = served.rows("SELECT value FROM meta WHERE key = 'cluster_id'")
    return str(found)


def test_with_torchrun_too(served: Served, tmp_path: Path) -> None:
    epochs = 5
    job = Training(
        served, tmp_path / "out", "torchrun", f"--epochs {epochs} --pause 0.02 --batch 64 --max-batch 64 --max-local 16"
    )
    for size, epoch in ((1, 0), (2, 1)):
        resize(served, size)
        job.wait_for(size, epoch)
    assert job.finish() > 0.8
    job.check_samples(epochs)
    assert {len(line["seen"]) for line in job.lines()} <= set(range(1, 18)), "more in one pass than fits"
