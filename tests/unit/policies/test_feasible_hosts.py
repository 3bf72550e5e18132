"""Jobs that want a type of GPU, over every policy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import host, job, snapshot, snapshots
from hypothesis import given, note
from hypothesis import strategies as st

from schedulearn.scheduler.core.feasible_hosts import is_of_type, plan_feasible
from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy, plan_faults
from schedulearn.scheduler.policies.registry import POLICIES, make_policy

ALL = [make_policy(name) for name in sorted(POLICIES)]
FIFO = make_policy("fifo")
HOSTS = [host("h1", 2, gpu_type="a"), host("h2", 2, gpu_type="b")]


def started(plan: Plan) -> dict[str, dict[str, int]]:
    return {job_id: dict(allocation) for job_id, allocation in plan.allocations.items() if allocation}


@given(snapshots(), st.data(), st.sampled_from(ALL))
def test_no_job_starts_on_another_type_and_no_plan_becomes_unlawful(
    state: Snapshot, choose: st.DataObject, policy: Policy
) -> None:
    types = st.sampled_from([None, "a", "b", "c"])
    jobs = [each if each.elastic else replace(each, gpu_type=choose.draw(types)) for each in state.jobs]
    wanted = replace(state, jobs=tuple(jobs))
    plan = plan_feasible(policy.allocate, wanted)
    note(f"{policy.name}: {plan}")
    assert plan_faults(wanted, plan) == []
    type_of = {each.id: each.gpu_type for each in state.hosts}
    for each in jobs:
        if each.gpu_type and not each.allocation:
            assert {type_of[name] for name in plan.allocations.get(each.id, {})} <= {each.gpu_type}


@pytest.mark.parametrize("policy", ALL, ids=[policy.name for policy in ALL])
def test_a_job_goes_to_its_type_and_one_whose_type_is_taken_stops_nobody(policy: Policy) -> None:
    jobs = [
        job("x", gpus=2, allocation={"h1": 2}, held_seconds=5.0, run_seconds=5.0),
        job("y", at=1, gpus=1, gpu_type="a"),
        job("z", at=2, gpus=1, gpu_type="b"),
    ]
    plan = plan_feasible(policy.allocate, snapshot(jobs, HOSTS))
    assert started(plan)["z"] == {"h2": 1}
    assert started(plan).get("y", {"h1": 1}) == {"h1": 1}


def test_a_job_that_needs_several_is_not_passed_by_those_behind_it() -> None:
    """One of its type is free; who comes later goes to the other type, or waits."""
    jobs = [
        job("x", gpus=1, allocation={"h1": 1}),
        job("y", at=1, gpus=2, gpu_type="a"),
        *(job(name, at=2 + at, gpus=1) for at, name in enumerate("pqr")),
    ]
    plan = plan_feasible(FIFO.allocate, snapshot(jobs, HOSTS))
    assert started(plan) == {"x": {"h1": 1}, "p": {"h2": 1}, "q": {"h2": 1}}
    assert plan.reasons["y"] == "It waits for 2 GPUs of type a."


def test_what_can_never_start_is_told_and_stops_nobody() -> None:
    jobs = [job("x", gpus=3, gpu_type="a"), job("y", at=1, gpus=1, gpu_type="c"), job("z", at=2, gpus=2)]
    plan = plan_feasible(FIFO.allocate, snapshot(jobs, HOSTS))
    assert started(plan).keys() == {"z"}
    assert plan.reasons["x"] == "It requires 3 GPUs of type a; 2 are available. Types: a, b."
    assert plan.reasons["y"] == "It requires 1 GPU of type c; 0 are available. Types: a, b."


def test_where_gpus_are_shared_a_job_that_goes_to_its_type_takes_the_room_of_one_that_comes_later() -> None:
    hosts = [host("h0", 1, gpu_type="b"), host("h1", 2, gpu_type="a")]
    running = job("runs", gpus=1, allocation={"h1": 1}, held_seconds=90.0, run_seconds=90.0)
    jobs = [running, replace(job("x", gpus=1, at=1), gpu_type="a"), *(job(f"y{n}", gpus=1, at=2 + n) for n in range(5))]
    state = snapshot(jobs, hosts)
    plan = plan_feasible(make_policy("gandiva").allocate, state)
    assert plan_faults(state, plan) == []
    assert started(plan)["x"] == {"h1": 1}


@pytest.mark.parametrize(
    ("gpu_type", "wanted", "same"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100", True),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB", True),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", True),
        ("NVIDIA A100-SXM4-80GB", "a10", False),
        ("NVIDIA A100-SXM4-40GB", "a100-80gb", False),
        ("NVIDIA GeForce RTX 3090", "rtx 3090", True),
        ("NVIDIA GeForce RTX 3090", "3090 rtx", False),
        ("NVIDIA H100", "---", False),
    ],
)
def test_a_type_is_named_by_words_of_it(gpu_type: str, wanted: str, same: bool) -> None:
    assert is_of_type(gpu_type, wanted) is same


def test_a_job_that_names_its_type_by_a_word_starts_there() -> None:
    hosts = (host("h1", 2, gpu_type="NVIDIA V100"), host("h2", 2, gpu_type="NVIDIA A100-SXM4-80GB"))
    wants = replace(job("j", at=1.0, gpus=1), gpu_type="a100")
    assert started(plan_feasible(FIFO.allocate, snapshot([wants], hosts))) == {"j": {"h2": 1}}
