"""How an attempt is said to have ended: what was told to stop has not failed."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.outcomes.conclusions import PREEMPTED
from schedulearn.scheduler.policies.registry import POLICIES
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of

STOPPED = 1
"""With which a command ends that is told to stop: not by a signal, which right after a service's start would mean that
its engine had just been restarted."""


class Grow:
    """Gives all GPUs to the oldest job."""

    name: ClassVar[str] = "grow"

    def allocate(self, snapshot: Snapshot) -> Plan:
        return Plan({snapshot.jobs[0].id: {"local": 4}} if snapshot.jobs else {})


def ended(c: FakeCluster, job: str) -> list[tuple[int, str, int | None]]:
    """(attempt, outcome, exit code) of the tasks that are over."""
    with c.cluster.db.read() as db:
        tasks = tasks_of(db, [job])
    return [(task.attempt, task.outcome, task.exit_code) for task in tasks if task.state == "ended"]


@pytest.mark.parametrize("code", [PREEMPTED, STOPPED])
def test_a_resized_attempt_was_resized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setitem(POLICIES, "grow", Grow)
    with FakeCluster(tmp_path) as c:
        c.runtime.stop_code = code
        [job] = c.submit(spec(gpus=1, elastic=True))
        c.wait(job, "running")
        c.cluster.service.set_policy("grow")
        wait_for(lambda: c.job(job).attempt == 2)
        assert ended(c, job) == [(1, "resized", code)]


@pytest.mark.parametrize("policy", ["priority", "goodput"])
@pytest.mark.parametrize("code", [PREEMPTED, STOPPED])
def test_a_preemptible_job_stops_for_one_of_higher_priority_and_starts_again(
    tmp_path: Path, policy: str, code: int
) -> None:
    with FakeCluster(tmp_path) as c:
        c.runtime.stop_code = code
        c.cluster.service.set_policy(policy, params={"min_run": 0} if policy == "goodput" else {})
        low, other = c.submit(spec(gpus=2, preemptible=True), spec(gpus=2))
        c.wait(low, "running")
        c.wait(other, "running")
        [high] = c.submit(spec(gpus=2, priority=80))
        c.wait(high, "running")
        wait_for(lambda: c.state(low) == "queued")
        assert ended(c, low) == [(1, "resized", code)]
        with c.cluster.db.read() as db:
            told = [event.message for event in repository.list_events(db, job_id=low)]
        assert "Stopped; it starts again when it is next." in told
        assert c.state(other) == "running"
        c.runtime.finish(c.task(high), 0)
        wait_for(lambda: (c.state(low), c.job(low).attempt) == ("running", 2))
        c.runtime.finish(c.task(low, 2), 0)
        c.wait(low, "succeeded")


@pytest.mark.parametrize("policy", ["fifo", "priority", "goodput"])
def test_a_preemptible_job_runs_on_where_no_job_of_higher_priority_takes_its_gpus(tmp_path: Path, policy: str) -> None:
    """It was stopped when the next policy, under which jobs share no GPUs, left it out."""
    with FakeCluster(tmp_path) as c:
        c.cluster.service.set_policy("fifo", params={"jobs_per_gpu": 2})
        jobs = c.submit(spec(gpus=4, preemptible=True), spec(gpus=4, preemptible=True))
        for job in jobs:
            c.wait(job, "running")
        c.cluster.service.set_policy(policy, params={"min_run": 0} if policy == "goodput" else {})
        [waiting] = c.submit(spec(gpus=1))
        wait_for(lambda: c.poke() and "GPU" in c.cluster.loop.waiting.get(waiting, ""), what="a decision")
        assert [(c.state(job), c.job(job).attempt) for job in jobs] == [("running", 1)] * 2
        c.runtime.finish(c.task(jobs[1]))  # the fake host takes a GPU of two jobs for a fault when it is closed


def test_a_drained_attempt_was_evicted(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, others={"h2": FakeRuntime("h2")}) as c:
        c.runtime.stop_code = PREEMPTED
        [job] = c.submit(spec(gpus=1, elastic=True))
        c.wait(job, "running")
        c.add("h2")
        c.cluster.fleet.drain("local", 0.0)
        wait_for(lambda: c.job(job).attempt == 2)
        assert ended(c, job) == [(1, "evicted", PREEMPTED)]


def test_a_cancelled_attempt_was_cancelled(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        c.runtime.stop_code = STOPPED
        [job] = c.submit()
        c.wait(job, "running")
        c.cluster.service.cancel(job)
        c.wait(job, "cancelled")
        assert ended(c, job) == [(1, "cancelled", STOPPED)]


def test_an_attempt_that_ran_for_too_long_met_its_time_limit(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        c.runtime.stop_code = STOPPED
        [job] = c.submit(spec(max_duration=0.2))
        c.wait(job, "timeout")
        assert ended(c, job) == [(1, "time_limit", STOPPED)]


def test_one_that_somebody_else_stopped_and_that_saved_a_checkpoint_was_preempted(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(elastic=True))
        c.wait(job, "running")
        c.runtime.finish(c.task(job), PREEMPTED)
        wait_for(lambda: c.job(job).attempt == 2)
        assert ended(c, job) == [(1, "preempted", PREEMPTED)]


def test_a_command_that_fails_has_failed(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(max_restarts=1))
        for attempt in (1, 2):
            wait_for(lambda: c.job(job).attempt == attempt and c.state(job) == "running")  # noqa: B023
            c.runtime.finish(c.task(job, attempt), 3)
        c.wait(job, "failed")
        assert ended(c, job) == [(1, "command_failed", 3), (2, "command_failed", 3)]


def test_of_a_gang_only_the_one_that_failed_has_failed(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1, others={"h2": FakeRuntime("h2")}) as c:
        c.add("h2", gpus=1)
        [job] = c.submit(spec(gpus=2))
        c.wait(job, "running")
        with c.cluster.db.read() as db:
            first, second = tasks_of(db, [job])
        hosts = {"local": c.runtime, **c.others}
        hosts[first.host_id].stop_code = STOPPED
        hosts[second.host_id].finish(second.id, 3)
        c.wait(job, "failed")
        assert first.rank == 0
        assert ended(c, job) == [(1, "cancelled", STOPPED), (1, "command_failed", 3)]
