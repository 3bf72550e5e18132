"""Jobs that can't run on every host, in a whole cluster over the fake runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FakeCluster]:
    """Two hosts with 4 GPUs of 16 GiB each: `local`, and `ada` with room=b2."""
    with FakeCluster(tmp_path, others={"ada": FakeRuntime("ada")}) as c:
        c.add("ada")
        c.cluster.fleet.label("ada", {"room": "b2"})
        yield c


def hosts_of(c: FakeCluster, job_id: str) -> set[str]:
    where = {"local": c.runtime, **c.others}
    return {name for name, runtime in where.items() for task in runtime.tasks() if task.job_id == job_id}


@pytest.mark.parametrize("policy", ["goodput", "fifo", "elastic-fifo"])
def test_jobs_run_on_their_hosts_rigid_elastic_and_without_gpus(cluster: FakeCluster, policy: str) -> None:
    cluster.cluster.service.set_policy(policy)
    jobs = cluster.submit(
        spec("rigid", 1, hosts="room=b2"),
        spec("elastic", 1, hosts={"room": "b2"}, elastic=True, max_gpus=2),
        spec("cpu", 0, hosts=["ada"]),
        spec("elsewhere", 1, exclude_hosts="room=b2"),
    )
    for job_id in jobs:
        cluster.wait(job_id, "running")
    assert [hosts_of(cluster, job_id) for job_id in jobs] == [{"ada"}, {"ada"}, {"ada"}, {"local"}]
    assert cluster.cluster.loop.stats.policy_error == ""


def test_a_job_whose_hosts_cannot_serve_it_says_why_and_starts_once_a_label_is_set(cluster: FakeCluster) -> None:
    waiting = cluster.cluster.loop
    [lost, large, cpu] = cluster.submit(
        spec("lost", 2, hosts="room=b9"), spec("large", 1, gpu_memory_min="24g"), spec("cpu", 0, hosts="room=b9")
    )
    wait_for(lambda: {lost, large, cpu} <= waiting.waiting.keys(), what="reasons")
    assert waiting.waiting[lost] == (
        "It needs 2 GPUs on hosts with room=b9; 0 are available. Host ada has room=b2. Host local has no label room."
    ) or waiting.waiting[lost] == (
        "It needs 2 GPUs on hosts with room=b9; 0 are available. Host local has no label room. Host ada has room=b2."
    )
    assert "GPUs of host local have 16 GiB of memory" in waiting.waiting[large]
    assert "hosts with room=b9" in waiting.waiting[cpu]
    [other] = cluster.submit(spec("other", 4))
    cluster.wait(other, "running")
    cluster.cluster.fleet.label("local", {"room": "b9"})
    cluster.cluster.fleet.label("ada", {"room": "b9"})
    cluster.wait(lost, "running")
    cluster.wait(cpu, "running")


def test_an_exclusive_job_has_its_host_alone(cluster: FakeCluster) -> None:
    [cpu] = cluster.submit(spec("cpu", 0, hosts="ada"))
    cluster.wait(cpu, "running")
    [alone] = cluster.submit(spec("alone", 1, hosts="ada", exclusive=True))
    wait_for(lambda: "None of these hosts is empty." in cluster.cluster.loop.waiting.get(alone, ""), what="its reason")
    [behind, light] = cluster.submit(spec("behind", 3), spec("light", 0))
    cluster.wait(behind, "running")
    cluster.wait(light, "running")
    assert hosts_of(cluster, behind) == hosts_of(cluster, light) == {"local"}, "ada is kept for the earlier job"
    cluster.others["ada"].finish(cluster.task(cpu))
    cluster.wait(alone, "running")
    beside = cluster.submit(spec("gpu", 2), spec("cpu", 0), spec("cpu", 0, hosts="ada"), spec("one", 1, hosts="ada"))
    cluster.wait(beside[1], "running")
    assert hosts_of(cluster, beside[1]) == {"local"}
    for _ in range(3):
        cluster.whole_turn()
    assert hosts_of(cluster, beside[0]) == hosts_of(cluster, beside[2]) == hosts_of(cluster, beside[3]) == set()
    cluster.others["ada"].finish(cluster.task(alone))
    cluster.wait(beside[2], "running")
    cluster.wait(beside[0], "running")
    assert cluster.cluster.loop.stats.policy_error == ""


def test_labels_outlive_the_service(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        c.cluster.fleet.label("local", {"room": "b2", "disk": "nvme"})
        c.cluster.fleet.label("local", {"disk": None})
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(hosts="room=b2"))
        c.wait(job, "running")
