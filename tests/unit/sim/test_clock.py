"""The simulation ends, whatever its clock shows and whoever decides; and times come out as they went in."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from builders import host

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.sim.arguments import equal_hosts
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.jobs.training import JobEvent, Training
from schedulearn.scheduler.sim.result import summarize
from schedulearn.scheduler.sim.run import Run
from schedulearn.scheduler.sim.simulator import FRUITLESS_DECISIONS, MIN_REVIEW_S, Simulation, StuckError
from schedulearn.scheduler.sim.workload import TraceJob, load_applications, load_trace, replace, rigid_application

NOW = 1_795_358_532.18
"""Seconds since the epoch, where a float steps by 2.4e-7."""
WORKLOAD = Path(__file__).parents[3] / "bench/data/workloads/workload-1.csv"


def rigid(id: str, at: float, seconds: float, **fields: object) -> TraceJob:
    return TraceJob(id, at, rigid_application("fixed", seconds), **{"elastic": False, **fields})  # type: ignore[arg-type]


def played(policy: str, jobs: list[TraceJob], gpus: int = 4, **how: object) -> Run:
    return Simulation(make_policy(policy), jobs, equal_hosts(4, gpus), **how).run()  # type: ignore[arg-type]


@pytest.mark.parametrize(("policy", "count"), [("fifo", 30), ("gandiva", 30), ("tiresias", 20), ("goodput", 12)])
def test_a_trace_in_seconds_since_the_epoch_is_played_like_one_from_zero(policy: str, count: int) -> None:
    jobs = load_trace(WORKLOAD)[:count]
    shift = NOW - NOW % (60 * 27_720)  # ticks fall on the same moments, and turns on the same of up to twelve jobs
    early = played(policy, jobs)
    late = played(policy, [replace(job, submitted_at=job.submitted_at + shift) for job in jobs])
    assert len(late.outcomes) == count
    for one, other in zip(early.outcomes, late.outcomes, strict=True):
        assert other.started_at - shift == pytest.approx(one.started_at, abs=1e-3)
        assert other.ended_at - shift == pytest.approx(one.ended_at, abs=1e-3)
        assert other.gpu_seconds == pytest.approx(one.gpu_seconds, abs=1e-2)


def test_the_reported_trace_ends() -> None:
    jobs = [replace(job, submitted_at=job.submitted_at + NOW) for job in load_trace(WORKLOAD)[:30]]
    ends = [outcome.ended_at for outcome in played("fifo", jobs).outcomes]
    assert sum(map(math.isfinite, ends)) == 29, "one asks for more GPUs than there are"


def test_times_that_no_clock_can_hold_together_end_too() -> None:
    """The clock counts from the first job on: 3,000 years later it steps by 15 microseconds."""
    app = load_applications()["ncf"]
    jobs = [TraceJob("first", 0.0, app), *(TraceJob(f"late-{i}", 1e11 - i * 1e-4, app) for i in range(5))]
    jobs.append(TraceJob("short", 1e11, replace(app, total_steps=1e-9)))
    for policy in ("fifo", "goodput"):
        run = played(policy, jobs, conditions=Conditions(cold_start=0.0))
        assert summarize(run).unfinished == 0


class Diary(Policy):
    """One GPU for everybody; writes down what it is shown, and asks for a review at odd times."""

    name: ClassVar[str] = "diary"

    def __init__(self, review: Callable[[float], float | None]) -> None:
        self.review = review
        self.seen: list[Snapshot] = []

    def allocate(self, snapshot: Snapshot) -> Plan:
        self.seen.append(snapshot)
        free = 4 - sum(job.gpus for job in snapshot.jobs)
        new = [job.id for job in snapshot.jobs if not job.allocation][:free]
        running = {job.id: job.allocation for job in snapshot.jobs if job.allocation}
        return Plan({**running, **{job_id: {"h1": 1} for job_id in new}}, review_at=self.review(snapshot.now))


def test_policies_see_the_time_of_the_jobs_and_are_asked_when_they_wanted() -> None:
    """A policy counts its turns by the clock: in a forecast they must fall where they will in the service."""
    wanted = [NOW + 3.1, NOW + 7.7, NOW + 20.0]
    policy = Diary(lambda now: min((at for at in wanted if at > now), default=None))
    job = rigid("a", NOW, 100.0, deadline=NOW + 500)
    run = Simulation(policy, [job], [host(gpus=4)], Conditions(interval=1000)).run()
    shown = [snapshot.now for snapshot in policy.seen]
    assert shown[0] == NOW
    assert set(wanted) <= set(shown)
    assert {(view.submitted_at, view.deadline) for s in policy.seen for view in s.jobs} == {(NOW, NOW + 500)}
    [outcome], [held] = run.outcomes, run.held
    assert (outcome.started_at, held.begin) == (NOW, NOW)
    assert outcome.ended_at == held.end == pytest.approx(NOW + 110, abs=1e-6)


@pytest.mark.parametrize("ahead", [0.0, -1e9, 1e-9, 2.4e-7])
def test_a_policy_that_always_wants_to_be_asked_at_once_does_not_stop_the_clock(ahead: float) -> None:
    policy = Diary(lambda now: now + ahead)
    [outcome] = Simulation(policy, [rigid("a", NOW, 10.0)], [host(gpus=4)]).run().outcomes
    assert outcome.ended_at == pytest.approx(NOW + 20, abs=1e-3)
    assert len(policy.seen) <= 20 / MIN_REVIEW_S + 5


class Swap(Policy):
    """Two jobs on one GPU, each thrown out at the next decision: with restarts longer than that neither trains."""

    name: ClassVar[str] = "swap"

    def allocate(self, snapshot: Snapshot) -> Plan:
        order = sorted(snapshot.jobs, key=lambda job: job.gpus)
        return Plan({job.id: {"h1": 1} for job in order[:1]})


def test_a_policy_that_lets_nobody_train_is_left_in_the_end() -> None:
    jobs = [rigid(name, 0.0, 10.0, elastic=True) for name in "ab"]
    run = Simulation(Swap(), jobs, [host(gpus=1)], Conditions(stall_up=100.0, cold_start=100.0)).run()
    assert len(run.outcomes) == 2
    assert len(run.decision_seconds) < FRUITLESS_DECISIONS + 100


def test_a_job_that_can_never_run_does_not_hold_up_those_that_come_years_later() -> None:
    jobs = [rigid("huge", 0.0, 10.0, required_gpus=99, min_gpus=99), rigid("late", 1e10, 10.0)]
    run = played("las", jobs)
    assert [outcome.ended_at for outcome in run.outcomes] == [math.inf, pytest.approx(1e10 + 20)]
    assert len(run.decision_seconds) < FRUITLESS_DECISIONS + 100


def test_a_job_whose_event_changes_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded_away(self: Training, event: JobEvent) -> bool:
        return False

    monkeypatch.setattr(Training, "reach", rounded_away)
    jobs = [rigid("fine", 0.0, 5.0), TraceJob("stuck", 1.0, load_applications()["ncf"])]
    simulation = Simulation(make_policy("fifo"), jobs, equal_hosts(1, 4))
    with pytest.raises(StuckError, match="job stuck") as caught:
        simulation.run()
    assert caught.value.job == "stuck"
    assert {o.job.id: math.isfinite(o.ended_at) for o in simulation.result().outcomes} == {"fine": True, "stuck": False}


@pytest.mark.parametrize("after", [0, 1, 7, 150, 310, 550])
def test_it_stops_when_it_is_told_to_also_amid_many_events_at_one_instant(after: int) -> None:
    """300 jobs come at one instant and end at another."""
    jobs = [rigid(f"j{i:03}", 5.0, 10.0) for i in range(300)]
    asked = 0

    def stop(elapsed: float) -> bool:
        nonlocal asked
        asked += 1
        return asked > after

    run = played("fifo", jobs, gpus=100, stop=stop)
    assert asked == after + 1, "once it was told, it asks no more"
    assert len(run.outcomes) == 300
    done = [o for o in run.outcomes if math.isfinite(o.started_at) or math.isfinite(o.ended_at)]
    assert len(done) <= (0 if after < 300 else 300)
    assert sum(math.isfinite(o.ended_at) for o in run.outcomes) <= max(0, after - 300)
