"""What jobs lose to others on their GPUs and hosts."""

import math
from dataclasses import replace
from typing import ClassVar

import pytest

from schedulearn.scheduler.core.model import HostView, JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.sim.application import rigid_application
from schedulearn.scheduler.sim.arguments import equal_hosts
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.forecast import Facts, forecast
from schedulearn.scheduler.sim.simulator import simulate
from schedulearn.scheduler.sim.workload import TraceJob

AT_ONCE = Conditions(cold_start=0.0)


def job(name: str, seconds: float, gpus: int = 1) -> TraceJob:
    return TraceJob(name, 0.0, rigid_application(name, seconds), gpus, gpus, gpus, elastic=False)


class Spread(Policy):
    """Every job on one GPU of every host."""

    name: ClassVar[str] = "spread"

    def allocate(self, snapshot: Snapshot) -> Plan:
        return Plan({job.id: {host.id: 1 for host in snapshot.hosts} for job in snapshot.jobs})


def test_jobs_on_one_gpu_share_it() -> None:
    """60 s and 120 s of work on one GPU: the first ends after 120 s, and the other then has it to itself."""
    fifo, jobs, hosts = make_policy("fifo", jobs_per_gpu=2), [job("a", 60.0), job("b", 120.0)], equal_hosts(1, 1)
    assert [o.ended_at for o in simulate(fifo, jobs, hosts, AT_ONCE).outcomes] == pytest.approx([120, 180])
    better = simulate(fifo, jobs, hosts, replace(AT_ONCE, sharing=1.5)).outcomes
    assert [o.ended_at for o in better] == pytest.approx([80, 140])


def test_gpus_of_their_own_and_turns_cost_nothing() -> None:
    fifo, jobs = make_policy("fifo", jobs_per_gpu=2), [job("a", 60.0), job("b", 120.0)]
    apart = simulate(fifo, jobs, equal_hosts(1, 2), AT_ONCE).outcomes
    assert [o.ended_at for o in apart] == pytest.approx([60, 120])
    turns = simulate(make_policy("gandiva", quantum=30), jobs, equal_hosts(1, 1), AT_ONCE).outcomes
    assert max(o.ended_at for o in turns) == pytest.approx(180)


def test_jobs_on_several_hosts_that_meet_lose_what_is_said() -> None:
    jobs, hosts = [job("a", 60.0, 2), job("b", 120.0, 2)], equal_hosts(2, 2)
    for lost, ends in ((0.0, [60, 120]), (0.5, [120, 180])):
        found = simulate(Spread(), jobs, hosts, replace(AT_ONCE, interference=lost)).outcomes
        assert [o.ended_at for o in found] == pytest.approx(ends)


def test_a_prediction_knows_that_shared_gpus_are_slower() -> None:
    """Two jobs that run on one GPU, with 100 s alone each: neither ends before 200 s."""
    views = tuple(
        JobView(n, 0.0, 1, 1, 1, False, allocation={"h": 1}, remaining=100.0, run_seconds=1.0, held_seconds=1.0)
        for n in "ab"
    )
    snapshot = Snapshot(0.0, 0, (HostView("h", 1),), views)
    facts = {n: Facts(n, 1, started_at=0.0) for n in "ab"}
    found = forecast(make_policy("fifo", jobs_per_gpu=2), snapshot, facts, horizon_s=math.inf)
    assert [found.etas[n].end for n in "ab"] == pytest.approx([200, 200])
