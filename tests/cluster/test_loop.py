"""The loop, the agents and the store together, over a runtime in memory."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.control.waiting_reasons import WaitingLog
from schedulearn.scheduler.core.model import Explanation, Plan, Snapshot
from schedulearn.scheduler.core.outcomes import task_outcomes
from schedulearn.scheduler.core.task import EngineState
from schedulearn.scheduler.errors import ConflictError, RuntimeFault, StartRefused, StoreError
from schedulearn.scheduler.policies.registry import POLICIES
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of


def test_a_job_is_placed_runs_and_succeeds_and_gives_its_gpus_back(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(gpus=2))
        c.wait(job, "running")
        assert {lease.gpu_uuid for lease in c.leases()} == {"GPU-0", "GPU-1"}
        assert c.runtime.env(c.task(job))["NVIDIA_VISIBLE_DEVICES"] == "GPU-0,GPU-1"
        c.runtime.finish(c.task(job), 0)
        ended = c.wait(job, "succeeded")
        assert ended.exit_code == 0
        assert c.leases() == []
        assert c.events(job) == ["job.queued", "job.starting", "job.running", "job.succeeded"]
        wait_for(lambda: c.runtime.tasks() == [], what="the container to be removed")


def test_a_failing_command_fails_the_job_with_its_exit_code(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit()
        c.wait(job, "running")
        c.runtime.finish(c.task(job), 3)
        ended = c.wait(job, "failed")
        assert (ended.exit_code, ended.reason) == (3, "command_failed")


def test_a_failing_command_is_tried_again_as_often_as_allowed(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(max_restarts=1))
        for attempt in (1, 2):
            wait_for(lambda attempt=attempt: c.job(job).attempt == attempt and c.state(job) == "running")
            c.runtime.finish(c.task(job, attempt), 1)
        assert c.wait(job, "failed").restarts == 1


def test_jobs_wait_for_gpus_in_order_and_are_told_why(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=2) as c:
        c.cluster.service.set_policy("fifo")
        first, second, third = c.submit(spec(gpus=2), spec(gpus=2), spec(gpus=1))
        c.wait(first, "running")
        wait_for(lambda: set(c.cluster.loop.waiting) == {second, third})
        assert "0 are free" in c.cluster.loop.waiting[second]
        c.runtime.finish(c.task(first))
        c.wait(second, "running")
        assert c.state(third) == "queued"


def test_a_queued_job_is_cancelled_at_once(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1) as c:
        first, second = c.submit(spec(), spec())
        c.wait(first, "running")
        c.cluster.service.cancel(second)
        assert c.state(second) == "cancelled"
        c.cluster.service.cancel(second)  # again: nothing more happens


def test_a_running_job_is_cancelled_by_stopping_it_and_keeps_its_gpus_until_it_is_gone(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1) as c:
        c.runtime.stubborn = True
        first, second = c.submit(spec(), spec())
        c.wait(first, "running")
        c.cluster.service.cancel(first)
        wait_for(lambda: ("stop", c.task(first)) in c.runtime.calls)
        assert c.state(first) == "stopping"
        assert c.state(second) == "queued"
        c.runtime.finish(c.task(first), 143)
        c.wait(first, "cancelled")
        c.wait(second, "running")


def test_cancelling_a_job_that_has_ended_is_a_conflict(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit()
        c.wait(job, "running")
        c.runtime.finish(c.task(job))
        c.wait(job, "succeeded")
        with pytest.raises(ConflictError, match="ended already"):
            c.cluster.service.cancel(job)


def test_a_job_is_ended_at_its_max_duration(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(max_duration=0.2))
        assert c.wait(job, "timeout").reason == "time_limit"


def test_an_engine_that_fails_for_a_while_only_delays_the_job(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        c.runtime.fail_next("start", RuntimeFault("the engine is busy"))
        [job] = c.submit()
        wait_for(lambda: "the engine is busy" in c.job(job).message, what="the trouble to be told")
        c.wait(job, "running")


def test_a_start_that_can_never_work_fails_the_job(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        c.runtime.fail_next("start", StartRefused("no such command: nope"))
        [job] = c.submit()
        assert c.wait(job, "failed").reason == "start_refused"
        assert c.leases() == []


def test_a_container_that_somebody_removed_is_started_again(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit()
        c.wait(job, "running")
        c.runtime.vanish(c.task(job))
        wait_for(lambda: c.job(job).attempt == 2 and c.state(job) == "running")
        assert c.job(job).losses == 1


def test_the_service_may_die_and_come_back_while_jobs_run(tmp_path: Path) -> None:
    runtime = FakeRuntime("local")
    with FakeCluster(tmp_path, runtime=runtime) as c:
        running, queued = c.submit(spec(gpus=4), spec(gpus=4))
        c.wait(running, "running")
    runtime._closed = False
    with FakeCluster(tmp_path, runtime=runtime) as c:
        assert c.state(running) == "running"
        runtime.finish(c.task(running))
        c.wait(running, "succeeded")
        c.wait(queued, "running")


def test_a_container_that_ended_while_the_service_was_away_is_recorded(tmp_path: Path) -> None:
    runtime = FakeRuntime("local")
    with FakeCluster(tmp_path, runtime=runtime) as c:
        [job] = c.submit()
        c.wait(job, "running")
    runtime._closed = False
    runtime.finish(f"schedulearn-{job}-1-0", 7)
    with FakeCluster(tmp_path, runtime=runtime) as c:
        assert c.wait(job, "failed").exit_code == 7


def test_a_second_service_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with FakeCluster(tmp_path), pytest.raises(StoreError, match="another Schedulearn"):
        FakeCluster(tmp_path).__enter__()


def test_the_same_idempotency_key_gives_the_same_job(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [first] = c.submit(spec(), key="k")
        assert c.submit(spec(), key="k") == [first]
        with pytest.raises(ConflictError, match="used before"):
            c.submit(spec(gpus=2), key="k")
        batch = c.submit(spec("x"), spec("y"), key="b")
        assert c.submit(spec("x"), spec("y"), key="b") == batch


def test_submissions_that_meet_a_locked_database_are_told_so_and_later_ones_work(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        c.cluster.db.write(lambda db: db.exec_driver_sql("PRAGMA busy_timeout = 50"))  # of the writer's connection
        with closing(sqlite3.connect(tmp_path / "schedulearn.db", isolation_level=None)) as stranger:
            stranger.execute("BEGIN IMMEDIATE")
            futures = [c.cluster.service.submit([spec()]) for _ in range(3)]
            for future in futures:
                with pytest.raises(StoreError, match="locked"):
                    future.result(timeout=30)  # a later one meets it on a new connection, for 5 s
            stranger.execute("ROLLBACK")
        [job] = c.submit()
        c.wait(job, "running")


def test_a_priority_can_be_changed_while_the_job_waits(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1) as c:
        _, waiting = c.submit(spec(), spec())
        assert c.cluster.service.set_priority(waiting, 80).priority == 80


def test_no_job_goes_to_a_cordoned_host_until_it_is_back(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [first] = c.submit()
        c.wait(first, "running")
        c.cluster.fleet.set_state("local", "cordoned")
        [second] = c.submit()
        wait_for(lambda: second in c.cluster.loop.waiting)
        assert c.state(first) == "running"
        c.cluster.fleet.set_state("local", "active")
        c.wait(second, "running")


def test_an_engine_that_does_not_answer_leaves_everything_as_it_is(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [first] = c.submit()
        c.wait(first, "running")
        c.runtime.fail_next("observe", RuntimeFault("connection refused"), times=3)
        c.cluster.agents["local"].poke()
        wait_for(lambda: c.cluster.agents["local"].status.error == "connection refused")
        [second] = c.submit()
        assert c.state(first) == "running"
        c.cluster.agents["local"].poke()
        c.cluster.agents["local"].poke()
        wait_for(lambda: (c.cluster.agents["local"].poke(), c.state(second) == "running")[1])


class _Broken:
    """Raises, or gives everything to everybody."""

    name: ClassVar[str] = "broken"

    def allocate(self, snapshot: Snapshot) -> Plan:
        if not snapshot.jobs:
            return Plan({})
        if snapshot.jobs[0].required_gpus == 1:
            raise ZeroDivisionError("oops")
        return Plan({job.id: {"local": 99} for job in snapshot.jobs})


def test_a_policy_that_breaks_the_rules_does_nothing_and_can_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(POLICIES, "broken", _Broken)
    with FakeCluster(tmp_path) as c:
        c.cluster.service.set_policy("broken")
        one, two = c.submit(spec())[0], c.submit(spec(gpus=2))[0]
        wait_for(lambda: "ZeroDivisionError" in c.cluster.loop.stats.policy_error)
        c.cluster.service.cancel(one)
        wait_for(lambda: "gets 99 GPUs" in c.cluster.loop.stats.policy_error)
        assert c.state(two) == "queued"
        c.cluster.service.set_policy("fifo")
        c.wait(two, "running")
        assert c.cluster.loop.stats.policy_error == ""


class _Grow:
    """Gives the oldest elastic job everything."""

    name: ClassVar[str] = "grow"

    def allocate(self, snapshot: Snapshot) -> Plan:
        if not snapshot.jobs:
            return Plan({})
        oldest = snapshot.jobs[0].id
        return Plan({oldest: {"local": 4}}, reasons={oldest: Explanation("grows", "It grows to 4.")})


def test_an_elastic_job_is_resized_by_stopping_it_and_starting_it_with_the_new_allocation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(POLICIES, "grow", _Grow)
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(gpus=1, elastic=True))
        c.wait(job, "running")
        c.cluster.service.set_policy("grow")
        wait_for(lambda: c.job(job).attempt == 2 and c.state(job) == "running")
        assert len(c.leases()) == 4
        with c.cluster.db.read() as db:
            [event] = [e for e in repository.list_events(db, job_id=job) if e.kind == "job.resizing"]
        assert (event.message, event.data) == ("It grows to 4.", {"decision": "grows", "allocation": {"local": 4}})


@pytest.mark.slow
def test_rigid_jobs_take_turns_on_a_gpu_and_one_that_ends_leaves_it_to_the_other(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1) as c:
        c.cluster.service.set_policy("gandiva", "default", {"quantum": 1})
        jobs = c.submit(spec(), spec())

        def awake() -> list[str]:
            c.runtime.check()  # never two at a time
            return [t.task_id for t in c.runtime.observe() if t.state is EngineState.RUNNING and not t.paused]

        seen: list[str] = []

        def turns() -> int:
            seen.extend(task for task in awake() if seen[-1:] != [task])
            return len(seen)

        wait_for(lambda: turns() >= 4, seconds=30, what="four turns")
        assert set(seen) == {c.task(job) for job in jobs}
        # Nobody has been paused for good: whoever runs ends, then the other one.
        for _ in jobs:
            c.runtime.finish(wait_for(awake, seconds=30)[0])
        assert [c.wait(job, "succeeded").restarts for job in jobs] == [0, 0]
        assert "job.paused" not in {kind for job in jobs for kind in c.events(job)}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pause_that_nobody_here_asked_for_is_told_and_undone(
    tmp_path: Path, restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_outcomes, "INHERITED_S", 0.0)
    runtime = FakeRuntime("local")
    with FakeCluster(tmp_path, gpus=2, runtime=runtime) as c:
        [job] = c.submit(spec(gpus=2))
        c.wait(job, "running")
        if not restarted:
            _pause_and_see(c, job)
    if restarted:
        with FakeCluster(tmp_path, gpus=2, runtime=runtime) as c:
            _pause_and_see(c, job)


def _pause_and_see(c: FakeCluster, job: str) -> None:
    for times in (1, 2):
        c.runtime.pause(c.task(job))
        c.poke()
        wait_for(lambda: c.events(job).count("job.paused") == times)  # noqa: B023
        wait_for(lambda: not any(task.paused for task in c.runtime.observe()))
        wait_for(lambda: c.poke() and _paused_at(c, job) is None)
    with c.cluster.db.read() as db:
        [event, _] = [e for e in repository.list_events(db, job_id=job) if e.kind == "job.paused"]
    assert (event.code, event.host_id) == ("paused_by_others", "local")
    assert f"{c.task(job)} on local was paused from outside" in event.message
    assert (c.state(job), c.job(job).attempt) == ("running", 1)


def _paused_at(c: FakeCluster, job: str) -> float | None:
    with c.cluster.db.read() as db:
        [task] = tasks_of(db, [job])
    return task.paused_at


def test_paused_jobs_go_on_one_after_the_other_when_the_policy_knows_no_turns(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1) as c:
        c.cluster.service.set_policy("gandiva", "default", {"quantum": 1})
        jobs = c.submit(spec(), spec())
        wait_for(lambda: len(c.runtime.tasks(EngineState.RUNNING)) == 2, seconds=30)
        c.cluster.service.set_policy("fifo")
        for _ in jobs:
            c.runtime.check()
            awake = wait_for(lambda: [t.task_id for t in c.runtime.observe() if t.state == "running" and not t.paused])
            c.runtime.finish(awake[0])
        assert [c.wait(job, "succeeded").restarts for job in jobs] == [0, 0]


def end_one(c: FakeCluster, task_id: str, code: int) -> None:
    try:
        c.runtime.finish(task_id, code)
    except (AssertionError, KeyError):
        pass  # it ended meanwhile


def happen(c: FakeCluster, dice: random.Random, jobs: list[str]) -> None:
    """One thing that users, jobs and engines do."""
    running = c.runtime.tasks(EngineState.RUNNING)
    match dice.choice(["submit", "submit", "end", "end", "lose", "cancel", "policy", "fault"]):
        case "submit":
            jobs += c.submit(spec(gpus=dice.randint(1, 8), max_restarts=dice.randint(0, 2)))
        case "end" if running:
            end_one(c, dice.choice(running).task_id, dice.choice([0, 0, 1]))
        case "lose" if running:
            c.runtime.vanish(dice.choice(running).task_id) if dice.random() < 0.3 else None
        case "cancel" if jobs:
            try:
                c.cluster.service.cancel(dice.choice(jobs))
            except ConflictError:
                pass
        case "policy":
            name = dice.choice(["fifo", "round-robin", "gandiva", "tiresias", "elastic-fifo"])
            c.cluster.service.set_policy(name, "default", {"quantum": 1} if name == "gandiva" else {})
        case "fault":
            c.runtime.fail_next(dice.choice(["observe", "start", "stop", "remove", "pause", "resume"]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_no_gpu_is_given_twice_and_every_job_comes_to_an_end(tmp_path: Path, seed: int) -> None:
    """Random submissions, ends, losses, cancels, policy switches and engine faults, then calm until all have ended."""
    dice = random.Random(seed)
    with FakeCluster(tmp_path, gpus=8) as c:
        jobs: list[str] = []
        for _ in range(100):
            happen(c, dice, jobs)
            c.runtime.check()

        def all_ended() -> bool:
            c.cluster.agents["local"].poke()
            for task in c.runtime.tasks(EngineState.RUNNING):
                end_one(c, task.task_id, 0)
            return all(c.state(job) in ("succeeded", "failed", "cancelled") for job in jobs)

        wait_for(all_ended, seconds=60, what=f"all of {len(jobs)} jobs to end")
        assert c.leases() == []


def test_why_a_job_waits_is_told_once_a_reason(tmp_path: Path) -> None:
    runtime = FakeRuntime("local")
    with FakeCluster(tmp_path, gpus=2, runtime=runtime) as c:
        c.cluster.service.set_policy("fifo")
        [first] = c.submit(spec(gpus=2))
        c.wait(first, "running")
        second, huge = c.submit(spec(gpus=2), spec(gpus=64))
        wait_for(lambda: waits(c, huge) and waits(c, second))
        for _ in range(5):
            c.cluster.loop.wake()
            wait_for(lambda before=c.cluster.loop.stats.decisions: c.cluster.loop.stats.decisions > before)
        [(code, sentence)] = waits(c, second)
        assert (code, "0 are free" in sentence) == ("waiting_for_gpus", True)
        assert [code for code, _ in waits(c, huge)] == ["unsatisfiable_now"]
    runtime._closed = False
    with FakeCluster(tmp_path, gpus=2, runtime=runtime) as c:
        wait_for(lambda: c.cluster.loop.waiting.keys() == {second, huge})
        runtime.finish(c.task(first))
        c.wait(second, "running")
        assert len(waits(c, second)) == len(waits(c, huge)) == 1, "a service that starts says nothing twice"


def waits(c: FakeCluster, job_id: str) -> list[tuple[str, str]]:
    with c.cluster.db.read() as db:
        return [(e.code, e.message) for e in repository.list_events(db, job_id=job_id) if e.kind == "job.waiting"]


def test_a_job_that_ran_and_waits_again_is_told_of_again(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1) as c:
        c.cluster.loop.close()
        log = WaitingLog(c.cluster.db)
        [job] = c.submit()
        full, behind = (
            Explanation("waiting_for_gpus", "It needs 1."),
            Explanation("behind_others", "Others come first."),
        )
        for at, waiting in enumerate([{job: full}, {job: full}, {job: behind}, {}, {job: behind}, {}]):
            log.tell(waiting, float(at))
        assert [code for code, _ in waits(c, job)] == ["waiting_for_gpus", "behind_others", "behind_others"]
        WaitingLog(c.cluster.db).tell({job: behind}, 9.0)
        assert len(waits(c, job)) == 3
