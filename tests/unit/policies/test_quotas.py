"""Quotas and fair shares, over every policy: what no plan may do, then what users are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from builders import job, snapshot, snapshots
from hypothesis import given, note
from hypothesis import strategies as st

from schedulearn.scheduler.core.model import Explanation, HostView, JobView, Plan, Snapshot
from schedulearn.scheduler.core.planning.quotas import Bounds, Quota, QuotaHolder, Quotas, plan_within
from schedulearn.scheduler.core.policy import Policy, plan_faults
from schedulearn.scheduler.policies.registry import POLICIES, make_policy

ALL = [make_policy(name) for name in sorted(POLICIES)]
FIFO = make_policy("fifo")
USERS = ("ada", "ben", "")


def of_users(state: Snapshot, choose: st.DataObject) -> Snapshot:
    users = choose.draw(st.lists(st.sampled_from(USERS), min_size=len(state.jobs), max_size=len(state.jobs)))
    return replace(state, jobs=tuple(replace(job, user=user) for job, user in zip(state.jobs, users, strict=True)))


def gpus_of(state: Snapshot, plan: Plan) -> Counter[str]:
    users = {job.id: job.user for job in state.jobs}
    found: Counter[str] = Counter()
    for job_id, allocation in plan.allocations.items():
        found[users[job_id]] += sum(allocation.values())
    return found


def by_holder(state: Snapshot, gpus: Counter[str], quotas: Quotas) -> Counter[QuotaHolder]:
    """For users and for groups."""
    found: Counter[QuotaHolder] = Counter()
    for user in {view.user for view in state.jobs}:
        found[QuotaHolder(user)] += gpus[user]
        if user in quotas.group_of:
            found[QuotaHolder(quotas.group_of[user], is_group=True)] += gpus[user]
    return found


def decided(policy: Policy, state: Snapshot, quotas: Quotas) -> Plan:
    plan = plan_within(policy.allocate, state, quotas)
    assert plan is not None
    return plan


quotas_of_users = st.dictionaries(
    st.sampled_from([*USERS, "*"]), st.builds(Quota, gpus=st.none() | st.integers(0, 12)), max_size=3
)


bounds_of_groups = st.dictionaries(
    st.sampled_from(["g", "h"]), st.builds(Bounds, gpus=st.none() | st.integers(0, 12)), max_size=2
)
groups_of_users = st.dictionaries(st.sampled_from(USERS), st.sampled_from(["g", "h"]), max_size=3)


@given(
    state=snapshots(),
    choose=st.data(),
    by_user=quotas_of_users,
    by_group=bounds_of_groups,
    group_of=groups_of_users,
)
def test_nobody_gets_more_than_their_quota_and_no_plan_has_a_fault(
    state: Snapshot,
    choose: st.DataObject,
    by_user: dict[str, Quota],
    by_group: dict[str, Bounds],
    group_of: dict[str, str],
) -> None:
    """Whoever holds more already may keep it, and gets nothing on top: each user, and each group."""
    state, quotas = of_users(state, choose), Quotas(by_user, by_group=by_group, group_of=group_of)
    views: Counter[str] = Counter()
    for view in state.jobs:
        views[view.user] += view.gpus
    held = by_holder(state, views, quotas)
    for policy in ALL:
        note(repr(policy))
        plan = decided(policy, state, quotas)
        assert plan_faults(state, plan) == []
        for holder, gpus in by_holder(state, gpus_of(state, plan), quotas).items():
            most = quotas.bounds_of(holder).gpus
            assert most is None or gpus <= max(most, held[holder])


@given(state=snapshots(), choose=st.data(), hours=st.floats(0, 10))
def test_nothing_starts_for_who_has_used_up_their_hours(state: Snapshot, choose: st.DataObject, hours: float) -> None:
    state = of_users(state, choose)
    quotas = Quotas({"ada": Quota(gpu_hours=hours)}, used_hours={"ada": 10.0})
    for policy in ALL:
        plan = decided(policy, state, quotas)
        for view in state.jobs:
            if view.user == "ada" and not view.allocation and view.required_gpus:
                assert not plan.allocations.get(view.id)
                assert code_of(plan, view.id) == "over_quota"


@given(state=snapshots(), choose=st.data())
def test_without_bounds_plans_are_the_policys_own(state: Snapshot, choose: st.DataObject) -> None:
    state = of_users(state, choose)
    for policy in ALL:
        assert decided(policy, state, Quotas({"ada": Quota(waiting=1)})) == policy.allocate(state)


@given(state=snapshots(), choose=st.data())
def test_fair_shares_stop_nothing_and_leave_no_fault(state: Snapshot, choose: st.DataObject) -> None:
    state = of_users(state, choose)
    quotas = Quotas({}, decayed_hours={"ada": 5.0, "ben": 1.0})
    for policy in ALL:
        assert plan_faults(state, decided(policy, state, quotas)) == []


def code_of(plan: Plan, job_id: str) -> str:
    why = plan.reasons[job_id]
    assert isinstance(why, Explanation)
    return why.code


def of(user: str, job_id: str, gpus: int = 1, **fields: Any) -> JobView:
    bounds = {"required_gpus": gpus, "min_gpus": gpus, "max_gpus": gpus, **fields}
    return replace(JobView(job_id, 1.0, required_gpus=gpus), user=user, **bounds)


def on_one_host(gpus: int, jobs: Sequence[JobView]) -> Snapshot:
    return Snapshot(now=100.0, seed=0, hosts=(HostView("h", gpus),), jobs=tuple(jobs))


def test_the_reason_names_the_quota() -> None:
    running = of("ada", "a", 2, allocation={"h": 2})
    state = on_one_host(8, [running, of("ada", "b", 3), of("ben", "c", 3)])
    plan = decided(FIFO, state, Quotas({"*": Quota(gpus=4)}))
    assert plan.allocations["c"] == {"h": 3}, "and those behind do not wait for it"
    assert plan.reasons["b"] == "It needs 3 GPUs; ada may hold 4 at once, and holds 2."
    assert code_of(plan, "b") == "over_quota"


def test_what_does_not_fit_together_goes_by_priority() -> None:
    first = of("ada", "c", 2, priority=90)
    state = on_one_host(8, [of("ada", "a", 2), of("ada", "b", 2), first])
    plan = decided(FIFO, state, Quotas({"ada": Quota(gpus=4)}))
    assert {job_id for job_id, to in plan.allocations.items() if to} == {"c", "a"}
    assert code_of(plan, "b") == "over_quota"


def test_a_group_bounds_its_users_together_and_each_ones_own_quota_holds_too() -> None:
    """Ada and Ben share 4 GPUs, of which Ada may have 2; Eve is in no group."""
    jobs = [*(of("ada", f"a{i}") for i in range(3)), *(of("ben", f"b{i}") for i in range(3)), of("eve", "e")]
    state = on_one_host(16, jobs)
    quotas = Quotas({"ada": Quota(gpus=2)}, by_group={"g": Bounds(gpus=4)}, group_of={"ada": "g", "ben": "g"})
    plan = decided(FIFO, state, quotas)
    assert gpus_of(state, plan) == {"ada": 2, "ben": 2, "eve": 1}
    assert plan.reasons["a2"] == "It needs 1 GPU; ada may hold 2 at once, and holds 0."
    assert plan.reasons["b2"] == "It needs 1 GPU; the group g may hold 4 at once, and holds 0."
    assert code_of(plan, "b2") == "over_quota"


def test_an_elastic_job_grows_to_what_its_group_has_left() -> None:
    running = of("ada", "a", 3, allocation={"h": 3})
    grows = of("ben", "b", 1, min_gpus=1, max_gpus=8, elastic=True)
    quotas = Quotas(by_group={"g": Bounds(gpus=5)}, group_of={"ada": "g", "ben": "g"})
    state = on_one_host(8, [running, grows])
    for policy in ALL:
        assert sum(decided(policy, state, quotas).allocations.get("b", {}).values()) <= 2, policy


def test_the_hours_of_a_group_are_those_of_its_users() -> None:
    state = on_one_host(8, [of("ada", "a"), of("eve", "e")])
    quotas = Quotas(
        used_hours={"ada": 0.5, "ben": 6.0, "eve": 50.0},
        by_group={"g": Bounds(gpu_hours=6)},
        group_of={"ada": "g", "ben": "g"},
    )
    plan = decided(FIFO, state, quotas)
    assert gpus_of(state, plan) == {"eve": 1}
    assert plan.reasons["a"] == "The group g has used 6.5 of 6 GPU-hours within seven days."


def test_jobs_without_gpus_use_nothing_that_plans_are_bounded_by() -> None:
    """Also of who holds more than a quota that was lowered, has used up their hours, or is not due by fair share."""
    seen: list[str] = []

    def ask(snapshot: Snapshot) -> Plan:
        seen.extend(view.id for view in snapshot.jobs)
        return Plan({view.id: dict(view.allocation) for view in snapshot.jobs})

    running = of("ada", "a", 3, allocation={"h": 3})
    state = on_one_host(4, [running, of("ada", "b", 4), of("ben", "c", 4), of("ada", "cpu", 0, min_gpus=0)])
    quotas = Quotas({"ada": Quota(gpus=1, gpu_hours=1)}, used_hours={"ada": 2.0}, decayed_hours={"ada": 2.0})
    plan = plan_within(ask, state, quotas)
    assert plan is not None
    assert "cpu" in seen
    assert "cpu" not in plan.reasons
    assert code_of(plan, "b") == "over_quota"


def test_fair_shares_let_those_go_first_who_had_less() -> None:
    """Ada has sent a hundred jobs before Ben's one, under FIFO."""
    state = on_one_host(4, [*(of("ada", f"a{i}") for i in range(100)), of("ben", "b", 2)])
    plan = decided(FIFO, state, Quotas({}, decayed_hours={"ada": 50.0}))
    assert gpus_of(state, plan) == {"ada": 2, "ben": 2}
    assert code_of(plan, "a50") == "fair_share"
    assert "100 % of the recent use" in plan.reasons["a50"]


def test_shares_go_by_weight() -> None:
    jobs = [of(user, f"{user}{i}") for user in ("ada", "ben") for i in range(9)]
    quotas = Quotas({"ada": Quota(weight=3.0)}, decayed_hours={})
    state = on_one_host(8, jobs)
    assert gpus_of(state, decided(FIFO, state, quotas)) == {"ada": 6, "ben": 2}


def test_one_user_alone_has_all() -> None:
    state = on_one_host(4, [of("ada", f"a{i}") for i in range(9)])
    assert gpus_of(state, decided(FIFO, state, Quotas({}, decayed_hours={"ada": 1.0}))) == {"ada": 4}


def test_a_job_larger_than_its_users_share_gets_its_turn() -> None:
    """Two users whose jobs need all GPUs: neither waits for ever."""
    state = on_one_host(4, [of("ada", "a", 4), of("ben", "b", 4)])
    plan = decided(FIFO, state, Quotas({}, decayed_hours={"ada": 1.0}))
    assert plan.allocations.get("b") == {"h": 4}


def test_no_decision_gives_a_job_more_priority_than_its_quota_allows() -> None:
    """Whatever made the job, and however the quota was changed since."""
    asked: list[dict[str, int]] = []

    def ask(state: Snapshot) -> Plan:
        asked.append({each.id: each.priority for each in state.jobs})
        return Plan({})

    jobs = [job("a", user="ada", priority=100), job("b", user="ben", priority=100), job("c", user="ada", priority=10)]
    plan_within(ask, snapshot(jobs), Quotas({"ada": Quota(priority=60)}))
    assert asked == [{"a": 60, "b": 100, "c": 10}]
