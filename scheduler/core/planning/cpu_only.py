"""Placement of jobs without GPUs, which policies don't see. Pure.

They run beside other jobs, on the host with the most room: a maximum number per host, and in total no more processors
and memory than it has. The user with the fewest such jobs comes first. A job that does not fit lets others pass, but
not forever (`keeps_a_host`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import NamedTuple

from schedulearn.scheduler.core.cluster_state import ClusterState, HostConstraints, Job
from schedulearn.scheduler.core.feasible_hosts import MOST_WHYS, as_sentences, kept_for_exclusive
from schedulearn.scheduler.core.host_constraints import place, unfit_hosts
from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.model import Explanation, Plan, Snapshot
from schedulearn.scheduler.core.planning.limits import Asked, usual_memory
from schedulearn.scheduler.core.planning.quotas import NO_QUOTAS, Bounds, QuotaHolder, Quotas
from schedulearn.scheduler.core.planning.windows import InTheWay, in_the_way, longest_run
from schedulearn.scheduler.core.states import WAITS, Reason
from schedulearn.scheduler.core.task import GIB

Places = Mapping[str, str | Explanation]
"""Job id -> host on which it starts, or reason why it waits."""

PATIENCE_S = 600.0
"""Seconds for which a job that does not fit lets others pass, before a host is kept for it."""


class CpuUse(NamedTuple):
    """Resources that jobs without GPUs use together, or may use. Infinite: no limit."""

    jobs: float = 0.0
    cpus: float = 0.0
    memory: float = 0.0
    """Bytes."""

    def plus(self, other: CpuUse) -> CpuUse:
        return CpuUse(self.jobs + other.jobs, self.cpus + other.cpus, self.memory + other.memory)

    def minus(self, other: CpuUse) -> CpuUse:
        return CpuUse(self.jobs - other.jobs, self.cpus - other.cpus, self.memory - other.memory)

    def within(self, most: CpuUse) -> bool:
        return self.jobs <= most.jobs and self.cpus <= most.cpus and self.memory <= most.memory

    def share_of(self, whole: CpuUse) -> float:
        """Return the dominant share: the largest of the shares of `whole`."""
        return max(used / most if most else 1.0 for used, most in zip(self, whole, strict=True))


_NOTHING = CpuUse()


def cpu_use(asked: Asked) -> CpuUse:
    """Return the resources of a job; by default one processor and the usual memory."""
    memory = usual_memory(asked) if asked.memory_bytes is None else asked.memory_bytes
    return CpuUse(1, 1.0 if asked.cpus is None else asked.cpus, memory)


class NewJob(NamedTuple):
    """Properties of a job that is not stored."""

    id: str
    user: str
    priority: int
    submitted_at: float
    cpus: float | None
    memory_bytes: int | None
    shm_bytes: int
    host_constraints: HostConstraints | None = None
    max_duration: float | None = None


@dataclass(frozen=True)
class CpuOnly:
    """Placement of jobs without GPUs at one moment."""

    state: ClusterState
    ready: Set[str]
    """Hosts that answer."""
    facts: Mapping[str, HostFacts | None]
    most: int
    """Maximum of such jobs on one host."""
    is_there: Callable[[str, str], bool | None]
    """(job id, host id) -> whether the job's image is there; None: not checked yet."""
    resting: Set[str] = frozenset()
    """Jobs that may not start yet."""
    quotas: Quotas = NO_QUOTAS
    several_users: bool = False
    """Whether other users may submit jobs: then no user takes the last places."""
    now: float = 0.0

    def places(
        self, among: Set[str] | None = None, new: NewJob | None = None, closed: Set[str] = frozenset()
    ) -> Places:
        """Return the places of waiting jobs without GPUs.

        `among`: only of these jobs. `new`: as if this job were submitted now. `closed`: hosts that are kept
        for exclusive jobs."""
        waiting: list[NewJob | Job] = [
            job for job in self.state.jobs.values()
            if not job.required_gpus and job.state in WAITS and job.id not in self.resting
            and (among is None or job.id in among)
        ]  # fmt: skip
        if new is not None:
            waiting.append(new)
        if not waiting:
            return {}
        rooms = self._rooms(closed)
        turns = _Turns(waiting, rooms.held)
        places: dict[str, str | Explanation] = {}
        for job in turns:
            need = cpu_use(job)
            place = self._place(job, need, rooms, self._unfit_for(job))
            if not isinstance(place, Explanation):
                rooms.take(place, self.quotas.holders_of(job.user), need)
                turns.started(job.user)
            places[job.id] = place
        return places

    def _rooms(self, closed: Set[str]) -> _Rooms:
        hosts = [host.id for host in self.state.hosts if host.active and host.id in self.ready]
        closed = closed | exclusive_hosts(self.state)
        rooms = _Rooms({host: _whole(self.facts.get(host), self.most) for host in hosts})
        for task in self.state.tasks:
            job = self.state.jobs.get(task.job_id)
            if job is not None and not job.required_gpus:
                rooms.take(task.host_id, self.quotas.holders_of(job.user), cpu_use(job))
        rooms.closed = closed
        return rooms

    def _unfit_for(self, job: NewJob | Job) -> Mapping[str, str]:
        """Return host -> why the job can't run there by its constraints."""
        wanted = job.host_constraints
        return unfit_hosts(wanted, self.state.hosts) if wanted is not None else {}

    def _windows_for(self, job: NewJob | Job) -> InTheWay:
        """Return the hosts where a maintenance window is in the way."""
        if not self.state.windows:
            return InTheWay()
        longest = job.max_duration if isinstance(job, NewJob) else longest_run(job, None)
        return in_the_way(longest, self.state.windows, self.state.hosts, self.now)

    def _place(self, job: NewJob | Job, need: CpuUse, rooms: _Rooms, unfit: Mapping[str, str]) -> str | Explanation:
        if (away := self._in_maintenance(job, need, rooms, unfit)) is not None:
            return away
        if not rooms.could_fit(need):
            return _unsatisfiable(need, rooms.whole.keys(), self.most)
        if unfit and not any(need.within(whole) for host, whole in rooms.whole.items() if host not in unfit):
            return _no_such_host(job, unfit)
        if (why := self._over_quota(job, need, rooms) or self._too_large_a_share(job, need, rooms)) is not None:
            return why
        windows = self._windows_for(job)
        able = {host for host, whole in rooms.whole.items() if host not in unfit and need.within(whole)}
        if able and able <= windows.why.keys():
            return _maintained(windows, able)
        fitting = [host for host in rooms.fitting(need) if host not in unfit and host not in windows.why]
        if not fitting:
            if not rooms.kept and keeps_a_host(self.now - job.submitted_at):
                rooms.keep(need, unfit.keys() | windows.why.keys())
            return _no_room(rooms, self.most)
        return min(fitting, key=lambda host: (self.is_there(job.id, host) is not True, -rooms.left[host].jobs))

    def _in_maintenance(
        self, job: NewJob | Job, need: CpuUse, rooms: _Rooms, unfit: Mapping[str, str]
    ) -> Explanation | None:
        """Return why a job waits if the only hosts that could hold it are in maintenance now."""
        out = {host.id for host in self.state.hosts if host.window_id is not None} - unfit.keys()
        out = {host for host in out if need.within(_whole(self.facts.get(host), self.most))}
        if not out or any(need.within(whole) for host, whole in rooms.whole.items() if host not in unfit):
            return None
        windows = self._windows_for(job)
        return _maintained(windows, out) if out <= windows.why.keys() else None

    def _over_quota(self, job: NewJob | Job, need: CpuUse, rooms: _Rooms) -> Explanation | None:
        for holder in self.quotas.holders_of(job.user):
            held, bounds = rooms.held.get(holder, _NOTHING), _most_of(self.quotas.bounds_of(holder))
            if not held.plus(need).within(bounds):
                return _quota_reached(holder, held, need, bounds)
        return None

    def _too_large_a_share(self, job: NewJob | Job, need: CpuUse, rooms: _Rooms) -> Explanation | None:
        """Return why a job may not start although there is room.

        Its user would use more than what is left for all others. This leaves some room for the next user. If the user
        has a quota of such jobs, that counts instead."""
        held = rooms.held.get(QuotaHolder(job.user), _NOTHING)
        if not self.several_users or not held.jobs or self.quotas.of(job.user).cpu_jobs is not None:
            return None
        if held.plus(need).share_of(rooms.all) <= 1 - rooms.used.share_of(rooms.all) + 1e-9:
            return None
        runs = f"{job.user or 'nobody'} runs {held.jobs:g} such job{'s' if held.jobs > 1 else ''}"
        return Explanation(Reason.FAIR_SHARE.value, f"It needs no GPU. {runs}; the places left are for other users.")


def keeps_a_host(waited_s: float) -> bool:
    """Return whether a host is kept free for a job that fits nowhere.

    After PATIENCE_S, times with and without a kept host alternate, each twice as long as the one before. No job waits
    forever, and a job that waits for one that never ends does not stop all others."""
    return waited_s >= PATIENCE_S and int(math.log2(waited_s / PATIENCE_S)) % 2 == 0


def without_cpu_only(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot that a policy sees."""
    if all(job.required_gpus for job in snapshot.jobs):
        return snapshot
    return replace(snapshot, jobs=tuple(job for job in snapshot.jobs if job.required_gpus))


def with_cpu_only(ask: Callable[[Snapshot], Plan], snapshot: Snapshot, cpu_only: CpuOnly) -> Plan:
    """Return the plan of a policy that does not see jobs without GPUs, with these jobs on their hosts.

    Jobs that are not in the snapshot get no place: their image is being fetched, or they wait for other jobs.
    """
    plan = ask(without_cpu_only(snapshot))
    mine = {job.id for job in snapshot.jobs if not job.required_gpus}
    if not mine:
        return plan
    places = cpu_only.places(mine, closed=kept_for_exclusive(snapshot, plan))
    starts = {job: {to: 0} for job, to in places.items() if not isinstance(to, Explanation)}
    waits = {job: why for job, why in places.items() if isinstance(why, Explanation)}
    return replace(plan, allocations={**plan.allocations, **starts}, reasons={**plan.reasons, **waits})


def exclusive_hosts(state: ClusterState) -> set[str]:
    """Return the hosts of running exclusive jobs."""
    alone = {
        job.id
        for job in state.jobs.values()
        if job.host_constraints is not None and job.host_constraints.get("exclusive")
    }
    return {task.host_id for task in state.tasks if task.job_id in alone} if alone else set()


class _Rooms:
    """Resources left on each open host and held by each user, while jobs are placed."""

    def __init__(self, whole: Mapping[str, CpuUse]) -> None:
        self.whole = whole
        self.left = dict(whole)
        self.all = reduce(CpuUse.plus, whole.values(), _NOTHING)
        self.used = _NOTHING
        """Used part of `all`."""
        self.held: dict[QuotaHolder, CpuUse] = {}
        """Resources held by users and groups, on all hosts."""
        self.closed: Set[str] = frozenset()
        """Hosts of exclusive jobs."""
        self.kept = ""
        """Host that is kept for a job that fits nowhere."""
        self._full: set[CpuUse] = set()
        """Requests that fit on no host now."""
        self._too_large: set[CpuUse] = set()

    def take(self, host: str, holders: Sequence[QuotaHolder], need: CpuUse) -> None:
        for holder in holders:
            self.held[holder] = self.held.get(holder, _NOTHING).plus(need)
        if host in self.left:
            self.left[host] = self.left[host].minus(need)
            self.used = self.used.plus(need)

    def could_fit(self, need: CpuUse) -> bool:
        """Return whether it fits on a host where nothing else runs."""
        if need not in self._too_large and not any(need.within(whole) for whole in self.whole.values()):
            self._too_large.add(need)
        return need not in self._too_large

    def fitting(self, need: CpuUse) -> list[str]:
        if need in self._full:
            return []
        found = [
            host for host, left in self.left.items()
            if host != self.kept and host not in self.closed and need.within(left)
        ]  # fmt: skip
        if not found:
            self._full.add(need)
        return found

    def keep(self, need: CpuUse, unfit: Set[str]) -> None:
        """Keep the suitable host with the most free resources. Hosts of exclusive jobs may stay closed for ever."""
        out = unfit | self.closed
        able = [host for host, whole in self.whole.items() if host not in out and need.within(whole)]
        rank = {host: (self.left[host].cpus, self.left[host].memory, self.left[host].jobs) for host in able}
        self.kept = max(able, key=lambda host: rank[host], default="")


class _Turns:
    """Order of waiting jobs: the user with the fewest running jobs first, then by submission.

    A user's own jobs are ordered by priority. Call `started` for each job that starts."""

    def __init__(self, waiting: Sequence[NewJob | Job], held: Mapping[QuotaHolder, CpuUse]) -> None:
        self._jobs: dict[str, list[NewJob | Job]] = {}
        for job in sorted(waiting, key=lambda job: (-job.priority, job.submitted_at, job.id), reverse=True):
            self._jobs.setdefault(job.user, []).append(job)  # the last one is next
        self._running = {user: held.get(QuotaHolder(user), _NOTHING).jobs for user in self._jobs}
        self._next: list[tuple[float, float, str, str]] = []
        for user in self._jobs:
            self._push(user)

    def started(self, user: str) -> None:
        self._running[user] += 1

    def __iter__(self) -> Iterator[NewJob | Job]:
        while self._next:
            *_, user = heapq.heappop(self._next)
            yield self._jobs[user].pop()
            self._push(user)

    def _push(self, user: str) -> None:
        if self._jobs[user]:
            job = self._jobs[user][-1]
            heapq.heappush(self._next, (self._running[user], job.submitted_at, job.id, user))


def _whole(facts: HostFacts | None, most: int) -> CpuUse:
    """Return the resources of a host; unknown ones are unlimited."""
    cpus = float(facts.cpus) if facts is not None and facts.cpus else math.inf
    return CpuUse(most, cpus, facts.memory_bytes if facts is not None and facts.memory_bytes else math.inf)


def _most_of(bounds: Bounds) -> CpuUse:
    def most(bound: float | None) -> float:
        return math.inf if bound is None else bound

    return CpuUse(most(bounds.cpu_jobs), most(bounds.cpus), most(bounds.memory_gib) * GIB)


def _quota_reached(holder: QuotaHolder, held: CpuUse, need: CpuUse, bounds: CpuUse) -> Explanation:
    if held.jobs + need.jobs > bounds.jobs:
        what = f"{holder} may run {bounds.jobs:g} such jobs at once, and runs {held.jobs:g}"
    elif held.cpus + need.cpus > bounds.cpus:
        what = f"it asks for {need.cpus:g} processors; {holder} may have {bounds.cpus:g}, and has {held.cpus:g}"
    else:
        asked, most, has = (f"{size / GIB:.4g}" for size in (need.memory, bounds.memory, held.memory))
        what = f"it asks for {asked} GiB of memory; {holder} may have {most}, and has {has}"
    return Explanation(Reason.OVER_QUOTA.value, f"It needs no GPU; {what}.")


def _no_room(rooms: _Rooms, most: int) -> Explanation:
    kept = f" {rooms.kept} is reserved for a job that fits nowhere else." if rooms.kept else ""
    sentence = (
        f"It needs no GPU; no host has capacity now: at most {most} such jobs each, with the processors and "
        f"memory that they request.{kept}"
    )
    return Explanation(Reason.WAITING_FOR_HOST.value, sentence)


def _maintained(windows: InTheWay, hosts: Set[str]) -> Explanation:
    whys = (windows.why[host] for host in sorted(hosts)[:MOST_WHYS])
    return Explanation(Reason.MAINTENANCE.value, f"It needs no GPU.{as_sentences(whys)}")


def _no_such_host(job: NewJob | Job, unfit: Mapping[str, str]) -> Explanation:
    where = place(job.host_constraints or {})
    whys = as_sentences(islice(unfit.values(), MOST_WHYS))
    return Explanation(Reason.UNSATISFIABLE.value, f"It needs no GPU, but {where}; no open one has enough room.{whys}")


def _unsatisfiable(need: CpuUse, hosts: Set[str], most: int) -> Explanation:
    if not hosts or not most:
        why = "no host is open" if most else "the operator allows no such jobs (setting cpu_jobs)"
        return Explanation(Reason.WAITING_FOR_HOST.value, f"It needs no GPU, and {why}.")
    asked = f"{need.cpus:g} processors and {need.memory / GIB:.1f} GiB of memory"
    return Explanation(Reason.UNSATISFIABLE.value, f"It needs no GPU, but {asked}: no open host has that much.")
