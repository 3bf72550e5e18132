"""Jobs that can't run on every host do not starve on a busy cluster."""

from __future__ import annotations

from typing import Any

import pytest

from schedulearn.scheduler.core.model import HostView
from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.sim.application import measured_applications, rigid_application
from schedulearn.scheduler.sim.simulator import simulate
from schedulearn.scheduler.sim.workload import TraceJob

HOSTS = [HostView("h1", 4), HostView("h2", 4)]


@pytest.mark.parametrize("policy", ["goodput", "fifo"])
@pytest.mark.parametrize(
    "limit", [{"unfit": {"h1": "h1 has room=b1"}, "wanted_hosts": "on h2"}, {"exclusive": True}], ids=["h2", "alone"]
)
def test_a_job_that_needs_a_whole_host_starts_before_most_small_ones_that_came_later(
    policy: str, limit: dict[str, Any]
) -> None:
    """Small jobs ask for more GPUs than there are. Without the limit, the job waits for about 600 s."""
    small = [TraceJob(f"s{at}", 60.0 * at, rigid_application("s", 600.0), elastic=False) for at in range(40)]
    large = TraceJob("large", 900.0, rigid_application("l", 600.0), 4, 4, 4, elastic=False, **limit)
    run = simulate(make_policy(policy), [*small, large], HOSTS)
    [found] = [outcome for outcome in run.outcomes if outcome.job.id == "large"]
    assert found.started_at - 900.0 <= 1200.0
    [held] = [each for each in run.held if each.job == "large"]
    assert held.allocation in ({"h1": 4}, {"h2": 4})
    assert "unfit" not in limit or held.allocation == {"h2": 4}
    beside = [
        each for each in run.held
        if each.job != "large" and each.begin < held.end and held.begin < each.end
        and not held.allocation.keys().isdisjoint(each.allocation)
    ]  # fmt: skip
    assert beside == []


@pytest.mark.parametrize("policy", ["goodput", "elastic-fifo", "afs-l"])
def test_elastic_jobs_on_all_hosts_leave_one_for_an_exclusive_job(policy: str) -> None:
    """Otherwise it would wait for their end, a day later."""
    elastic = TraceJob("e", 0.0, measured_applications()["imagenet"])
    alone = TraceJob("alone", 7200.0, rigid_application("a", 600.0), elastic=False, exclusive=True)
    run = simulate(make_policy(policy), [elastic, alone], HOSTS)
    [found] = [outcome for outcome in run.outcomes if outcome.job.id == "alone"]
    assert found.started_at - 7200.0 <= 300.0
    [held] = [each for each in run.held if each.job == "alone"]
    beside = [each for each in run.held if each.job == "e" and each.begin < held.end and held.begin < each.end]
    assert beside
    assert all(held.allocation.keys().isdisjoint(each.allocation) for each in beside)


@pytest.mark.parametrize("policy", ["goodput", "fifo"])
def test_a_host_with_a_job_that_does_not_end_is_not_the_one_to_wait_for(policy: str) -> None:
    """Jobs on the other host end every few minutes."""
    endless = TraceJob("z", 0.0, rigid_application("z", 1e6), elastic=False, unfit={"h2": "no"}, wanted_hosts="on h1")
    small = [TraceJob(f"s{at}", 100.0 * at, rigid_application("s", 600.0), elastic=False) for at in range(100)]
    alone = TraceJob("alone", 3600.0, rigid_application("a", 600.0), elastic=False, exclusive=True)
    run = simulate(make_policy(policy), [endless, *small, alone], HOSTS)
    [found] = [outcome for outcome in run.outcomes if outcome.job.id == "alone"]
    assert found.started_at - 3600.0 <= 1800.0
