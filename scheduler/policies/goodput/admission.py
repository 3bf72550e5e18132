"""Which waiting jobs may start before GPUs are shared out: order, reservations and priorities. Pure.

Elastic jobs shrink for a job that is worth more. A rigid job holds its GPUs until it ends, so small ones would keep a
large one waiting for ever. Rigid jobs therefore start in an order, and the first that must wait has GPUs reserved:
others pass it only if they end before, or leave those GPUs free (EASY; Lifka, JSSPP 1995).

The order is by response ratio over GPUs: (waited + expected) / expected / GPUs, highest first (highest response ratio
next; Hansen, 1971). But jobs that were submitted after the oldest waiting one may hold only a share of the GPUs, then
that one is first. Strict order would not have started them yet. So jobs in strict order always have the rest of the
GPUs, or the first reservation, and none waits for more than a multiple of what strict order needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from schedulearn.scheduler.core.model import Basis, Explanation, HostView, JobView, Snapshot, gpu_count
from schedulearn.scheduler.core.planning.remaining_work import time_left
from schedulearn.scheduler.policies.goodput.objective import GoodputObjective

_SOON_S = 60.0
"""Expected run times below this count as equal."""


def held_back(
    objective: GoodputObjective, snapshot: Snapshot, unable: Set[str] = frozenset()
) -> dict[str, Explanation]:
    """Return the jobs that may hold no GPUs after this decision, with the reason of each.

    `unable`: waiting jobs that can't use GPUs now, whatever their priority.
    """
    jobs = sorted(snapshot.jobs, key=lambda job: job.order)
    found: dict[str, Explanation] = {}
    largest = max(gpus_by_type(snapshot.hosts).values(), default=0)  # of larger jobs others say why they wait
    waiting = [job for job in jobs if not job.elastic and not job.allocation and job.required_gpus <= largest]
    if waiting:
        queue = _Queue(snapshot.hosts, jobs, waiting)
        for job in _in_order(objective, snapshot.now, waiting, queue):
            if (why := queue.admit(job)) is not None:
                found[job.id] = why
    if len({job.priority for job in jobs}) > 1:
        rest = [job for job in jobs if job.id not in found and job.id not in unable]
        found |= _outranked(objective, snapshot, rest)
    return found


def _in_order(objective: GoodputObjective, now: float, waiting: Sequence[JobView], queue: _Queue) -> Iterator[JobView]:
    """Yield the waiting rigid jobs in the order in which they start."""
    urgent = _urgent(objective, waiting, now, queue.total)

    def ratio(job: JobView) -> float:
        expected = max(_SOON_S, time_left(job))
        return (max(0.0, now - job.submitted_at) + expected) / expected / max(1, job.required_gpus)

    oldest = queue.oldest
    # A job that needs nearly all GPUs would find too few of them once the share is used up.
    most = min(objective.overtaking * queue.total, queue.beside_oldest)
    first = False
    for job in sorted(waiting, key=lambda job: (-job.priority, job.id not in urgent, -ratio(job), job.order)):
        if not first and (job is oldest or (queue.passed + job.required_gpus > most and job.id not in urgent)):
            first = True
            yield oldest
        if job is not oldest:
            yield job


def _urgent(objective: GoodputObjective, waiting: Iterable[JobView], now: float, total: int) -> set[str]:
    """Return the jobs that miss their deadline unless they start now, as many as `deadline_share` allows."""
    left = objective.deadline_share * total
    found = set()
    for job in waiting:
        if job.deadline is None or job.required_gpus > left:
            continue
        seconds = time_left(job)
        if seconds <= job.deadline - now < objective.tuning.deadline_waits * seconds:
            found.add(job.id)
            left -= job.required_gpus
    return found


def gpus_by_type(hosts: Iterable[HostView]) -> dict[str, int]:
    """Return the number of GPUs of open hosts, by type."""
    found: dict[str, int] = {}
    for host in hosts:
        if host.open and host.gpus:
            found[host.gpu_type] = found.get(host.gpu_type, 0) + host.gpus
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

    def __init__(self, hosts: Sequence[HostView], jobs: Sequence[JobView], waiting: Sequence[JobView]) -> None:
        kind_of = {host.id: host.gpu_type for host in hosts if host.open}
        self._all = gpus_by_type(hosts)
        self._free = dict(self._all)
        self.total = sum(self._all.values())
        top = max(job.priority for job in waiting)
        self.oldest = min((job for job in waiting if job.priority == top), key=lambda job: job.order)
        """The oldest of the waiting jobs of the highest priority."""
        self.beside_oldest = self.total - self.oldest.required_gpus
        self.passed = 0
        """GPUs of later rigid jobs that run or are admitted."""
        self._ends: list[tuple[float, JobView, Mapping[str, int]]] = []  # seconds left, rigid job, GPUs by type
        self._reserved: _Reserved | None = None
        self._spare = 0  # GPUs of the reserved type that are left when the reserved job starts
        for job in jobs:
            if job.elastic or not job.allocation:
                continue
            held: dict[str, int] = {}
            for host_id, gpus in job.allocation.items():
                if (kind := kind_of.get(host_id)) is not None:
                    held[kind] = held.get(kind, 0) + gpus
            self._hold(job, time_left(job), held)

    def _hold(self, job: JobView, seconds: float, held: Mapping[str, int]) -> None:
        for kind, gpus in held.items():
            self._free[kind] -= gpus
        self._ends.append((seconds, job, held))
        if job.order > self.oldest.order and job.priority <= self.oldest.priority:
            self.passed += sum(held.values())

    def admit(self, job: JobView) -> Explanation | None:
        """Admit a job, or return why it waits."""
        gpus, seconds, kept = job.required_gpus, time_left(job), self._reserved
        kinds = [kind for kind, free in self._free.items() if free >= gpus]
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
        need = gpu_count(kept.job.required_gpus)
        if kinds:
            why = f"It could hold up {kept.job.id}, which needs {need} and comes first."
        else:
            why = f"It waits for {gpu_count(gpus)}, behind {kept.job.id}, which needs {need}."
        return Explanation("behind_others", why)

    def _holds_up(self, job: JobView, seconds: float, kept: _Reserved) -> bool:
        """Return whether a job is expected to run when the reserved GPUs are needed.

        Expectations may be too short again and again. Where later jobs do not leave the oldest one room, a job must be
        much shorter.
        """
        crowded = kept.job is self.oldest and self.passed + job.required_gpus > self.beside_oldest
        return seconds * ((job.basis or Basis.GUESS).spread if crowded else 1.0) > kept.seconds

    def _reserve(self, job: JobView) -> _Reserved:
        """Reserve GPUs for a job that does not fit now, of the type of which enough are free first."""
        free, after = dict(self._free), dict[str, list[JobView]]()
        for seconds, other, held in sorted(self._ends, key=lambda end: (end[0], end[1].order)):
            for kind, gpus in held.items():
                free[kind] += gpus
                after.setdefault(kind, []).append(other)
                if free[kind] >= job.required_gpus:
                    self._spare = free[kind] - job.required_gpus
                    return _Reserved(job, kind, max(0.0, seconds), after[kind])
        kind = max(self._all, key=lambda kind: (self._all[kind], kind))  # only GPUs that were lost can lead here
        return _Reserved(job, kind, max((end[0] for end in self._ends), default=0.0), after.get(kind, ()))


def _first(job: JobView, kept: _Reserved) -> Explanation:
    others = len(kept.after) - 1
    ends = f"when {kept.after[-1].id} ends" if kept.after else "once enough are free"
    if others > 0:
        ends = f"when {kept.after[-1].id} and {others} other job{'s' * (others > 1)} have ended"
    return Explanation(
        "waiting_for_gpus",
        f"It waits for {gpu_count(job.required_gpus)} and comes first. They are reserved for it {ends}, expected in "
        f"{_span(kept.seconds)}.",
    )


def _span(seconds: float) -> str:
    """Return a time in words, to about a tenth."""
    for unit, length in (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}s"
    return f"{max(1.0, seconds):.0f} s"


def _outranked(objective: GoodputObjective, snapshot: Snapshot, jobs: Sequence[JobView]) -> dict[str, Explanation]:
    """Return the jobs that give way to waiting jobs of higher priority, if all can't have their minimum.

    Of equal priority, jobs that wait give way first, then elastic ones on the GPUs that they got last. Rigid jobs that
    run keep their GPUs, and so does a job that has just got them.
    """
    highest = max((job.priority for job in jobs if not job.allocation), default=0)
    kind_of = {host.id: host.gpu_type for host in snapshot.hosts if host.open}
    room = gpus_by_type(snapshot.hosts)
    stays = [job for job in jobs if job.allocation and (not job.elastic or objective.keeps(job))]
    able = [job for job in jobs if job not in stays]
    able.sort(key=lambda job: (-job.priority, not job.allocation, -(job.held_seconds or 0.0), job.order))
    found: dict[str, Explanation] = {}
    for job in [*stays, *able]:
        least = job.min_gpus if job.elastic else job.required_gpus
        kinds = {kind_of[host] for host in job.allocation if host in kind_of} if job.allocation else set(room)
        if job.allocation and not kinds:
            continue  # its hosts are closed, so it takes nothing from others
        fitting = [kind for kind in kinds if room[kind] >= least]
        if fitting or job in stays:
            for kind in sorted(fitting or kinds, key=lambda kind: (room[kind], kind))[:1]:
                room[kind] -= least
        elif job.priority < highest:
            what = "It releases its GPUs to" if job.allocation else f"It waits for {gpu_count(least)}, behind"
            code = "preempted" if job.allocation else "waiting_for_gpus"
            found[job.id] = Explanation(code, f"{what} jobs of higher priority; its own is {job.priority}.")
    return found
