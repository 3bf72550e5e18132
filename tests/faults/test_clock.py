"""The clock is set by a day, forward or back, while a service works or is down: durations stay what they were."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from clusters import spec
from fakes.runtime import FakeRuntime
from sqlalchemy import select
from sqlmodel import col
from virtual.time import VirtualPool, VirtualTime

from schedulearn.api.access.credentials import Credentials
from schedulearn.features.interactive.worker import Interactive
from schedulearn.scheduler.background import Timing
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.core.host_facts import FoundGpu
from schedulearn.scheduler.core.outcomes.retries import next_tries
from schedulearn.scheduler.hosts.embedded import EmbeddedHost
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store import hosts, repository
from schedulearn.scheduler.store.accounting.usage import usage, usage_of_job
from schedulearn.scheduler.store.cluster_state import load_cluster_state
from schedulearn.scheduler.store.engines import sqlite
from schedulearn.scheduler.store.models import Event

DAY_S, HOUR_S = 86_400.0, 3600.0
STEPS = [DAY_S, -DAY_S, 400 * DAY_S]


class Lab:
    """A service in virtual time, over one engine that outlives it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.time = VirtualTime()
        self.runtime = FakeRuntime("local", clock=self.time.clock)
        self.pending: list[Callable[[], Any]] = []
        self.cluster: Cluster

    @contextmanager
    def service(self, **settings: Any) -> Iterator[None]:
        time, pool = self.time, lambda *_: VirtualPool(self.pending)
        self.cluster = Cluster(
            self.directory,
            ClusterSettings(**settings),
            make_host=lambda *_: EmbeddedHost(
                "local", "fake", "fake", self.runtime, [FoundGpu("GPU-0", 0, "simulated", 1 << 34, simulated=True)]
            ),
            features=[Interactive.of],
            timing=Timing(time.clock, time.monotonic, pool, time.after),
        )
        yield
        self.pending.clear()
        self.cluster.db.close()
        for lock in self.cluster._locks:
            lock.close()

    def go_on(self, seconds: float = 0.0) -> None:
        """Time passes, and then the service sees and does what there is to do."""
        self.time.advance(seconds)
        for _ in range(4):
            for agent in self.cluster.agents.values():
                agent.observe()
            self.cluster.loop.turn()
            while self.pending:
                self.pending.pop(0)()

    def submit(self, **fields: Any) -> str:
        return str(self.cluster.service.submit([spec(**fields)]).result()[0]["id"])

    def job(self, job_id: str) -> Any:
        with self.cluster.db.read() as conn:
            return repository.get_job(conn, job_id)

    def hours(self, job_id: str) -> float:
        with self.cluster.db.read() as conn:
            return usage_of_job(conn, job_id, self.time.clock()).gpu_hours


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(sqlite.FileWriting, "beat_s", None)
    return Lab(tmp_path)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_job_has_all_of_its_max_duration_and_no_more(lab: Lab, step: float, down: bool) -> None:
    with lab.service():
        job_id = lab.submit(max_duration=HOUR_S)
        lab.go_on()
        assert lab.job(job_id).state == "running"
        lab.go_on(600)
        if not down:
            lab.time.offset += step
            lab.go_on(600)
    if down:
        lab.time.offset += step
        lab.time.advance(600)
    with lab.service():
        lab.go_on()
        assert lab.job(job_id).state == "running"
        assert lab.hours(job_id) == pytest.approx(1 / 3, rel=0.01)
        lab.go_on(2300)
        assert lab.job(job_id).state == "running"
        lab.go_on(200)
        lab.go_on(60)
        job = lab.job(job_id)
        assert (job.state, job.reason) == ("timeout", "time_limit")
        assert job.run_seconds == pytest.approx(HOUR_S, rel=0.05)
        assert lab.hours(job_id) == pytest.approx(1.0, rel=0.05)
        with lab.cluster.db.read() as conn:
            events = conn.execute(select(col(Event.message)).where(col(Event.kind) == "clock.set")).scalars().all()
        assert len(events) == 1
        assert ("forward" if step > 0 else "back") in events[0]


@pytest.mark.parametrize("step", STEPS)
def test_a_command_that_ends_after_the_step_ran_as_long_as_it_did(lab: Lab, step: float) -> None:
    with lab.service():
        job_id = lab.submit()
        lab.go_on()
        lab.go_on(HOUR_S)
        lab.time.offset += step
        lab.time.advance(HOUR_S)
        lab.runtime.finish(f"schedulearn-{job_id}-1-0", 0)
        lab.go_on()
        job = lab.job(job_id)
        assert job.state == "succeeded"
        assert job.run_seconds == pytest.approx(2 * HOUR_S, rel=0.01)
        assert 0 <= job.finished_at - job.started_at == pytest.approx(2 * HOUR_S, rel=0.01)


@pytest.mark.parametrize("step", STEPS)
def test_a_command_that_starts_as_the_clock_is_set_is_not_over_at_once(lab: Lab, step: float) -> None:
    with lab.service():
        job_id = lab.submit(max_duration=HOUR_S)
        lab.cluster.agents["local"].observe()
        for _ in range(3):
            lab.cluster.loop.turn()
            while lab.pending:
                lab.pending.pop(0)()  # its engine notes the start by the clock of before
        lab.time.offset += step
        lab.go_on(10)
        lab.go_on(10)
        assert lab.job(job_id).state == "running"
        lab.go_on(HOUR_S)
        assert lab.job(job_id).state != "running"


@pytest.mark.parametrize("step", STEPS)
def test_quotas_count_what_was_used(lab: Lab, step: float) -> None:
    with lab.service():
        lab.submit()
        lab.go_on()
        lab.go_on(HOUR_S)
        lab.time.offset += step
        lab.go_on(HOUR_S)
        now = lab.time.clock()
        with lab.cluster.db.read() as conn:
            [used] = usage(conn, now - 7 * DAY_S, now, now)
        assert used.gpu_hours == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_removed_before_its_time(lab: Lab, step: float) -> None:
    with lab.service(keep_outputs=2, keep_checkpoints=2 * DAY_S):
        job_id = lab.submit()
        lab.go_on()
        lab.runtime.finish(f"schedulearn-{job_id}-1-0", 0)
        lab.go_on()

        def may_go() -> set[bool]:
            kept = (lab.cluster.outputs, lab.cluster.checkpoints)
            return {each._may_go(job_id, "local") for each in kept}

        lab.time.advance(0.9 * DAY_S)
        lab.time.offset += step
        lab.time.advance(DAY_S)
        assert may_go() == {False}, "it ended 1.9 days ago"
        lab.time.advance(3.2 * DAY_S)
        assert may_go() == {True}


def test_a_step_that_is_taken_back_leaves_no_trace(lab: Lab) -> None:
    with lab.service():
        job_id = lab.submit()
        lab.go_on()
        before = lab.job(job_id)
        lab.time.offset += DAY_S
        lab.go_on()
        assert lab.job(job_id).submitted_at == pytest.approx(before.submitted_at + DAY_S)
        lab.time.offset -= DAY_S
        lab.go_on()
        after = lab.job(job_id)
        assert (after.submitted_at, after.started_at) == pytest.approx((before.submitted_at, before.started_at))


@pytest.mark.parametrize("step", STEPS)
def test_waits_that_are_stored_stay_as_long_as_they_were(lab: Lab, step: float) -> None:
    """A drain's deadline, and a job's next try after a failure."""
    with lab.service():
        failing = lab.submit(max_restarts=3, name="failing")
        lab.go_on()
        lab.runtime.finish(f"schedulearn-{failing}-1-0", 1)
        lab.go_on()
        with lab.cluster.db.read() as conn:
            before = next_tries(load_cluster_state(conn).jobs, lab.time.clock())
        lab.cluster.db.write(
            lambda conn: hosts.set_state(conn, "local", "cordoned", lab.time.clock(), lab.time.clock() + HOUR_S)
        )
        now = lab.time.clock()
        lab.time.offset += step
        lab.go_on()
        with lab.cluster.db.read() as conn:
            state = load_cluster_state(conn)
        assert state.hosts[0].drain_until == pytest.approx(now + HOUR_S + step)
        assert next_tries(state.jobs, lab.time.clock()) == pytest.approx({k: v + step for k, v in before.items()})
        assert before


@pytest.mark.parametrize("step", [DAY_S, -DAY_S])
def test_a_delay_keeps_its_length_and_a_time_of_day_stays(lab: Lab, step: float) -> None:
    with lab.service():
        at = datetime.fromtimestamp(lab.time.clock() + 10 * DAY_S, UTC).isoformat()
        delayed, later, held = lab.submit(start_after="1h"), lab.submit(start_after=at), lab.submit(hold=True)
        before = {job: lab.job(job) for job in (delayed, later, held)}
        lab.time.offset += step
        lab.go_on()
        assert lab.job(delayed).start_after == pytest.approx(before[delayed].start_after + step)
        assert lab.job(later).start_after == before[later].start_after
        assert lab.job(held).held_at == pytest.approx(before[held].held_at + step)
        assert lab.job(delayed).state == "queued"
        lab.go_on(HOUR_S)
        lab.go_on()
        assert [lab.job(job).state for job in (delayed, later, held)] == ["running", "queued", "queued"]


@pytest.mark.parametrize("step", [DAY_S, -DAY_S])
def test_an_idle_job_is_not_ended_by_a_step(lab: Lab, step: float) -> None:
    with lab.service():
        job_id = lab.submit(ports={"web": 8888}, idle_timeout=HOUR_S)
        lab.go_on()
        lab.go_on(600)
        lab.time.offset += step
        lab.go_on(10)
        assert lab.job(job_id).state == "running"
        lab.go_on(HOUR_S)
        lab.go_on()
        assert lab.job(job_id).state == "timeout"


@pytest.mark.parametrize("step", [DAY_S, -DAY_S])
def test_who_is_logged_in_stays_so_for_as_long_as_was_said(lab: Lab, step: float) -> None:
    with lab.service():
        credentials = Credentials("secret", lab.time.clock)
        credentials.open(lab.cluster.db)
        lab.cluster.clock_watch.on_step = lambda: credentials.open(lab.cluster.db)
        found = credentials.log_in(lab.cluster.db, "secret")
        assert found is not None
        cookie, seconds = found
        lab.time.offset += step
        lab.go_on(seconds - 60)
        assert credentials.find_session(cookie) is not None
        lab.go_on(120)
        assert credentials.find_session(cookie) is None
