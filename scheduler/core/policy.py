"""Interface of policies, and validation of their plans. Pure.

A policy is a pure function of a snapshot. It is a class with a `name` and `allocate`. It is registered by an entry
point in the group `schedulearn.policies`, or named as a file in the settings. See docs/policies.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from schedulearn.scheduler.core.feasible_hosts import is_barred
from schedulearn.scheduler.core.host_scaling import HostScaling
from schedulearn.scheduler.core.model import Allocation, HostView, JobView, Metric, Plan, Snapshot


class MinimalPolicy(Protocol):
    """Minimum interface of a policy. A class with only these members gets the defaults of `Policy` on loading."""

    name: ClassVar[str]

    def allocate(self, snapshot: Snapshot) -> Plan: ...


class Policy:
    """Decides who gets how many GPUs on which host. No state, clock, randomness or I/O: `now` and `seed` are in the
    snapshot, and equal snapshots give equal plans, in whatever order their jobs stand. A policy overrides `name`,
    `allocate`, and what below is not true of it."""

    name: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]] = ("default",)
    """Objectives that the policy supports. If there are several, `metric` is a field of the policy."""
    resizes: ClassVar[bool] = False
    """Whether the policy resizes running elastic jobs. Only then is `JobView.max_gpus` capped by their profiles."""

    @property
    def shares_gpus(self) -> bool:
        """Whether several jobs may be put on one GPU. Only then is their GPU memory predicted."""
        return False

    @property
    def use_efficiency(self) -> bool:
        """Whether workers choose their batch size by goodput; if False, by throughput alone."""
        return True

    def uses_efficiency_for(self, metric: Metric | None) -> bool:
        """Return `use_efficiency` for a job with its own objective."""
        return self.use_efficiency

    @property
    def scaling(self) -> HostScaling | None:
        """Utility thresholds between which the number of hosts stays; None if the policy has no utility."""
        return None

    def allocate(self, snapshot: Snapshot) -> Plan:
        """Return the plan for this snapshot."""
        raise NotImplementedError


def plan_faults(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Return the rules that `plan` violates; empty for a valid plan.

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
        if (fault := _size_fault(job, allocation) or _place_fault(job, allocation, hosts)) is not None:
            faults.append(fault)
    faults += _shared_exclusive_hosts(snapshot, plan)
    for host_id, gpus in used.items():
        capacity = hosts[host_id].gpus * plan.jobs_per_gpu
        if gpus > capacity:
            faults.append(f"{host_id} has capacity for {capacity} and gets {gpus}")
    return faults or (_suspension_faults(snapshot, plan) if plan.suspended else [])


def _is_count(gpus: object) -> bool:
    return type(gpus) is int and gpus >= 1


def _host_faults(job_id: str, allocation: Allocation, hosts: Mapping[str, HostView]) -> list[str]:
    """Return faults of an allocation: hosts that don't exist, or have fewer GPUs."""
    faults = []
    for host_id, gpus in allocation.items():
        if host_id not in hosts:
            faults.append(f"job {job_id} is put on {host_id}, which does not exist")
        elif not _is_count(gpus):
            faults.append(f"job {job_id} gets {gpus!r} GPUs on {host_id}")
        elif gpus > hosts[host_id].gpus:
            faults.append(f"job {job_id} gets {gpus} GPUs on {host_id}, which has {hosts[host_id].gpus}")
    return faults


def _size_fault(job: JobView, allocation: Allocation) -> str | None:
    """Return a fault if the job may not have this size. It may always keep the GPUs that it holds."""
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


def _place_fault(job: JobView, allocation: Allocation, hosts: Mapping[str, HostView]) -> str | None:
    """Return a fault if the job starts or grows on a host where it can't run."""
    for host_id, gpus in allocation.items():
        host = hosts.get(host_id)
        if host is not None and _is_count(gpus) and gpus > job.allocation.get(host_id, 0) and is_barred(host, job):
            return f"job {job.id} gets {gpus} GPUs on {host_id}, where it can't run"
    return None


def _shared_exclusive_hosts(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Return faults of jobs that start or grow on the host of an exclusive job, or the other way round."""
    alone = [job.id for job in snapshot.jobs if job.exclusive and plan.allocations.get(job.id)]
    if not alone:
        return []
    machines = snapshot.machines()
    before = {job.id: job.allocation for job in snapshot.jobs}
    on: dict[str, set[str]] = {}
    for job_id, allocation in plan.allocations.items():
        for host_id in allocation:
            on.setdefault(machines.get(host_id, host_id), set()).add(job_id)
    faults = []
    for machine, jobs in sorted(on.items()):
        new = {job for job in jobs if machine not in {machines.get(part, part) for part in before.get(job, ())}}
        if new and len(jobs) > 1 and not jobs.isdisjoint(alone):
            faults.append(f"jobs {', '.join(sorted(jobs))} share {machine}, and one of them is exclusive")
    return faults


def _suspension_faults(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Return faults of the jobs that `plan` suspends. The plan must be valid otherwise.

    New jobs are assumed to get the emptiest GPUs of their hosts, as in placement. Jobs that run at once come first.
    """
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
