"""Many hosts over runtimes in memory: they come and go, fall silent and return, and jobs span several of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime
from sqlalchemy import select, update

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.task import EngineState
from schedulearn.scheduler.errors import ConflictError, ImageUnavailable, NotFoundError, RuntimeFault
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.models import Gpu, PortLease


def two(**options: Any) -> dict[str, FakeRuntime]:
    return {name: FakeRuntime(name, **options) for name in ("h1", "h2")}


def running(runtime: FakeRuntime) -> list[str]:
    return [task.task_id for task in runtime.tasks(EngineState.RUNNING)]


def hosts_of(c: FakeCluster, job: str) -> set[str]:
    return {name for name, runtime in c.others.items() if any(job in task for task in running(runtime))}


def test_hosts_that_were_added_get_jobs_and_are_still_there_after_a_restart(tmp_path: Path) -> None:
    others = two()
    with FakeCluster(tmp_path, gpus=0, runtime=FakeRuntime("local", images=set()), others=others) as c:
        c.add("h1", "h2")
        jobs = c.submit(spec(gpus=4), spec(gpus=4))
        for job in jobs:
            c.wait(job, "running")
        assert {len(runtime.tasks()) for runtime in others.values()} == {1}
    for runtime in (c.runtime, *others.values()):
        runtime._closed = False
    with FakeCluster(tmp_path, gpus=0, runtime=c.runtime, others=others) as c:
        wait_for(lambda: all(agent.status.observation for agent in c.cluster.agents.values()))
        assert [c.state(job) for job in jobs] == ["running", "running"]
        others["h1"].finish(running(others["h1"])[0])
        wait_for(lambda: sorted(c.state(job) for job in jobs) == ["running", "succeeded"])


def test_containers_may_have_the_services_network_once_there_was_another_host(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=0, others=two()) as c:
        assert not c.cluster.containers_reach_us
        c.add("h1")
        assert c.cluster.containers_reach_us
        [job] = c.submit()
        c.wait(job, "running")
        c.cluster.fleet.remove("h1", force=True)
        assert c.cluster.containers_reach_us, "what runs here of it may be left"
    with FakeCluster(tmp_path, gpus=0) as c:
        assert c.cluster.containers_reach_us


def test_a_host_is_removed_only_when_it_is_empty_or_by_force(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=0, others=two()) as c:
        c.add("h1", "h2")
        [job] = c.submit()
        c.wait(job, "running")
        [home] = hosts_of(c, job)
        [other] = {"h1", "h2"} - {home}
        with pytest.raises(ConflictError, match=f"{job}.*drain it first"):
            c.cluster.fleet.remove(home)
        c.cluster.fleet.remove(home, force=True)
        wait_for(lambda: hosts_of(c, job) >= {other}, what="the job to start elsewhere")
        with pytest.raises(NotFoundError):
            c.cluster.fleet.remove(home)
        with pytest.raises(ConflictError, match="can't be removed"):
            c.cluster.fleet.remove("local")
        c.others[home].finish(c.task(job))  # nobody there ends it any more


def test_one_engine_cannot_be_two_hosts(tmp_path: Path) -> None:
    others = two()
    others["h2"].facts = others["h1"].facts
    with FakeCluster(tmp_path, gpus=0, others=others) as c:
        c.add("h1")
        c.cluster.fleet.add(HostSpec(address="tcp://h2.lab:2375", name="h2", simulate_gpus=4))
        wait_for(lambda: "host 'h1' already has this engine" in c.cluster.agents["h2"].status.error)
        [job] = c.submit(spec(gpus=4))
        c.wait(job, "running")
        assert others["h2"].calls == []
        with pytest.raises(ConflictError, match="already the address of host 'h1'"):
            c.cluster.fleet.add(HostSpec(address="tcp://h1.lab:2375", name="h3"))
        with pytest.raises(ConflictError, match="a host 'h1' already exists"):
            c.cluster.fleet.add(HostSpec(address="tcp://h3.lab:2375", name="h1"))


def test_the_jobs_of_a_silent_host_start_elsewhere_and_it_is_cleared_before_it_gets_others(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=0, others=two(), settings=ClusterSettings(host_grace=0.2)) as c:
        c.add("h1", "h2")
        [job] = c.submit(spec(gpus=4))
        c.wait(job, "running")
        [home] = hosts_of(c, job)
        [other] = {"h1", "h2"} - {home}
        lost = c.others[home]
        lost.silent = lost.stubborn = True
        wait_for(lambda: c.poke() and any(job in task for task in running(c.others[other])), what="the job to move")
        assert c.job(job).losses == 0
        [waiting] = c.submit(spec(gpus=4))
        lost.silent = False
        wait_for(lambda: c.poke() and ("stop", c.task(job)) in lost.calls, what="the old container to be stopped")
        assert c.state(waiting) == "queued", "its GPUs were given away before they were free"
        lost.finish(c.task(job), 137)
        wait_for(lambda: c.poke() and c.state(waiting) == "running")
        assert lost.calls.index(("remove", c.task(job))) >= 0
        assert running(lost) == [c.task(waiting)]


def test_when_no_host_answers_nothing_is_given_up(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1, settings=ClusterSettings(host_grace=0.05)) as c:
        [job] = c.submit()
        c.wait(job, "running")
        c.runtime.silent = True
        wait_for(lambda: c.poke() and c.cluster.agents["local"].status.observation is None)
        turns = c.cluster.loop.stats.decisions
        wait_for(lambda: c.poke() and c.cluster.loop.stats.decisions > turns + 20)
        assert c.state(job) == "running"
        c.runtime.silent = False
        c.runtime.finish(c.task(job))
        wait_for(lambda: c.poke() and c.state(job) == "succeeded")


def test_a_host_is_lost_once_and_back_once(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1, others=two(), settings=ClusterSettings(host_grace=0.1)) as c:
        c.add("h1")
        wait_for(lambda: c.poke() and c.cluster.agents["h1"].status.observation is not None)
        wait_for(lambda: c.poke() and presence(c)[-1:] != ["host.lost"])  # its first contact may have taken a while
        before = presence(c)
        c.others["h1"].silent = True
        wait_for(lambda: c.poke() and presence(c) == [*before, "host.lost"], what="the loss")
        turns = c.cluster.loop.stats.decisions
        wait_for(lambda: c.poke() and c.cluster.loop.stats.decisions > turns + 5)
        assert presence(c) == [*before, "host.lost"]
        c.others["h1"].silent = False
        wait_for(lambda: c.poke() and presence(c) == [*before, "host.lost", "host.back"])


def presence(c: FakeCluster) -> list[str]:
    with c.cluster.db.read() as db:
        return [event.kind for event in repository.list_events(db) if event.kind in ("host.lost", "host.back")]


def test_a_drain_moves_elastic_jobs_at_once_and_rigid_ones_at_its_deadline(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=0, others=two()) as c:
        c.add("h1")
        elastic, rigid = c.submit(spec(elastic=True), spec())
        for job in (elastic, rigid):
            c.wait(job, "running")
        c.add("h2")
        c.cluster.fleet.drain("h1", 3600)
        wait_for(lambda: hosts_of(c, elastic) == {"h2"}, what="the elastic job to move")
        assert hosts_of(c, rigid) == {"h1"}
        c.cluster.fleet.drain("h1", 0)
        wait_for(lambda: hosts_of(c, rigid) == {"h2"}, what="the rigid job to move")
        assert "job.resizing" in c.events(rigid)
        wait_for(lambda: c.others["h1"].tasks() == [])
        c.cluster.fleet.remove("h1")


def test_a_job_leaves_a_gpu_that_became_faulty_and_no_other_gets_it(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=2) as c:
        [job] = c.submit()
        c.wait(job, "running")
        [bad] = {lease.gpu_uuid for lease in c.leases()}
        c.cluster.db.write(lambda db: db.execute(update(Gpu).where(Gpu.uuid == bad).values(fault="Xid 79")))  # type: ignore[arg-type]
        c.poke()
        wait_for(lambda: c.job(job).attempt == 2 and c.state(job) == "running")
        assert bad not in {lease.gpu_uuid for lease in c.leases()}
        [second] = c.submit()
        wait_for(lambda: second in c.cluster.loop.waiting)


def test_an_image_that_no_registry_has_is_copied_from_a_host_that_has_it(tmp_path: Path) -> None:
    others = {
        "h1": FakeRuntime("h1", images={"img"}),
        "h2": FakeRuntime("h2", images=set(), fetchable={"img": ImageUnavailable("no such image")}),
    }
    with FakeCluster(tmp_path, gpus=0, runtime=FakeRuntime("local", images=set()), others=others) as c:
        c.add("h1", "h2")
        jobs = c.submit(spec(gpus=4), spec(gpus=4), spec(container_image="none", gpus=4))
        c.wait(jobs[0], "running")
        c.wait(jobs[1], "running")
        assert ("images.load", "img") in others["h2"].calls
        c.cluster.service.cancel(jobs[0])
        assert "not found" in c.wait(jobs[2], "failed").message


GANG = {"gpus": 6, "launcher": "horovod", "command": "python train.py"}


def gang_of(runtime: FakeRuntime) -> dict[str, Any]:
    [task] = runtime.tasks(EngineState.RUNNING)
    assert task.host_network
    plan: dict[str, Any] = json.loads(runtime.env(task.task_id)["SCHEDULEARN_GANG"])
    assert task.argv[-2:] == ("python", "train.py")
    return plan


def test_a_job_larger_than_any_host_runs_on_several_that_know_of_each_other(tmp_path: Path) -> None:
    others = two()
    with FakeCluster(tmp_path, gpus=0, others=others) as c:
        c.add("h1", "h2")
        [job] = c.submit(spec(**GANG))
        c.wait(job, "running")
        assert len(c.leases()) == 6
        plans = [gang_of(others["h1"]), gang_of(others["h2"])]
        assert [plan["node"] for plan in plans] == [0, 1]
        assert [plan["slots"] for plan in plans] == [[4, 2], [4, 2]]
        assert {plan["address"] for plan in plans} == {"h1.lab"}
        with c.cluster.db.read() as db:
            [lease] = db.execute(select(PortLease)).all()
        assert {plan["port"] for plan in plans} == {lease.port}
        for runtime in others.values():
            runtime.finish(running(runtime)[0], 0)
        c.wait(job, "succeeded")
        with c.cluster.db.read() as db:
            assert db.execute(select(PortLease)).all() == []


def test_no_part_of_a_gang_starts_before_all_can(tmp_path: Path) -> None:
    others = {"h1": FakeRuntime("h1"), "h2": FakeRuntime("h2", images=set(), fetchable={"img": RuntimeFault("slow")})}
    with FakeCluster(tmp_path, gpus=0, others=others) as c:
        c.add("h1", "h2")
        [job] = c.submit(spec(**GANG))
        wait_for(lambda: "slow" in c.job(job).message)
        assert running(others["h1"]) == []
        others["h2"].images.fetchable["img"] = []
        c.wait(job, "running")
        assert len(running(others["h1"])) == len(running(others["h2"])) == 1


def test_a_gang_that_loses_one_part_is_stopped_and_starts_again_whole(tmp_path: Path) -> None:
    others = two()
    with FakeCluster(tmp_path, gpus=0, others=others) as c:
        c.add("h1", "h2")
        [job] = c.submit(spec(**GANG))
        c.wait(job, "running")
        others["h2"].vanish(running(others["h2"])[0])
        wait_for(lambda: c.job(job).attempt == 2 and c.state(job) == "running")
        assert [task for runtime in others.values() for task in running(runtime)] == [
            f"schedulearn-{job}-2-0",
            f"schedulearn-{job}-2-1",
        ]
        others["h2"].finish(f"schedulearn-{job}-2-1", 0)  # done, and a little before the other
        wait_for(lambda: running(others["h2"]) == [])
        c.poke()
        assert running(others["h1"]) == [f"schedulearn-{job}-2-0"]
        others["h1"].finish(f"schedulearn-{job}-2-0", 0)
        c.wait(job, "succeeded")


def test_a_gang_whose_start_one_host_refuses_is_undone(tmp_path: Path) -> None:
    others = two()
    with FakeCluster(tmp_path, gpus=0, others=others) as c:
        c.add("h1", "h2")
        others["h2"].fail_next("start", ImageUnavailable("gone"))  # and it is fetched again
        [job] = c.submit(spec(**GANG))
        c.wait(job, "running")
        assert {len(running(runtime)) for runtime in others.values()} == {1}


def test_the_facts_of_a_host_come_with_its_first_answer(tmp_path: Path) -> None:
    others = two()
    others["h1"].facts = HostFacts("engine", version="24.0", cpus=8, memory_bytes=1 << 36)
    others["h1"].silent = True
    with FakeCluster(tmp_path, gpus=0, others=others) as c:
        c.cluster.fleet.add(HostSpec(address="ssh://h1.lab", name="h1", simulate_gpus=2))
        wait_for(lambda: c.cluster.agents["h1"].status.error == "h1 does not answer")
        others["h1"].silent = False
        wait_for(lambda: c.poke() and c.cluster.agents["h1"].status.facts == others["h1"].facts)
        [job] = c.submit(spec(gpus=2))
        c.wait(job, "running")
