"""Which rigid jobs may start, before GPUs are shared out: their order, and reservations. Pure.

Elastic jobs shrink for a job that is worth more. A rigid job holds its GPUs until it ends, so small ones would keep a
large one waiting for ever. Rigid jobs therefore start in an order, and the first that must wait has GPUs reserved:
others pass it only if they end before, or leave those GPUs free (EASY; Lifka, JSSPP 1995). Elastic jobs that have
waited for long take part with their minimum: no later rigid job may start on GPUs that they need.

The order is by response ratio over GPUs: (waited + expected) / expected / GPUs, highest first (highest response ratio
next; Hansen, 1971). But jobs that were submitted after the oldest waiting one may hold only a share of the GPUs, then
that one is first. Strict order would not have started them yet. So jobs in strict order always have the rest of the
GPUs, or the first reservation, and none waits for more than a multiple of what strict order needs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from schedulearn.scheduler.core.model import Allocation, Basis, Explanation, HostView, JobView, Snapshot, gpu_count
from schedulearn.scheduler.core.planning.remaining_work import time_left
from schedulearn.scheduler.policies.goodput.host_kinds import suits_kind
from schedulearn.scheduler.policies.goodput.objective import GoodputObjective

_SOON_S = 60.0
"""Expected run times below this count as equal."""


@dataclass(frozen=True)
class HeldBack:
    """Jobs that get no GPUs, whatever their weight."""

    reasons: Mapping[str, Explanation]
    """Rigid jobs that wait for their turn, and preemptible ones that stop, with the reason of each."""
    stops: Mapping[str, str]
    """Preemptible job that stops -> the job that it stops for."""


def held_back(objective: GoodputObjective, snapshot: Snapshot, passed_over: Set[str] = frozenset()) -> HeldBack:
    """Return the rigid jobs that wait for their turn, and the preemptible ones that stop.

    `passed_over`: jobs that were admitted, and that the choice of sizes left without GPUs: elastic jobs weigh more, or
    no host has room. Others need not wait for them, but the share of later jobs holds.
    """
    stoppable = [
        job
        for job in snapshot.jobs
        if job.preemptible and not job.elastic and job.allocation and not objective.keeps(job)
    ]
    lowest = min((job.priority for job in stoppable), default=math.inf)
    if not any(not job.allocation and (not job.elastic or job.priority > lowest) for job in snapshot.jobs):
        return HeldBack({}, {})
    jobs = sorted(snapshot.jobs, key=lambda job: job.order)
    found: dict[str, Explanation] = {}
    stops: dict[str, str] = {}
    there = gpus_by_type(snapshot.hosts)
    due = {job.id for job in jobs if job.elastic and is_due(objective, snapshot.now, job)}
    waiting = [
        job
        for job in jobs
        if not job.allocation and (not job.elastic or job.id in due or job.priority > lowest) and _fits(job, there)
    ]
    if any(not job.elastic or job.priority > lowest for job in waiting):
        queue = _Queue(snapshot.hosts, jobs, waiting, due, objective.overtaking, stoppable)
        for job in _in_order(objective, snapshot.now, waiting, queue):
            if job.id in passed_over:
                continue
            passes = not job.elastic and queue.oldest.id in passed_over and job.order > queue.oldest.order
            why = queue.behind(job, queue.oldest) if passes and queue.is_full_for(job) else queue.admit(job)
            if why is not None and not job.elastic:
                found[job.id] = why
        for victim, other in queue.stopped.values():
            gives = f"It gives up its {gpu_count(victim.gpus)} to {other.id}, which has a higher priority."
            found[victim.id] = Explanation("preempted", gives)
            stops[victim.id] = other.id
    return HeldBack(found, stops)


def is_due(objective: GoodputObjective, now: float, job: JobView) -> bool:
    """Return whether a job has waited for a multiple of its expected run time."""
    return job.waited(now) >= objective.tuning.due * max(_SOON_S, time_left(job))


def _fits(job: JobView, there: Mapping[str, int]) -> bool:
    """Return whether a job fits on the GPUs of one type that suits it. Of larger jobs others say why they wait."""
    return 0 < job.needed_gpus <= max((gpus for kind, gpus in there.items() if suits_kind(job, kind)), default=0)


def _in_order(objective: GoodputObjective, now: float, waiting: Sequence[JobView], queue: _Queue) -> Iterator[JobView]:
    """Yield the waiting rigid jobs in the order in which they start."""
    urgent = _urgent(objective, waiting, now, queue)

    def ratio(job: JobView) -> float:
        expected = max(_SOON_S, time_left(job))
        return (job.waited(now) + expected) / expected / job.needed_gpus

    oldest = queue.oldest
    first = False
    for job in sorted(waiting, key=lambda job: (-job.priority, job.id not in urgent, -ratio(job), job.order)):
        if not first and (job is oldest or (queue.is_full_for(job) and job.id not in urgent)):
            first = True
            yield oldest
        if job is not oldest:
            yield job


def _urgent(objective: GoodputObjective, waiting: Iterable[JobView], now: float, queue: _Queue) -> set[str]:
    """Return the jobs that miss their deadline unless they start now.

    With running rigid jobs that have a deadline, they hold at most `deadline_share` of the GPUs."""
    left = objective.deadline_share * queue.total - queue.held_by_deadlines
    found = set()
    for job in waiting:
        if job.deadline is None or job.needed_gpus > left:
            continue
        seconds = time_left(job)
        if seconds <= job.deadline - now < objective.tuning.deadline_waits * seconds:
            found.add(job.id)
            left -= job.needed_gpus
    return found


def gpus_by_type(hosts: Iterable[HostView]) -> dict[str, int]:
    """Return the number of GPUs of open hosts, by type."""
    found: dict[str, int] = {}
    for host in hosts:
        if host.open and host.gpus:
            found[host.gpu_type] = found.get(host.gpu_type, 0) + host.gpus
    return found


def open_types(hosts: Iterable[HostView]) -> dict[str, str]:
    """Return the id of each open host with its GPU type."""
    return {host.id: host.gpu_type for host in hosts if host.open}


def held_by_type(allocation: Allocation, kind_of: Mapping[str, str]) -> dict[str, int]:
    """Return the GPUs of an allocation by type. `kind_of`: id of a host -> its type. Other hosts are left out."""
    found: dict[str, int] = {}
    for host_id, gpus in allocation.items():
        if (kind := kind_of.get(host_id)) is not None:
            found[kind] = found.get(kind, 0) + gpus
    return found


@dataclass(frozen=True)
class _Reserved:
    job: JobView
    kind: str
    seconds: float
    after: Sequence[JobView]
    """The jobs that must end first."""


class _Queue:
    """GPUs of each type that rigid jobs do not hold, while waiting ones are admitted."""

    def __init__(
        self,
        hosts: Sequence[HostView],
        jobs: Sequence[JobView],
        waiting: Sequence[JobView],
        due: Set[str],
        overtaking: float,
        stoppable: Sequence[JobView],
    ) -> None:
        """`waiting`: jobs that want to start, the oldest first. `due`: elastic jobs that keep their minimum.
        `stoppable`: rigid jobs that stop for one of higher priority."""
        kind_of = open_types(hosts)
        self._all = gpus_by_type(hosts)
        self._free = dict(self._all)
        self.total = sum(self._all.values())
        top = max(job.priority for job in waiting)
        self.oldest = next(job for job in waiting if job.priority == top)
        """The oldest of the waiting jobs of the highest priority."""
        self._beside_oldest = self.total - self.oldest.needed_gpus
        # A job that needs nearly all GPUs would find too few of them once the share is used up.
        self._most = min(overtaking * self.total, self._beside_oldest)
        self.passed = 0
        """GPUs of later rigid jobs that run or are admitted."""
        self._ends: list[tuple[float, JobView, Mapping[str, int]]] = []  # seconds left, rigid job, GPUs by type
        self.held_by_deadlines = sum(job.gpus for job in jobs if not job.elastic and job.deadline is not None)
        self.stopped: dict[str, tuple[JobView, JobView]] = {}
        """Id of a running job that stops -> the job, and the one that it stops for."""
        self._stoppable = sorted(stoppable, key=lambda job: job.order, reverse=True)
        self._stoppable.sort(key=lambda job: job.priority)
        self._hosts = [host for host in hosts if host.open and host.gpus]
        self._held = Counter[str]()
        """GPUs of each host that running jobs hold and do not give up to any other."""
        self._elastic: list[JobView] = []
        """Running elastic jobs that are not counted there."""
        self._least: dict[int, Counter[str]] = {}
        self._reserved: _Reserved | None = None
        self._spare = 0  # GPUs of the reserved type that are left when the reserved job starts
        for job in jobs:
            if not job.allocation:
                continue
            if job.elastic and not (job.id in due and job.by_priority < self.oldest.by_priority):
                self._elastic.append(job)
                continue
            least = dict(_minimum(job))
            self._held.update(least)
            self._hold(job, time_left(job), held_by_type(least, kind_of))

    def _hold(self, job: JobView, seconds: float, held: Mapping[str, int]) -> None:
        for kind, gpus in held.items():
            self._free[kind] -= gpus
        self._ends.append((seconds, job, held))
        self.passed += sum(held.values()) * self._passes(job)

    def admit(self, job: JobView) -> Explanation | None:
        """Admit a job, or return why it waits."""
        gpus, seconds, kept = job.needed_gpus, time_left(job), self._reserved
        if kept is None:
            self._make_room(job)
        kinds = [kind for kind, free in self._free.items() if free >= gpus and suits_kind(job, kind)]
        for kind in sorted(kinds, key=lambda kind: (self._free[kind], kind)):
            if kept is not None and kind == kept.kind and self._holds_up(job, seconds, kept):
                if gpus > self._spare:
                    continue
                self._spare -= gpus
            self._hold(job, seconds, {kind: gpus})
            return None
        if kept is None:
            self._reserved = self._reserve(job)
            return _first(job, self._reserved)
        if not kinds:
            return self.behind(job, kept.job)
        need = gpu_count(kept.job.needed_gpus)
        return Explanation("behind_others", f"It could hold up {kept.job.id}, which needs {need} and comes first.")

    def _make_room(self, job: JobView) -> None:
        """Stop preemptible jobs of lower priority, if the job then fits: the lowest, and on one host if possible.

        Elastic jobs count with their minimum, unless their priority is lower too."""
        held = {other.id: gpus for _, other, gpus in self._ends}
        victims = [other for other in self._stoppable if other.priority < job.priority and other.id in held]
        victims = [other for other in victims if other.id not in self.stopped]
        if not victims:
            return
        least, need = self._least_of_elastic(job.priority), job.needed_gpus
        found = []
        for kind in (kind for kind in self._free if suits_kind(job, kind)):
            hosts = [host for host in self._hosts if host.gpu_type == kind]
            free = self._free[kind] - sum(least[host.id] for host in hosts)
            if free >= need:
                return
            for place in [hosts, *([host] for host in hosts if host.gpus >= need)]:
                here = sum(host.gpus - self._held[host.id] - least[host.id] for host in place)
                stops = _fewest(victims, {host.id for host in place}, need - min(here, free))
                if stops is not None:
                    found.append((_loss(stops, spans=place is hosts), stops))
        for victim in min(found, key=lambda each: each[0])[1] if found else ():
            self._stop(victim, held[victim.id], job)

    def _least_of_elastic(self, priority: int) -> Counter[str]:
        """Return the GPUs of each host that elastic jobs of `priority` or above do not give up."""
        if priority not in self._least:
            found = Counter[str]()
            for other in self._elastic:
                if other.priority >= priority:
                    found.update(dict(_minimum(other)))
            self._least[priority] = found
        return self._least[priority]

    def _stop(self, victim: JobView, held: Mapping[str, int], job: JobView) -> None:
        self._ends = [end for end in self._ends if end[1] is not victim]
        for kind, gpus in held.items():
            self._free[kind] += gpus
        for host_id, gpus in victim.allocation.items():
            self._held[host_id] -= gpus
        self.passed -= sum(held.values()) * self._passes(victim)
        self.stopped[victim.id] = victim, job

    def _passes(self, job: JobView) -> bool:
        return job.order > self.oldest.order and job.priority <= self.oldest.priority

    def is_full_for(self, job: JobView) -> bool:
        """Return whether later jobs than the oldest would hold more than their share."""
        return self.passed + job.needed_gpus > self._most

    def behind(self, job: JobView, first: JobView) -> Explanation:
        sentence = f"It waits for {gpu_count(job.needed_gpus)}, behind {first.id}, "
        return Explanation("behind_others", f"{sentence}which needs {gpu_count(first.needed_gpus)}.")

    def _holds_up(self, job: JobView, seconds: float, kept: _Reserved) -> bool:
        """Return whether a job is expected to run when the reserved GPUs are needed.

        Expectations may be too short again and again. Where later jobs do not leave the oldest one room, a job must be
        much shorter.
        """
        if job.remaining is None and job.expected_left is None:
            return True  # it might run for ever
        crowded = kept.job is self.oldest and self.passed + job.needed_gpus > self._beside_oldest
        return seconds * ((job.basis or Basis.GUESS).spread if crowded else 1.0) > kept.seconds

    def _reserve(self, job: JobView) -> _Reserved:
        """Reserve GPUs for a job that does not fit now, of the type of which enough are free first."""
        free, after = dict(self._free), dict[str, list[JobView]]()
        for seconds, other, held in sorted(self._ends, key=lambda end: (end[0], end[1].order)):
            for kind, gpus in held.items():
                free[kind] += gpus
                after.setdefault(kind, []).append(other)
                if free[kind] >= job.needed_gpus and suits_kind(job, kind):
                    self._spare = free[kind] - job.needed_gpus
                    return _Reserved(job, kind, max(0.0, seconds), after[kind])
        # Only GPUs that were lost can lead here.
        kind = max((kind for kind in self._all if suits_kind(job, kind)), key=lambda kind: (self._all[kind], kind))
        return _Reserved(job, kind, max((end[0] for end in self._ends), default=0.0), after.get(kind, ()))


def _minimum(job: JobView) -> Iterator[tuple[str, int]]:
    """Yield the GPUs of each host that a running job does not give up without being stopped."""
    left = job.min_gpus if job.elastic else job.gpus
    for host_id, gpus in job.allocation.items():
        yield host_id, min(gpus, left)
        left -= min(gpus, left)


def _fewest(victims: Sequence[JobView], hosts: Set[str], lacks: int) -> list[JobView] | None:
    """Return the victims that give up at least `lacks` GPUs of `hosts`, the first ones first; None: there are too few.

    The last to give are the first to be spared."""
    stops: list[tuple[JobView, int]] = []
    for victim in victims:
        if lacks <= 0:
            break
        if gives := sum(gpus for host, gpus in victim.allocation.items() if host in hosts):
            stops.append((victim, gives))
            lacks -= gives
    if lacks > 0:
        return None
    for each in stops[-2::-1]:
        if each[1] <= -lacks:
            lacks += each[1]
            stops.remove(each)
    return [victim for victim, _ in stops]


def _loss(stops: Sequence[JobView], *, spans: bool) -> tuple[int, bool, int, float]:
    """Sort key of jobs that could stop: low priority, GPUs of one host, few GPUs, and new jobs come first."""
    oldest = min(job.submitted_at for job in stops)
    return max(job.priority for job in stops), spans, sum(job.gpus for job in stops), -oldest


def _first(job: JobView, kept: _Reserved) -> Explanation:
    what = f"It waits for {gpu_count(job.needed_gpus)} and comes first."
    if not kept.after:
        return Explanation("waiting_for_gpus", what)
    others = len(kept.after) - 1
    also = f", after {others} other{'s' * (others > 1)}" if others else ""
    return Explanation(
        "waiting_for_gpus",
        f"{what} They are reserved for it from the end of {kept.after[-1].id}, which is expected in "
        f"{_span(kept.seconds)}{also}.",
    )


def _span(seconds: float) -> str:
    """Return a time in words, to about a tenth."""
    for unit, length in (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}s"
    return f"{max(1.0, seconds):.0f} s"
