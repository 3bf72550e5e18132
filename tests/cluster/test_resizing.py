"""Resizes by restart through the loop, the agents and the store, over a runtime in memory: who is stopped, and when."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from builders import report
from clusters import FakeCluster, spec, wait_for

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.planning import nearly_done
from schedulearn.scheduler.core.profile import JobProfile
from schedulearn.scheduler.policies.registry import POLICIES
from schedulearn.scheduler.reports import profiles
from schedulearn.scheduler.reports.profiles import Profiles
from schedulearn.scheduler.reports.store import store_report
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of

ELASTIC: dict[str, Any] = {"elastic": True, "max_gpus": 4}


@dataclass(frozen=True)
class Even:
    """Every job gets the same share of the first host."""

    name: ClassVar[str] = "even"
    seen: ClassVar[list[Snapshot]] = []

    def allocate(self, snapshot: Snapshot) -> Plan:
        if threading.current_thread().name == "scheduler-loop":  # and not a forecast
            self.seen.append(snapshot)
        if not snapshot.jobs or not snapshot.hosts:
            return Plan({})
        [host] = snapshot.hosts
        share = host.gpus // len(snapshot.jobs)
        return Plan({job.id: {host.id: share} for job in snapshot.jobs} if share else {})


@pytest.fixture(autouse=True)
def even(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, "even", Even)
    monkeypatch.setattr(Even, "seen", [])


def start(c: FakeCluster, *names: str) -> list[str]:
    """Jobs one after the other, each begun before the next is submitted."""
    c.cluster.service.set_policy("even")
    jobs = []
    for name in names:
        jobs += c.submit(spec(name, **ELASTIC))
        share = 4 // len(jobs)
        for job in jobs:
            wait_for(lambda job=job, share=share: (c.state(job), holds(c, job)) == ("running", share))
    return jobs


def holds(c: FakeCluster, job: str) -> int:
    return sum(len(task.gpu_uuids) for task in live(c, job))


def live(c: FakeCluster, job: str) -> list[Any]:
    with c.cluster.db.read() as db:
        return tasks_of(db, [job], live=True)


def resizes(c: FakeCluster, job: str) -> list[int]:
    """To how many GPUs each."""
    with c.cluster.db.read() as db:
        events = repository.list_events(db, job_id=job)
    return [sum(e.data["allocation"].values()) for e in events if e.kind == "job.resizing"]


def test_while_one_job_is_between_stop_and_start_the_others_are_left_alone(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        first, second = start(c, "first", "second")
        c.runtime.stubborn = True
        [third] = c.submit(spec("third", **ELASTIC))
        wait_for(lambda: {c.state(first), c.state(second)} == {"resizing"})
        wait_for(lambda: "1 GPU of local is kept for it" in c.cluster.loop.waiting.get(third, ""))
        c.runtime.finish(c.task(second), 75)
        wait_for(lambda: (c.state(second), holds(c, second)) == ("running", 1))
        c.wait(third, "running")  # on what the second has left
        assert c.state(first) == "resizing"
        for _ in range(3):
            before = c.cluster.loop.stats.decisions
            wait_for(lambda before=before: c.poke() and c.cluster.loop.stats.decisions > before)
        c.runtime.finish(c.task(first, c.job(first).attempt), 75)
        wait_for(lambda: (c.state(first), holds(c, first)) == ("running", 1))
        assert (resizes(c, first), resizes(c, second), resizes(c, third)) == ([2, 1], [1], [])
        since = next(index for index, seen in enumerate(Even.seen) if len(seen.jobs) == 3)
        for seen in Even.seen[since:]:
            assert {job.id for job in seen.jobs} == {first, second, third}, "one was left out"
            assert seen.hosts[0].gpus == 4, "what is being left was taken off"


def test_a_job_that_ends_before_it_could_restart_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearly_done, "TRUSTED", 1e6)  # on a busy machine the decisions below take longer than 40 s
    with FakeCluster(tmp_path) as c:
        [first] = start(c, "first")
        nearly = {"epoch": 9, "epochs": 10, "position": 990, "epoch_samples": 1000, "steps": 99}
        c.cluster.db.write(lambda db: store_report(db, first, report(4, progress=nearly), time.time()))
        c.cluster.profiles.touch(first)
        wait_for(lambda: c.cluster.profiles.get(first), what="its profile")
        [second] = c.submit(spec("second", **ELASTIC))
        wait_for(lambda: Even.seen[-1].jobs[0].remaining is not None and len(Even.seen[-1].jobs) == 2)
        for _ in range(3):
            before = c.cluster.loop.stats.decisions
            wait_for(lambda before=before: c.poke() and c.cluster.loop.stats.decisions > before)
        assert (c.state(first), holds(c, first), c.state(second)) == ("running", 4, "queued")
        c.runtime.finish(c.task(first))
        c.wait(second, "running")
        assert resizes(c, first) == []


@pytest.mark.slow
def test_a_job_trains_on_until_the_gpus_that_it_is_to_get_are_free(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        first, second = start(c, "first", "second")
        c.runtime.stubborn = True
        c.cluster.service.cancel(first)
        wait_for(lambda: any(seen.hosts[0].leaving == 2 and len(seen.jobs) == 1 for seen in Even.seen))
        for _ in range(3):
            before = c.cluster.loop.stats.decisions
            wait_for(lambda before=before: c.poke() and c.cluster.loop.stats.decisions > before)
        assert (c.state(second), holds(c, second)) == ("running", 2)
        c.runtime.stubborn = False
        c.runtime.finish(c.task(first, c.job(first).attempt), 143)
        wait_for(lambda: (c.state(second), holds(c, second)) == ("running", 4))
        assert resizes(c, second) == [4]


def test_a_service_that_dies_in_between_starts_the_job_with_what_was_decided(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [first] = start(c, "first")
        c.runtime.stubborn = True
        [second] = c.submit(spec("second", **ELASTIC))
        c.wait(first, "resizing")
        assert c.job(first).target == {"local": 2}
    runtime = c.runtime
    runtime._closed = False
    runtime.stubborn = False
    runtime.finish(f"schedulearn-{first}-1-0", 75)
    with FakeCluster(tmp_path, runtime=runtime) as c:
        for job in (first, second):
            wait_for(lambda job=job: (c.state(job), holds(c, job)) == ("running", 2))
        assert resizes(c, first) == [2]
        assert c.job(first).target is None


def known_family(c: FakeCluster) -> None:
    """One job that was measured on two GPUs, and ended."""
    [job] = c.submit(spec("kin", **ELASTIC))
    c.wait(job, "running")
    for gpus in (1, 2):
        c.cluster.db.write(lambda db, gpus=gpus: store_report(db, job, report(gpus), time.time()))
    c.runtime.finish(c.task(job))
    c.wait(job, "succeeded")


def test_a_job_of_a_known_family_begins_at_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It began on one GPU, and was stopped for four as soon as the profile was fitted."""
    fitted = threading.Event()
    fit = Profiles._fit

    def late(self: Profiles, job_id: str) -> JobProfile | None:
        assert fitted.wait(30)
        return fit(self, job_id)

    with FakeCluster(tmp_path) as c:
        known_family(c)
        c.cluster.service.set_policy("goodput")
        monkeypatch.setattr(Profiles, "_fit", late)
        [job] = c.submit(spec("new", **ELASTIC))
        before = c.cluster.loop.stats.decisions
        wait_for(lambda: c.poke() and c.cluster.loop.stats.decisions > before + 2)
        assert c.state(job) == "queued"
        fitted.set()
        c.wait(job, "running")
        assert (c.job(job).attempt, holds(c, job)) == (1, 4)


def test_a_profile_that_does_not_come_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    monkeypatch.setattr(profiles, "AWAIT_S", 0.2)
    monkeypatch.setattr(Profiles, "_fit", lambda self, job_id: done.wait(30) and None)
    with FakeCluster(tmp_path) as c:
        c.cluster.service.set_policy("goodput")
        [job] = c.submit(spec("new", **ELASTIC))
        wait_for(lambda: c.poke() and c.state(job) == "running")
        done.set()


def test_each_resize_tells_afterwards_what_it_gained_and_cost(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [first] = start(c, "first")
        c.cluster.db.write(lambda db: store_report(db, first, report(4), time.time()))
        c.submit(spec("second", **ELASTIC))
        wait_for(lambda: (c.state(first), holds(c, first)) == ("running", 2))
        stall = {"name": "stall_seconds", "step": 3, "value": 4.5, "at": time.time()}
        said = report(2, attempt=2, metrics=[stall])
        c.cluster.db.write(lambda db: store_report(db, first, said, time.time()))
        wait_for(lambda: c.poke() and "job.resized" in c.events(first))
        with c.cluster.db.read() as db:
            [event] = [e for e in repository.list_events(db, job_id=first) if e.kind == "job.resized"]
        assert event.message == "From 4 to 2 GPUs: 0.50 times the samples per second, and it paused for 4.5 s."
        assert event.data == {"gpus_before": 4, "gpus_after": 2, "stall_seconds": 4.5, "speed": pytest.approx(0.5)}
        assert c.job(first).resized_from is None
