"""Hours of a cluster that a group without jobs lends, under every policy: owners start soon, and nobody is thrashed."""

from __future__ import annotations

import math

import pytest

from schedulearn.scheduler.core.people import ANY
from schedulearn.scheduler.core.planning.quotas import Quotas
from schedulearn.scheduler.policies.registry import POLICIES, make_policy
from schedulearn.scheduler.sim.arguments import equal_hosts
from schedulearn.scheduler.sim.run import Run
from schedulearn.scheduler.sim.simulator import Simulation
from schedulearn.scheduler.sim.workload import TraceJob, load_applications, rigid_application

OWNERS = Quotas(group_of={"ada": "g"}, guarantee_of={"g": {ANY: 4}})
SOON_S = 60.0
OTHERS = 8


def lent_cluster() -> list[TraceJob]:
    """Others fill 8 GPUs for hours. Ada sends four jobs, each within her group's guarantee once the last has ended."""
    elastic, short = load_applications()["cifar10"], rigid_application("short", 600.0)
    others = [
        *(TraceJob(f"elastic{i}", 10.0 * i, elastic, required_gpus=4, max_gpus=8) for i in range(4)),
        *(
            TraceJob(f"rigid{i}", 5.0 + 10 * i, rigid_application("long", 4000.0), 2, elastic=False, preemptible=True)
            for i in range(4)
        ),
    ]
    mine = [
        TraceJob(f"mine{i}", 1000.0 + 1500 * i, short, gpus, elastic=False, user="ada")
        for i, gpus in enumerate((1, 2, 4, 2))
    ]
    return [*others, *mine]


def play(policy: str, quotas: Quotas) -> Run:
    return Simulation(make_policy(policy), lent_cluster(), equal_hosts(2, 4), quotas=quotas).run()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_an_owner_starts_soon_and_borrowers_are_disturbed_little(policy: str) -> None:
    run, without = play(policy, OWNERS), play(policy, Quotas())
    assert all(outcome.ended_at < math.inf for outcome in run.outcomes), "everybody ends"
    waits = {
        outcome.job.id: outcome.started_at - outcome.job.submitted_at
        for outcome in run.outcomes
        if outcome.job.user == "ada"
    }
    assert max(waits.values()) <= SOON_S, waits
    restarts, before = (
        sum(outcome.restarts for outcome in each.outcomes if not outcome.job.user) for each in (run, without)
    )
    assert restarts <= before + 3 * OTHERS
