"""Shared parts of queueing policies: free GPUs per host, serving in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Literal

from schedulearn.scheduler.core.model import Allocation, Explanation, JobView, Plan, Snapshot, gpu_count
from schedulearn.scheduler.core.planning.remaining_work import time_left

Backfill = Literal["reserved", "all", "none"] | bool
"""Jobs that may pass the first job that waits for GPUs: those that do not delay it, all that fit, or none. True and
False are older names of `all` and `none`."""
BACKFILL: Mapping[str, object] = {
    "doc": "jobs that may start before the first one that waits: those that do not delay it, all that fit, or none",
    "choices": ("reserved", "all", "none"),
}


@dataclass(frozen=True)
class SharingParameters:
    """The parameters of policies that may put several jobs on a GPU, as the original Schedulearn did."""

    backfill: Backfill = field(default="reserved", metadata=BACKFILL)
    jobs_per_gpu: int = field(default=1, metadata={"doc": "maximum jobs on one GPU (1 to 16)"})
    max_utilization: float = field(
        default=90.0, metadata={"doc": "a GPU that has a job gets another one only below this utilization, in percent"}
    )

    def __post_init__(self) -> None:
        if not 1 <= self.jobs_per_gpu <= 16:
            raise ValueError(f"jobs_per_gpu must be 1 to 16, not {self.jobs_per_gpu}")
        if not 0 < self.max_utilization <= 100:
            raise ValueError(f"max_utilization must be above 0 and at most 100 percent, not {self.max_utilization}")

    @property
    def shares_gpus(self) -> bool:
        return self.jobs_per_gpu > 1

    def room(self, snapshot: Snapshot) -> Room:
        return Room(snapshot, self.jobs_per_gpu, self.max_utilization)


class Room:
    """Free GPUs of each host while a plan is being made.

    A job's GPUs are distinct, so a host that shares its GPUs can still give one job at most `gpus` of them.

    `soon`: GPUs that jobs are about to leave count as free. It is for policies that would otherwise stop other jobs
    instead. A host whose GPUs are free already is preferred.
    """

    def __init__(
        self, snapshot: Snapshot, jobs_per_gpu: int = 1, max_utilization: float = 100.0, *, soon: bool = False
    ) -> None:
        self.jobs_per_gpu = jobs_per_gpu
        self.max_utilization = max_utilization
        self._free: dict[str, list[int]] = {}  # open host -> free slots of each of its GPUs; below 0: too many jobs
        self._kinds: dict[str, list[str]] = {}  # GPU type -> its open hosts
        self._soon: dict[str, int] = {}  # host -> GPUs that count as free but are not yet
        held: dict[str, int] = {}
        for job in snapshot.jobs:
            for host_id, gpus in job.allocation.items():
                held[host_id] = held.get(host_id, 0) + gpus
        for host in snapshot.hosts:
            if not host.open:
                continue
            jobs = list(host.gpu_jobs) or _spread(held.get(host.id, 0), host.gpus)
            busy = list(host.gpu_utilization) or [0.0] * host.gpus
            leaving = list(host.gpu_leaving) or [False] * host.gpus
            self._free[host.id] = [
                min(0, jobs_per_gpu - n) if (n and u >= max_utilization) or (left and not soon) else jobs_per_gpu - n
                for n, u, left in zip(jobs, busy, leaving, strict=False)
            ]
            if soon and host.leaving:
                self._soon[host.id] = sum(1 for n, left in zip(jobs, leaving, strict=False) if left and not n)
            self._kinds.setdefault(host.gpu_type, []).append(host.id)
        shares = jobs_per_gpu > 1
        self._left = {h.id: list(h.gpu_memory_left) for h in snapshot.hosts if shares and h.open and h.gpu_memory_left}
        self._needs = 0  # bytes that the job being served needs on each GPU
        self._size = {host_id: len(free) for host_id, free in self._free.items()}
        self._open = {host_id: self._count(host_id) for host_id in self._free}
        self._slots = {host_id: sum(free) for host_id, free in self._free.items()}
        self.largest = max(self._size.values(), default=0)
        """GPUs of the largest host that may be used."""
        self._hosts_with = [0] * (self.largest + 1)  # number of free GPUs -> number of hosts with exactly that many
        for free_gpus in self._open.values():
            self._hosts_with[free_gpus] += 1
        self._free_gpus = sum(self._open.values())
        self._no_span: set[int] = set()  # numbers of GPUs that the hosts can't supply in their current state
        self.capacity = sum(self._size.values())
        """GPUs of all hosts that may be used, taken ones included."""
        self._beside: Room | None = None

    def copy(self) -> Room:
        """Return a copy for trying changes."""
        made = copy(self)
        made._free = {host_id: list(free) for host_id, free in self._free.items()}
        made._left = {host_id: list(left) for host_id, left in self._left.items()}
        made._open, made._slots = dict(self._open), dict(self._slots)
        made._hosts_with, made._no_span, made._beside = list(self._hosts_with), set(), None
        return made

    def spare(self, other: Room | None) -> None:
        """From now on, use a host only for jobs that also fit there in `other`. None ends this."""
        self._beside = other
        self._no_span.clear()

    def serve(self, job: JobView) -> None:
        """Set the job being served. GPUs whose jobs are predicted to leave it too little memory don't count."""
        self._needs = job.gpu_memory or 0
        for host_id in self._left:
            self._recount(host_id)

    def _takes(self, host_id: str, index: int) -> bool:
        """Return whether a GPU could take the job being served. A GPU without jobs could take any job."""
        slots, left = self._free[host_id][index], self._left.get(host_id)
        return slots > 0 and (left is None or slots == self.jobs_per_gpu or left[index] >= self._needs)

    def _count(self, host_id: str) -> int:
        return sum(1 for index in range(len(self._free[host_id])) if self._takes(host_id, index))

    def _recount(self, host_id: str) -> None:
        before, after = self._open[host_id], self._count(host_id)
        if after != before:
            self._hosts_with[before] -= 1
            self._hosts_with[after] += 1
            self._open[host_id] = after
            self._free_gpus += after - before
            self._no_span.clear()

    def fits(self, host_id: str, gpus: int, idle: int = 0) -> bool:
        """Whether `gpus` GPUs of a host could take a job, `idle` of them without sharing."""
        if self._beside is not None and not self._beside.fits(host_id, gpus):
            return False
        return self.free(host_id) >= gpus and (not idle or self._idle(host_id) >= idle)

    def _idle(self, host_id: str) -> int:
        """GPUs of a host that have no job."""
        return sum(1 for slots in self._free.get(host_id, ()) if slots == self.jobs_per_gpu)

    def free(self, host_id: str) -> int:
        """GPUs of a host that could take a job."""
        return self._open.get(host_id, 0)

    def first_host(self, gpus: int, idle: int = 0) -> str | None:
        """The first host in order that fits."""
        return next((host_id for host_id in self._open if self.fits(host_id, gpus, idle)), None)

    def best_host(self, gpus: int) -> str | None:
        """Return the fullest host that still has `gpus`; of equals, the first in order.

        This keeps large holes for large jobs.
        """
        if self._beside is not None:
            fitting = [host for host in self._open if self.fits(host, max(1, gpus))]
            return min(fitting, key=lambda host: self._open[host], default=None)
        if self._soon:
            now = [host for host, free in self._open.items() if free - self._soon.get(host, 0) >= max(1, gpus)]
            if now:
                return min(now, key=lambda host: self._open[host])
        fewest = next((n for n in range(max(0, gpus), self.largest + 1) if self._hosts_with[n]), None)
        return None if fewest is None else self._first_with(fewest)

    def emptiest_host(self) -> str | None:
        most = next((n for n in range(self.largest, -1, -1) if self._hosts_with[n]), None)
        return None if most is None else self._first_with(most)

    def _first_with(self, free: int) -> str:
        return next(host_id for host_id, gpus in self._open.items() if gpus == free)

    def least_shared_host(self, gpus: int) -> str | None:
        """Return the host with the most free slots per GPU, among those with `gpus` usable GPUs; the first such."""
        fitting = [host_id for host_id, free in self._open.items() if free >= gpus]
        return max(fitting, key=lambda host_id: self._slots[host_id] / self._size[host_id], default=None)

    def span(self, gpus: int, more: Mapping[str, int] = {}) -> Allocation | None:
        """Choose whole free hosts, the largest first, and one more host for the rest: as few hosts as possible.

        The hosts are of one GPU type if any type has enough hosts at all, since a job trains at the speed of its
        slowest GPU. GPUs without jobs come first. `more`: additional GPUs of a host that count as free.
        """
        if not more and gpus in self._no_span:
            return None
        kinds = [hosts for hosts in self._kinds.values() if sum(self._size[host] for host in hosts) >= gpus]
        rooms = [self._open]
        if self.jobs_per_gpu > 1:
            rooms.insert(0, {host_id: self._idle(host_id) for host_id in self._open})
        for room in rooms:
            free = {host_id: gpus + more.get(host_id, 0) for host_id, gpus in room.items()}
            if self._beside is not None:
                free = {host_id: min(gpus, self._beside.free(host_id)) for host_id, gpus in free.items()}
            found = [a for hosts in kinds or [list(self._free)] if (a := self._span(gpus, hosts, free)) is not None]
            if found:
                return min(found, key=len)
        if not more:
            self._no_span.add(gpus)
        return None

    def _span(self, gpus: int, hosts: list[str], free: Mapping[str, int]) -> Allocation | None:
        chosen: dict[str, int] = {}
        left = gpus
        whole = [host for host in hosts if free[host] >= self._size[host] > 0]
        for host in sorted(whole, key=lambda host: -self._size[host]):
            if self._size[host] <= left:
                chosen[host] = self._size[host]
                left -= self._size[host]
        if left:
            rest = [host for host in hosts if host not in chosen and free[host] >= left]
            if not rest:
                return None
            chosen[min(rest, key=lambda host: free[host])] = left
        return chosen

    def take(self, host_id: str, gpus: int) -> None:
        """Take one slot on each of the `gpus` emptiest GPUs that could take the job (as placement does)."""
        free = self._free[host_id]
        chosen = sorted(range(len(free)), key=lambda i: (not self._takes(host_id, i), -free[i], i))[:gpus]
        if host_id in self._left:
            for index in chosen:
                self._left[host_id][index] -= self._needs
        self._change(host_id, chosen, -1)

    def give_back(self, host_id: str, gpus: int) -> None:
        """Undo `take`. The indices of its GPUs are not known, so GPUs with the most jobs are freed first."""
        free = self._free.get(host_id)
        if free is not None:
            self._change(host_id, sorted(range(len(free)), key=lambda i: (free[i], i))[:gpus], +1)

    def _change(self, host_id: str, indices: list[int], slots: int) -> None:
        for index in indices:
            self._free[host_id][index] += slots
        self._slots[host_id] += slots * len(indices)
        self._recount(host_id)

    def free_gpus(self) -> int:
        """GPUs, over all hosts, that could take a job."""
        return self._free_gpus

    def too_small_for(self, gpus: int) -> Explanation | None:
        """Explain why a job of this size can't run on these hosts even if they were empty; None if it can."""
        if gpus <= self.capacity:
            return None
        return Explanation(
            "unsatisfiable_now",
            f"It needs {gpu_count(gpus)}; the usable hosts have {self.capacity} in total.",
        )

    def too_full_for(self, gpus: int) -> Explanation:
        """Explain why a job of this size does not fit now."""
        if (memory := self.too_little_memory(gpus)) is not None:
            return memory
        number = self.free_gpus()
        free = f"{number} {'is' if number == 1 else 'are'} free in total"
        if gpus > self.largest:
            return Explanation(
                "waiting_for_gpus",
                f"It needs {gpu_count(gpus)} on several hosts: free ones, and one more for the rest; {free}.",
            )
        return Explanation(
            "waiting_for_gpus",
            f"It needs {gpu_count(gpus)} on one host; {free}, and no host has that many free.",
        )

    def too_little_memory(self, gpus: int) -> Explanation | None:
        """Explain why the job being served can't share GPUs with free slots; None if memory is not the reason."""
        shared = [
            self._left[host_id][index]
            for host_id in self._left
            for index, slots in enumerate(self._free[host_id])
            if slots > 0 and not self._takes(host_id, index)
        ]
        if not shared or not self._needs:
            return None
        has = f"It is predicted to use {_gib(self._needs)} of a GPU's memory"
        most = f"at most {_gib(max(0, *shared))} is left on the {gpu_count(len(shared))} that it could share"
        return Explanation("waiting_for_gpus", f"{has}; {most}, and it needs {gpu_count(gpus)}.")


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _spread(held: int, gpus: int) -> list[int]:
    """Spread `held` jobs over `gpus` GPUs as evenly as possible; return the jobs on each."""
    if not gpus:
        return []
    each, rest = divmod(held, gpus)
    return [each + (index < rest) for index in range(gpus)]


def fixed_size(job: JobView) -> int:
    """GPUs of a job under a policy that does not resize."""
    return min(max(job.required_gpus, job.min_gpus), job.max_gpus) if job.elastic else job.required_gpus


def keep_running(snapshot: Snapshot, jobs_per_gpu: int = 1) -> dict[str, Allocation]:
    """Return the allocations of running jobs whose hosts still exist and have the capacity; oldest first."""
    left = {host.id: host.gpus * jobs_per_gpu for host in snapshot.hosts}
    width = {host.id: host.gpus for host in snapshot.hosts}
    kept: dict[str, Allocation] = {}
    for job in sorted(snapshot.jobs, key=lambda job: job.order):
        if job.allocation and all(
            left.get(host, 0) >= gpus and width.get(host, 0) >= gpus for host, gpus in job.allocation.items()
        ):
            kept[job.id] = dict(job.allocation)
            for host, gpus in job.allocation.items():
                left[host] -= gpus
    return kept


SortKey = float | tuple["float | str | SortKey", ...]


@dataclass(frozen=True)
class Order:
    """Order of waiting jobs: `key` sorts them, `words` describe the order to users."""

    key: Callable[[JobView], SortKey]
    words: str


BY_SUBMISSION = Order(lambda job: job.order, "in order of submission")


def behind(order: Order, first: JobView) -> Explanation:
    """Explain why a job waits although it might fit."""
    return Explanation(
        "behind_others",
        f"Jobs start {order.words}: it waits behind {first.id}, which needs {gpu_count(fixed_size(first))}.",
    )


def speedups(jobs: Sequence[tuple[JobView, int]]) -> list[float]:
    """Return the speedup of each (job, GPUs) over one GPU. Jobs without measurements scale perfectly."""
    found = [float(max(1, gpus)) for _, gpus in jobs]
    measured = [(index, job.goodput, gpus) for index, (job, gpus) in enumerate(jobs) if job.goodput is not None]
    if measured:
        import numpy as np  # here, so that a service whose jobs report nothing need not load it

        from schedulearn.metrics.model.goodput import goodput_table

        sizes = sorted({1, *(max(1, gpus) for *_, gpus in measured)})
        table = goodput_table([goodput for _, goodput, _ in measured], np.ones(len(sizes)), np.array(sizes))
        for (index, _, gpus), row in zip(measured, table, strict=True):
            one, here = float(row[0]), float(row[sizes.index(max(1, gpus))])
            if one > 0:
                found[index] = max(here / one, 1e-9)
    return found


def seconds_left(jobs: Sequence[tuple[JobView, int]]) -> list[float | None]:
    """Return the expected seconds until each (job, GPUs) ends, from now or from its start; None: unknown."""
    return [
        None if job.remaining is None else job.remaining / speedup
        for (job, _), speedup in zip(jobs, speedups(jobs), strict=True)
    ]


@dataclass(frozen=True)
class Reservation:
    """GPUs reserved for the first waiting job, from the expected end of the jobs that hold them.

    Source: EASY (Lifka, The ANL/IBM SP scheduling system, JSSPP 1995).
    """

    seconds: float
    """Seconds from now until the GPUs are free."""
    first: JobView
    """The job that they are reserved for."""
    after: JobView
    """The last job that has to end first."""
    room: Room
    """Free GPUs at that time, without the reserved ones."""


def reserve(
    first: JobView, gpus: int, room: Room, jobs: Sequence[JobView], allocations: Mapping[str, Allocation]
) -> Reservation | None:
    """Find when and where the first waiting job fits if running jobs end as expected; None: not even then.

    A job with no prediction is expected to run as long as `time_left` says.
    """
    running = [(job, allocations[job.id]) for job in jobs if job.id in allocations]
    later = room.copy()
    later.serve(first)
    left = seconds_left([(job, sum(held.values())) for job, held in running])
    ends = [
        (time_left(job) if seconds is None else seconds, job, held)
        for seconds, (job, held) in zip(left, running, strict=True)
    ]
    for seconds, job, held in sorted(ends, key=lambda end: (end[0], end[1].order)):
        for host_id, count in held.items():
            later.give_back(host_id, count)
        if later.free_gpus() >= gpus and (place := _place(gpus, later, later.first_host)) is not None:
            for host_id, count in place.items():
                later.take(host_id, count)
            return Reservation(seconds, first, job, later)
    return None


def outlives(job: JobView, gpus: int, kept: Reservation) -> bool:
    """Return whether a job would, or might, still run when the reserved GPUs are needed."""
    [seconds] = seconds_left([(job, gpus)])
    if seconds is None:
        seconds = job.expected_left
    return seconds is None or seconds > kept.seconds


def serve_in_order(
    snapshot: Snapshot,
    room: Room,
    choose_host: Callable[[int, int], str | None],
    *,
    backfill: Backfill,
    order: Order = BY_SUBMISSION,
) -> Plan:
    """Keep running jobs, and start waiting jobs in order with their `fixed_size` on the host chosen.

    A job that is larger than any host gets several (see `Room.span`).

    `choose_host`: (GPUs, how many of them without jobs) -> host. Jobs share no more GPUs than they must.

    A job that all hosts together could never hold is skipped, since it would block the queue for ever. `backfill`
    decides which jobs start behind the first one that waits for GPUs.
    """
    allocations = keep_running(snapshot, room.jobs_per_gpu)
    reasons: dict[str, str] = {}
    first: JobView | None = None
    kept: Reservation | None = None
    strict, reserves = backfill in (False, "none"), backfill == "reserved"

    for job in sorted((job for job in snapshot.jobs if not job.allocation), key=order.key):
        gpus = fixed_size(job)
        if (never := room.too_small_for(gpus)) is not None:
            reasons[job.id] = never
            continue
        if first is not None and strict:
            reasons[job.id] = behind(order, first)
            continue
        room.serve(job)
        # Run times are predicted only for jobs that fit: most do not.
        late = kept is not None and _place(gpus, room, room.first_host) is not None and outlives(job, gpus, kept)
        room.spare(kept.room if kept is not None and late else None)
        place = _place(gpus, room, choose_host)
        room.spare(None)
        if place is None:
            reasons[job.id] = held_up(kept) if kept is not None and late else room.too_full_for(gpus)
            if first is None:
                first = job
                if reserves:
                    kept = reserve(job, gpus, room, snapshot.jobs, allocations)
                    reasons[job.id] = reserved(reasons[job.id], kept)
            continue
        for host_id, count in place.items():
            room.take(host_id, count)
            if kept is not None and late:
                kept.room.take(host_id, count)
        allocations[job.id] = place
    return Plan(allocations, reasons=reasons, jobs_per_gpu=room.jobs_per_gpu, max_utilization=room.max_utilization)


def reserved(why: str, kept: Reservation | None) -> str:
    """Complete the explanation of a job for which GPUs are reserved."""
    if kept is None:
        return why
    code = getattr(why, "code", "waiting_for_gpus")
    return Explanation(code, f"{why} GPUs are reserved for it: it starts when {kept.after.id} ends.")


def held_up(kept: Reservation) -> Explanation:
    """Explain why a job waits although it fits."""
    need = gpu_count(fixed_size(kept.first))
    return Explanation(
        "behind_others",
        f"It may run for longer than {kept.after.id}, and would then hold up {kept.first.id}, which needs {need} and "
        "comes first.",
    )


def _place(gpus: int, room: Room, choose_host: Callable[[int, int], str | None]) -> Allocation | None:
    if gpus > room.largest:
        return room.span(gpus)
    for idle in range(gpus if room.jobs_per_gpu > 1 else 0, -1, -1):
        if (host := choose_host(gpus, idle)) is not None:
            return {host: gpus}
    return None
