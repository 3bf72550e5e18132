"""Time slicing: what `gandiva` promises, and what no plan that suspends may do."""

from dataclasses import replace

import pytest
from builders import host, job, snapshot
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import plan_faults
from schedulearn.scheduler.policies.registry import make_policy


def turns(state: Snapshot, quanta: int, **params: object) -> list[set[str]]:
    """Who runs in each of a number of quanta."""
    policy = make_policy("gandiva", **params)
    running = []
    for turn in range(quanta):
        now = replace(state, now=turn * 60.0 + 1)
        plan = policy.allocate(now)
        assert plan_faults(now, plan) == []
        running.append(set(plan.allocations) - plan.suspended)
    return running


def test_gandiva_lets_rigid_jobs_take_turns_on_one_gpu() -> None:
    a, b = job("a", at=1, allocation={"h1": 1}), job("b", at=2, allocation={"h1": 1})
    assert turns(snapshot([a, b], [host(gpus=1)]), 4) == [{"a"}, {"b"}, {"a"}, {"b"}]


def test_gandiva_asks_to_be_asked_at_the_end_of_the_quantum_and_decides_the_same_within() -> None:
    a, b = job("a", at=1, allocation={"h1": 1}), job("b", at=2, allocation={"h1": 1})
    early, late = (make_policy("gandiva").allocate(snapshot([a, b], [host(gpus=1)], now=t)) for t in (600.5, 659.5))
    assert early == late
    assert early.review_at == 660.0
    assert make_policy("gandiva").allocate(snapshot([a], [host(gpus=1)])).review_at is None


def test_gandiva_prefers_free_gpus_and_starts_on_shared_ones_paused() -> None:
    runs = job("runs", gpus=3, allocation={"h1": 3})
    plan = make_policy("gandiva").allocate(snapshot([runs, job("one", at=1), job("two", at=2, gpus=2)]))
    assert plan.allocations == {"runs": {"h1": 3}, "one": {"h1": 1}, "two": {"h1": 2}}
    assert (plan.suspended, plan.jobs_per_gpu) == ({"two"}, 2)
    assert plan.reasons["two"].code == "time_slice"  # type: ignore[attr-defined]


def test_gandiva_shares_a_gpu_among_no_more_than_it_may() -> None:
    jobs = [job("a", allocation={"h1": 1}), job("b", allocation={"h1": 1}), job("c", at=1)]
    assert "c" not in make_policy("gandiva").allocate(snapshot(jobs, [host(gpus=1)])).allocations
    assert "c" in make_policy("gandiva", jobs_per_gpu=3).allocate(snapshot(jobs, [host(gpus=1)])).allocations


@given(
    held=st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=8),
    start=st.integers(0, 100),
)
def test_under_gandiva_nobody_shares_at_a_time_and_each_runs_at_least_its_part(
    held: list[set[int]], start: int
) -> None:
    jobs = [
        job(str(n), gpus=len(gpus), allocation={"h1": len(gpus)}, gpu_indices={"h1": tuple(sorted(gpus))})
        for n, gpus in enumerate(held)
    ]
    policy = make_policy("gandiva", jobs_per_gpu=8)
    ran: dict[str, int] = {}
    for turn in range(start, start + len(jobs) * 2):
        state = snapshot(jobs, [host(gpus=4)], now=turn * 60.0)
        plan = policy.allocate(state)
        assert plan_faults(state, plan) == []
        running = [n for n in range(len(jobs)) if str(n) not in plan.suspended]
        used = [gpu for n in running for gpu in held[n]]
        assert len(used) == len(set(used))
        for n in running:
            ran[str(n)] = ran.get(str(n), 0) + 1
    assert set(ran) == {view.id for view in jobs}


@pytest.mark.parametrize(
    ("suspended", "jobs_per_gpu", "fault"),
    [
        ({"ghost"}, 3, "suspended without GPUs"),
        ({"c"}, 3, "run on one GPU"),
        ({"b", "c"}, 3, ""),
        ({"a", "b"}, 3, ""),
    ],
)
def test_faults_of_suspensions_are_told(suspended: set[str], jobs_per_gpu: int, fault: str) -> None:
    jobs = [job(i, allocation={"h1": 1}) for i in "abc"]
    plan = Plan({i: {"h1": 1} for i in "abc"}, jobs_per_gpu=jobs_per_gpu, suspended=frozenset(suspended))
    faults = plan_faults(snapshot(jobs, [host(gpus=1)]), plan)
    assert any(fault in found for found in faults) if fault else faults == []


def test_a_new_job_that_would_run_on_a_gpu_in_use_is_a_fault_of_a_plan_that_suspends() -> None:
    jobs = [job("a", allocation={"h1": 1}), job("b", allocation={"h1": 1}), job("new")]
    plan = Plan({i: {"h1": 1} for i in ("a", "b", "new")}, jobs_per_gpu=3, suspended=frozenset({"b"}))
    assert plan_faults(snapshot(jobs, [host(gpus=1)]), plan) == ["jobs a, new run on one GPU of h1 at a time"]
