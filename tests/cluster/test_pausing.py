"""Jobs that are paused, through the loop, the agents and the store, over a runtime in memory."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime
from resizing import Sized

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.task import EngineState
from schedulearn.scheduler.policies.registry import POLICIES
from schedulearn.scheduler.settings import ClusterSettings

ELASTIC: dict[str, Any] = {"elastic": True, "max_gpus": 4}
IN_PLACE: dict[str, Any] = {**ELASTIC, "resize": "in-place", "launcher": "horovod", "command": "python x.py"}


@pytest.fixture(autouse=True)
def sized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, "sized", Sized)


class Meanwhile:
    """Gives each job one GPU. Something else happens between a decision and its storage."""

    name: ClassVar[str] = "meanwhile"
    act: ClassVar[Callable[[str], object]] = staticmethod(lambda job: None)

    def allocate(self, snapshot: Snapshot) -> Plan:
        if threading.current_thread().name == "scheduler-loop":  # and not a forecast
            for job in snapshot.jobs:
                if not job.allocation:
                    self.act(job.id)
        return Plan({job.id: {host.id: 1} for host in snapshot.hosts for job in snapshot.jobs})


def test_the_time_in_which_a_job_was_held_is_no_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, float | None]] = []
    monkeypatch.setitem(POLICIES, "meanwhile", Meanwhile)
    with FakeCluster(tmp_path, gpus=1) as c:
        [first] = c.submit()
        c.wait(first, "running")
        [held, other] = c.submit(spec(hold=True), spec())
        c.cluster.service.release(held)
        monkeypatch.setattr(Meanwhile, "allocate", lambda self, snapshot: (
            seen.extend((job.id, job.start_after) for job in snapshot.jobs), Plan({}))[1])  # fmt: skip
        c.cluster.service.set_policy("meanwhile")
        wait_for(lambda: {held, other} <= {job for job, _ in seen})
        found = dict(seen)
        assert found[other] is None
        assert found[held] >= c.job(held).submitted_at


def test_a_decision_from_before_a_hold_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, "meanwhile", Meanwhile)
    with FakeCluster(tmp_path) as c:
        c.cluster.service.set_policy("meanwhile")
        [first] = c.submit()
        c.wait(first, "running")  # from now on the image is known: one decision suffices
        monkeypatch.setattr(Meanwhile, "act", staticmethod(c.cluster.service.hold))
        [job] = c.submit()
        wait_for(lambda: c.job(job).held_at is not None, what="the hold")
        c.whole_turn()
        assert (c.state(job), c.job(job).attempt) == ("queued", 0)
        monkeypatch.setattr(Meanwhile, "act", staticmethod(lambda job: None))
        c.cluster.service.release(job)
        c.wait(job, "running")


def test_a_job_that_is_starting_is_paused_once_it_runs(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        c.runtime.stop_code = 75
        c.runtime.fail_next("start", times=1000)
        [job] = c.submit(spec(**ELASTIC))
        c.wait(job, "starting")
        c.cluster.service.pause(job)
        c.whole_turn()
        assert c.state(job) == "starting"
        c.runtime._failures.clear()
        wait_for(lambda: c.poke() and c.state(job) == "queued", what="its pause")
        found = c.job(job)
        assert (found.attempt, found.losses, found.retries, c.leases()) == (1, 0, 0, [])
        assert "job.running" in c.events(job)
        c.cluster.service.release(job)
        c.wait(job, "running")


def test_a_job_that_is_resumed_while_it_starts_runs_on(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        c.runtime.fail_next("start", times=1000)
        [job] = c.submit(spec(**ELASTIC))
        c.wait(job, "starting")
        c.cluster.service.pause(job)
        c.cluster.service.release(job)
        c.runtime._failures.clear()
        wait_for(lambda: c.poke() and c.state(job) == "running", what="its start")
        c.whole_turn()
        assert (c.state(job), c.job(job).attempt) == ("running", 1)


def test_all_workers_of_a_job_that_is_resized_in_place_stop(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=ClusterSettings(report_url="http://127.0.0.1:1")) as c:
        c.cluster.service.set_policy("sized", "default", {"gpus": 2})
        [job] = c.submit(spec(**IN_PLACE))
        c.wait(job, "running")
        c.train(job)
        assert len(c.leases()) == 2
        c.runtime.stop_code = 75
        c.cluster.service.pause(job)
        c.wait(job, "queued")
        assert (c.leases(), c.runtime.tasks(EngineState.RUNNING), c.job(job).losses) == ([], [], 0)
        c.cluster.service.release(job)
        c.wait(job, "running")
        assert (c.job(job).attempt, len(c.leases())) == (2, 2)


def test_no_gpus_are_reserved_for_a_job_that_is_held_while_it_is_resized(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        c.cluster.service.set_policy("sized", "default", {"gpus": 1})
        [job] = c.submit(spec(**ELASTIC))
        c.wait(job, "running")
        c.runtime.stubborn = True
        c.cluster.service.set_policy("sized", "default", {"gpus": 4})
        c.wait(job, "resizing")
        assert c.job(job).target == {"local": 4}
        c.cluster.service.pause(job)
        assert c.job(job).target is None
        c.cluster.service.set_policy("fifo")
        c.runtime.stubborn = False
        [other] = c.submit(spec(gpus=4))
        c.runtime.finish(c.task(job), 75)
        c.wait(other, "running")
        assert c.state(job) == "queued"


def test_a_service_that_dies_before_it_has_stopped_a_paused_job_does_it_later(tmp_path: Path) -> None:
    runtime = FakeRuntime("local")
    with FakeCluster(tmp_path, runtime=runtime) as c:
        [job] = c.submit(spec(**ELASTIC))
        c.wait(job, "running")
        runtime.fail_next("stop", times=1000)
        c.cluster.service.pause(job)
    runtime._closed = False
    runtime._failures.clear()
    runtime.stop_code = 75
    with FakeCluster(tmp_path, runtime=runtime) as c:
        c.wait(job, "queued")
        assert c.job(job).held_at is not None
        assert (c.job(job).attempt, c.leases()) == (1, [])
