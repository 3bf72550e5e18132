"""What a policy is, and what a plan may not do. Pure.

A policy is a pure function of a snapshot. To write one, see docs/policies.md: one class with a `name` and
`allocate`, registered by an entry point in the group `schedulearn.policies` or named as a file in the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from schedulearn.scheduler.core.host_scaling import HostScaling
from schedulearn.scheduler.core.model import Allocation, HostView, JobView, Metric, Plan, Snapshot


class MinimalPolicy(Protocol):
    """What a policy must have. A class that has no more than this gets the defaults of `Policy` when it is loaded."""

    name: ClassVar[str]

    def allocate(self, snapshot: Snapshot) -> Plan: ...


class Policy:
    """Decides who gets how many GPUs on which host. No state, clock, randomness or I/O: `now` and `seed` are in the
    snapshot, and equal snapshots give equal plans, in whatever order their jobs stand. A policy overrides `name`,
    `allocate`, and what below is not true of it."""

    name: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]] = ("default",)
    """What the policy can optimise for. With more than one, `metric` is a field of the policy."""
    resizes: ClassVar[bool] = False
    """Whether the policy changes the size of running elastic jobs. Only then is `JobView.max_gpus` capped to what their
    profiles cover."""

    @property
    def shares_gpus(self) -> bool:
        """Whether several jobs may be put on one GPU. Only then is predicted what they take of its memory."""
        return False

    @property
    def use_efficiency(self) -> bool:
        """Whether workers choose their batch by goodput; False: by throughput alone."""
        return True

    def uses_efficiency_for(self, metric: Metric | None) -> bool:
        """The same for a job with this metric of its own."""
        return self.use_efficiency

    @property
    def scaling(self) -> HostScaling | None:
        """Between which utilities the number of hosts may stay; None: the policy knows no utility."""
        return None

    def allocate(self, snapshot: Snapshot) -> Plan:
        """Who gets what now."""
        raise NotImplementedError


def plan_faults(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Everything that `plan` does and no plan may do; empty for a lawful plan.

    The loop refuses a plan with faults as a whole, so that a user's own policy can't break an invariant.
    """
    faults: list[str] = []
    hosts = {host.id: host for host in snapshot.hosts}
    jobs = {job.id: job for job in snapshot.jobs}
    used: dict[str, int] = {}
    for job_id, allocation in plan.allocations.items():
        job = jobs.get(job_id)
        if job is None:
            faults.append(f"job {job_id} is not in the snapshot")
            continue
        faults += _host_faults(job_id, allocation, hosts)
        for host_id, gpus in allocation.items():
            if host_id in hosts and _is_count(gpus):
                used[host_id] = used.get(host_id, 0) + gpus
        if (fault := _size_fault(job, allocation)) is not None:
            faults.append(fault)
    for host_id, gpus in used.items():
        capacity = hosts[host_id].gpus * plan.jobs_per_gpu
        if gpus > capacity:
            faults.append(f"{host_id} has room for {capacity} and gets {gpus}")
    return faults or (_suspension_faults(snapshot, plan) if plan.suspended else [])


def _is_count(gpus: object) -> bool:
    return type(gpus) is int and gpus >= 1


def _host_faults(job_id: str, allocation: Allocation, hosts: Mapping[str, HostView]) -> list[str]:
    """Hosts that are not there, or that have fewer GPUs."""
    faults = []
    for host_id, gpus in allocation.items():
        if host_id not in hosts:
            faults.append(f"job {job_id} is put on {host_id}, which is not there")
        elif not _is_count(gpus):
            faults.append(f"job {job_id} gets {gpus!r} GPUs on {host_id}")
        elif gpus > hosts[host_id].gpus:
            faults.append(f"job {job_id} gets {gpus} GPUs on {host_id}, which has {hosts[host_id].gpus}")
    return faults


def _size_fault(job: JobView, allocation: Allocation) -> str | None:
    """A size that the job may not have; what it holds already it may keep."""
    if not allocation or dict(allocation) == dict(job.allocation):
        return None
    total = sum(gpus for gpus in allocation.values() if type(gpus) is int)
    if job.elastic:
        if job.min_gpus <= total <= job.max_gpus:
            return None
        return f"job {job.id} gets {total} GPUs, outside {job.min_gpus} to {job.max_gpus}"
    if job.allocation:
        return f"job {job.id} is rigid and running, and can't be resized"
    if total == job.required_gpus:
        return None
    return f"job {job.id} is rigid and needs {job.required_gpus} GPUs, not {total}"


def _suspension_faults(snapshot: Snapshot, plan: Plan) -> list[str]:
    """What is wrong with the jobs that `plan` suspends; `plan` is lawful else. New jobs are taken to get the emptiest
    GPUs of their hosts, those that run at once first, as placement does it."""
    without = [job_id for job_id in sorted(plan.suspended) if not plan.allocations.get(job_id)]
    faults = [f"job {job_id} is suspended without GPUs" for job_id in without]
    before = {job.id: dict(job.allocation) for job in snapshot.jobs}
    held = snapshot.held_gpus()
    on: dict[str, list[set[str]]] = {host.id: [set() for _ in range(host.gpus)] for host in snapshot.hosts}
    new = []
    for job_id, allocation in plan.allocations.items():
        if allocation and dict(allocation) == before[job_id]:
            for host_id, index in held[job_id]:
                on[host_id][index].add(job_id)
        elif allocation:
            new.append(job_id)
    for job_id in sorted(new, key=lambda job_id: job_id in plan.suspended):
        for host_id, gpus in plan.allocations[job_id].items():
            for jobs in sorted(on[host_id], key=len)[:gpus]:
                jobs.add(job_id)
                if len(jobs) > plan.jobs_per_gpu:
                    faults.append(f"job {job_id} is one of {len(jobs)} on a GPU of {host_id}")
    for host_id, gpus_of_host in on.items():
        for jobs in gpus_of_host:
            if len(jobs - plan.suspended) > 1 and jobs & plan.suspended:
                faults.append(f"jobs {', '.join(sorted(jobs - plan.suspended))} run on one GPU of {host_id} at a time")
    return faults
