"""Jobs that can't run on every host, over every policy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import host, job, snapshot, snapshots
from hypothesis import given, note
from hypothesis import strategies as st

from schedulearn.scheduler.core.feasible_hosts import is_barred, is_of_type, plan_feasible
from schedulearn.scheduler.core.model import JobView, Plan, Snapshot
from schedulearn.scheduler.core.pipeline import decide, layers
from schedulearn.scheduler.core.policy import Policy, plan_faults
from schedulearn.scheduler.policies.goodput.host_kinds import by_kind, type_of
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
        ("NVIDIA H100", "a100,h100", True),
        ("NVIDIA A10", "a100,h100", False),
    ],
)
def test_a_type_is_named_by_words_of_it(gpu_type: str, wanted: str, same: bool) -> None:
    assert is_of_type(gpu_type, wanted) is same


def test_a_job_that_names_its_type_by_a_word_starts_there() -> None:
    hosts = (host("h1", 2, gpu_type="NVIDIA V100"), host("h2", 2, gpu_type="NVIDIA A100-SXM4-80GB"))
    wants = replace(job("j", at=1.0, gpus=1), gpu_type="a100")
    assert started(plan_feasible(FIFO.allocate, snapshot([wants], hosts))) == {"j": {"h2": 1}}


ROOM_B2 = {"unfit": {"h1": "h1 has room=b1"}, "wanted_hosts": "on hosts with room=b2"}


@given(snapshots(), st.data(), st.sampled_from(ALL))
def test_no_job_starts_or_grows_where_it_cannot_run_and_exclusive_jobs_are_alone(
    state: Snapshot, choose: st.DataObject, policy: Policy
) -> None:
    """Every policy, through the layers of the service; elastic jobs and running ones too."""
    names = [each.id for each in state.hosts]
    shared = {name for each in state.jobs for name in each.allocation}
    jobs = []
    for each in state.jobs:
        barred = choose.draw(st.sets(st.sampled_from(names)))
        owns = not each.elastic and all(
            name not in other.allocation for other in state.jobs if other is not each for name in each.allocation
        )
        jobs.append(
            replace(
                each,
                unfit=dict.fromkeys(barred, "why"),
                gpu_type=choose.draw(st.sampled_from([None, None, "a", "a,b"])),
                wanted_hosts=choose.draw(st.sampled_from(["", "on some hosts"])) if barred else "",
                exclusive=owns and choose.draw(st.booleans()),
            )
        )
    limited = replace(state, jobs=tuple(jobs))
    note(f"{policy.name}: {shared}")
    plan = decide(policy.allocate, limited, layers())
    assert plan_faults(limited, plan) == []
    hosts = {each.id: each for each in state.hosts}
    for each in jobs:
        planned = plan.allocations.get(each.id, {})
        for name, gpus in planned.items():
            assert gpus <= each.allocation.get(name, 0) or not is_barred(hosts[name], each)
            if each.exclusive:
                others = [job_id for job_id, to in plan.allocations.items() if name in to and job_id != each.id]
                assert not others
        if each.exclusive and each.allocation and plan.allocations.get(each.id) != each.allocation:
            assert each.preemptible, "a running rigid job goes on"


@pytest.mark.parametrize("policy", ALL, ids=[policy.name for policy in ALL])
def test_an_elastic_job_starts_on_its_hosts_under_every_policy(policy: Policy) -> None:
    wants = job("j", gpus=2, elastic=True, **ROOM_B2)
    other = job("k", at=1, gpus=2)
    plan = plan_feasible(policy.allocate, snapshot([wants, other], [host("h1", 2), host("h2", 2)]))
    assert set(started(plan)["j"]) == {"h2"}
    assert plan.jobs_per_gpu > 1 or started(plan)["k"] == {"h1": 2}


def test_a_policy_that_moves_a_job_to_a_wrong_host_is_asked_again_with_the_job_as_it_is() -> None:
    runs = job("r", gpus=2, elastic=True, allocation={"h2": 2}, **ROOM_B2)
    asked: list[bool] = []

    def moves(state: Snapshot) -> Plan:
        asked.append(state.jobs[0].elastic)
        stays = {"r": {"h2": 2}, "k": {"h1": 2}}
        return Plan({"r": {"h1": 2}, "k": {"h2": 2}} if state.jobs[0].elastic else stays)

    state = snapshot([runs, job("k", at=1, gpus=2)], [host("h1", 2), host("h2", 2)])
    plan = plan_feasible(moves, state)
    assert asked == [True, False]
    assert plan_faults(state, plan) == []
    assert started(plan) == {"r": {"h2": 2}, "k": {"h1": 2}}


def test_a_job_that_waits_for_its_hosts_says_so_and_its_host_is_kept() -> None:
    """Later jobs do not take the GPUs one by one; jobs elsewhere go on."""
    jobs = [
        job("x", gpus=1, allocation={"h2": 1}),
        job("y", at=1, gpus=2, **ROOM_B2),
        *(job(name, at=2 + at, gpus=1) for at, name in enumerate("pqr")),
    ]
    plan = plan_feasible(FIFO.allocate, snapshot(jobs, [host("h1", 2), host("h2", 2)]))
    assert started(plan) == {"x": {"h2": 1}, "p": {"h1": 1}, "q": {"h1": 1}}
    assert plan.reasons["y"] == "It waits for 2 GPUs on hosts with room=b2."


def test_a_job_whose_hosts_cannot_serve_it_says_why_and_stops_nobody() -> None:
    hosts = [host("h1", 2), host("h2", 2), host("h3", 2)]
    unfit = {"h1": "h1 has room=b1", "h2": "h2 has no label room"}
    big = job("big", gpus=4, unfit=unfit, wanted_hosts="on hosts with room=b2")
    for policy in ALL:
        plan = plan_feasible(policy.allocate, snapshot([big, job("z", at=1, gpus=4)], hosts))
        assert started(plan).keys() == {"z"}, policy.name
        assert plan.reasons["big"] == (
            "It needs 4 GPUs on hosts with room=b2; 2 are available. H1 has room=b1. H2 has no label room."
        )


def test_an_exclusive_job_waits_for_an_empty_host_which_later_jobs_do_not_fill() -> None:
    alone = job("e", at=1, gpus=1, exclusive=True, wanted_hosts="on hosts where no other job runs")
    busy = [job("x", gpus=1, allocation={"h1": 1}), job("w", gpus=3, allocation={"h2": 3})]
    later = job("z", at=2, gpus=1)
    for policy in ALL:
        plan = plan_feasible(policy.allocate, snapshot([*busy, alone, later], [host("h1", 4), host("h2", 4)]))
        assert "e" not in started(plan)
        assert plan.reasons["e"].startswith("It waits for 1 GPU on hosts where no other job runs."), policy.name
        assert started(plan).get("z", {"h2": 1}) == {"h2": 1}, policy.name
        empty = plan_feasible(policy.allocate, snapshot([busy[1], alone, later], [host("h1", 4), host("h2", 4)]))
        assert started(empty)["e"] == {"h1": 1}, policy.name
        assert started(empty)["z"] == {"h2": 1}, policy.name


def test_an_exclusive_job_does_not_start_beside_one_that_is_yet_to_leave() -> None:
    busy = [job("x", elastic=True, allocation={"h1": 1}), job("y", allocation={"h2": 1})]
    state = snapshot([*busy, job("e", at=1, exclusive=True)], [host("h1", 4), host("h2", 4)])
    moves = {"x": {"h2": 1}, "y": {"h2": 1}, "e": {"h1": 1}}
    plan = plan_feasible(lambda seen: Plan({each.id: moves[each.id] for each in seen.jobs}), state)
    assert started(plan) == {"x": {"h2": 1}, "y": {"h2": 1}}
    assert plan.reasons["e"] == "It waits for 1 GPU. None of these hosts is empty."


def test_nobody_starts_beside_a_running_exclusive_job_and_cpu_jobs_count_as_others() -> None:
    runs = job("e", gpus=1, exclusive=True, allocation={"h1": 1}, gpu_indices={"h1": (2,)})
    for policy in ALL:
        plan = plan_feasible(policy.allocate, snapshot([runs, job("z", at=1, gpus=1)], [host("h1", 4)]))
        assert started(plan) == {"e": {"h1": 1}}, policy.name
    waits = replace(runs, allocation={}, gpu_indices={})
    plan = plan_feasible(FIFO.allocate, snapshot([waits], [host("h1", 4, cpu_jobs=1), host("h2", 2)]))
    assert started(plan) == {"e": {"h2": 1}}


def test_jobs_that_wait_for_the_end_of_an_exclusive_one_are_not_said_to_fit_nowhere() -> None:
    runs = job("e", gpus=1, exclusive=True, allocation={"h1": 1})
    waits = [job("z", at=1, gpus=4), job("y", at=2, gpus=1, unfit={"h2": "why"}, wanted_hosts="on h1")]
    for policy in ALL:
        state = snapshot([runs, *waits, job("huge", at=3, gpus=9)], [host("h1", 4), host("h2", 2)])
        reasons = plan_feasible(policy.allocate, state).reasons
        assert reasons["z"] == "It waits for 4 GPUs. Exclusive jobs have h1 alone.", policy.name
        assert reasons["y"] == "It waits for 1 GPU on h1. Exclusive jobs have h1 alone.", policy.name
        codes = {name: getattr(why, "code", "") for name, why in reasons.items()}
        assert codes["z"] == codes["y"] == "waiting_for_gpus", policy.name
        assert codes["huge"] == "unsatisfiable_now", policy.name


class TestKindsOfHosts:
    """Where the policy `goodput` chooses sizes."""

    GOODPUT = make_policy("goodput")

    def limited(self, name: str, at: float = 0.0, **fields: object) -> JobView:
        return job(name, at=at, elastic=True, unfit={"h1": "", "h2": ""}, wanted_hosts="on h3", **fields)

    def test_snapshots_without_limits_stay_as_they_are(self) -> None:
        state = snapshot([job("a"), job("b", elastic=True)])
        assert by_kind(state) is state

    def test_hosts_of_limited_jobs_are_a_kind_of_the_same_type(self) -> None:
        state = snapshot([self.limited("a")], [host(name, 4, gpu_type="A100") for name in ("h1", "h2", "h3")])
        kinds = {each.id: each.gpu_type for each in by_kind(state).hosts}
        assert kinds["h1"] == kinds["h2"] == "A100" != kinds["h3"]
        assert type_of(kinds["h3"]) == "A100"
        assert by_kind(state).jobs[0].unfit.keys() == {"A100"}

    def test_jobs_of_one_host_share_it_and_the_others_use_the_rest(self) -> None:
        """The first of them does not take it all, and the second does not wait for ever."""
        held = {"allocation": {"h3": 4}, "held_seconds": 5000.0, "run_seconds": 5000.0}
        jobs = [self.limited("a", **held), self.limited("b", at=900.0), job("c", at=900.0, elastic=True)]
        state = snapshot(jobs, [host(name, 4) for name in ("h1", "h2", "h3")], now=10_000.0)
        plan = decide(self.GOODPUT.allocate, state, layers())
        assert set(started(plan)["a"]) == set(started(plan)["b"]) == {"h3"}
        assert set(started(plan)["c"]) <= {"h1", "h2"}

    def test_a_rigid_job_of_one_host_has_gpus_reserved_there_while_others_pass_elsewhere(self) -> None:
        running = job("r", gpus=4, allocation={"h3": 4}, held_seconds=900.0, run_seconds=900.0)
        waits = replace(self.limited("a", at=1.0), elastic=False, required_gpus=4, min_gpus=4, max_gpus=4)
        jobs = [running, waits, *(job(f"s{at}", at=2.0 + at, gpus=4) for at in range(2))]
        plan = decide(self.GOODPUT.allocate, snapshot(jobs, [host(n, 4) for n in ("h1", "h2", "h3")]), layers())
        assert started(plan).keys() == {"r", "s0", "s1"}
        assert "It waits for 4 GPUs and comes first." in plan.reasons["a"]
        assert "on h3" in plan.reasons["a"]

    def test_a_type_is_not_split_where_a_large_job_would_then_fit_nowhere(self) -> None:
        hosts = [host(name, 4) for name in ("h1", "h2", "h3")]
        plan = decide(
            self.GOODPUT.allocate, snapshot([self.limited("a", at=1.0), job("big", gpus=12)], hosts), layers()
        )
        assert sum(started(plan)["big"].values()) == 12

    def test_very_many_sets_of_hosts_are_bounded(self) -> None:
        hosts = [host(f"h{at:03}", 4) for at in range(64)]
        jobs = [job(f"j{at}", at=at, elastic=True, unfit={f"h{at % 64:03}": ""}) for at in range(100)]
        state = snapshot(jobs, hosts)
        assert len({each.gpu_type for each in by_kind(state).hosts}) <= 17
        assert plan_faults(state, decide(self.GOODPUT.allocate, state, layers())) == []
