"""Hosts on which each job may run, applied on top of any policy. Pure.

A job may require a type of GPU, empty hosts, or hosts that are not `JobView.unfit`. Policies may ignore all this. If a
policy would start a job elsewhere, the job goes to feasible hosts, or waits. A running job is never moved or resized
onto a host that is not feasible.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

from schedulearn.scheduler.core.model import Allocation, Explanation, HostView, JobView, Plan, Snapshot, gpu_count
from schedulearn.scheduler.core.states import Reason

Ask = Callable[[Snapshot], Plan]
_T = TypeVar("_T")

_WORD = re.compile(r"[a-z0-9]+")
ROUNDS = 8
"""Maximum policy calls per decision. Each call leaves out the jobs that do not fit on their hosts."""
_ROUNDS_OF_MANY = 4
_MANY = 200  # jobs; with more, a call takes long
_MOST_EMPTIED = 16  # exclusive jobs for which others leave hosts at once
MOST_WHYS = 5
"""Maximum hosts that a reason names."""


class _Placed(NamedTuple):
    plan: Plan
    misfits: Mapping[str, Explanation]
    """Jobs that the policy would start, but that must wait for their hosts."""


def plan_feasible(ask: Ask, snapshot: Snapshot) -> Plan:
    """Return the plan of `ask`, changed so that jobs start and grow only on hosts where they may run.

    No job that may have several GPUs gets MIG devices among them, since a process can use only one MIG device.
    """
    mig = {host.id for host in snapshot.hosts if is_mig(host.gpu_type)}
    if mig:
        ask = partial(_one_mig_device_each, ask, mig)
    plan = _plan(ask, _exclusive_hosts_closed(snapshot), bool(mig))
    return replace(plan, reasons=_with_exclusive_jobs(plan, snapshot))


def _plan(ask: Ask, snapshot: Snapshot, with_mig: bool) -> Plan:
    if not any(_is_decided_here(job, with_mig) for job in snapshot.jobs):
        return ask(snapshot)
    never = {job.id: why for job in snapshot.jobs if (why := _never(job, snapshot.hosts)) is not None}
    waiting: dict[str, Explanation] = {}
    pinned: set[str] = set()
    staying: set[str] = set()
    for turn in range(ROUNDS if len(snapshot.jobs) <= _MANY else _ROUNDS_OF_MANY):
        jobs = (job for job in snapshot.jobs if job.id not in never | waiting)
        rest = replace(snapshot, jobs=tuple(_rigid(job) if job.id in pinned else job for job in jobs))
        before = [job for job in snapshot.jobs if job.id in waiting]
        emptied = _hosts_emptied(snapshot, before, rest.jobs, staying)
        rest = emptied.out_of(rest)
        plan, strays = _trimmed(rest, ask(rest))
        if strays:
            later = {job.id for job in rest.jobs if turn and job.allocation and is_limited(job)}
            pinned |= strays | later
            continue
        found = _placed(rest, plan, [job for job in before if job.id not in emptied.jobs])
        if not emptied.moving <= found.plan.allocations.keys():
            staying |= {job.id for job in snapshot.jobs if job.allocation}  # one of them would lose all its GPUs
            continue
        placed = replace(found.plan, allocations={**found.plan.allocations, **emptied.starts})
        waits = {job_id: why for job_id, why in {**waiting, **found.misfits}.items() if job_id not in emptied.starts}
        waiting |= found.misfits
        if not found.misfits:
            break
    return replace(placed, reasons={**_with_requirements(placed, snapshot.jobs), **waits, **never})


def _is_decided_here(job: JobView, with_mig: bool) -> bool:
    """Return whether a policy that ignores hosts could put this job on a wrong one."""
    if job.allocation:
        return job.elastic and is_limited(job)
    return is_limited(job) or (with_mig and job.needed_gpus > 1)


def is_limited(job: JobView) -> bool:
    """Return whether the job can't use every host."""
    return bool(job.gpu_type or job.unfit or job.exclusive)


def _rigid(job: JobView) -> JobView:
    return replace(job, elastic=False, required_gpus=job.gpus, min_gpus=job.gpus, max_gpus=job.gpus)


def _exclusive_hosts_closed(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the hosts of running exclusive jobs closed to other jobs."""
    owner = {part: job for job in snapshot.jobs if job.exclusive for part in job.allocation}
    if not owner:
        return snapshot
    machines = snapshot.machines()
    closed = {machines.get(part, part) for part in owner}
    hosts, moved = [], dict[tuple[str, str], tuple[int, ...]]()
    for host in snapshot.hosts:
        if host.machine not in closed:
            hosts.append(host)
            continue
        job = owner.get(host.id)
        held = job.allocation[host.id] if job is not None else 0
        mine = (job.gpu_indices.get(host.id) if job is not None else None) or tuple(range(held))
        keep = tuple(index for index in mine if index < host.gpus)
        if job is not None:
            moved[job.id, host.id] = tuple(range(len(keep)))
        hosts.append(
            replace(
                host,
                open=False,
                gpus=min(held, host.gpus),
                gpu_jobs=_only(host.gpu_jobs, keep),
                gpu_utilization=_only(host.gpu_utilization, keep),
                gpu_leaving=_only(host.gpu_leaving, keep),
                gpu_memory_left=_only(host.gpu_memory_left, keep),
            )
        )
    jobs = tuple(
        replace(job, gpu_indices={part: moved.get((job.id, part), at) for part, at in job.gpu_indices.items()})
        if job.exclusive and job.allocation
        else job
        for job in snapshot.jobs
    )
    return replace(snapshot, hosts=tuple(hosts), jobs=jobs)


class _Emptied(NamedTuple):
    """Hosts that elastic jobs leave for waiting exclusive jobs."""

    jobs: Set[str] = frozenset()
    """Exclusive jobs that get these hosts."""
    parts: Set[str] = frozenset()
    moving: Set[str] = frozenset()
    """Jobs that leave. Their GPUs elsewhere stay theirs."""
    starts: Mapping[str, Allocation] = {}
    """Exclusive jobs whose hosts are empty now."""

    def out_of(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot without these hosts."""
        if not self.parts:
            return snapshot
        return replace(
            snapshot,
            hosts=tuple(host for host in snapshot.hosts if host.id not in self.parts),
            jobs=tuple(
                replace(
                    job,
                    allocation={part: gpus for part, gpus in job.allocation.items() if part not in self.parts},
                    gpu_indices={part: at for part, at in job.gpu_indices.items() if part not in self.parts},
                )
                if job.id in self.moving
                else job
                for job in snapshot.jobs
            ),
        )


def _hosts_emptied(
    snapshot: Snapshot, waiting: Sequence[JobView], others: Sequence[JobView], staying: Set[str]
) -> _Emptied:
    """Return the hosts that elastic jobs leave for exclusive jobs, which would otherwise wait for their end.

    Policies would let these jobs grow back to all hosts. Nothing is done for an exclusive job that comes after one of
    the `others` that waits. `staying`: jobs that stay where they are."""
    alone = sorted((job for job in waiting if job.exclusive), key=lambda job: job.by_priority)
    if not alone:
        return _Emptied()
    room = _FreeGpus(snapshot, {job.id: job.allocation for job in snapshot.jobs}, 1)
    first = min((job.by_priority for job in others if not job.allocation), default=None)
    used = {part for job in snapshot.jobs for part in job.allocation}
    used |= {host.id for host in snapshot.hosts if host.cpu_jobs or host.leaving}
    jobs, taken, moving, starts = set[str](), set[str](), set[str](), dict[str, Allocation]()
    for job in alone[:_MOST_EMPTIED]:
        if first is not None and first < job.by_priority:
            break
        parts = room.reserve(job)
        there = [each for each in snapshot.jobs if not parts.isdisjoint(each.allocation)]
        start = room.on(parts, job)
        busy = any(host.cpu_jobs for host in snapshot.hosts if host.id in parts)
        movable = all(_may_leave(each, job) and each.id not in staying for each in there)
        if start is None or busy or not movable or not parts.isdisjoint(taken):
            continue
        jobs.add(job.id)
        taken |= parts
        moving |= {each.id for each in there}
        if parts.isdisjoint(used):
            starts[job.id] = start
    return _Emptied(jobs, taken, moving, starts)


def _may_leave(job: JobView, goes_first: JobView) -> bool:
    """Return whether a job gives its host to an exclusive one. A job that is starting stays."""
    return job.elastic and job.priority <= goes_first.priority and job.held_seconds != 0


def _only(values: Sequence[_T], indices: Iterable[int]) -> tuple[_T, ...]:
    return tuple(values[index] for index in indices if index < len(values))


def _trimmed(snapshot: Snapshot, plan: Plan) -> tuple[Plan, set[str]]:
    """Return the plan in which running jobs grow only on feasible hosts, and the jobs for which that fails.

    The policy must be asked again for those: others may have got the GPUs that they should keep."""
    hosts = {host.id: host for host in snapshot.hosts}
    changed: dict[str, Allocation] = {}
    strays = set()
    for job in snapshot.jobs:
        planned = plan.allocations.get(job.id, {})
        if not (job.allocation and job.elastic and planned and is_limited(job)):
            continue
        fits = {
            host_id: gpus if host_id in hosts and suits(hosts[host_id], job) else min(gpus, job.allocation[host_id])
            for host_id, gpus in planned.items()
            if host_id in job.allocation or (host_id in hosts and suits(hosts[host_id], job))
        }
        if fits == planned:
            continue
        if job.gpus <= sum(fits.values()):
            changed[job.id] = fits
        else:
            strays.add(job.id)
    return replace(plan, allocations={**plan.allocations, **changed}) if changed else plan, strays


def _never(job: JobView, hosts: Sequence[HostView]) -> Explanation | None:
    """Return why a waiting job can't start, however many GPUs are free."""
    shunned = [host for host in hosts if not job.gpu_type and _shuns(job, host.gpu_type)]
    if job.allocation or not (is_limited(job) or shunned):
        return None
    there = gpus_for(job, hosts)
    if there >= job.needed_gpus:
        return None
    need = gpu_count(job.needed_gpus)
    if job.postponed and _gpus_afterwards(job, hosts) >= job.needed_gpus:
        return Explanation(Reason.MAINTENANCE.value, f"It waits for {need}{_requirement(job)}.{_why_unfit(job)}")
    if job.gpu_type and not job.wanted_hosts:
        known = ", ".join(sorted({host.gpu_type for host in hosts if host.gpus or host.parked_gpus})) or "none"
        sentence = f"It requires {need} of type {job.gpu_type}; {there} are available. Types: {known}."
    elif shunned:
        sentence = f"It needs {need} other than MIG devices; {there} are available. {_MIG_RULE}"
    elif job.wanted_hosts:
        sentence = f"It needs {need}{_requirement(job)}; {there} are available."
    else:
        sentence = f"It needs {need}."
    return Explanation(Reason.UNSATISFIABLE.value, sentence + _why_unfit(job))


def _gpus_afterwards(job: JobView, hosts: Sequence[HostView]) -> int:
    """Return the number of GPUs that the job may use after the maintenance windows that are in its way."""
    then = replace(job, unfit={host: why for host, why in job.unfit.items() if host not in job.postponed})
    return gpus_for(then, hosts) + sum(host.returning_gpus for host in hosts if suits(host, then))


def _requirement(job: JobView) -> str:
    """Return what a job requires of its GPUs and hosts, as words that follow "2 GPUs"."""
    return (f" of type {job.gpu_type}" if job.gpu_type else "") + (f" {job.wanted_hosts}" if job.wanted_hosts else "")


def _why_unfit(job: JobView) -> str:
    """Return why the job can't run on hosts, as sentences. They name a few hosts at most."""
    whys = dict.fromkeys(job.unfit.values())
    found = as_sentences(islice(whys, MOST_WHYS))
    more = len(whys) - MOST_WHYS
    return found + (f" The same goes for {more} more host{'s' * (more > 1)}." if more > 0 else "")


def as_sentences(whys: Iterable[str]) -> str:
    """Return reasons without full stops as sentences, each after a space."""
    return "".join(f" {why[:1].upper()}{why[1:]}." for why in whys)


def _with_requirements(plan: Plan, jobs: Iterable[JobView]) -> dict[str, str]:
    """Return the plan's reasons, with the hosts that waiting jobs require."""
    found = dict(plan.reasons)
    for job in jobs:
        why = found.get(job.id)
        if why is None or job.allocation or plan.allocations.get(job.id) or not (job.wanted_hosts or job.unfit):
            continue
        if isinstance(why, Explanation) and why.code != Reason.WAITING_FOR_GPUS.value:
            continue
        if job.wanted_hosts:
            found[job.id] = Explanation(Reason.WAITING_FOR_GPUS.value, f"{why} It needs GPUs {job.wanted_hosts}.")
        elif (special := _why_not_now(job, ())) is not None:
            found[job.id] = special
    return found


def _with_exclusive_jobs(plan: Plan, snapshot: Snapshot) -> Mapping[str, str]:
    """Return the plan's reasons. A job that fits once exclusive jobs have ended is not said to fit nowhere."""
    alone = kept_for_exclusive(snapshot, plan)
    if not alone:
        return plan.reasons
    rest = [host for host in snapshot.hosts if host.machine not in alone]
    found = dict(plan.reasons)
    for job in snapshot.jobs:
        why = found.get(job.id)
        if not isinstance(why, Explanation) or why.code != Reason.UNSATISFIABLE.value:
            continue
        if gpus_for(job, rest) < job.needed_gpus <= gpus_for(job, snapshot.hosts):
            named = ", ".join(sorted(alone)[:MOST_WHYS]) + (" and more" if len(alone) > MOST_WHYS else "")
            sentence = (
                f"It waits for {gpu_count(job.needed_gpus)}{_requirement(job)}. Exclusive jobs have {named} alone."
            )
            found[job.id] = Explanation(Reason.WAITING_FOR_GPUS.value, sentence)
    return found


def _placed(snapshot: Snapshot, plan: Plan, before: Sequence[JobView]) -> _Placed:
    """Return the plan with starting jobs moved to feasible hosts.

    `before` are jobs that wait for their hosts. No job that comes after one of them starts on hosts that it will need.
    Otherwise a job that needs several GPUs would never find them free at once.
    """
    starts = [job for job in snapshot.jobs if not job.allocation and plan.allocations.get(job.id)]
    starts.sort(key=lambda job: (-job.priority, not is_limited(job), job.order))
    going = {job.id for job in starts}
    kept = {job_id: allocation for job_id, allocation in plan.allocations.items() if job_id not in going}
    room = _FreeGpus(snapshot, kept, plan.jobs_per_gpu)
    reserved = [(job.by_priority, room.reserve(job)) for job in before if is_limited(job)]
    misfits: dict[str, Explanation] = {}
    later: dict[str, Explanation] = {}
    for job in starts:
        closed = {host_id for first, hosts in reserved if first < job.by_priority for host_id in hosts}
        found = room.find(job, plan.allocations[job.id], closed)
        if found is not None:
            kept[job.id] = found
            room.take(job, found)
        elif (why := _why_not_now(job, snapshot.hosts)) is not None:
            misfits[job.id] = why
        else:
            sentence = "The free GPUs are reserved for earlier jobs that can use only these."
            later[job.id] = Explanation(Reason.BEHIND_OTHERS.value, sentence)
    suspended = frozenset(plan.suspended) & kept.keys()
    return _Placed(replace(plan, allocations=kept, suspended=suspended, reasons={**plan.reasons, **later}), misfits)


def kept_for_exclusive(snapshot: Snapshot, plan: Plan) -> set[str]:
    """Return the machines that exclusive jobs get by the plan, or will need once they are empty."""
    jobs = [job for job in snapshot.jobs if job.exclusive]
    if not jobs:
        return set()
    machines = snapshot.machines()
    room = _FreeGpus(snapshot, plan.allocations, plan.jobs_per_gpu)
    waiting = [job for job in jobs if not plan.allocations.get(job.id) and gpus_for(job, snapshot.hosts)]
    parts = {part for job in jobs for part in plan.allocations.get(job.id, {})}
    parts |= {part for job in waiting for part in room.reserve(job)}
    return {machines.get(part, part) for part in parts}


def _expected_left(job: JobView) -> float:
    """Return the expected seconds left of a running job. Without a prediction, as long as it has run.

    Otherwise a job could wait for ever beside one that never ends, while other hosts become free."""
    if job.remaining is not None:
        return job.remaining / max(1, job.gpus)
    return job.run_seconds if job.expected_left is None else job.expected_left


def _why_not_now(job: JobView, hosts: Iterable[HostView]) -> Explanation | None:
    """Return why a job waits for its hosts. None: it could use any."""
    need = gpu_count(job.needed_gpus)
    if job.postponed:
        return Explanation(Reason.MAINTENANCE.value, f"It waits for {need}{_requirement(job)}.{_why_unfit(job)}")
    if job.wanted_hosts or job.gpu_type or job.exclusive:
        sentence = f"It waits for {need}{_requirement(job)}."
        if job.exclusive:
            sentence += " None of these hosts is empty."
        elif job.gpu_type and not job.wanted_hosts:
            sentence += _why_unfit(job)
    elif any(_shuns(job, host.gpu_type) for host in hosts):
        sentence = f"It waits for {need} other than MIG devices. {_MIG_RULE}"
    elif job.unfit:
        sentence = f"It waits for {need} that can run its image.{_why_unfit(job)}"
    else:
        return None
    return Explanation(Reason.WAITING_FOR_GPUS.value, sentence)


def gpus_for(job: JobView, hosts: Sequence[HostView]) -> int:
    """Return the number of GPUs that the job may use, including those of hosts that are powered down."""
    return sum((host.gpus if host.open else 0) + host.parked_gpus for host in hosts if suits(host, job))


def suits(host: HostView, job: JobView) -> bool:
    """Return whether the job may run on a host, whether or not GPUs are free there."""
    return not is_barred(host, job) and not _shuns(job, host.gpu_type)


def is_barred(host: HostView, job: JobView) -> bool:
    """Return whether the constraints of a job rule a host out."""
    other_type = job.gpu_type is not None and not is_of_type(host.gpu_type, job.gpu_type)
    return other_type or host.id in job.unfit or host.machine in job.unfit


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
    """Return whether a GPU type is one of `wanted`, separated by commas.

    A type matches if it contains each word, in order and in any case: `a100` and `A100-80GB` both match NVIDIA
    A100-SXM4-80GB, and `a10` does not.
    """
    return gpu_type == wanted or any(_has_words(gpu_type, each) for each in wanted.split(","))


def _has_words(gpu_type: str, wanted: str) -> bool:
    words = iter(_WORD.findall(gpu_type.lower()))
    return gpu_type == wanted or all(word in words for word in _WORD.findall(wanted.lower()) or [wanted])


class _FreeGpus:
    """Free GPUs of each host while starting jobs are placed."""

    def __init__(self, snapshot: Snapshot, kept: Mapping[str, Allocation], jobs_per_gpu: int) -> None:
        self._hosts = snapshot.hosts
        self._machine = snapshot.machines()
        self._free = {host.id: host.gpus if host.open else 0 for host in snapshot.hosts}
        self._shared = {host.id: host.gpus * (jobs_per_gpu - 1) for host in snapshot.hosts}
        """GPUs that each host can give in addition to its own number, if jobs share GPUs."""
        self._used = {host.machine for host in snapshot.hosts if host.cpu_jobs or host.leaving}
        """Machines that are not empty. A job that is to leave one is still there."""
        self._used |= {self._machine.get(part, part) for job in snapshot.jobs for part in job.allocation}
        self._closed: set[str] = set()
        """Machines of exclusive jobs."""
        self._ends: dict[str, list[tuple[float, int]]] = {}
        """Host -> expected seconds left and GPUs of each job there."""
        self._empty_in = {host.machine: math.inf for host in snapshot.hosts if host.cpu_jobs}
        """Machine -> expected seconds until it is empty. Elastic jobs can leave; CPU-only jobs are not predicted."""
        for allocation in kept.values():
            self._count(allocation)
        for job in snapshot.jobs:
            for part, gpus in kept.get(job.id, {}).items():
                left, machine = _expected_left(job), self._machine.get(part, part)
                self._ends.setdefault(part, []).append((left, gpus))
                if not job.elastic:
                    self._empty_in[machine] = max(left, self._empty_in.get(machine, 0.0))

    def _count(self, allocation: Allocation) -> None:
        for host_id, gpus in allocation.items():
            self._free[host_id] = self._free.get(host_id, 0) - gpus
            self._used.add(self._machine.get(host_id, host_id))

    def take(self, job: JobView, allocation: Allocation) -> None:
        self._count(allocation)
        if job.exclusive:
            self._closed.update(self._machine[host_id] for host_id in allocation)

    def reserve(self, job: JobView) -> set[str]:
        """Return the hosts that a waiting job will need: those expected to be free first, as few as can hold it."""
        able = [host for host in self._hosts if host.open and suits(host, job)]
        able.sort(
            key=lambda host: (
                host.gpus < job.needed_gpus,
                self._free_in(host, job),
                host.gpus - self._free[host.id] + host.cpu_jobs if job.exclusive else -self._free[host.id],
                host.id,
            )
        )
        found: set[str] = set()
        left = job.needed_gpus
        for host in able:
            if left <= 0:
                break
            found.add(host.id)
            left -= host.gpus
        if job.exclusive:
            machines = {self._machine[host_id] for host_id in found}
            found = {host.id for host in self._hosts if host.machine in machines}
        return found

    def _free_in(self, host: HostView, job: JobView) -> float:
        """Return the expected seconds until the job could start on a host, as far as the host can hold it."""
        if job.exclusive:
            return self._empty_in.get(host.machine, 0.0)
        ends = sorted(self._ends.get(host.id, ()))
        free, seconds = self._free[host.id], 0.0
        for left, gpus in ends:
            if free >= min(job.needed_gpus, host.gpus):
                break
            free, seconds = free + gpus, left
        return seconds

    def on(self, parts: Set[str], job: JobView) -> Allocation | None:
        """Return the GPUs of a job on hosts that are empty; None: they have too few."""
        found: dict[str, int] = {}
        need = job.needed_gpus
        for host in self._hosts:
            if need and host.id in parts and host.open and host.gpus and suits(host, job):
                found[host.id] = min(need, host.gpus)
                need -= found[host.id]
        return None if need else found

    def find(self, job: JobView, planned: Allocation, closed: Collection[str]) -> Allocation | None:
        """Return where a job starts: as planned, else on one host, else on as few hosts as possible.

        An elastic job may get fewer GPUs than planned. `closed`: hosts that are reserved for others."""
        able = {
            host.id
            for host in self._hosts
            if host.id not in closed
            and host.machine not in self._closed
            and not (job.exclusive and host.machine in self._used)
            and suits(host, job)
        }
        if all(host in able and gpus <= self._free[host] + self._shared[host] for host, gpus in planned.items()):
            return planned
        need = sum(planned.values()) if job.elastic else job.required_gpus
        whole = [host for host in sorted(able) if self._free[host] >= need]
        if whole:
            return {min(whole, key=lambda host: self._free[host]): need}
        largest = max(sorted(able), key=lambda host: self._free[host], default=None)
        if job.elastic and largest is not None and self._free[largest] >= job.min_gpus:
            return {largest: self._free[largest]}
        need = job.needed_gpus
        found: dict[str, int] = {}
        for host in sorted(able, key=lambda host: (-self._free[host], host)):
            if need and self._free[host] > 0:
                found[host] = min(need, self._free[host])
                need -= found[host]
        return None if need else found
