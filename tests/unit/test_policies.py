"""Safety properties that hold for every policy, then what each one promises."""

import random
from dataclasses import replace

import pytest
from builders import host, job, snapshot, snapshots
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.domain import Plan, Snapshot, Why
from schedulearn.scheduler.errors import InvalidError, UnknownPolicyError
from schedulearn.scheduler.policy import POLICIES, Policy, make_policy, parameters_of, plan_faults

ALL = [
    *[make_policy(name) for name in sorted(POLICIES)],
    make_policy("fifo", backfill=True),
    make_policy("round-robin", backfill=True),
    make_policy("fifo", jobs_per_gpu=2),
]
everyone = pytest.mark.parametrize("policy", ALL, ids=repr)


@everyone
@given(given_snapshot=snapshots())
def test_no_plan_has_a_fault(policy: Policy, given_snapshot: Snapshot) -> None:
    """Never over capacity, bounds honoured, rigid jobs never resized, nothing on a host that is not there."""
    assert plan_faults(given_snapshot, policy.allocate(given_snapshot)) == []


@everyone
@given(given_snapshot=snapshots(), order=st.randoms(use_true_random=False))
def test_the_order_of_jobs_in_the_snapshot_does_not_matter(
    policy: Policy, given_snapshot: Snapshot, order: random.Random
) -> None:
    shuffled = list(given_snapshot.jobs)
    order.shuffle(shuffled)
    again = policy.allocate(replace(given_snapshot, jobs=tuple(shuffled)))
    assert again == policy.allocate(given_snapshot)


@everyone
@given(given_snapshot=snapshots())
def test_nothing_new_comes_to_a_drained_or_closed_host(policy: Policy, given_snapshot: Snapshot) -> None:
    plan = policy.allocate(given_snapshot)
    shut = {h.id for h in given_snapshot.hosts if not h.open or h.gpus == 0}
    for view in given_snapshot.jobs:
        new = set(plan.allocations.get(view.id, {})) - set(view.allocation)
        assert not new & shut


@everyone
@given(given_snapshot=snapshots())
def test_every_job_that_waits_is_told_why(policy: Policy, given_snapshot: Snapshot) -> None:
    plan = policy.allocate(given_snapshot)
    for view in given_snapshot.jobs:
        if not view.allocation and not plan.allocations.get(view.id):
            why = plan.reasons[view.id]
            assert isinstance(why, Why)
            assert why.code
            assert why.endswith(".")


def test_fifo_starts_jobs_in_order_of_submission() -> None:
    plan = make_policy("fifo").allocate(snapshot([job("late", at=2, gpus=2), job("early", at=1, gpus=3)]))
    assert plan.allocations == {"early": {"h1": 3}}
    assert plan.reasons["late"].code == "waiting_for_gpus"  # type: ignore[attr-defined]
    assert "needs 2 GPUs on one host; 1 are free" in plan.reasons["late"]


def test_fifo_breaks_ties_by_id_with_numbers_in_their_order() -> None:
    plan = make_policy("fifo").allocate(snapshot([job("10"), job("9"), job("11")], [host(gpus=1)]))
    assert list(plan.allocations) == ["9"]


def test_strict_fifo_lets_nobody_pass_and_backfill_does() -> None:
    state = snapshot([job("big", at=1, gpus=4), job("small", at=2)], [host(gpus=4)])
    state = replace(state, jobs=(job("runs", gpus=2, allocation={"h1": 2}), *state.jobs))
    assert set(make_policy("fifo").allocate(state).allocations) == {"runs"}
    assert set(make_policy("fifo", backfill=True).allocate(state).allocations) == {"runs", "small"}


def test_fifo_passes_over_a_job_that_no_host_could_ever_hold() -> None:
    plan = make_policy("fifo").allocate(snapshot([job("huge", at=1, gpus=9), job("small", at=2)]))
    assert plan.allocations == {"small": {"h1": 1}}
    assert plan.reasons["huge"].code == "unsatisfiable_now"


def test_fifo_takes_the_first_host_in_order_and_round_robin_the_next_in_turn() -> None:
    jobs = [job(f"j{i}", at=i) for i in range(4)]
    hosts = [host("a"), host("b"), host("c")]
    assert [next(iter(a)) for a in make_policy("fifo").allocate(snapshot(jobs, hosts)).allocations.values()] == [
        "a"
    ] * 4
    turns = make_policy("round-robin").allocate(snapshot(jobs, hosts, last_host="a")).allocations
    assert [next(iter(turns[f"j{i}"])) for i in range(4)] == ["b", "c", "a", "b"]


def test_round_robin_passes_over_a_full_host_without_losing_its_turn_order() -> None:
    full = job("full", gpus=4, allocation={"b": 4})
    plan = make_policy("round-robin").allocate(
        snapshot([full, job("x", at=1), job("y", at=2)], [host("a"), host("b"), host("c")], last_host="a")
    )
    assert (plan.allocations["x"], plan.allocations["y"]) == ({"c": 1}, {"a": 1})


def test_priority_puts_the_most_important_waiting_job_first_and_interrupts_none() -> None:
    runs = job("runs", gpus=3, priority=0, allocation={"h1": 3})
    low, high = job("low", at=1, priority=10), job("high", at=2, priority=90)
    assert set(make_policy("priority").allocate(snapshot([runs, low, high])).allocations) == {"runs", "high"}


def test_earliest_deadline_comes_first_and_jobs_without_one_last() -> None:
    jobs = [job("none", at=1), job("late", at=2, deadline=9e9), job("soon", at=3, deadline=8e9)]
    plan = make_policy("edf").allocate(snapshot(jobs, [host(gpus=2)]))
    assert list(plan.allocations) == ["soon", "late"]
    assert plan.reasons["none"].code == "waiting_for_gpus"  # type: ignore[attr-defined]


def test_gpus_are_shared_only_when_asked_for_and_only_below_the_utilisation() -> None:
    running = job("r", gpus=2, allocation={"h1": 2})
    quiet = host(gpus=2, gpu_jobs=(1, 1), gpu_utilization=(50.0, 60.0))
    loud = host(gpus=2, gpu_jobs=(1, 1), gpu_utilization=(50.0, 95.0))
    waiting = job("w", at=1, gpus=2)

    def starts(policy: Policy, on: object) -> bool:
        return "w" in policy.allocate(snapshot([running, waiting], [on])).allocations  # type: ignore[list-item]

    assert not starts(make_policy("fifo"), quiet)
    assert starts(make_policy("fifo", jobs_per_gpu=2), quiet)
    assert not starts(make_policy("fifo", jobs_per_gpu=2), loud)
    assert starts(make_policy("fifo", jobs_per_gpu=2, max_utilization=96), loud)


@pytest.mark.parametrize("name", ["fifo", "FIFO", "round-robin", "roundrobin", "RoundRobin", "round_robin"])
def test_policies_are_found_by_the_spellings_people_use(name: str) -> None:
    assert make_policy(name).name in ("fifo", "round-robin")


def test_unknown_names_are_refused_with_the_valid_ones() -> None:
    with pytest.raises(UnknownPolicyError, match="edf, fifo, priority, round-robin") as unknown:
        make_policy("magic")
    assert unknown.value.field == "algorithm"
    with pytest.raises(InvalidError, match="valid: default"):
        make_policy("fifo", metric="beauty")
    with pytest.raises(InvalidError, match="backfill") as parameter:
        make_policy("fifo", backfil=True)
    assert parameter.value.field == "params.backfil"


@pytest.mark.parametrize(
    "params", [{"jobs_per_gpu": 0}, {"jobs_per_gpu": "x"}, {"max_utilization": 0}, {"backfill": "?"}]
)
def test_values_of_parameters_are_checked(params: dict[str, object]) -> None:
    with pytest.raises(InvalidError):
        make_policy("fifo", **params)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_parameter_is_documented(name: str) -> None:
    for parameter in parameters_of(POLICIES[name]).values():
        assert parameter["description"]


@pytest.mark.parametrize(
    ("allocations", "fault"),
    [
        ({"ghost": {"h1": 1}}, "not in the snapshot"),
        ({"w": {"nowhere": 2}}, "not there"),
        ({"w": {"h1": 0}}, "gets 0 GPUs"),
        ({"w": {"h1": 3}}, "needs 2 GPUs"),
        ({"w": {"h1": 2}, "r": {"h1": 3}}, "room for 4 and gets 5"),
        ({"r": {"h1": 1}}, "can't be resized"),
        ({"e": {"h1": 4}}, "outside 1 to 3"),
        ({"w": {"h1": True}}, "gets True GPUs"),
    ],
)
def test_faulty_plans_are_told_apart(allocations: dict[str, dict[str, int]], fault: str) -> None:
    state = snapshot(
        [job("w", gpus=2), job("r", gpus=3, allocation={"h1": 3}), job("e", elastic=True, max_gpus=3)], [host(gpus=4)]
    )
    assert any(fault in found for found in plan_faults(state, Plan(allocations)))
