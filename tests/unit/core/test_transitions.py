"""Jobs between a resize's decision and their next start: what policies see of them, and what is kept for them."""

from typing import Any

import pytest
from builders import cluster_state, gpu_record, host_record, job_record, snapshot, task_record
from builders import job as view_of

from schedulearn.scheduler.control.apply_plan import able_to_resize, promised
from schedulearn.scheduler.control.waiting_reasons import add_leaving_reasons
from schedulearn.scheduler.core.cluster_state import ClusterState, Job, Task
from schedulearn.scheduler.core.model import IN_PLACE_S, RESTART_S, JobView, Plan, Snapshot, gpu_count
from schedulearn.scheduler.core.planning.snapshot import build_snapshot
from schedulearn.scheduler.core.policy import plan_faults
from schedulearn.scheduler.core.states import HostState
from schedulearn.scheduler.policies.classic.queueing import Room
from schedulearn.scheduler.policies.registry import make_policy

NOW = 1000.0
RUNS = {
    "required_gpus": 1, "min_gpus": 1, "max_gpus": 4, "elastic": True, "priority": 50, "weight": 1.0, "deadline": None,
    "submitted_at": 0.0, "gpu_seconds": 0.0, "attempt": 1, "family": "",
}  # fmt: skip


def row(id: str, state: str = "running", **fields: Any) -> Job:
    fields = {**RUNS, **fields}
    return job_record(id, state, **{"generation": fields["attempt"], **fields})


def on(job_id: str, *gpus: int, **fields: Any) -> Task:
    return task_record(job_id, **{"gpu_uuids": [f"GPU-{i}" for i in gpus], "started_at": 900.0, **fields})


def cluster(jobs: list[Job], tasks: list[Task], *, gpus: int = 4, state: str = "active", **fields: Any) -> ClusterState:
    found = [gpu_record(f"GPU-{i}", ordinal=i) for i in range(gpus)]
    leases = {uuid: {0: task.id} for task in tasks for uuid in task.gpu_uuids}
    home = host_record(state=HostState(state))
    known = {job.id: job for job in jobs}
    return cluster_state(jobs=known, tasks=tasks, hosts=[home], gpus=found, leases=leases)


def look(state: ClusterState, **fields: Any) -> Snapshot:
    return build_snapshot(state, {"h1"}, lambda uuid: None, NOW, caps_growth=False, **fields)


def seen(found: Snapshot, job_id: str) -> JobView:
    return next(job for job in found.jobs if job.id == job_id)


def test_a_job_that_is_stopped_for_a_resize_stands_there_with_what_it_will_hold() -> None:
    """Else the others would take its place: one was stopped and started again at the size that it had."""
    stopping = row("a", "resizing", target={"h1": 1}, resized_at=990.0)
    state = cluster([stopping, row("b")], [on("a", 0, 1, stop=True), on("b", 2, 3)])
    for found in (look(state), look(state, settled=True)):
        assert seen(found, "a").allocation == {"h1": 1}
        assert seen(found, "a").held_seconds == 0.0, "it has not run on it yet"
        assert seen(found, "b").allocation == {"h1": 2}
        [host] = found.hosts
        assert host.gpus == 4
        assert sorted(host.gpu_jobs) == [0, 1, 1, 1]
        assert seen(found, "a").gpu_indices == {"h1": (0,)}
    assert look(state).hosts[0].gpu_leaving == (True, True, False, False)
    assert look(state, settled=True).hosts[0].leaving == 0


def test_one_that_has_stopped_and_not_begun_again_keeps_its_place_too() -> None:
    waiting = row("a", "queued", target={"h1": 3}, resized_at=990.0, attempt=1)
    found = look(cluster([waiting, row("b"), row("new", "queued", attempt=0)], [on("b", 3)]))
    assert seen(found, "a").allocation == {"h1": 3}
    assert seen(found, "new").allocation == {}
    for name in ("goodput", "elastic-fifo", "fifo", "tiresias", "afs-l"):
        plan = make_policy(name).allocate(found)
        assert plan.allocations["a"] == {"h1": 3}, name
        assert plan_faults(found, plan) == []


@pytest.mark.parametrize(
    ("target", "state", "taken"), [({"gone": 1}, "active", 0), ({"h1": 2}, "cordoned", 0), ({"h1": 2}, "active", 3)]
)
def test_what_is_not_there_any_more_is_not_promised(target: dict[str, int], state: str, taken: int) -> None:
    waiting = row("a", "queued", target=target)
    found = look(cluster([waiting, row("b")], [on("b", *range(taken))] if taken else [], state=state))
    assert seen(found, "a").allocation == {}


def test_gpus_that_a_job_is_about_to_leave_are_no_reason_to_say_that_there_are_none() -> None:
    """`It needs 1 GPUs; the usable hosts have 0 in total`, while four were being left."""
    jobs = [row("a", "resizing", target={"h1": 1}), row("b", "stopping"), row("new", "queued", attempt=0, max_gpus=1)]
    found = look(cluster(jobs, [on("a", 0, 1, stop=True), on("b", 2, 3, stop=True)]))
    assert [job.id for job in found.jobs] == ["a", "new"], "one that ends is no matter of policies"
    room = Room(found)
    assert (room.capacity, room.free_gpus()) == (4, 0), "nothing starts there yet"
    assert Room(found, soon=True).free_gpus() == 3
    assert "1 GPU on one host; 0 are free" in make_policy("fifo").allocate(found).reasons["new"]
    plan = make_policy("goodput").allocate(found)
    assert plan.allocations["new"] == {"h1": 1}
    [sentence] = add_leaving_reasons(plan.reasons, found, plan).values()
    assert sentence == "1 GPU of h1 is kept for it; it starts when those that leave it have ended."


def test_how_long_a_job_has_run_on_what_it_holds() -> None:
    jobs = [row("a"), row("b", resized_at=960.0), row("c", "starting"), row("d", "queued", attempt=0)]
    tasks = [on("a", 0), on("b", 1), on("c", 2, state="wanted", started_at=None)]
    found = look(cluster(jobs, tasks))
    assert {job.id: job.held_seconds for job in found.jobs} == {"a": 100.0, "b": 40.0, "c": 0.0, "d": None}


def test_no_decision_is_made_on_a_new_job_before_its_familys_profile_is_there() -> None:
    state = cluster([row("a"), row("new", "queued", attempt=0)], [on("a", 0)])
    found = look(state, awaited={"a", "new"})
    assert [(job.id, job.held_seconds) for job in found.jobs] == [("a", 0.0)], "and a running one is left as it is"


def test_a_job_that_is_resized_in_place_is_known_to_restart_faster() -> None:
    found = look(cluster([row("a", resize="in-place"), row("b")], [on("a", 0), on("b", 1)]))
    assert [(job.in_place, job.restart_cost) for job in found.jobs] == [(True, IN_PLACE_S), (False, RESTART_S)]


def grows(job_id: str, before: int, **fields: Any) -> JobView:
    return view_of(job_id, elastic=True, allocation={"h1": before}, **fields)


def test_a_job_is_stopped_only_when_all_that_it_will_hold_is_its_own_or_free() -> None:
    plan = Plan({"a": {"h1": 1}, "b": {"h1": 3}})
    both = [grows("a", 2), grows("b", 2)]
    assert [view.id for view in able_to_resize(both, plan, {})] == ["a"], "b trains on until a has left"
    assert [view.id for view in able_to_resize(both[1:], plan, {"h1": 1})] == ["b"]
    assert able_to_resize(both[1:], plan, {"h1": 0}) == []
    two = [grows("c", 1), grows("d", 1)]
    assert [v.id for v in able_to_resize(two, Plan({"c": {"h1": 2}, "d": {"h1": 2}}), {"h1": 1})] == ["c"]


def test_jobs_that_wait_only_for_each_other_are_stopped_together() -> None:
    swap = [grows("a", 2), view_of("b", elastic=True, allocation={"h2": 2})]
    plan = Plan({"a": {"h2": 2}, "b": {"h1": 2}})
    assert able_to_resize(swap, plan, {}) == swap
    assert able_to_resize(swap, Plan({"a": {"h2": 3}, "b": {"h1": 2}}), {}) == [], "somebody else has the third"


def test_what_a_stopped_job_does_not_hold_yet_is_promised_to_it() -> None:
    jobs = [row("a", "resizing", target={"h1": 3}), row("b")]
    state = cluster(jobs, [on("a", 0, stop=True), on("b", 1)])
    assert promised(state, Plan({"a": {"h1": 3}, "b": {"h1": 1}})) == {"a": {"h1": 2}}
    assert promised(state, Plan({"b": {"h1": 1}})) == {}, "the plan gives it nothing any more"


def test_one_gpu_is_not_called_gpus() -> None:
    assert [gpu_count(number) for number in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]
    state = snapshot([view_of("a", gpus=1), view_of("b", gpus=9)])
    assert "It needs 9 GPUs; " in make_policy("fifo").allocate(state).reasons["b"]
