"""Jobs without GPUs: where they start, in which order, and that no policy sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import cluster_state, host, host_record, job, job_record, snapshot, task_record
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.cluster_state import ClusterState, Job, MaintenanceWindow
from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.model import Explanation, Plan
from schedulearn.scheduler.core.planning.cpu_only import (
    PATIENCE_S,
    CpuOnly,
    NewJob,
    Places,
    keeps_a_host,
    with_cpu_only,
    without_cpu_only,
)
from schedulearn.scheduler.core.planning.quotas import Bounds, Quota, Quotas
from schedulearn.scheduler.core.states import HostState
from schedulearn.scheduler.core.task import GIB

FACTS = {"h1": HostFacts("1", cpus=4, memory_bytes=8 * GIB), "h2": HostFacts("2", cpus=8, memory_bytes=16 * GIB)}


def waiting(
    *ids: str,
    running: dict[str, str] | None = None,
    hosts: list[Any] | None = None,
    needs: dict[str, dict[str, Any]] | None = None,
    by: dict[str, str] | None = None,
) -> ClusterState:
    """`running`: job -> host; `by`: job -> its user."""
    on = running or {}

    def record(job_id: str, state: str, **fields: Any) -> Job:
        asked = (needs or {}).get(job_id, {})
        return job_record(job_id, state, required_gpus=0, user=(by or {}).get(job_id, ""), **asked, **fields)

    jobs = {i: record(i, "queued", submitted_at=float(at)) for at, i in enumerate(ids)}
    jobs |= {i: record(i, "running") for i in on}
    tasks = [task_record(i, host_id=to, gpu_uuids=[]) for i, to in on.items()]
    both = [host_record("h1"), host_record("h2")]
    return cluster_state(jobs=jobs, tasks=tasks, hosts=hosts or both)


def place(state: ClusterState, most: int = 2, **given: Any) -> Places:
    ready = {host.id for host in state.hosts}
    ready = given.pop("ready", ready)
    among = given.pop("among", None)
    return CpuOnly(state, ready, given.pop("facts", {}), most, given.pop("image", there), **given).places(among)


def there(job_id: str, host_id: str) -> bool | None:
    return True


def code(place: str | Explanation) -> str:
    assert isinstance(place, Explanation)
    return place.code


def test_they_spread_over_the_hosts_up_to_so_many_each() -> None:
    places = place(waiting("a", "b", "c", "d", "e"))
    assert [places[i] for i in "abcd"] == ["h1", "h2", "h1", "h2"]
    assert code(places["e"]) == "waiting_for_host"
    assert "at most 2 such jobs each" in places["e"]


def test_those_that_run_count() -> None:
    places = place(waiting("a", "b", running={"x": "h1", "y": "h1", "z": "h2"}))
    assert (places["a"], code(places["b"])) == ("h2", "waiting_for_host")


def test_together_they_ask_for_no_more_than_a_host_has() -> None:
    asks = {"a": {"cpus": 6.0}, "b": {"cpus": 3.0}, "c": {"cpus": 2.0, "memory_bytes": 7 * GIB}}
    places = place(waiting("a", "b", "c", needs=asks), facts=FACTS)
    assert [places[i] for i in "abc"] == ["h2", "h1", "h2"]
    asks = {"d": {"cpus": 2.0, "memory_bytes": GIB}}
    more = place(waiting("d", needs=asks, running={"x": "h1", "y": "h1"}), facts=FACTS)
    assert more["d"] == "h2"


def test_what_no_host_has_is_told_and_holds_up_nobody() -> None:
    places = place(waiting("huge", "a", needs={"huge": {"cpus": 9.0}}), facts=FACTS)
    assert code(places["huge"]) == "unsatisfiable_now"
    assert "9 processors and 2.0 GiB" in places["huge"]
    assert places["a"] == "h1"


def test_one_that_does_not_fit_lets_those_behind_it_pass() -> None:
    state = waiting("big", "small", needs={"big": {"cpus": 8.0}}, running={"x": "h2"})
    places = place(state, facts=FACTS)
    assert code(places["big"]) == "waiting_for_host"
    assert places["small"] == "h1"


def test_a_users_own_jobs_go_by_priority_and_then_by_submission() -> None:
    state = waiting("a", "b", "c", running={"x": "h1", "y": "h1", "z": "h2"})
    assert place(state)["a"] == "h2"
    urgent = state.jobs["c"]._replace(priority=60)
    places = place(replace(state, jobs={**state.jobs, "c": urgent}))
    assert (places["c"], code(places["a"])) == ("h2", "waiting_for_host")


def test_the_user_who_runs_the_fewest_comes_first_whatever_the_priority() -> None:
    by = {"run": "ada", "more": "ada", "late": "ben", "later": "cyd"}
    state = waiting("more", "late", "later", running={"run": "h1"}, hosts=[host_record("h1")], by=by)
    more = state.jobs["more"]._replace(priority=100)
    places = place(replace(state, jobs={**state.jobs, "more": more}))
    assert (places["late"], code(places["more"]), code(places["later"])) == ("h1", *["waiting_for_host"] * 2)


def test_eight_sleepers_of_one_user_leave_places_for_others() -> None:
    """However many come, each of the next users finds one, as long as they are fewer than places."""
    one = [host_record("h1")]
    ids = [f"a{number}" for number in range(8)]
    alone = place(waiting(*ids, hosts=one), most=8)
    assert list(alone.values()) == ["h1"] * 8, "nobody else is there"
    by = dict.fromkeys(ids, "ada")
    places = place(waiting(*ids, hosts=one, by=by), most=8, several_users=True)
    started = [job_id for job_id in ids if places[job_id] == "h1"]
    assert len(started) == 4
    assert code(places["a7"]) == "fair_share"
    assert "ada runs 4 such jobs" in places["a7"]
    running = dict.fromkeys(started, "h1")
    for user, expected in (("ben", 2), ("cyd", 1), ("dan", 1)):
        mine = [f"{user}{number}" for number in range(8)]
        by |= dict.fromkeys(mine, user)
        places = place(waiting(*mine, running=running, hosts=one, by=by), most=8, several_users=True)
        started = [job_id for job_id in mine if places[job_id] == "h1"]
        assert len(started) == expected, user
        running |= dict.fromkeys(started, "h1")


def test_processors_are_shared_like_places() -> None:
    two = {"h1": HostFacts("1", cpus=2, memory_bytes=8 * GIB)}
    state = waiting("a", "b", "c", hosts=[host_record("h1")], by={"a": "ada", "b": "ada", "c": "cyd"})
    places = place(state, most=8, facts=two, several_users=True)
    assert (places["a"], code(places["b"]), places["c"]) == ("h1", "fair_share", "h1")


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ({"cpu_jobs": 2}, "may run 2 such jobs at once, and runs 2"),
        ({"cpus": 2.5}, "it asks for 1 processors; {} may have 2.5, and has 2"),
        ({"memory_gib": 5}, "it asks for 2 GiB of memory; {} may have 5, and has 4"),
    ],
)
@pytest.mark.parametrize("group", [False, True])
def test_quotas_of_users_and_groups_bound_them(bounds: dict[str, Any], told: str, group: bool) -> None:
    quotas = Quotas({"ada": Quota(**bounds)})
    if group:
        quotas = Quotas(by_group={"vision": Bounds(**bounds)}, group_of={"ada": "vision", "abe": "vision"})
    by = {"run": "abe" if group else "ada", "a": "ada", "b": "ada", "c": "cyd"}
    state = waiting("a", "b", "c", running={"run": "h1"}, by=by)
    places = place(state, most=8, quotas=quotas)
    assert {places["a"], places["c"]} <= {"h1", "h2"}
    assert code(places["b"]) == "over_quota"
    assert told.format("the group vision" if group else "ada") in places["b"]


def test_a_quota_of_places_counts_in_place_of_what_is_left_for_others() -> None:
    by = dict.fromkeys("abcd", "ada")
    state = waiting(*"abcd", hosts=[host_record("h1")], by=by)
    places = place(state, most=4, several_users=True, quotas=Quotas({"*": Quota(cpu_jobs=4)}))
    assert list(places.values()) == ["h1"] * 4


def test_one_that_fits_nowhere_is_not_passed_for_ever() -> None:
    """A host is kept for it, in turns with times in which others pass."""
    needs = {"big": {"cpus": 8.0}}
    state = waiting("big", "small", "other", needs=needs, running={"x": "h2", "y": "h1"})

    def small(now: float) -> str | Explanation:
        return place(state, facts=FACTS, now=now)["small"]

    assert small(PATIENCE_S - 1) == "h1"
    places = place(state, facts=FACTS, now=PATIENCE_S)
    assert "h2 is reserved" in places["big"]
    assert (places["small"], code(places["other"])) == ("h1", "waiting_for_host")
    assert place(state, facts=FACTS, now=2 * PATIENCE_S)["other"] == "h2"
    free = waiting("big", "small", needs=needs)
    assert place(free, facts=FACTS, now=PATIENCE_S)["big"] == "h2"


def test_no_host_is_kept_that_an_exclusive_job_or_a_window_closes() -> None:
    """It would stay closed, and the host that becomes free would go to others."""
    state = waiting("big", needs={"big": {"cpus": 4.0}}, running={"y": "h1"})
    alone = job_record("alone", required_gpus=1, host_constraints={"exclusive": True})
    beside = replace(
        state,
        jobs={**state.jobs, "alone": alone},
        tasks=[*state.tasks, task_record("alone", host_id="h2", gpu_uuids=["GPU-0"])],
    )
    assert "h1 is reserved" in place(beside, facts=FACTS, now=PATIENCE_S)["big"]
    window = MaintenanceWindow(1, ["h2"], PATIENCE_S + 60, PATIENCE_S + 3660, "", "", "UTC", 0.0, [])
    before = replace(state, windows=[window])
    assert "h1 is reserved" in place(before, facts=FACTS, now=PATIENCE_S)["big"]


def test_a_job_whose_only_hosts_are_in_maintenance_says_so() -> None:
    window = MaintenanceWindow(1, ["h2"], 0.0, 3600.0, "", "", "UTC", 0.0, [])
    away = host_record("h2", state=HostState.CORDONED, window_id=1, drain_until=0.0)
    big, limited = {"cpus": 8.0}, {"host_constraints": {"hosts": ["h2"]}}
    state = waiting("big", "limited", "any", needs={"big": big, "limited": limited}, hosts=[host_record("h1"), away])
    places = place(replace(state, windows=[window]), facts=FACTS, now=60.0)
    told = "It needs no GPU. Host h2 is in maintenance from 00:00 to 01:00 (UTC)."
    assert places == {"big": told, "limited": told, "any": "h1"}
    assert code(places["big"]) == code(places["limited"]) == "maintenance"


def test_a_new_job_is_not_foreseen_to_start_before_a_window() -> None:
    window = MaintenanceWindow(1, [], 60.0, 3660.0, "", "", "UTC", 0.0, [])
    state = replace(waiting(), windows=[window])
    ready = {host.id for host in state.hosts}
    cpu_only = CpuOnly(state, ready, {}, 2, there)

    def foreseen(max_duration: float | None) -> str | Explanation:
        new = NewJob("new", "", 50, 0.0, None, None, 0, None, max_duration)
        return cpu_only.places(set(), new)["new"]

    assert code(foreseen(None)) == code(foreseen(90.0)) == "maintenance"
    assert foreseen(30.0) == "h1"


@given(waited=st.floats(PATIENCE_S, 1e7))
def test_a_host_is_kept_for_longer_and_longer_and_others_pass_as_long(waited: float) -> None:
    assert keeps_a_host(waited) != keeps_a_host(2 * waited)


def test_a_job_that_is_not_asked_for_takes_no_place() -> None:
    """Its image is on its way, or it waits for other jobs."""
    state = waiting("fetches", "a", hosts=[host_record("h1")])
    assert place(state, most=1, among={"a"}) == {"a": "h1"}


@pytest.mark.parametrize(("fields", "ready"), [({"state": "cordoned"}, {"h1"}), ({}, set())])
def test_closed_and_silent_hosts_take_none(fields: dict[str, Any], ready: set[str]) -> None:
    places = place(waiting("a", hosts=[host_record("h1", **fields)]), ready=ready)
    assert places["a"] == "It needs no GPU, and no host is open."


def test_a_host_that_has_the_image_is_preferred_and_a_job_that_rests_waits() -> None:
    state = waiting("a", "b")
    assert place(state, image=lambda job_id, host_id: host_id == "h2")["a"] == "h2"
    assert place(state, resting={"a"}).keys() == {"b"}


def test_an_operator_may_allow_none() -> None:
    assert "setting cpu_jobs" in place(waiting("a"), most=0)["a"]


def test_no_policy_sees_them() -> None:
    seen = snapshot([job("gpu"), job("cpu", gpus=0), job("late", gpus=0)], [host()])
    assert [each.id for each in without_cpu_only(seen).jobs] == ["gpu"]
    state = waiting("cpu", "late", "other", hosts=[host_record("h1")])
    plan = with_cpu_only(lambda inner: Plan({"gpu": {"h1": 1}}, reasons={}), seen, CpuOnly(state, {"h1"}, {}, 1, there))
    assert plan.allocations == {"gpu": {"h1": 1}, "cpu": {"h1": 0}}
    assert plan.reasons.keys() == {"late"}
