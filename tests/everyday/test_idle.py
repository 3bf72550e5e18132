"""A job that holds GPUs and does nothing that can be seen is told, once, and as long as it lasts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import Api, serve_api
from clusters import FakeCluster, spec, wait_for

from schedulearn.scheduler.reports.idle import IdleWatch, Signs
from schedulearn.scheduler.settings import ClusterSettings


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[IdleWatch]:
    with FakeCluster(tmp_path, settings=ClusterSettings(idle_after=600.0)) as c:
        yield c.cluster.idle


def test_output_a_step_or_use_of_a_gpu_is_a_sign_of_life(watch: IdleWatch) -> None:
    def signs(**changed: Any) -> list[Signs]:
        return [Signs(**{"job_id": name, "log_bytes": 10, "steps": 5, "busy": False, **changed}) for name in "ab"]

    assert watch.judge(signs(), 0.0) == {}
    assert watch.judge(signs(), 599.0) == {}
    assert watch.judge(signs(), 600.0).keys() == {"a", "b"}
    for at, changed in ((700.0, {"log_bytes": 11}), (1400.0, {"log_bytes": 11, "steps": 6}), (2100.0, {"busy": True})):
        assert watch.judge(signs(**changed), at) == {}
    assert "does not use its GPUs" in watch.judge(signs(), 2800.0 + 600)["a"]


def test_gpus_that_nobody_measures_tell_nothing(watch: IdleWatch) -> None:
    unmeasured = [Signs("a", 1, 1, None)]
    watch.judge(unmeasured, 0.0)
    [why] = watch.judge(unmeasured, 600.0).values()
    assert why == ("It has done nothing that can be seen for 10 min or more: no output, no step reported. It may hang.")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, idle_after=0.4, interval=0.1) as served:
        yield served


def test_a_job_that_seems_to_hang_is_told_by_event_and_message(api: Api) -> None:
    job_id, cpu = api.submit(required_gpus=1), api.submit(required_gpus=0)
    api.wait(job_id, "running")
    wait_for(lambda: "It may hang." in api.job(job_id)["message"])
    found = api.http.get("/api/v1/events:search", params={"kind": "job.idle"}).json()["items"]
    assert [(event["job_id"], event["code"]) for event in found] == [(job_id, "idle")]
    assert "It may hang." not in api.job(cpu)["message"], "it may compute for long without a word"
    api.write_log(job_id, f"{time.time()}\n".encode())
    wait_for(lambda: "It may hang." not in api.job(job_id)["message"])


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=ClusterSettings(idle_after=0)) as c:
        [job_id] = c.submit(spec())
        c.wait(job_id, "running")
        c.cluster.idle.look(time.time() + 1e6)
        c.cluster.idle.look(time.time() + 2e6)
        assert c.cluster.idle.idle == {}
