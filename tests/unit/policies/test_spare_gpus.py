"""No GPU idles while a job gains by it, no job is resized before it has run for a while, and none for nothing."""

from dataclasses import replace

import pytest
from builders import PowerLaw, host, job, snapshot, snapshots
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.model import RESTART_S, HostView, JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import plan_faults
from schedulearn.scheduler.policies.classic.elastic import Damping
from schedulearn.scheduler.policies.goodput.policy import GoodputPolicy
from schedulearn.scheduler.policies.registry import make_policy


def elastic(id: str, power: float = 0.9, **fields: object) -> JobView:
    return job(id, **{"elastic": True, "goodput": PowerLaw(power), **fields})


def sizes(plan: Plan) -> dict[str, int]:
    return {job_id: sum(allocation.values()) for job_id, allocation in plan.allocations.items()}


@pytest.mark.parametrize("metric", ["default", "speed"])
def test_three_gpus_go_to_a_job_whose_neighbour_may_have_but_one(metric: str) -> None:
    """With sizes 1, 2 and 4 the fourth GPU idled until the neighbour had grown."""
    jobs = [elastic("known"), elastic("new", goodput=None, max_gpus=1)]
    assert sizes(make_policy("goodput", metric).allocate(snapshot(jobs))) == {"known": 3, "new": 1}
    running = replace(jobs[0], allocation={"h1": 2}, run_seconds=600.0, held_seconds=600.0, resize_seconds=5.0)
    assert sizes(make_policy("goodput", metric).allocate(snapshot([running, jobs[1]])))["known"] == 3
    slow = replace(running, goodput=PowerLaw(0.02))
    assert sizes(make_policy("goodput", metric).allocate(snapshot([slow, jobs[1]])))["known"] == 2, "no gain by it"


def test_a_price_of_its_own_leaves_gpus_idle() -> None:
    jobs = [elastic("a", 0.3), elastic("b", 0.3)]
    plan = make_policy("goodput", "cost", slowdown=100.0).allocate(snapshot(jobs))
    assert sum(sizes(plan).values()) < 4


def speedup(view: JobView, gpus: int) -> float:
    return float(view.goodput(1, gpus)) / float(view.goodput(1, 1)) if view.goodput is not None else float(gpus)


def share(policy: GoodputPolicy, view: JobView, sped: float) -> float:
    if not view.allocation:
        return 1.0
    calm = max(view.run_seconds / (1 + view.restarts), min(view.held_seconds or 0.0, view.run_seconds))
    lasts = policy.base_s + policy.patience * calm
    if view.remaining is not None:
        lasts = min(lasts, max(view.remaining / max(sped, 1.0), 0.1))
    return lasts / (lasts + view.restart_cost)


@given(state=snapshots(), metric=st.sampled_from(["default", "speed"]))
def test_no_gpu_is_left_while_a_job_on_one_host_gains_by_it_net_of_its_restart(state: Snapshot, metric: str) -> None:
    hosts = tuple(replace(each, gpu_type="a") for each in state.hosts)
    jobs = tuple(replace(each, goodput=PowerLaw(0.9)) if each.goodput else each for each in state.jobs)
    state = replace(state, hosts=hosts, jobs=jobs)
    policy = GoodputPolicy(metric=metric)
    plan = policy.allocate(state)
    assert plan_faults(state, plan) == []
    free = {each.id: each.gpus for each in hosts if each.open}
    for allocation in plan.allocations.values():
        for name, gpus in allocation.items():
            if name in free:
                free[name] -= gpus
    for view in jobs:
        mine = plan.allocations.get(view.id, {})
        if not view.elastic or len(mine) != 1 or not free.keys() >= mine.keys() or policy.objective.keeps(view):
            continue
        [(home, held)] = mine.items()
        now = speedup(view, held)
        now *= 1.0 if dict(mine) == dict(view.allocation) else share(policy, view, now)
        for name, left in free.items():
            most = min(left + (held if name == home else 0), view.max_gpus)
            for gpus in range(held + 1, most + 1):
                then = speedup(view, gpus)
                then *= 1.0 if dict(view.allocation) == {name: gpus} else share(policy, view, then)
                assert then <= now * (1 + 1e-5), f"{view.id} would gain by {gpus} on {name}, not {held} on {home}"


@pytest.mark.parametrize("metric", GoodputPolicy.metrics)
def test_a_job_that_has_just_begun_stays_though_it_makes_no_progress_and_many_wait(metric: str) -> None:
    still = PowerLaw(0.5, unit=0.0)
    begun = elastic("begun", at=0.0, allocation={"h1": 1}, held_seconds=1.0, max_gpus=1, goodput=still)
    waiting = [job(f"a-{i}", at=0.0) for i in range(8)]
    state = replace(snapshot([begun, *waiting], [host(gpus=1)]), now=10_000.0)
    plan = make_policy("goodput", metric).allocate(state)
    assert dict(plan.allocations) == {"begun": {"h1": 1}}


@given(state=snapshots(), metric=st.sampled_from(GoodputPolicy.metrics), seconds=st.floats(0, 60))
def test_nobody_is_resized_before_it_has_run_for_a_while(state: Snapshot, metric: str, seconds: float) -> None:
    state = replace(state, jobs=tuple(replace(each, held_seconds=seconds) for each in state.jobs))
    policy = GoodputPolicy(metric=metric)
    plan = policy.allocate(state)
    assert plan_faults(state, plan) == []
    left = {each.id: each.gpus for each in state.hosts}
    for view in sorted(state.jobs, key=lambda view: (view.elastic, view.order)):
        if view.allocation and all(left.get(name, 0) >= gpus for name, gpus in view.allocation.items()):
            if seconds < policy.min_run:  # whose host has the room for it
                assert plan.allocations.get(view.id) == view.allocation
            for name, gpus in view.allocation.items():
                left[name] -= gpus


def test_who_has_just_begun_is_looked_at_again_when_it_has_run_long_enough() -> None:
    begun = elastic("a", allocation={"h1": 2}, held_seconds=10.0, run_seconds=10.0, resize_seconds=1.0)
    plan = make_policy("goodput").allocate(snapshot([begun], now=1000.0))
    assert (sizes(plan), plan.review_at) == ({"a": 2}, 1020.0), "two GPUs wait for it"
    later = make_policy("goodput").allocate(snapshot([replace(begun, held_seconds=30.0)], now=1020.0))
    assert (sizes(later), later.review_at) == ({"a": 4}, None)
    nearly = replace(begun, held_seconds=30.0 - 1e-7)
    assert make_policy("goodput").allocate(snapshot([nearly], now=1.8e9)).review_at == 1.8e9 + 1, "and not at once"
    full = [begun, elastic("b", allocation={"h1": 2}, held_seconds=600.0)]
    assert make_policy("goodput").allocate(snapshot(full)).review_at is None, "nobody waits, and no GPU idles"


def test_who_is_resized_in_place_is_resized_sooner() -> None:
    """Once new workers have joined, and then five times as long as it costs."""
    begun = elastic("a", allocation={"h1": 2}, held_seconds=7.9, run_seconds=60.0, in_place=True, startup_seconds=3.0)
    kept = make_policy("goodput").allocate(snapshot([begun], now=1000.0))
    assert (sizes(kept), kept.review_at) == ({"a": 2}, 1001.0)
    assert sizes(make_policy("goodput").allocate(snapshot([replace(begun, held_seconds=8.0)]))) == {"a": 4}
    restarted = replace(begun, held_seconds=29.9, in_place=False)
    assert sizes(make_policy("goodput").allocate(snapshot([restarted]))) == {"a": 2}


def test_a_job_does_not_grow_in_place_that_ends_before_the_new_workers_have_joined() -> None:
    """It has 4 s left, and they join after 6."""
    begun = elastic(
        "a", 1.0, allocation={"h1": 1}, max_gpus=2, held_seconds=60.0, run_seconds=60.0, in_place=True,
        startup_seconds=6.0, remaining=4.0,
    )  # fmt: skip
    for metric in ("default", "speed"):
        assert sizes(make_policy("goodput", metric).allocate(snapshot([begun]))) == {"a": 1}
        longer = replace(begun, remaining=40.0)
        assert sizes(make_policy("goodput", metric).allocate(snapshot([longer]))) == {"a": 2}


def test_who_is_on_a_host_that_closes_does_not_stay_for_having_just_begun() -> None:
    hosts = [host("h1", 0, open=False), host("h2")]
    begun = elastic("a", allocation={"h1": 2}, held_seconds=1.0)
    assert set(make_policy("goodput").allocate(snapshot([begun], hosts)).allocations["a"]) == {"h2"}


def test_the_elastic_policies_wait_too_before_they_resize_again() -> None:
    damping = Damping(min_run=120.0)
    old = elastic("a", allocation={"h1": 2}, run_seconds=5000.0)
    assert [damping.settled(replace(old, held_seconds=held)) for held in (None, 10.0, 120.0)] == [True, False, True]


def test_where_it_can_start_at_once_a_job_is_put_rather_than_where_others_are_yet_to_leave() -> None:
    hosts = [HostView("h1", 4, gpu_leaving=(True,) * 4), HostView("h2", 6)]
    for name in ("goodput", "elastic-srtf", "tiresias", "fifo"):
        plan = make_policy(name).allocate(snapshot([job("a", gpus=2)], hosts))
        assert plan.allocations["a"] == {"h2": 2}, name


def test_what_a_restart_costs_is_one_number_where_nothing_was_measured() -> None:
    assert elastic("a").restart_cost == RESTART_S
    assert elastic("a", resize_seconds=3.0).restart_cost == 3.0
