"""Safety properties that hold for every policy, then what each one promises."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from builders import host, job, snapshot, snapshots
from hypothesis import given, note
from hypothesis import strategies as st

from schedulearn.scheduler.core.model import Explanation, JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy, plan_faults
from schedulearn.scheduler.errors import InvalidError, UnknownPolicyError
from schedulearn.scheduler.policies.classic.queueing import fixed_size
from schedulearn.scheduler.policies.registry import POLICIES, make_policy, parameters_of

ALL = [
    *[make_policy(name) for name in sorted(POLICIES)],
    make_policy("fifo", backfill=True),
    make_policy("round-robin", backfill=True),
    make_policy("fifo", jobs_per_gpu=2),
    make_policy("elastic-fifo", backfill=True, min_run=0, min_gain=0),
    make_policy("elastic-srtf", min_run=0, min_gain=0),
    make_policy("elastic-tiresias", min_run=0, thresholds=[100, 1000], promote=1, compact_above=0),
    make_policy("ffdl", min_run=0),
    make_policy("afs-l", min_run=0),
    make_policy("tiresias", promote=0.5, thresholds=[10, 100, 1000, 10000]),
    make_policy("gandiva", jobs_per_gpu=4),
]


def plans(state: Snapshot) -> Iterator[tuple[Policy, Plan]]:
    """What each policy decides; one snapshot for all of them, because making it takes longest."""
    for policy in ALL:
        note(repr(policy))
        yield policy, policy.allocate(state)


@given(state=snapshots())
def test_no_plan_has_a_fault(state: Snapshot) -> None:
    """Never over capacity, bounds honoured, rigid jobs never resized, nothing on a host that is not there."""
    for _, plan in plans(state):
        assert plan_faults(state, plan) == []


@given(state=snapshots(), order=st.randoms(use_true_random=False))
def test_the_order_of_jobs_in_the_snapshot_does_not_matter(state: Snapshot, order: random.Random) -> None:
    shuffled = list(state.jobs)
    order.shuffle(shuffled)
    for policy, plan in plans(state):
        assert policy.allocate(replace(state, jobs=tuple(shuffled))) == plan


@given(state=snapshots())
def test_nothing_new_comes_to_a_drained_or_closed_host(state: Snapshot) -> None:
    shut = {h.id for h in state.hosts if not h.open or h.gpus == 0}
    for _, plan in plans(state):
        for view in state.jobs:
            for host_id in shut & plan.allocations.get(view.id, {}).keys():
                assert plan.allocations[view.id][host_id] <= view.allocation.get(host_id, 0)


@given(state=snapshots())
def test_running_rigid_jobs_are_left_alone(state: Snapshot) -> None:
    """They keep what they hold; only where hosts hold more jobs than the policy lets share may some be left out, and
    those run on all the same."""
    used: Counter[str] = Counter()
    for view in state.jobs:
        used.update(view.allocation)
    crowded = any(used[h.id] > h.gpus for h in state.hosts)
    for _, plan in plans(state):
        for view in state.jobs:
            if view.allocation and not view.elastic:
                assert plan.allocations.get(view.id, view.allocation if crowded else None) == view.allocation


@given(state=snapshots())
def test_nobody_waits_for_what_is_free(state: Snapshot) -> None:
    """A job that could start on the free GPUs of a host waits only behind another one that waits for GPUs."""
    for policy, plan in plans(state):
        held: Counter[str] = Counter()
        for view in state.jobs:
            held.update(plan.allocations.get(view.id) or view.allocation)  # left out: it still has its GPUs
        free = max((h.gpus - held[h.id] for h in state.hosts if h.open), default=0)
        codes = {job_id: getattr(why, "code", "") for job_id, why in plan.reasons.items()}
        for view in state.jobs:
            if codes.get(view.id) == "behind_others":
                assert "waiting_for_gpus" in codes.values()
            elif codes.get(view.id) == "waiting_for_gpus":
                assert free < (view.min_gpus if policy.resizes else fixed_size(view))


@given(state=snapshots())
def test_every_job_that_waits_is_told_why(state: Snapshot) -> None:
    for _, plan in plans(state):
        for view in state.jobs:
            if not view.allocation and not plan.allocations.get(view.id):
                why = plan.reasons[view.id]
                assert isinstance(why, Explanation)
                assert why.code
                assert why.endswith(".")


@given(state=snapshots())
def test_only_policies_that_say_so_resize(state: Snapshot) -> None:
    for policy, plan in plans(state):
        if not policy.resizes:
            for view in state.jobs:
                assert not view.allocation or plan.allocations.get(view.id, {}) in ({}, view.allocation)


def test_fifo_starts_jobs_in_order_of_submission() -> None:
    plan = make_policy("fifo").allocate(snapshot([job("late", at=2, gpus=2), job("early", at=1, gpus=3)]))
    assert plan.allocations == {"early": {"h1": 3}}
    assert plan.reasons["late"].code == "waiting_for_gpus"  # type: ignore[attr-defined]
    assert "needs 2 GPUs on one host; 1 is free" in plan.reasons["late"]


def test_fifo_breaks_ties_by_id_with_numbers_in_their_order() -> None:
    plan = make_policy("fifo").allocate(snapshot([job("10"), job("9"), job("11")], [host(gpus=1)]))
    assert list(plan.allocations) == ["9"]


@pytest.mark.parametrize("name", ["fifo", "round-robin", "priority", "edf"])
def test_who_may_pass_the_first_that_waits_is_a_parameter(name: str) -> None:
    runs = job("runs", gpus=2, allocation={"h1": 2}, remaining=200.0)
    state = snapshot([runs, job("big", at=1, gpus=4), job("long", at=2), job("short", at=3, remaining=60.0)])
    started = {
        backfill: set(make_policy(name, backfill=backfill).allocate(state).allocations) - {"runs"}
        for backfill in ("none", False, "all", True, "reserved")
    }
    assert started["none"] == started[False] == set()
    assert started["all"] == started[True] == {"long", "short"}
    assert started["reserved"] == {"short"} == set(make_policy(name).allocate(state).allocations) - {"runs"}


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


def test_priority_takes_gpus_back_from_elastic_jobs_of_lower_priority_only() -> None:
    held = [("rigid", 10, False), ("lowest", 20, True), ("old", 30, True), ("new", 30, True), ("same", 60, True)]
    running = [
        job(name, at=float(at), priority=priority, elastic=elastic, allocation={"h1": 1})
        for at, (name, priority, elastic) in enumerate(held)
    ]

    def kept(*waiting: JobView) -> set[str]:
        plan = make_policy("priority").allocate(snapshot([*running, *waiting], [host(gpus=5)]))
        return plan.allocations.keys() & {each.id for each in running}

    assert kept(job("urgent", at=9, priority=60)) == {"rigid", "old", "new", "same"}
    assert kept(job("urgent", at=9, gpus=2, priority=60)) == {"rigid", "old", "same"}
    assert kept(job("urgent", at=9, gpus=4, priority=60)) == {each.id for each in running}, "it would not be enough"


def test_priority_reserves_gpus_for_elastic_jobs_too() -> None:
    """It gives them a fixed size, so they would wait for ever behind small ones."""
    runs = job("runs", gpus=3, allocation={"h1": 3}, remaining=300.0)
    big, small = job("big", at=1, gpus=4, elastic=True), job("small", at=2, remaining=900.0)
    plan = make_policy("priority").allocate(snapshot([runs, big, small]))
    assert set(plan.allocations) == {"runs"}


def test_priority_puts_the_most_important_waiting_job_first_and_interrupts_no_rigid_one() -> None:
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


@pytest.mark.parametrize("name", ["fifo", "round-robin", "gandiva"])
def test_free_gpus_come_before_shared_ones_on_any_host(name: str) -> None:
    policy = make_policy(name, jobs_per_gpu=2)
    runs = job("runs", gpus=2, allocation={"h1": 2})
    busy, idle = host("h1", 2, gpu_jobs=(1, 1)), host("h2", 2)
    waits = [job("first", at=1, gpus=2), job("second", at=2, gpus=2)]
    plan = policy.allocate(snapshot([runs, *waits], [busy, idle], last_host="h2")).allocations
    assert plan["first"] == {"h2": 2}
    assert sum(plan["second"].values()) == 2, "only then two share"


@pytest.mark.parametrize("name", ["fifo", "round-robin"])
def test_no_more_gpus_are_shared_than_must_be(name: str) -> None:
    policy = make_policy(name, jobs_per_gpu=2)
    runs = [job("both", gpus=2, allocation={"h1": 2}), job("one", gpus=1, allocation={"h2": 1})]
    hosts = [host("h1", 2, gpu_jobs=(1, 1)), host("h2", 2, gpu_jobs=(1, 0))]
    plan = policy.allocate(snapshot([*runs, job("w", at=1, gpus=2)], hosts, last_host="h2")).allocations
    assert plan["w"] == {"h2": 2}
    large = [host("h1", 2, gpu_jobs=(1, 1)), host("h2", 2), host("h3", 2)]
    plan = policy.allocate(snapshot([runs[0], job("w", at=1, gpus=4)], large)).allocations
    assert plan["w"] == {"h2": 2, "h3": 2}, "a job of several hosts as well"


@pytest.mark.parametrize("name", ["fifo", "FIFO", "round-robin", "roundrobin", "RoundRobin", "round_robin"])
def test_policies_are_found_by_the_spellings_people_use(name: str) -> None:
    assert make_policy(name).name in ("fifo", "round-robin")


def test_unknown_names_are_refused_with_the_valid_ones() -> None:
    with pytest.raises(UnknownPolicyError, match="afs-l, edf, elastic-fifo") as unknown:
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
        ({"w": {"nowhere": 2}}, "does not exist"),
        ({"w": {"h1": 0}}, "gets 0 GPUs"),
        ({"w": {"h1": 3}}, "needs 2 GPUs"),
        ({"w": {"h1": 2}, "r": {"h1": 3}}, "capacity for 4 and gets 5"),
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


@pytest.mark.parametrize(
    ("name", "told"), [("gandiva", "Time slicing only"), ("srtf", "seconds on one GPU, not the time")]
)
def test_a_name_that_promises_more_is_put_right_by_the_description(name: str, told: str) -> None:
    assert told in " ".join((POLICIES[name].__doc__ or "").partition("\n\n")[0].split())
