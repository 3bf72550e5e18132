"""Jobs that are resized in place, as their workers meet the service: who they hear of, and when."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import Api, serve_api
from clusters import wait_for

POLICY = Path(__file__).parents[1] / "support/resizing.py"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, report_url="http://127.0.0.1:1", policies=[f"{POLICY}:Sized"]) as served:
        yield served


def resize(api: Api, gpus: int) -> None:
    answer = api.http.put("/api/v1/policy", json={"algorithm": "sized", "params": {"gpus": gpus}})
    assert answer.status_code == 200, answer.text


class Worker:
    """One of a job's workers, by the variables of its container."""

    def __init__(self, api: Api, job: str, number: int, attempt: int = 1) -> None:
        self.task = f"schedulearn-{job}-{attempt}-{number}"
        wait_for(lambda: self.task in [task.task_id for task in api.runtime.tasks()], what=self.task)
        self.api = api
        self.env = api.runtime.env(self.task)
        self.number = number

    def asks(self, **changes: Any) -> httpx.Response:
        body = {
            "attempt": int(self.env["SCHEDULEARN_ATTEMPT"]), "member": self.number, "leads": self.number == 0,
            "trained": 0, "forming": False, "meeting": None, "known": 0, "hold": 0, **changes,
        }  # fmt: skip
        with httpx.Client(base_url=self.api.http.base_url, timeout=20) as client:
            headers = {"authorization": f"Bearer {self.env['SCHEDULEARN_JOB_TOKEN']}"}
            return client.post("/api/v1/reports/membership", headers=headers, json=body)

    def hears(self, **changes: Any) -> dict[str, Any]:
        answer = self.asks(**changes)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


def started(api: Api, gpus: int = 1, **fields: Any) -> tuple[str, Worker]:
    """A job that trains on `gpus` GPUs, with its first worker."""
    resize(api, gpus)
    job = api.submit(elastic=True, required_gpus=1, max_gpus=4, resize="in-place", **fields)
    api.wait(job, "running")
    first = Worker(api, job, 0)
    if gpus > 1:
        first.hears(meeting={"generation": 1, "address": "10.0.0.2:1"}, known=1)
    first.hears(trained=1, known=1)
    return job, first


def measured(api: Api, job: str, worker: Worker) -> None:
    """Reports that the job gains by each GPU, as far as two."""
    times = {1: (0.1, 0.1), 2: (0.05, 0.051)}
    observations = [
        {"num_nodes": 1, "num_gpus": k, "atomic_batch": 64 // k, "passes": 50, "grad_time": grad, "iter_time": both}
        for k, (grad, both) in times.items()
    ]
    batch = {"init": 64, "max": 64, "atomic": 64, "accumulation": 0}
    headers = {"authorization": f"Bearer {worker.env['SCHEDULEARN_JOB_TOKEN']}"}
    with httpx.Client(base_url=api.http.base_url) as client:
        body = {"attempt": 1, "batch": batch, "observations": observations}
        assert client.post("/api/v1/reports", headers=headers, json=body).status_code == 200
    wait_for(lambda: api.http.get(f"/api/v1/jobs/{job}/profile").json()["fits"], what="a fit")


def test_each_gpu_gets_a_container_with_one_worker_that_knows_its_place(api: Api) -> None:
    job, first = started(api, 2)
    second = Worker(api, job, 1)
    assert [spec.argv for spec in api.runtime.tasks()] == [("python", "examples/digits/train.py")] * 2
    places = [
        {name: worker.env[f"SCHEDULEARN_{name}"] for name in ("MEMBER", "RANK", "NUM_GPUS", "NUM_NODES", "GENERATION")}
        for worker in (first, second)
    ]
    assert places == [
        {"MEMBER": "0", "RANK": "0", "NUM_GPUS": "2", "NUM_NODES": "1", "GENERATION": "1"},
        {"MEMBER": "1", "RANK": "1", "NUM_GPUS": "2", "NUM_NODES": "1", "GENERATION": "1"},
    ]
    assert first.env["NVIDIA_VISIBLE_DEVICES"] != second.env["NVIDIA_VISIBLE_DEVICES"]


def test_workers_hear_at_once_who_comes_and_where_they_meet_and_who_leaves(api: Api) -> None:
    job, first = started(api)
    heard: list[dict[str, Any]] = []
    listening = threading.Thread(target=lambda: heard.append(first.hears(trained=1, known=1, hold=10)))
    listening.start()
    resize(api, 2)
    listening.join(timeout=5)
    assert heard == [{"generation": 2, "members": [0, 1], "meeting": ""}]
    # The new one waits until the first has said where.
    second = Worker(api, job, 1)
    waiting = threading.Thread(target=lambda: heard.append(second.hears(hold=10)))
    waiting.start()
    first.hears(trained=1, known=2, meeting={"generation": 2, "address": "10.0.0.2:4711"})
    waiting.join(timeout=5)
    assert heard[1:] == [{"generation": 2, "members": [0, 1], "meeting": "10.0.0.2:4711"}]
    assert api.job(job)["reason"] == "resizing_in_place"
    first.hears(trained=1, known=2, forming=True)
    first.hears(trained=2, known=2)
    assert (api.job(job)["state"], api.job(job)["reason"]) == ("running", "container_running")
    assert len(api.job(job)["gpus"]) == 2
    # It shrinks, and what is free is another job's.
    other = api.submit(required_gpus=3)
    resize(api, 1)
    assert first.hears(trained=2, known=2, hold=10)["members"] == [0]
    api.wait(other, "running")
    ended = [task for task in api.job(job)["tasks"] if task["state"] == "ended"]
    assert [(task["rank"], task["outcome"]) for task in ended] == [(1, "resized")]
    assert api.job(job)["attempt"] == 1
    assert second.asks().status_code == 409
    # Growing again, nobody gets the number of one that left.
    first.hears(trained=3, known=3)
    api.runtime.finish(f"schedulearn-{other}-1-0")
    resize(api, 3)
    assert first.hears(trained=3, known=3, hold=10)["members"] == [0, 2, 3]


def test_gpus_that_become_free_go_to_running_jobs_within_one_decision(api: Api) -> None:
    answer = api.http.put("/api/v1/policy", json={"algorithm": "elastic-fifo", "params": {"min_run": 0}})
    assert answer.status_code == 200, answer.text
    rigid = api.submit(required_gpus=3)
    api.wait(rigid, "running")
    job = api.submit(elastic=True, required_gpus=1, max_gpus=4, resize="in-place")
    api.wait(job, "running")
    first = Worker(api, job, 0)
    first.hears(trained=1, known=1)
    measured(api, job, first)  # else it is not tried on more
    api.runtime.finish(f"schedulearn-{rigid}-1-0")
    assert first.hears(trained=1, known=1, hold=10)["members"] == [0, 1, 2, 3]
    freed = api.job(rigid)["finished_at"]
    asked = min(task["created_at"] for task in api.job(job)["tasks"] if task["rank"])
    assert asked[:17] == freed[:17]
    assert abs(float(asked[17:-1]) - float(freed[17:-1])) < 0.5


@pytest.mark.slow
def test_only_workers_of_the_job_are_heard(api: Api) -> None:
    job, first = started(api)
    url = "/api/v1/reports/membership"
    with httpx.Client(base_url=api.http.base_url) as stranger:
        assert stranger.post(url, json={}).status_code == 401
        assert stranger.post(url, headers={"authorization": "Bearer x.y"}, json={}).status_code == 401
    assert first.asks(member=7).status_code == 409
    assert first.asks(attempt=2).status_code == 409
    for wrong in (
        {"hold": 1e9}, {"hold": "x"}, {"member": -1}, {"leads": None}, {"extra": 1}, {"trained": 1 << 40},
        {"meeting": {"generation": 1, "address": "example.org/x"}}, {"meeting": {"generation": 1}},
    ):  # fmt: skip
        assert first.asks(**wrong).status_code == 422, wrong
    # What can't be so changes nothing.
    first.hears(trained=99, meeting={"generation": 5, "address": "10.0.0.2:1"})
    assert first.hears(known=0) == {"generation": 1, "members": [0], "meeting": ""}
    api.http.delete(f"/jobs/{job}")
    api.wait(job, "cancelled")
    assert first.asks().status_code == 409


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"elastic": False}, "set elastic"),
        ({"launcher": "torchrun"}, "launcher: horovod"),
        ({"command": "horovodrun -np 2 python train.py"}, "a command without a launcher"),
        ({"resize": "sometimes"}, "in-place"),
    ],
)
def test_a_job_that_can_not_be_resized_in_place_is_told_why(api: Api, fields: dict[str, Any], words: str) -> None:
    body = {
        "name": "x", "type": "Pytorch", "container_image": "x", "command": "python train.py", "required_gpus": 1,
        "elastic": True, "resize": "in-place", **fields,
    }  # fmt: skip
    answer = api.http.post("/api/v1/jobs", json=body)
    assert answer.status_code == 422
    assert words in json.dumps(answer.json())


def test_without_a_way_to_the_service_workers_share_a_container(tmp_path: Path) -> None:
    with serve_api(tmp_path, policies=[f"{POLICY}:Sized"], port=0) as api:
        resize(api, 2)
        job = api.submit(elastic=True, required_gpus=1, max_gpus=4, resize="in-place")
        api.wait(job, "running")
        [task] = api.runtime.tasks()
        assert len(task.gpu_uuids) == 2
        assert task.argv[:3] == ("python3", "-m", "schedulearn.worker.launch")
