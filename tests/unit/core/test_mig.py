"""MIG devices are given one to a job: CUDA shows a process only one of them."""

from __future__ import annotations

from collections.abc import Mapping

from schedulearn.scheduler.core.feasible_hosts import is_mig, plan_feasible
from schedulearn.scheduler.core.model import Allocation, HostView, JobView, Plan, Snapshot
from schedulearn.scheduler.policies.registry import make_policy

MIG = HostView("m / A100 MIG 1g.5gb", 7, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", part_of="m")
WHOLE = HostView("w", 4, "NVIDIA A100-SXM4-40GB")


def planned(
    jobs: tuple[JobView, ...], hosts: tuple[HostView, ...], allocations: Mapping[str, Allocation]
) -> tuple[Plan, Mapping[str, Allocation]]:
    snapshot = Snapshot(now=0.0, seed=0, hosts=hosts, jobs=jobs)

    def ask(seen: Snapshot) -> Plan:
        there = {job.id for job in seen.jobs}
        return Plan({job: allocation for job, allocation in allocations.items() if job in there})

    plan = plan_feasible(ask, snapshot)
    return plan, {job: dict(allocation) for job, allocation in plan.allocations.items() if allocation}


def rigid(name: str, gpus: int, at: float = 0.0) -> JobView:
    return JobView(name, at, gpus)


def elastic(name: str, least: int, held: Allocation | None = None) -> JobView:
    return JobView(name, 0.0, least, least, 8, elastic=True, allocation=held or {})


def test_a_job_of_several_processes_goes_to_whole_gpus_or_waits_and_says_why() -> None:
    job = rigid("two", 2)
    _, found = planned((job,), (MIG, WHOLE), {"two": {MIG.id: 2}})
    assert found == {"two": {"w": 2}}
    plan, found = planned((job, rigid("all", 4, -1.0)), (MIG, WHOLE), {"two": {MIG.id: 2}, "all": {"w": 4}})
    assert found == {"all": {"w": 4}}
    assert "It waits for 2 GPUs other than MIG devices. A job gets at most one MIG device" in str(plan.reasons["two"])
    plan, found = planned((job, rigid("one", 1)), (MIG,), {"two": {MIG.id: 2}, "one": {MIG.id: 1}})
    assert found == {"one": {MIG.id: 1}}
    assert "It needs 2 GPUs other than MIG devices; 0 are available." in str(plan.reasons["two"])


def test_an_elastic_job_has_one_mig_device_or_whole_gpus() -> None:
    held = {MIG.id: 1}
    _, found = planned((elastic("e", 1, held),), (MIG, WHOLE), {"e": {MIG.id: 4}})
    assert found == {"e": held}, "it does not grow into several"
    _, found = planned((elastic("e", 1),), (MIG, WHOLE), {"e": {MIG.id: 2, "w": 2}})
    assert found == {"e": {"w": 2}}
    plan, found = planned((elastic("e", 2),), (MIG,), {"e": {MIG.id: 2}})
    assert found == {}
    assert "It needs 2 GPUs other than MIG devices" in str(plan.reasons["e"])


def test_policies_that_ship_give_nobody_several() -> None:
    jobs = (elastic("e", 1), rigid("two", 2), rigid("one", 1), elastic("f", 1, {MIG.id: 1}))
    for algorithm in ("fifo", "goodput", "tiresias", "roundrobin"):
        snapshot = Snapshot(now=100.0, seed=0, hosts=(MIG, WHOLE), jobs=jobs)
        found = plan_feasible(make_policy(algorithm).allocate, snapshot).allocations
        assert all(allocation.get(MIG.id, 0) <= 1 for allocation in found.values()), algorithm
        assert all(len(allocation) <= 1 for allocation in found.values()), algorithm


def test_types_of_mig_devices_are_known_by_their_name() -> None:
    assert [is_mig(each) for each in ("NVIDIA A100 MIG 3g.20gb", "A30 MIG", "NVIDIA A100", "gpu")] == [
        True, True, False, False,
    ]  # fmt: skip
