"""What a policy would do at once, and what would come of it within a fixed time."""

from dataclasses import replace
from typing import Any

import pytest
from builders import host, job, snapshot

from schedulearn.scheduler.core.host_scaling import ScalingRule, Switching
from schedulearn.scheduler.core.model import JobView, Snapshot
from schedulearn.scheduler.core.planning.quotas import Quota, Quotas
from schedulearn.scheduler.core.planning.remaining_work import Basis
from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.sim.forecast import Facts
from schedulearn.scheduler.sim.preview import PreviewedPolicy, play

HOUR = 3600.0
DAY = 24 * HOUR


def known(id: str, seconds: float, **fields: object) -> JobView:
    """A job that reported how long it still takes on the GPUs that it asked for."""
    gpus = fields.get("gpus", 1)
    assert isinstance(gpus, int)
    return job(id, **fields, remaining=seconds * gpus, basis=Basis.PROGRESS)


def played(state: Snapshot, policy: str, horizon_s: float = DAY, looks: int | None = None) -> PreviewedPolicy:
    """`looks`: after so many the time to compute is over."""
    left = iter([False] * looks) if looks is not None else None
    facts = {view.id: Facts(view.id, view.max_gpus) for view in state.jobs}
    return play(
        make_policy(policy), state, facts, horizon_s=horizon_s,
        out_of_time=lambda: next(left, True) if left is not None else False,
    )  # fmt: skip


def crowd() -> Snapshot:
    """Four hours on four GPUs hold up four jobs of ten minutes: shortest first, they'd pass."""
    long = known("long", 14400, gpus=4, elastic=True, allocation={"h1": 4}, run_seconds=60.0)
    return snapshot([long, *(known(f"s{i}", 600, at=5.0 + i) for i in range(4))], [host(gpus=4)])


def test_what_a_policy_would_do_at_once_and_what_comes_of_it() -> None:
    now, then = played(crowd(), "fifo"), played(crowd(), "srtf")
    assert {change.job: change.action for change in then.changes} == {
        "long": "wait", "s0": "start", "s1": "start", "s2": "start", "s3": "start",
    }  # fmt: skip
    assert all(change.reason and change.code for change in then.changes)
    assert now.totals is not None
    assert then.totals is not None
    assert (now.totals.ended, then.totals.ended) == (5, 5)
    assert (now.totals.changes, then.totals.changes) == (0, 5)
    assert then.totals.mean_completion < now.totals.mean_completion / 2
    assert now.totals.gpu_hours == pytest.approx((4 * 14400 + 4 * 610) / 3600)
    assert now.totals.host_hours == pytest.approx((14400 + 610) / 3600)


def test_a_preview_tells_which_preemptible_jobs_stop() -> None:
    low = known("low", 14400, gpus=4, preemptible=True, priority=10, allocation={"h1": 4})
    fixed = known("fixed", 14400, gpus=4, priority=10, allocation={"h2": 4})
    high = known("high", 600, gpus=4, at=5, priority=90)
    state = snapshot([low, fixed, high], [host(gpus=4), host("h2", gpus=4)])
    assert {change.job: change.action for change in played(state, "priority").changes} == {
        "low": "wait",
        "high": "start",
    }
    assert list(played(state, "fifo").changes) == []


def test_a_policy_that_is_in_force_already_changes_nothing() -> None:
    state = snapshot([known("a", 100, gpus=4, allocation={"h1": 4}), known("b", 100, at=5)])
    assert (list(played(state, "fifo").changes), played(state, "fifo").unchanged) == ([], 2)


@pytest.mark.parametrize("looks", [1, 3, 10])
def test_figures_do_not_depend_on_how_fast_the_machine_computes(looks: int) -> None:
    """A policy that was not played up to the horizon has none, rather than those of a shorter time."""
    unhurried, hurried = played(crowd(), "fifo"), played(crowd(), "fifo", looks=looks)
    assert hurried.forecast.cut == "time"
    assert hurried.totals is None
    assert unhurried.until == hurried.until == crowd().now + DAY
    enough = played(crowd(), "fifo", looks=100_000)
    assert enough.totals == unhurried.totals


def test_within_the_horizon_a_job_that_has_not_ended_counts_up_to_it() -> None:
    state = snapshot([known("a", 3 * HOUR, gpus=4, allocation={"h1": 4}, at=-HOUR)], [host(gpus=4)])
    found = played(state, "fifo", HOUR)
    assert found.forecast.cut == "horizon"
    assert found.totals is not None
    assert found.totals.ended == 0
    assert found.totals.mean_completion == state.now + HOUR - state.jobs[0].submitted_at
    assert found.totals.gpu_hours == pytest.approx(4)
    assert found.totals.host_hours == pytest.approx(1)


def test_without_jobs_there_are_no_figures() -> None:
    assert played(snapshot([], [host(gpus=4)]), "fifo").totals is None


def test_hosts_are_parked_and_woken_as_in_the_service() -> None:
    """A job that waits for a parked host is foreseen to start when that is up; one that is closed stays so."""
    hosts = [host("a", 2), host("z", 0, open=False, parked_gpus=2), host("cordoned", 0, open=False)]
    jobs = [known("runs", 1000, gpus=2, allocation={"a": 2}), known("waits", 1000, at=1.0, gpus=2)]
    seen, facts = snapshot(jobs, hosts), {each.id: Facts(each.id, 2) for each in jobs}

    def start(**given: Any) -> float | None:
        return play(make_policy("fifo"), seen, facts, horizon_s=3600.0, **given).forecast.etas["waits"].start

    assert start() == pytest.approx(seen.now + 1000.0, abs=30.0), "nobody wakes hosts: it waits for the other job"
    by_need = Switching(ScalingRule(), 60.0)
    assert start(switching=by_need) == pytest.approx(seen.now + 180.0)
    assert start(switching=Switching(ScalingRule(most=1), 60.0)) == start()
    found = play(make_policy("fifo"), seen, facts, horizon_s=7200.0, switching=by_need, always_on={"a"})
    assert found.totals is not None
    on = found.forecast.run.on
    assert on is not None
    assert found.totals.host_hours == pytest.approx(sum(end - begin for begin, end in on) / 3600)
    assert len(on) == 2


def test_jobs_that_can_never_run_are_in_no_figure() -> None:
    """Each stood with 24 hours in every mean, and hid what differs between policies."""
    never = [
        job("too-large", gpus=5),
        job("no-such-type", gpu_type="h100"),
        job("at-least-five", gpus=5, min_gpus=5, max_gpus=8, elastic=True),
        job("beyond-quota", gpus=3, user="ada"),
    ]
    state = crowd()
    with_never = replace(state, jobs=(*state.jobs, *never))
    quotas = Quotas({"ada": Quota(gpus=2)})
    facts = {view.id: Facts(view.id, view.max_gpus) for view in with_never.jobs}
    found = play(make_policy("fifo"), with_never, facts, horizon_s=DAY, quotas=quotas)
    assert found.left_out == 4
    assert found.totals == played(state, "fifo").totals
    alone = replace(state, jobs=tuple(never[:1]))
    assert played(alone, "fifo").totals is None


def test_waits_are_from_submission_to_start() -> None:
    found = played(crowd(), "fifo").totals
    assert found is not None
    # Four were submitted 995 s ago, and wait 14,400 s more for the long one.
    assert 15_390 < found.median_wait < found.p90_wait < 15_400
