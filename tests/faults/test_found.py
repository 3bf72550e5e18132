"""What the runs found, each by itself."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from builders import job_record, task_spec
from clusters import wait_for
from fakes.runtime import FakeRuntime
from virtual.time import VirtualPool, VirtualTime

from schedulearn.scheduler.background import Timing
from schedulearn.scheduler.core.needs import Image, Need
from schedulearn.scheduler.core.outcomes.retries import next_tries
from schedulearn.scheduler.core.planning.reconcile import RemoveTask, StartTask, StopTask, TaskStart
from schedulearn.scheduler.core.task import EngineState
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault, StoreError
from schedulearn.scheduler.hosts import host_needs
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.hosts.host_needs import HostNeeds
from schedulearn.scheduler.hosts.retries import Retries
from schedulearn.scheduler.store.db import Database, sqlite_url

HOUR_S = 3600.0
IMG = Image("img")


def timing(time: VirtualTime, pending: list[Callable[[], Any]]) -> Timing:
    return Timing(time.clock, time.monotonic, lambda *_: VirtualPool(pending), time.after)


def test_a_container_is_not_removed_while_a_second_try_of_its_start_is_under_way() -> None:
    """The first try seemed to fail and did not, and its command has ended: the second one would start it again."""
    runtime, pending = FakeRuntime(), list[Callable[[], Any]]()
    agent = HostAgent("h1", runtime, lambda: None, timing=timing(VirtualTime(), pending))
    spec = task_spec()
    runtime.start(spec)
    runtime.finish(spec.task_id, 0)
    agent.act([StartTask(spec)], {IMG: [spec.task_id]})
    agent.act([RemoveTask(spec.task_id)], {})
    while pending:
        pending.pop()()
    assert not runtime.tasks(EngineState.RUNNING)
    runtime.check()
    agent.act([RemoveTask(spec.task_id)], {})
    pending.pop()()
    assert runtime.tasks() == []


def test_an_old_look_does_not_tell_that_a_task_never_ran() -> None:
    """It is cancelled right after its start: its GPUs were given to others while it ran."""
    runtime, pending = FakeRuntime(), list[Callable[[], Any]]()
    agent = HostAgent("h1", runtime, lambda: None, timing=timing(VirtualTime(), pending))
    agent.observe()
    spec = task_spec()
    agent.act([StartTask(spec)], {IMG: [spec.task_id]})
    pending.pop()()

    def maybe() -> Any:
        assert agent.status.observation is not None
        return agent.status.observation.maybe_starting

    assert maybe() == {spec.task_id}
    agent.observe()
    assert maybe() == set()


@pytest.mark.parametrize("by", [-HOUR_S, HOUR_S])
def test_a_clock_that_is_set_neither_puts_off_a_start_nor_brings_it_forward(by: float) -> None:
    time = VirtualTime()
    retries, goal = Retries(timing(time, [])), TaskStart("t")
    assert retries.put_off(goal, "busy") == 1.0
    time.offset += by
    time.advance(0.5)
    assert retries.trouble(goal).not_before == pytest.approx(time.clock() + 0.5)
    time.advance(0.6)
    assert retries.trouble(goal).not_before == 0.0


def test_a_job_does_not_wait_for_a_clock_that_was_set_back() -> None:
    job = job_record(state="queued", reason="retry", not_before=HOUR_S)
    assert next_tries({"j": job}, HOUR_S - 60) == {"j": HOUR_S}
    assert next_tries({"j": job}, 0.0) == {}


@pytest.mark.parametrize("by", [-HOUR_S, HOUR_S])
def test_a_clock_that_is_set_makes_no_silence_longer(by: float) -> None:
    """A host that does not answer for a moment is not given up because somebody set the clock."""
    time, runtime = VirtualTime(), FakeRuntime()
    agent = HostAgent("h1", runtime, lambda: None, timing=timing(time, []))
    agent.observe()
    runtime.silent = True
    agent.observe()
    time.advance(5.0)
    time.offset += by
    assert time.clock() - agent.status.silent_since == pytest.approx(5.0)
    agent.observe()
    assert time.clock() - agent.status.silent_since == pytest.approx(5.0)


def test_an_engine_that_fails_once_is_asked_again_when_its_time_has_come() -> None:
    time, runtime, woken = VirtualTime(), FakeRuntime(), list[int]()
    pending: list[Callable[[], Any]] = []
    agent = HostAgent("h1", runtime, lambda: woken.append(1), timing=timing(time, pending))
    runtime.fail_next("start", RuntimeFault("busy"))
    agent.act([StartTask(task_spec())], {IMG: [task_spec().task_id]})
    pending.pop()()
    assert not woken
    time.advance(1.0)
    assert woken


def test_a_refused_image_is_not_fetched_again_for_a_running_job_after_an_earlier_passing_failure() -> None:
    """The failure before kept saying that another try may help, so the registry was asked without end."""
    image, time, pending = Image("new"), VirtualTime(), list[Callable[[], Any]]()
    runtime = FakeRuntime(images=set(), fetchable={"new": RuntimeFault("busy")})
    agent = HostAgent("h1", runtime, lambda: None, timing=timing(time, pending))
    agent.fetch_for_jobs({image}, set())
    pending.pop()()
    assert agent.may_fetch(image)
    runtime.images.fetchable["new"] = ImageUnavailable("there is no such image")
    time.advance(HOUR_S)
    agent.fetch_for_jobs({image}, set())
    pending.pop()()
    assert agent.take_refused_fetches() == {image: "there is no such image"}
    assert not agent.may_fetch(image)


def test_what_a_host_has_may_change_while_an_image_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = HostNeeds()
    needs.note(IMG, True)
    has_name = host_needs._has_name

    def noting(known: Need, need: Need) -> bool:
        needs.note(Image("other"), True)  # by another thread, in the service
        return has_name(known, need)

    monkeypatch.setattr(host_needs, "_has_name", noting)
    needs.forget(IMG)
    assert (needs.is_there(IMG), needs.is_there(Image("other"))) == (None, True)


def test_tasks_start_while_many_others_take_their_grace_periods() -> None:
    ended = threading.Event()

    class SlowToStop(FakeRuntime):
        def stop(self, task_id: str, grace_s: float) -> None:
            ended.wait(60)

    runtime = SlowToStop()
    agent = HostAgent("h1", runtime, lambda: None)
    try:
        agent.act([StopTask(f"t{number}", 3600.0) for number in range(20)], {})
        agent.act([StartTask(task_spec())], {IMG: [task_spec().task_id]})
        wait_for(lambda: runtime.tasks(EngineState.RUNNING), what="the start")
    finally:
        ended.set()
        agent.close()


def test_a_damaged_database_is_refused_with_the_way_back_and_stays_as_it_is(tmp_path: Path) -> None:
    Database(sqlite_url(tmp_path)).close()
    file = tmp_path / "schedulearn.db"
    with closing(sqlite3.connect(file)) as connection:
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'event'")
        [(size,)] = connection.execute("PRAGMA page_size")
    with file.open("r+b") as raw:
        raw.seek((page - 1) * size)
        raw.write(b"\xff" * size)
    damaged = file.read_bytes()
    with pytest.raises(StoreError, match=r"it is damaged .* schedulearn restore FILE"):
        Database(sqlite_url(tmp_path))
    assert file.read_bytes() == damaged
    file.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match=r"damaged \(file is not a database\)"):
        Database(sqlite_url(tmp_path))
