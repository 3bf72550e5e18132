"""Deadlines: who may still be in time gets what that takes, within bounds; who can't is not served before others."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import PowerLaw, host, job, snapshot, snapshots
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.model import JobView, Plan, Snapshot
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.policies.classic.edf import out_of_time
from schedulearn.scheduler.policies.goodput.deadlines import lateness
from schedulearn.scheduler.policies.goodput.options import build_options
from schedulearn.scheduler.policies.goodput.policy import GoodputPolicy
from schedulearn.scheduler.policies.registry import make_policy

NOW = 1000.0
CLUSTER = [host(f"h{i}") for i in range(4)]
METRICS = ["default", "speed", "cost", "balanced"]


def elastic(id: str, power: float = 0.9, **fields: Any) -> JobView:
    return job(id, **{"elastic": True, "goodput": PowerLaw(power), "remaining": 4000.0, **fields})


def gpus(plan: Plan) -> dict[str, int]:
    return {job_id: sum(allocation.values()) for job_id, allocation in plan.allocations.items()}


def goodput(metric: str = "speed", **params: object) -> GoodputPolicy:
    policy = make_policy("goodput", metric, **params)
    assert isinstance(policy, GoodputPolicy)
    return policy


@pytest.mark.parametrize("metric", METRICS)
def test_a_job_near_its_deadline_gets_the_gpus_that_it_takes_and_nobody_is_stopped_for_it(metric: str) -> None:
    """8 GPUs make it 6.5 times as fast as one: 4000 s of work are done in 620 s."""
    others = [elastic(f"j{i}", remaining=2000.0) for i in range(6)]
    urgent = elastic("urgent", 0.9, deadline=NOW + 800.0)
    without = gpus(goodput(metric, deadline_share=0).allocate(snapshot([*others, urgent], CLUSTER)))
    heeding = gpus(goodput(metric).allocate(snapshot([*others, urgent], CLUSTER)))
    assert heeding["urgent"] >= 8 > without["urgent"]
    assert all(heeding[other.id] >= 1 for other in others)


@pytest.mark.parametrize("metric", METRICS)
def test_a_job_that_can_not_be_in_time_any_more_takes_nothing_from_others(metric: str) -> None:
    others = [elastic(f"j{i}", remaining=2000.0) for i in range(6)]
    hopeless = elastic("hopeless", deadline=NOW + 10.0)
    state = snapshot([*others, hopeless], CLUSTER)
    assert goodput(metric).allocate(state) == goodput(metric, deadline_share=0).allocate(state)


def test_a_running_job_that_is_in_time_where_it_is_is_left_alone() -> None:
    runs = elastic("runs", deadline=NOW + 2500.0, allocation={"h0": 2}, run_seconds=100.0, held_seconds=100.0)
    others = [elastic(f"j{i}", allocation={"h1": 1, "h2": 1}) for i in range(2)]
    state = snapshot([runs, *others], CLUSTER)
    options = build_options(tuple(sorted(state.jobs, key=lambda each: each.order)), state.hosts)
    found = lateness(goodput().objective, options, NOW, options.capacity)
    row = [each.id for each in options.jobs].index("runs")
    assert not found.late[row, options.stay]


def test_a_job_that_may_not_be_tried_on_enough_yet_gets_the_most_that_it_may() -> None:
    """Four times what it was measured on is the most of today: what it needs comes by and by."""
    others = [elastic(f"j{i}", remaining=200.0) for i in range(12)]
    grows = elastic("grows", max_gpus=4, deadline=NOW + 800.0)
    plan = gpus(goodput().allocate(snapshot([*others, grows], CLUSTER)))
    assert plan["grows"] == 4


def test_of_two_that_wait_the_one_that_must_start_now_goes_first() -> None:
    """Both are rigid; the other one came first."""
    first = job("first", at=1.0, gpus=4, remaining=4000.0)
    urgent = job("urgent", at=2.0, gpus=4, remaining=4000.0, deadline=NOW + 1500.0)
    state = snapshot([first, urgent], [host()])
    assert set(goodput("default", deadline_share=1).allocate(state).allocations) == {"urgent"}
    assert set(goodput("default", deadline_share=0).allocate(state).allocations) == {"first"}


@given(state=snapshots())
def test_what_is_kept_for_deadlines_is_bounded(state: Snapshot) -> None:
    """The least that protected jobs need, together, is at most the share; each has a choice by which it is in time."""
    if not state.jobs or not any(each.open and each.gpus for each in state.hosts):
        return
    options = build_options(tuple(sorted(state.jobs, key=lambda each: each.order)), state.hosts)
    for share in (0.25, 0.5, 1.0):
        found = lateness(goodput(deadline_share=share).objective, options, state.now, options.capacity)
        in_time = ~found.late & (options.speedup > 0)
        least = [options.size[row][in_time[row]].min() for row in np.flatnonzero(found.protected)]
        assert sum(least) <= share * options.capacity.sum()
        assert not found.late[~found.protected].any()


@given(state=snapshots())
def test_without_a_share_deadlines_change_nothing(state: Snapshot) -> None:
    bare = replace(state, jobs=tuple(replace(each, deadline=None) for each in state.jobs))
    policy = goodput(deadline_share=0)
    assert policy.allocate(state) == policy.allocate(bare)


@given(state=snapshots())
def test_deadlines_that_are_far_change_nothing(state: Snapshot) -> None:
    """No job of these snapshots has a million seconds of work for each of its GPUs."""
    far = replace(state, jobs=tuple(replace(each, deadline=1e12) for each in state.jobs))
    bare = replace(state, jobs=tuple(replace(each, deadline=None) for each in state.jobs))
    stands_still = any(each.goodput is not None and not float(each.goodput(1, 1)) for each in state.jobs)
    if not stands_still:
        assert goodput().allocate(far) == goodput().allocate(bare)


def test_the_share_is_checked() -> None:
    for share in (-0.1, 1.1):
        with pytest.raises(InvalidError, match="deadline_share must be 0 to 1"):
            make_policy("goodput", deadline_share=share)


def test_edf_serves_those_that_can_still_be_in_time_before_those_that_can_not() -> None:
    lost = job("lost", at=1.0, gpus=4, remaining=4000.0, deadline=NOW + 500.0)
    able = job("able", at=2.0, gpus=4, remaining=4000.0, deadline=NOW + 1500.0)
    none = job("none", at=0.0, gpus=4, remaining=4000.0)
    plan = make_policy("edf").allocate(snapshot([lost, able, none], [host()]))
    assert set(plan.allocations) == {"able"}
    rest = make_policy("edf").allocate(snapshot([lost, none], [host()]))
    assert set(rest.allocations) == {"lost"}


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ({"deadline": None, "remaining": 1e9}, False),
        ({"deadline": NOW + 100, "remaining": None}, False),
        ({"deadline": NOW - 1, "remaining": None}, True),
        ({"deadline": NOW + 100, "remaining": 400.0, "gpus": 4}, False),
        ({"deadline": NOW + 99, "remaining": 400.0, "gpus": 4}, True),
        ({"deadline": NOW + 100, "remaining": 150.0, "gpus": 2, "elastic": True, "goodput": PowerLaw(0.0)}, True),
        ({"deadline": NOW + 100, "remaining": 150.0, "gpus": 2, "elastic": True, "goodput": PowerLaw(1.0)}, False),
    ],
)
def test_a_job_is_out_of_time_once_even_a_start_now_is_too_late(fields: dict[str, Any], lost: bool) -> None:
    assert out_of_time([job("a", **fields)], NOW) == ({"a"} if lost else set())


@given(state=snapshots(), shift=st.floats(0, 1e4))
def test_who_is_out_of_time_stays_out_of_it(state: Snapshot, shift: float) -> None:
    assert out_of_time(state.jobs, state.now) <= out_of_time(state.jobs, state.now + shift)
