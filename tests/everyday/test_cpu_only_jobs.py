"""Jobs without GPUs, in a whole cluster over the fake runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, serve_api
from clusters import FakeCluster, SlowFetch, spec, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.task import GIB
from schedulearn.scheduler.settings import ClusterSettings


def test_one_runs_beside_gpu_jobs_that_hold_everything_and_takes_no_lease(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [big, waits] = c.submit(spec(gpus=4), spec(gpus=4))
        c.wait(big, "running")
        [cpu] = c.submit(spec("prepare", 0))
        c.wait(cpu, "running")
        [task] = [task for task in c.runtime.tasks() if task.job_id == cpu]
        env = c.runtime.env(task.task_id)
        assert (task.gpu_uuids, env["NVIDIA_VISIBLE_DEVICES"], env["CUDA_VISIBLE_DEVICES"]) == ((), "void", "")
        assert env["SCHEDULEARN_NUM_GPUS"] == "0"
        assert {lease.task_id for lease in c.leases()} == {c.task(big)}
        c.runtime.finish(task.task_id)
        c.wait(cpu, "succeeded")
        assert c.job(waits).state == "queued"


@pytest.mark.parametrize("policy", ["round-robin", "tiresias", "gandiva", "goodput", "elastic-fifo"])
def test_every_policy_leaves_them_alone(tmp_path: Path, policy: str) -> None:
    with FakeCluster(tmp_path) as c:
        c.cluster.service.set_policy(policy)
        jobs = c.submit(spec(gpus=2), spec("cpu", 0), spec(gpus=3, elastic=True, max_gpus=4), spec("cpu", 0))
        for job_id in (jobs[0], jobs[1], jobs[3]):
            c.wait(job_id, "running")
        assert c.cluster.loop.stats.policy_error == ""


def test_more_than_the_setting_allows_wait_with_a_reason_and_start_in_order(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=ClusterSettings(cpu_jobs=1)) as c:
        first, second = c.submit(spec("a", 0), spec("b", 0))
        c.wait(first, "running")
        wait_for(lambda: "at most 1 such jobs each" in c.cluster.loop.waiting.get(second, ""))
        c.runtime.finish(f"schedulearn-{first}-1-0")
        c.wait(second, "running")


def test_its_image_is_fetched_first(tmp_path: Path) -> None:
    fetch = SlowFetch()
    with FakeCluster(tmp_path, runtime=FakeRuntime("local", images={"img"}, fetchable={"new": fetch})) as c:
        [cpu] = c.submit(spec("a", 0, container_image="new"))
        c.wait(cpu, "pulling")
        fetch.end()
        c.wait(cpu, "running")


def test_one_that_fetches_its_image_takes_no_place(tmp_path: Path) -> None:
    runtime = FakeRuntime("local", images={"img"}, fetchable={"new": SlowFetch()})
    with FakeCluster(tmp_path, runtime=runtime, settings=ClusterSettings(cpu_jobs=1)) as c:
        [fetches] = c.submit(spec("a", 0, container_image="new"))
        c.wait(fetches, "pulling")
        [ready] = c.submit(spec("b", 0))
        c.wait(ready, "running")
        assert c.job(fetches).state == "pulling"


def test_one_that_waits_for_other_jobs_takes_no_place(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=ClusterSettings(cpu_jobs=1)) as c:
        [gpu] = c.submit(spec(gpus=1))
        c.wait(gpu, "running")
        [later] = c.submit(spec("a", 0, after={"jobs": [gpu], "when": "ok"}))
        [ready] = c.submit(spec("b", 0))
        c.wait(ready, "running")
        assert c.job(later).state == "queued"


def test_a_failure_is_tried_again_and_a_cancel_ends_it(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [cpu] = c.submit(spec("a", 0, max_restarts=1))
        c.wait(cpu, "running")
        c.runtime.finish(f"schedulearn-{cpu}-1-0", 1)
        wait_for(lambda: c.job(cpu).attempt == 2 and c.job(cpu).state == "running")
        c.cluster.service.cancel(cpu)
        c.wait(cpu, "cancelled")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path) as served:
        yield served


def test_the_api_shows_them_like_the_others(api: Api) -> None:
    job_id = api.submit(required_gpus=0)
    job = api.wait(job_id, "running")
    assert (job["allocation"], job["gpus"], job["launcher"], job["gpu_seconds"]) == ({"local": 0}, [], "none", 0.0)
    told = [event["message"] for event in api.http.get(f"/api/v1/jobs/{job_id}/events").json()["items"]]
    assert "It needs no GPU, and starts on local." in told
    [span] = api.http.get("/api/v1/timeline").json()["spans"]
    assert (span["job"], span["lanes"]) == (job_id, [])
    expected = api.http.post("/api/v1/jobs:preview", json={**FIVE_KEYS, "required_gpus": 0}).json()
    assert expected["start"]
    [used] = api.http.get("/api/v1/usage").json()
    assert (used["jobs"], used["gpu_hours"]) == (1, 0.0)
    assert api.http.get("/api/v1/policy/preview", params={"algorithm": "goodput"}).status_code == 200
    assert api.runtime.tasks()[0].argv == ("python", "examples/digits/train.py")
    again = api.http.get(f"/api/v1/jobs/{job_id}/spec").json()
    assert api.http.post("/api/v1/jobs", json=again).status_code == 201
    assert api.http.post("/api/v1/jobs", json={**again, "min_gpus": 0, "max_gpus": 0}).status_code == 201


def test_a_preview_says_that_it_starts_now_only_where_there_is_room(tmp_path: Path) -> None:
    runtime = FakeRuntime("local")
    runtime.facts = HostFacts("fake local", cpus=4, memory_bytes=8 * GIB)
    with FakeCluster(tmp_path, runtime=runtime) as c:

        def preview(**asked: Any) -> str:
            eta, _ = c.cluster.forecaster.predict_job(spec("new", 0, **asked))
            return "never" if eta.beyond_quota else "later" if eta.start is None else "now"

        [first] = c.submit(spec("a", 0, cpus=3, memory="6g"))
        c.wait(first, "running")
        assert preview(cpus=1, memory="1g") == "now"
        assert preview(cpus=2) == "later", "the processors are taken"
        assert preview(memory="4g") == "later", "so is the memory"
        assert preview(cpus=5) == "never", "no host has as many"
        [second] = c.submit(spec("b", 0, cpus=1, memory="1g"))
        c.wait(second, "running")
        assert preview(cpus=1, memory="1g") == "later"


def test_without_a_word_it_gets_little_memory_even_where_no_gpu_is(tmp_path: Path) -> None:
    runtime = FakeRuntime("local")
    runtime.facts = HostFacts("fake local", cpus=4, memory_bytes=64 * GIB)
    with FakeCluster(tmp_path, gpus=0, runtime=runtime) as c:
        [cpu] = c.submit(spec("a", 0))
        c.wait(cpu, "running")
        [task] = c.runtime.tasks()
        assert task.memory_bytes == 2 * GIB
