"""Jobs without GPUs: where they start, in which order, and that no policy sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import cluster_state, host, host_record, job, job_record, snapshot, task_record

from schedulearn.scheduler.core.cluster_state import ClusterState, CpuNeed
from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.model import Explanation, Plan
from schedulearn.scheduler.core.planning.cpu_only import Places, place_cpu_only, with_cpu_only, without_cpu_only
from schedulearn.scheduler.core.task import GIB

FACTS = {"h1": HostFacts("1", cpus=4, memory_bytes=8 * GIB), "h2": HostFacts("2", cpus=8, memory_bytes=16 * GIB)}


def waiting(
    *ids: str,
    running: dict[str, str] | None = None,
    hosts: list[Any] | None = None,
    needs: dict[str, CpuNeed] | None = None,
) -> ClusterState:
    """`running`: job -> host."""
    on = running or {}
    jobs = {i: job_record(i, "queued", required_gpus=0, submitted_at=float(at)) for at, i in enumerate(ids)}
    jobs |= {i: job_record(i, required_gpus=0) for i in on}
    usual = {i: CpuNeed(i, None, None, GIB) for i in jobs}
    tasks = [task_record(i, host_id=to, gpu_uuids=[]) for i, to in on.items()]
    both = [host_record("h1"), host_record("h2")]
    return cluster_state(jobs=jobs, tasks=tasks, hosts=hosts or both, cpu_needs={**usual, **(needs or {})})


def place(state: ClusterState, most: int = 2, **given: Any) -> Places:
    ready = {host.id for host in state.hosts}
    ready = given.pop("ready", ready)
    return place_cpu_only(state, ready, given.pop("facts", {}), most, given.pop("image", there), **given)


def there(job_id: str, host_id: str) -> bool | None:
    return True


def code(place: str | Explanation) -> str:
    assert isinstance(place, Explanation)
    return place.code


def test_they_spread_over_the_hosts_up_to_so_many_each() -> None:
    places = place(waiting("a", "b", "c", "d", "e"))
    assert [places[i] for i in "abcd"] == ["h1", "h2", "h1", "h2"]
    assert code(places["e"]) == "waiting_for_host"
    assert "2 such jobs at a time" in places["e"]


def test_those_that_run_count() -> None:
    places = place(waiting("a", "b", running={"x": "h1", "y": "h1", "z": "h2"}))
    assert (places["a"], code(places["b"])) == ("h2", "waiting_for_host")


def test_together_they_ask_for_no_more_than_a_host_has() -> None:
    asks = {"a": CpuNeed("a", 6.0, None, GIB), "b": CpuNeed("b", 3.0, None, GIB), "c": CpuNeed("c", 2.0, 7 * GIB, GIB)}
    places = place(waiting("a", "b", "c", needs=asks), facts=FACTS)
    assert [places[i] for i in "abc"] == ["h2", "h1", "h2"]
    asks = {"d": CpuNeed("d", 2.0, GIB, GIB)}
    more = place(waiting("d", needs=asks, running={"x": "h1", "y": "h1"}), facts=FACTS)
    assert more["d"] == "h2"


def test_what_no_host_has_is_told_and_holds_up_nobody() -> None:
    places = place(waiting("huge", "a", needs={"huge": CpuNeed("huge", 9.0, None, GIB)}), facts=FACTS)
    assert code(places["huge"]) == "unsatisfiable_now"
    assert "9 processors and 2.0 GiB" in places["huge"]
    assert places["a"] == "h1"


def test_they_go_by_priority_and_then_by_submission_and_none_overtakes() -> None:
    state = waiting("big", "small", needs={"big": CpuNeed("big", 8.0, None, GIB)}, running={"x": "h2"})
    places = place(state, facts=FACTS)
    assert code(places["big"]) == code(places["small"]) == "waiting_for_host"
    assert "behind job big" in places["small"]
    urgent = state.jobs["small"]._replace(priority=60)
    state = replace(state, jobs={**state.jobs, "small": urgent})
    assert place(state, facts=FACTS)["small"] == "h1"


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
    why = Explanation("waiting_for_host", "It waits.")
    plan = with_cpu_only(Plan({"gpu": {"h1": 1}}, reasons={}), seen, {"cpu": "h1", "late": why, "other": "h1"})
    assert plan.allocations == {"gpu": {"h1": 1}, "cpu": {"h1": 0}}
    assert plan.reasons == {"late": why}
