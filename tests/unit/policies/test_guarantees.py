"""Guaranteed GPUs of groups, over every policy: who gets them back, from whom, and what is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from builders import host, job, snapshot, snapshots
from hypothesis import assume, given, note
from hypothesis import strategies as st

from schedulearn.scheduler.core.model import Explanation, JobView, Plan, Snapshot
from schedulearn.scheduler.core.named_jobs import named_jobs, without_jobs
from schedulearn.scheduler.core.people import ANY
from schedulearn.scheduler.core.pipeline import decide, layers
from schedulearn.scheduler.core.planning.guarantees import (
    Guarantee,
    Guarantees,
    borrowed_now,
    overbooked,
    with_guarantees,
)
from schedulearn.scheduler.core.planning.quotas import Bounds, Quotas
from schedulearn.scheduler.core.policy import Policy, plan_faults
from schedulearn.scheduler.policies.registry import POLICIES, make_policy

ALL = [make_policy(name) for name in sorted(POLICIES)]
EXCLUSIVE = [policy for policy in ALL if not policy.shares_gpus]
"""Policies under which jobs wait for GPUs. Under the others, they take turns on them."""
FIFO = make_policy("fifo")
GROUP_OF = {"ada": "g", "ben": "h", "cleo": "free"}
USERS = (*GROUP_OF, "")

guarantees = st.fixed_dictionaries(
    {name: st.dictionaries(st.sampled_from([ANY, "a", "b"]), st.integers(1, 12), max_size=2) for name in ("g", "h")}
)


@st.composite
def states(draw: st.DrawFn) -> Snapshot:
    state = draw(snapshots())
    return replace(
        state,
        jobs=tuple(
            replace(view, user=draw(st.sampled_from(USERS)), preemptible=not view.elastic and draw(st.booleans()))
            for view in state.jobs
        ),
    )


def decided(policy: Policy, state: Snapshot, by_group: Mapping[str, Guarantee]) -> Plan:
    return decide(policy.allocate, state, layers(quotas=Quotas(group_of=GROUP_OF, guarantee_of=by_group)))


def given_to(view: JobView, plan: Plan) -> Mapping[str, int]:
    """What a job holds once the plan is carried out: rigid jobs run on unless they are preempted."""
    if view.allocation and not view.elastic and not plan.preempts(view):
        return view.allocation
    return plan.allocations.get(view.id, {})


def unused(guarantee: Guarantee, held: Mapping[str, int], gpu_type: str) -> int:
    """GPUs of a type that a group may still claim."""
    beyond = sum(max(0, gpus - guarantee.get(name, 0)) for name, gpus in held.items())
    return max(0, guarantee.get(gpu_type, 0) - held.get(gpu_type, 0)) + max(0, guarantee.get(ANY, 0) - beyond)


Given = Mapping[str, Mapping[str, int]]
"""Job -> host -> GPUs."""


def held_by_group(state: Snapshot, given: Given, by_group: Mapping[str, Guarantee]) -> dict[str, Counter[str]]:
    """GPUs of each group with a guarantee, by type."""
    type_of = {each.id: each.gpu_type for each in state.hosts}
    held: dict[str, Counter[str]] = {name: Counter() for name in by_group}
    for view in state.jobs:
        group = GROUP_OF.get(view.user, "")
        if group in held:
            for name, gpus in given[view.id].items():
                held[group][type_of[name]] += gpus
    return held


def free_now(state: Snapshot) -> Counter[str]:
    """GPUs of each host without a job; below 0: several jobs share them."""
    free = Counter({each.id: each.gpus for each in state.hosts})
    for view in state.jobs:
        free.subtract(view.allocation)
    return free


def could_be_free(state: Snapshot, given: Given, by_group: Mapping[str, Guarantee]) -> Counter[str]:
    """Free GPUs of each host, and those of jobs that can stop and whose users are in no group with a guarantee."""
    could = Counter({each.id: each.gpus for each in state.hosts})
    for view in state.jobs:
        if by_group.get(GROUP_OF.get(view.user, "")) or not (view.elastic or view.preemptible):
            could.subtract(given[view.id])
    return could


def idle_keeper(state: Snapshot) -> Plan:
    """A policy that starts nothing and stops nothing."""
    return Plan({view.id: dict(view.allocation) for view in state.jobs if view.allocation}, jobs_per_gpu=2)


@given(state=states(), by_group=guarantees)
def test_no_job_waits_within_a_guarantee_while_others_could_give_gpus_back(
    state: Snapshot, by_group: dict[str, dict[str, int]]
) -> None:
    """Users in no group, or in one without a guarantee, borrow all that they hold.

    What a group gives up of its own accord counts from the next decision on. Where another policy has left several
    jobs on a GPU, some stop first."""
    assume(all(gpus >= 0 for gpus in free_now(state).values()))
    held_now = held_by_group(state, {view.id: view.allocation for view in state.jobs}, by_group)
    for policy in ALL:
        note(repr(policy))
        plan = decided(policy, state, by_group)
        assert plan_faults(state, plan) == []
        if plan.jobs_per_gpu > 1:
            continue
        planned = {view.id: given_to(view, plan) for view in state.jobs}
        held = held_by_group(state, planned, by_group)
        could = could_be_free(state, planned, by_group)
        for view in state.jobs:
            group = GROUP_OF.get(view.user, "")
            if planned[view.id] or not by_group.get(group):
                continue
            for each in state.hosts:
                left = min(unused(by_group[group], every[group], each.gpu_type) for every in (held, held_now))
                if each.open and left >= view.needed_gpus:
                    assert could[each.id] < view.needed_gpus, (view, each.id, plan)


@given(state=states(), by_group=guarantees)
def test_nobody_gives_gpus_back_needlessly(state: Snapshot, by_group: dict[str, dict[str, int]]) -> None:
    """One GPU less, or one job less, and somebody would not start. Nobody loses what their group is guaranteed."""
    quotas = Guarantees(by_group, GROUP_OF)
    plan = with_guarantees(idle_keeper, state, quotas)
    assert plan_faults(state, plan) == []
    planned = {view.id: given_to(view, plan) for view in state.jobs}
    before = held_by_group(state, {view.id: view.allocation for view in state.jobs}, by_group)
    after = held_by_group(state, planned, by_group)
    left = Counter({each.id: each.gpus for each in state.hosts})
    for allocation in planned.values():
        left.subtract(allocation)
    starts = [view.id for view in state.jobs if not view.allocation and plan.allocations.get(view.id)]
    for view in state.jobs:
        now = planned[view.id]
        lost = {name: gpus - now.get(name, 0) for name, gpus in view.allocation.items() if gpus > now.get(name, 0)}
        if not lost:
            continue
        assert starts
        assert "back to the group" in plan.reasons[view.id]
        assert view.elastic or view.preemptible
        if now:
            assert max(left[name] for name in lost) <= 0
        else:
            assert any(gpus > left[name] for name, gpus in lost.items())
        if (group := GROUP_OF.get(view.user, "")) in by_group:
            assert borrowed_now(quotas, group, before[group]) > 0
    for name in by_group:
        if not borrowed_now(quotas, name, before[name]):
            assert not borrowed_now(quotas, name, after[name]), "it claims no more than its guarantee"


@given(state=states())
def test_plans_are_the_policys_own_if_no_owner_waits(state: Snapshot) -> None:
    nobody = replace(state, jobs=tuple(replace(view, user="eve") for view in state.jobs))
    for policy in (FIFO, make_policy("goodput")):
        assert decided(policy, nobody, {"g": {ANY: 4}}) == decide(policy.allocate, nobody, layers())


def codes(plan: Plan) -> dict[str, str]:
    return {name: why.code for name, why in plan.reasons.items() if isinstance(why, Explanation)}


def test_an_elastic_borrower_shrinks_and_is_told() -> None:
    lent = job("lent", user="ben", elastic=True, allocation={"h1": 8}, max_gpus=8, min_gpus=2)
    mine = job("mine", at=9.0, gpus=4, user="ada")
    for policy in EXCLUSIVE:
        plan = decided(policy, snapshot([lent, mine], [host("h1", 8)]), {"g": {ANY: 4}})
        assert plan.allocations["mine"] == {"h1": 4}, policy
        assert plan.allocations["lent"] == {"h1": 4}, policy
    plan = decided(FIFO, snapshot([lent, mine], [host("h1", 8)]), {"g": {ANY: 4}})
    assert plan.reasons["lent"] == (
        "It gives 4 GPUs back to the group g, for job mine, which waits within the guarantee."
    )
    assert plan.reasons["mine"] == "The group g takes lent GPUs back for it, from job lent."
    assert codes(plan) == {"lent": "resized", "mine": "gpus_lent"}


def test_the_newest_shrinks_first_and_stops_first() -> None:
    old = job("old", at=1.0, user="", elastic=True, allocation={"h1": 4}, min_gpus=2)
    new = job("new", at=2.0, user="", elastic=True, allocation={"h1": 4}, min_gpus=2)
    state = snapshot([old, new, job("mine", at=9.0, gpus=2, user="ada")], [host("h1", 8)])
    plan = with_guarantees(idle_keeper, state, Guarantees({"g": {ANY: 8}}, GROUP_OF))
    assert {name: dict(each) for name, each in plan.allocations.items()} == {
        "old": {"h1": 4}, "new": {"h1": 2}, "mine": {"h1": 2},
    }  # fmt: skip
    state = replace(state, jobs=(old, new, job("mine", at=9.0, gpus=6, user="ada")))
    plan = with_guarantees(idle_keeper, state, Guarantees({"g": {ANY: 8}}, GROUP_OF))
    assert plan.allocations["old"] == {"h1": 2}
    assert "new" not in plan.allocations
    assert plan.reasons["new"] == (
        "It gives its 4 GPUs back to the group g, for job mine, which waits within the guarantee."
    )


def test_a_rigid_borrower_stops_only_if_it_is_preemptible() -> None:
    lent = job("lent", gpus=4, user="", allocation={"h1": 4}, ends_by=1060.0)
    unknown = job("unknown", gpus=2, user="", allocation={"h1": 2})
    mine, small = job("mine", at=9.0, gpus=8, user="ada"), job("small", at=10.0, gpus=1, user="")
    state = snapshot([lent, unknown, mine, small], [host("h1", 8)])
    for policy in EXCLUSIVE:
        plan = decided(policy, state, {"g": {ANY: 8}})
        assert given_to(lent, plan) == {"h1": 4}
        assert not plan.allocations.get("small"), "it could not give back what it would borrow"
    plan = decided(FIFO, state, {"g": {ANY: 8}})
    assert plan.reasons["mine"] == (
        "It needs 8 GPUs, which the guarantee of the group g has left. GPUs are lent to jobs that can't be stopped: "
        "job lent until about 1970-01-01 00:17:40 UTC; job unknown, whose end is unknown."
    )
    assert codes(plan)["mine"] == "gpus_lent"
    willing = (replace(lent, preemptible=True), replace(unknown, preemptible=True), mine, small)
    plan = decided(FIFO, replace(state, jobs=willing), {"g": {ANY: 8}})
    assert plan.allocations["mine"] == {"h1": 8}
    assert plan.preempts(willing[0])


def test_gpus_that_wait_for_their_owner_are_lent_to_those_who_can_give_them_back() -> None:
    lent = job("lent", gpus=6, user="", allocation={"h1": 6})
    mine = job("mine", at=9.0, gpus=8, user="ada", priority=10)
    elastic = job("elastic", at=8.0, gpus=1, elastic=True, max_gpus=1, user="")
    state = snapshot([lent, mine, elastic, job("rigid", at=7.0, user="")], [host("h1", 8)])
    assert FIFO.allocate(state).allocations["rigid"] == {"h1": 1}
    plan = decided(FIFO, state, {"g": {ANY: 8}})
    assert plan.allocations.keys() == {"lent", "elastic"}
    assert "kept for job mine" in plan.reasons["rigid"]


def test_a_policy_that_says_nothing_of_rigid_jobs_that_run_starts_an_owners_job_too() -> None:
    lent = job("lent", gpus=4, user="", preemptible=True, allocation={"h1": 4})
    state = snapshot([lent, job("mine", at=9.0, gpus=2, user="ada")])
    plan = with_guarantees(lambda seen: Plan({}), state, Guarantees({"g": {ANY: 2}}, GROUP_OF))
    assert plan.allocations == {"mine": {"h1": 2}}
    assert plan.preempts(lent)


def test_no_gpus_are_kept_where_they_would_not_be_enough() -> None:
    """Half of the host is what the other group is guaranteed."""
    theirs = job("theirs", at=1.0, gpus=4, user="ben", allocation={"h1": 4})
    lent = job("lent", at=2.0, gpus=2, user="", allocation={"h1": 2})
    small, mine = job("small", at=8.0, user=""), job("mine", at=9.0, gpus=6, user="ada")
    plan = decided(FIFO, snapshot([theirs, lent, small, mine], [host("h1", 8)]), {"g": {ANY: 6}, "h": {ANY: 4}})
    assert plan.allocations["small"] == {"h1": 1}
    assert codes(plan)["mine"] != "gpus_lent"


def test_sentences_name_no_job_of_others_where_jobs_are_hidden() -> None:
    lent, rigid, mine = "0aaaaaaaaa", "0bbbbbbbbb", "0ccccccccc"
    state = snapshot(
        [
            job(lent, gpus=2, user="", preemptible=True, allocation={"h1": 2}),
            job(rigid, gpus=2, user="", allocation={"h1": 2}),
            job(mine, at=9.0, gpus=2, user="ada"),
        ]
    )
    plan = decided(FIFO, state, {"g": {ANY: 4}})
    assert without_jobs(plan.reasons[lent], {lent}) == "It gives its 2 GPUs back to the group g, for another job."
    assert without_jobs(plan.reasons[mine], {mine}).endswith("takes lent GPUs back for it, from another job.")
    larger = replace(state, jobs=(*state.jobs[:2], job(mine, at=9.0, gpus=4, user="ada"), job("later", at=10.0)))
    plan = decided(FIFO, larger, {"g": {ANY: 4}})
    for name, own in ((mine, {mine}), ("later", set())):
        said = without_jobs(plan.reasons[name], own)
        assert not named_jobs(said) - own, said


def test_a_job_beyond_the_guarantee_takes_nothing_back() -> None:
    lent = job("lent", gpus=4, user="", preemptible=True, allocation={"h1": 4})
    running = job("running", gpus=3, user="ada", allocation={"h1": 3})
    state = snapshot([lent, running, job("mine", gpus=2, user="ada")], [host("h1", 8)])
    plan = decided(FIFO, state, {"g": {ANY: 4}})
    assert plan.allocations.keys() == {"lent", "running"}


def test_groups_with_a_guarantee_borrow_too_and_keep_what_is_theirs() -> None:
    """Ben's group borrows 2 of its 6 GPUs: its older job is safe."""
    older = job("older", at=1.0, gpus=4, user="ben", preemptible=True, allocation={"h1": 4})
    newer = job("newer", at=2.0, gpus=2, user="ben", preemptible=True, allocation={"h1": 2})
    state = snapshot([older, newer, job("mine", at=9.0, gpus=4, user="ada")], [host("h1", 8)])
    plan = decided(FIFO, state, {"g": {ANY: 4}, "h": {ANY: 4}})
    assert plan.allocations["mine"] == {"h1": 4}
    assert plan.allocations["older"] == {"h1": 4}
    assert plan.preempts(newer)


def test_a_guarantee_by_type_is_claimed_on_that_type() -> None:
    hosts = [host("h1", 4, gpu_type="NVIDIA A100-SXM4-80GB"), host("h2", 4, gpu_type="NVIDIA T4")]
    lent = [
        job("on-a100", gpus=4, user="", preemptible=True, allocation={"h1": 4}),
        job("on-t4", gpus=4, user="", preemptible=True, allocation={"h2": 4}),
    ]
    state = snapshot([*lent, job("mine", at=9.0, gpus=2, user="ada"), job("more", at=10.0, user="ada")], hosts)
    plan = decided(FIFO, state, {"g": {"a100": 2}})
    assert plan.allocations["mine"] == {"h1": 2}
    assert plan.allocations["more"] == {"h1": 1}, "borrowed: they are free now, and nobody is stopped for it"
    assert plan.allocations["on-t4"] == {"h2": 4}
    state = snapshot([*lent, job("mine", at=9.0, gpus=2, user="ada", gpu_type="t4")], hosts)
    assert decided(FIFO, state, {"g": {"a100": 2}}).allocations.keys() == {"on-a100", "on-t4"}


def test_a_running_job_within_the_guarantee_is_not_stopped_for_others() -> None:
    mine = job("mine", at=1.0, user="ada", elastic=True, min_gpus=4, max_gpus=4, gpus=4, allocation={"h1": 4})
    urgent = job("urgent", at=9.0, gpus=4, user="ben", priority=90)
    state = snapshot([mine, urgent], [host("h1", 4)])
    policy = make_policy("priority")
    assert policy.allocate(state).allocations.keys() == {"urgent"}
    plan = decided(policy, state, {"g": {ANY: 4}})
    assert plan.allocations == {"mine": {"h1": 4}}
    colleague = replace(state, jobs=(mine, replace(urgent, user="ada")))
    assert decided(policy, colleague, {"g": {ANY: 4}}).allocations.keys() == {"urgent"}, "the GPUs stay in the group"


def test_quotas_and_fair_shares_go_with_guarantees() -> None:
    """Fair share does not delay a job within a guarantee; a quota does."""
    lent = [job(f"lent{i}", at=float(i), user="", preemptible=True, allocation={"h1": 1}) for i in range(4)]
    state = snapshot([*lent, job("mine", at=9.0, gpus=2, user="ada")])
    shares = Quotas(group_of=GROUP_OF, guarantee_of={"g": {ANY: 2}}, decayed_hours={"ada": 99.0})
    plan = decide(FIFO.allocate, state, layers(quotas=shares))
    assert plan.allocations["mine"] == {"h1": 2}
    assert [name for name in sorted(plan.allocations) if name != "mine"] == ["lent0", "lent1"]
    bound = replace(shares, by_group={"g": Bounds(gpus=1)})
    plan = decide(FIFO.allocate, state, layers(quotas=bound))
    assert "mine" not in plan.allocations
    assert codes(plan)["mine"] == "over_quota"


def test_guarantees_beyond_the_cluster_are_found() -> None:
    cluster = {"NVIDIA A100-SXM4-80GB": 8, "NVIDIA T4": 4}
    assert overbooked({"g": {ANY: 8}, "h": {"t4": 4}}, cluster) is None
    assert overbooked({"g": {ANY: 9}, "h": {"t4": 4}}, cluster) == (
        "the guarantees of all groups are 13 GPUs, and the cluster has 12"
    )
    assert overbooked({"g": {"a100": 5}, "h": {"a100 80gb": 4}}, cluster) == (
        "the guarantees of all groups are 9 GPUs of type a100, and the cluster has 8"
    )
    assert overbooked({"g": {"h100": 1}}, cluster) == (
        "the guarantees of all groups are 1 GPU of type h100, and the cluster has 0"
    )
