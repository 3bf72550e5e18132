"""GPU type constraints of jobs, applied on top of any policy. Pure.

If a policy would start a job on GPUs of another type, the job goes to GPUs of its type, or waits. Policies ignore
types: they decide which jobs start, and this module decides on which hosts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from schedulearn.scheduler.core.model import Allocation, Explanation, HostView, JobView, Plan, Snapshot, gpu_count
from schedulearn.scheduler.core.states import Reason

Ask = Callable[[Snapshot], Plan]

_WORD = re.compile(r"[a-z0-9]+")
ROUNDS = 8
"""Maximum policy calls per decision. Each call leaves out the jobs that do not fit on GPUs of their type."""


class _Placed(NamedTuple):
    plan: Plan
    misfits: Mapping[str, Explanation]
    """Jobs that the policy would start, but that must wait for GPUs of their type."""


def plan_by_type(ask: Ask, snapshot: Snapshot) -> Plan:
    """Return the plan of `ask`, changed so that jobs start only on GPUs of their type.

    No job that may have several GPUs gets MIG devices among them, since a process can use only one MIG device.
    """
    mig = {host.id for host in snapshot.hosts if is_mig(host.gpu_type)}
    if mig:
        ask = partial(_one_mig_device_each, ask, mig)
    if not any((_is_choosy(job) or (mig and job.needed_gpus > 1)) and not job.allocation for job in snapshot.jobs):
        return ask(snapshot)
    never = {job.id: why for job in snapshot.jobs if (why := _never(job, snapshot.hosts)) is not None}
    waiting: dict[str, Explanation] = {}
    for _ in range(ROUNDS):
        rest = replace(snapshot, jobs=tuple(job for job in snapshot.jobs if job.id not in never | waiting))
        placed = _placed(rest, ask(rest), [job for job in snapshot.jobs if job.id in waiting])
        waiting |= placed.misfits
        if not placed.misfits:
            break
    return replace(placed.plan, reasons={**placed.plan.reasons, **waiting, **never})


def _never(job: JobView, hosts: Sequence[HostView]) -> Explanation | None:
    """Return why a waiting job can't start, however many GPUs are free."""
    shunned = [host for host in hosts if not job.gpu_type and _shuns(job, host.gpu_type)]
    if job.allocation or not (_is_choosy(job) or shunned):
        return None
    there = gpus_for(job, hosts)
    if there >= (job.required_gpus if job.gpu_type else job.needed_gpus):
        return None
    if shunned:
        sentence = f"It needs {gpu_count(job.needed_gpus)} other than MIG devices; {there} are available. {_MIG_RULE}"
        return Explanation(Reason.UNSATISFIABLE.value, sentence + _why_unfit(job))
    if not job.gpu_type:
        return Explanation(Reason.UNSATISFIABLE.value, f"It needs {gpu_count(job.required_gpus)}.{_why_unfit(job)}")
    known = ", ".join(sorted({host.gpu_type for host in hosts if host.gpus or host.parked_gpus})) or "none"
    sentence = (
        f"It requires {gpu_count(job.required_gpus)} of type {job.gpu_type}; {there} are available. Types: {known}."
    )
    return Explanation(Reason.UNSATISFIABLE.value, sentence + _why_unfit(job))


def _is_choosy(job: JobView) -> bool:
    """Return whether the job can't use every GPU."""
    return bool(job.gpu_type or job.unfit)


def _why_unfit(job: JobView) -> str:
    """Return where the job's image can't run, as sentences."""
    return "".join(f" {why[:1].upper()}{why[1:]}." for why in dict.fromkeys(job.unfit.values()))


def _placed(snapshot: Snapshot, plan: Plan, before: Sequence[JobView]) -> _Placed:
    """Return the plan with starting jobs moved to GPUs of their types.

    `before` are jobs that wait for a type. No job that comes after one of them starts on GPUs of that type. Otherwise a
    job that needs several GPUs would never find them free at once.
    """
    starts = [job for job in snapshot.jobs if not job.allocation and plan.allocations.get(job.id)]
    starts.sort(key=lambda job: (-job.priority, not _is_choosy(job), job.order))
    going = {job.id for job in starts}
    kept = {job_id: allocation for job_id, allocation in plan.allocations.items() if job_id not in going}
    free = {host.id: host.gpus if host.open else 0 for host in snapshot.hosts}
    for allocation in kept.values():
        for host_id, gpus in allocation.items():
            free[host_id] = free.get(host_id, 0) - gpus
    shared = {host.id: host.gpus * (plan.jobs_per_gpu - 1) for host in snapshot.hosts}
    misfits: dict[str, Explanation] = {}
    later: dict[str, Explanation] = {}
    for job in starts:
        closed = {other.gpu_type for other in before if other.gpu_type and other.by_priority < job.by_priority}
        able = {host.id for host in snapshot.hosts if _suits(host, job) and host.gpu_type not in closed}
        found = _room(job, plan.allocations[job.id], able, free, shared)
        if found is not None:
            kept[job.id] = found
            for host_id, gpus in found.items():
                free[host_id] -= gpus
        elif not job.gpu_type and any(_shuns(job, host.gpu_type) for host in snapshot.hosts):
            sentence = f"It waits for {gpu_count(job.needed_gpus)} other than MIG devices. {_MIG_RULE}"
            misfits[job.id] = Explanation(Reason.WAITING_FOR_GPUS.value, sentence)
        elif job.gpu_type:
            sentence = f"It waits for {gpu_count(job.required_gpus)} of type {job.gpu_type}."
            misfits[job.id] = Explanation(Reason.WAITING_FOR_GPUS.value, sentence + _why_unfit(job))
        elif job.unfit:
            sentence = f"It waits for {gpu_count(job.required_gpus)} that can run its image.{_why_unfit(job)}"
            misfits[job.id] = Explanation(Reason.WAITING_FOR_GPUS.value, sentence)
        else:
            sentence = "The free GPUs are reserved for earlier jobs that require their type."
            later[job.id] = Explanation(Reason.BEHIND_OTHERS.value, sentence)
    suspended = frozenset(plan.suspended) & kept.keys()
    return _Placed(replace(plan, allocations=kept, suspended=suspended, reasons={**plan.reasons, **later}), misfits)


def gpus_for(job: JobView, hosts: Sequence[HostView]) -> int:
    """Return the number of GPUs of the job's type, including those of hosts that are powered down."""
    return sum((host.gpus if host.open else 0) + host.parked_gpus for host in hosts if _suits(host, job))


def _suits(host: HostView, job: JobView) -> bool:
    """Return whether a host's GPUs are of the job's type, may be given to it, and run its image."""
    return host.machine not in job.unfit and suits_type(job, host.gpu_type)


def suits_type(job: JobView, gpu_type: str) -> bool:
    """Return whether a job may have GPUs of a type."""
    return not _shuns(job, gpu_type) and (job.gpu_type is None or is_of_type(gpu_type, job.gpu_type))


_MIG_RULE = "A job gets at most one MIG device, since a process can use only one."


def is_mig(gpu_type: str) -> bool:
    """Return whether a type is one of MIG devices, such as `NVIDIA A100-SXM4-40GB MIG 1g.5gb`."""
    return " MIG" in gpu_type


def _shuns(job: JobView, gpu_type: str) -> bool:
    return job.needed_gpus > 1 and is_mig(gpu_type)


def _one_mig_device_each(ask: Ask, mig: Set[str], snapshot: Snapshot) -> Plan:
    """Return the plan of `ask`, changed so that an elastic job has one MIG device, or whole GPUs only."""
    plan = ask(snapshot)
    changed: dict[str, Allocation] = {}
    for job in snapshot.jobs:
        planned = plan.allocations.get(job.id, {})
        if job.elastic and job.min_gpus <= 1 and sum(planned.values()) > 1 and not mig.isdisjoint(planned):
            whole = {host: gpus for host, gpus in planned.items() if host not in mig}
            first = min(mig & planned.keys(), key=lambda host: (host not in job.allocation, host))
            changed[job.id] = whole or {first: 1}
    return replace(plan, allocations={**plan.allocations, **changed}) if changed else plan


def is_of_type(gpu_type: str, wanted: str) -> bool:
    """Return whether a GPU type contains each word of `wanted`, in order and in any case.

    `a100` and `A100-80GB` both match NVIDIA A100-SXM4-80GB, and `a10` does not.
    """
    words = iter(_WORD.findall(gpu_type.lower()))
    return gpu_type == wanted or all(word in words for word in _WORD.findall(wanted.lower()) or [wanted])


def _room(
    job: JobView, planned: Allocation, able: Set[str], free: Mapping[str, int], shared: Mapping[str, int]
) -> Allocation | None:
    """Return where a job starts: as planned, else on the best-fitting single host, else on as few hosts as possible.

    `shared` is how many GPUs each host can give in addition to its own number, if jobs share GPUs.
    """
    if all(host in able and gpus <= free[host] + shared[host] for host, gpus in planned.items()):
        return planned
    if job.elastic:
        return None
    need = job.required_gpus
    whole = [host for host in sorted(able) if free[host] >= need]
    if whole:
        return {min(whole, key=lambda host: free[host]): need}
    found: dict[str, int] = {}
    for host in sorted(able, key=lambda host: (-free[host], host)):
        if need and free[host] > 0:
            found[host] = min(need, free[host])
            need -= found[host]
    return None if need else found
