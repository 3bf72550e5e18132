"""Layer of the pipeline that sets the number of hosts to keep on. Pure.

Jobs that wait for GPUs wake hosts; idle hosts are not needed. A policy that knows how well its jobs use GPUs sets the
number itself. This layer does it for other policies, and by the rule of the Horizontal Pod Autoscaler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from schedulearn.scheduler.core.host_scaling import ScalingRule
from schedulearn.scheduler.core.model import Explanation, JobView, Plan, Snapshot
from schedulearn.scheduler.core.states import Reason

TOLERANCE = 0.1
"""Relative deviation from the target within which the number of hosts stays, as of the Horizontal Pod Autoscaler."""
_NOT_FOR_HOSTS = frozenset({Reason.OVER_QUOTA.value, Reason.FAIR_SHARE.value})
"""Reasons of waiting jobs that more hosts would not start."""


def with_hosts_wanted(ask: Callable[[Snapshot], Plan], snapshot: Snapshot, rule: ScalingRule) -> Plan:
    """Return the plan with the number of hosts that `rule` wants on."""
    plan = ask(snapshot)
    return replace(plan, desired_hosts=hosts_wanted(snapshot, plan, rule), parks_idle_only=plan.desired_hosts is None)


def hosts_wanted(snapshot: Snapshot, plan: Plan, rule: ScalingRule) -> int:
    """Return the number of hosts that should be on, within the bounds of `rule`.

    It is the policy's own number if it has one and no target is set. Else it is what the jobs need, or what the target
    requires if that is more."""
    if plan.desired_hosts is not None and rule.target is None:
        return rule.bounded(plan.desired_hosts)
    waiting = _waiting(snapshot, plan)
    wanted = _needed(snapshot, plan, waiting)
    if rule.target is not None:
        wanted = max(wanted, _by_target(snapshot, plan, waiting, rule.target))
    return rule.bounded(wanted)


def _waiting(snapshot: Snapshot, plan: Plan) -> list[JobView]:
    """Return the jobs that would start if there were free GPUs, the oldest first."""
    return [
        job
        for job in sorted(snapshot.jobs, key=lambda job: job.order)
        if job.id not in plan.allocations and not _waits_for_others(plan.reasons.get(job.id))
    ]


def _waits_for_others(why: str | None) -> bool:
    return isinstance(why, Explanation) and why.code in _NOT_FOR_HOSTS


def _size(job: JobView, could: int) -> int:
    """Return the GPUs with which a job would start.

    Most policies start elastic jobs with the requested GPUs. If all hosts together have fewer (`could`), it is the
    minimum."""
    return job.min_gpus if job.elastic and job.required_gpus > could else job.required_gpus


@dataclass
class _TypePart:
    """GPUs of one type on one machine. `free`: GPUs without a job under the plan."""

    machine: str
    gpu_type: str
    size: int
    free: int
    on: bool


def _parts(snapshot: Snapshot, plan: Plan) -> list[_TypePart]:
    """Return the parts that are on, then those that could be powered up."""
    used: dict[str, int] = {}
    for allocation in plan.allocations.values():
        for host_id, gpus in allocation.items():
            used[host_id] = used.get(host_id, 0) + gpus
    on = [
        _TypePart(host.machine, host.gpu_type, host.gpus, max(0, host.gpus - used.get(host.id, 0)), True)
        for host in snapshot.hosts
        if host.open and host.gpus
    ]
    off = [
        _TypePart(host.machine, host.gpu_type, host.parked_gpus, host.parked_gpus, False)
        for host in snapshot.hosts
        if host.parked_gpus
    ]
    return on + off


def _needed(snapshot: Snapshot, plan: Plan, waiting: Sequence[JobView]) -> int:
    """Return the number of hosts with jobs, and of hosts on which waiting jobs would start.

    If a host must be powered up, all hosts that are on count too: the rule does not choose hosts. The same holds while
    a job waits that fits on the hosts, but not now: it needs the GPUs of jobs that will end."""
    parts = _parts(snapshot, plan)
    open_machines = {host.id: host.machine for host in snapshot.hosts if host.open}
    wanted = {
        open_machines[host_id]
        for allocation in plan.allocations.values()
        for host_id in allocation
        if host_id in open_machines
    }
    on = {part.machine for part in parts if part.on}
    largest = max((part.size for part in parts), default=0)
    could = sum(part.size for part in parts)
    failed = [math.inf, math.inf]  # smallest size that did not fit on one host, and over several
    lacking = math.inf
    for job in waiting:
        gpus = _size(job, could)
        several = gpus > largest
        if gpus >= failed[several]:
            continue
        taken = _span(parts, gpus) if several else _one(parts, gpus, wanted)
        if taken is None:
            failed[several] = gpus
            lacking = min(lacking, gpus)
        else:
            wanted |= taken
    if not wanted <= on or lacking <= could:
        wanted |= on
    return len(wanted)


def _one(parts: Iterable[_TypePart], gpus: int, wanted: Collection[str]) -> set[str] | None:
    """Return the machine that takes a job; those that are wanted or on come first."""
    fitting = [part for part in parts if part.free >= max(1, gpus)]
    if not fitting:
        return None
    best = min(fitting, key=lambda part: (part.machine not in wanted, not part.on, part.free))
    best.free -= gpus
    return {best.machine}


def _span(parts: Sequence[_TypePart], gpus: int) -> set[str] | None:
    """Return the machines that take a job over several hosts.

    These are whole free machines and one more for the rest, of one GPU type if one has enough GPUs. Machines that are
    on come first. None, and nothing is taken, if there are too few."""
    kinds = dict.fromkeys(part.gpu_type for part in parts)
    alike = [[part for part in parts if part.gpu_type == kind] for kind in kinds]
    for some in [each for each in alike if sum(part.size for part in each) >= gpus] or [list(parts)]:
        whole = sorted((part for part in some if part.free == part.size), key=lambda part: (not part.on, -part.size))
        taken: list[tuple[_TypePart, int]] = []
        left = gpus
        for part in whole:
            if part.size <= left:
                taken.append((part, part.size))
                left -= part.size
        rest = [part for part in some if part.free >= left and all(part is not other for other, _ in taken)]
        if left and rest:
            taken.append((min(rest, key=lambda part: (not part.on, part.free)), left))
            left = 0
        if not left:
            for part, count in taken:
                part.free -= count
            return {part.machine for part, _ in taken}
    return None


def _by_target(snapshot: Snapshot, plan: Plan, waiting: Sequence[JobView], target: float) -> int:
    """Return ceil(n x value / target), the rule of the Horizontal Pod Autoscaler.

    The value is the policy's utility (else the share of held GPUs) plus the share that waiting jobs need. Jobs too
    large for all hosts together don't count."""
    on = [host for host in snapshot.hosts if host.open and host.gpus]
    capacity = sum(host.gpus for host in on)
    machines = len({host.machine for host in on})
    if not capacity:
        return 0
    could = capacity + sum(host.parked_gpus for host in snapshot.hosts)
    here = {host.id for host in on}
    held = sum(
        gpus for allocation in plan.allocations.values() for host_id, gpus in allocation.items() if host_id in here
    )
    used = held / capacity if plan.utility is None else plan.utility
    value = used + sum(gpus for job in waiting if (gpus := _size(job, could)) <= could) / capacity
    ratio = value / target
    return machines if abs(ratio - 1) <= TOLERANCE + 1e-9 else math.ceil(machines * ratio - 1e-9)
