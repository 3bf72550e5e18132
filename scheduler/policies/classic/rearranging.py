"""Shared parts of the preemptive policies.

Running jobs stay where they are until a job that comes first needs their GPUs. Elastic jobs give up GPUs. A rigid job
would lose its work, so it keeps its GPUs until it ends, unless it is preemptible and the other has a higher priority.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import takewhile
from math import inf

from schedulearn.scheduler.core.model import Allocation, Explanation, JobView, Plan, Snapshot, gpu_count
from schedulearn.scheduler.policies.classic.queueing import (
    Order,
    Reservation,
    Room,
    behind,
    fixed_size,
    held_up,
    keep_running,
    outlives,
    reserve,
    reserved,
)

Victims = Iterable[tuple[JobView, int]]
"""Running elastic jobs with the number of GPUs that each keeps, 0 to stop. The first ones give up GPUs first."""

_Before = dict[str, tuple[JobView, Allocation, str | None]]  # victim -> its allocation, and the job that shrank it last


class Rearrangement:
    """Plan being made. At first, every job keeps what it holds."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.room = Room(snapshot, soon=True)
        self.allocations: dict[str, Allocation] = keep_running(snapshot)
        self._lost_to: dict[str, str] = {}  # job that gave up GPUs -> job that they were for
        open_hosts = {host.id for host in snapshot.hosts if host.open}
        stays = [job for job in snapshot.jobs if job.id in self.allocations and job.allocation.keys() <= open_hosts]
        self.movable = [job for job in stays if job.elastic]
        """Running elastic jobs on hosts that may be used: those that can be resized or stopped."""
        self.preemptible = [job for job in stays if job.preemptible and not job.elastic]
        """Running rigid jobs that can be stopped."""

    def held(self, job: JobView) -> int:
        """GPUs that the plan gives the job so far."""
        return sum(self.allocations.get(job.id, {}).values())

    def start(self, job: JobView, gpus: int, victims: Victims = (), beside: Room | None = None) -> bool:
        """Give a waiting job `gpus` free GPUs, else GPUs of `victims`, which lose no more than needed.

        The GPUs are on one host if any host is that large, else on several. They must also be free in `beside`, and are
        taken there too. If the job does not fit, return False and change nothing.
        """
        self.room.spare(beside)
        place = self._find(gpus) or self._make_room(job, gpus, victims)
        self.room.spare(None)
        if place is None:
            return False
        self._put(job, place)
        if beside is not None:
            for host, number in place.items():
                beside.take(host, number)
        return True

    def fits(self, gpus: int) -> bool:
        """Return whether a job of that size finds free GPUs."""
        return self._find(gpus) is not None

    def reserve(self, job: JobView, gpus: int) -> Reservation | None:
        """Reserve GPUs for a waiting job that does not fit; None: it does not even fit once all others have ended."""
        return reserve(job, gpus, self.room, self._snapshot.jobs, self.allocations)

    def start_smaller(self, job: JobView, least: int, most: int) -> bool:
        """Give a waiting job at most `most` GPUs of the emptiest host, if at least `least` are free there."""
        host = self.room.emptiest_host()
        gpus = min(most, self.room.free(host)) if host is not None else 0
        if host is None or gpus < max(1, least):
            return False
        self._put(job, {host: gpus})
        return True

    def grow(self, job: JobView, gpus: int, worth_it: Callable[[int], bool], victims: Victims = ()) -> bool:
        """Give a running job `gpus`, or the most that one host has, if `worth_it(number)`.

        The job stays on its host if that has enough free GPUs. If it keeps what it has, return False.
        """
        if not worth_it(gpus):
            return False
        own = self.allocations[job.id]
        self._release(own)
        home = next(iter(own)) if len(own) == 1 else None
        if home is not None and self.room.fits(home, gpus):
            place: Allocation | None = {home: gpus}
        else:
            place = self._find(gpus) or self._make_room(job, gpus, victims)
        if place is None:
            host = self.room.emptiest_host()
            if home is not None and host is not None and self.room.free(home) >= self.room.free(host):
                host = home
            smaller = min(gpus, self.room.free(host)) if host is not None else 0
            if host is not None and smaller > sum(own.values()) and worth_it(smaller):
                place = {host: smaller}
        self._put(job, place or own)
        return place is not None

    def plan(self, reasons: Mapping[str, str]) -> Plan:
        """Return the plan so far, with `reasons` and the reason for each running job that lost or gained GPUs."""
        all_reasons = dict(reasons)
        for job in self._snapshot.jobs:
            now = self.allocations.get(job.id, {})
            if not job.allocation or dict(now) == dict(job.allocation):
                continue
            if not job.elastic and job.id not in self._lost_to:
                continue
            cause = f"make room for {self._lost_to[job.id]}" if job.id in self._lost_to else "leave its host"
            after = sum(now.values())
            if not after:
                all_reasons[job.id] = Explanation("preempted", f"It gives up its {gpu_count(job.gpus)} to {cause}.")
            elif after < job.gpus:
                all_reasons[job.id] = Explanation(
                    "resized", f"It shrinks from {gpu_count(job.gpus)} to {after} to {cause}."
                )
            else:
                all_reasons[job.id] = Explanation("resized", f"It grows from {gpu_count(job.gpus)} to {after}.")
        return Plan(self.allocations, reasons=all_reasons)

    def _find(self, gpus: int) -> Allocation | None:
        if gpus > self.room.largest:
            return self.room.span(gpus)
        host = self.room.best_host(gpus)
        return None if host is None else {host: gpus}

    def _make_room(self, job: JobView, gpus: int, victims: Victims) -> Allocation | None:
        if gpus > self.room.largest:
            return self._make_room_on_several(job, gpus, victims)
        gain: dict[str, int] = {}
        found: dict[str, list[tuple[JobView, int, int]]] = {}  # host -> (victim, GPUs it keeps, GPUs it frees there)
        for victim, keeps in victims:
            if victim.id not in self.allocations:
                continue
            for host, freed in self._surplus(victim, keeps).items():
                gain[host] = gain.get(host, 0) + freed
                found.setdefault(host, []).append((victim, keeps, freed))
                spare = self.room.free(host) + gain[host] - gpus
                if spare < 0:
                    continue
                before: _Before = {}
                self._shrink(victim, keeps, job, before)
                for other, kept, freed_here in found[host][-2::-1]:  # the last to give are the first to be spared
                    if freed_here <= spare:
                        spare -= freed_here
                    else:
                        self._shrink(other, kept, job, before)
                if self.room.fits(host, gpus):
                    return {host: gpus}
                self._restore(before)  # GPUs that several jobs share are not free before all of these have gone
                return None
        return None

    def _make_room_on_several(self, job: JobView, gpus: int, victims: Victims) -> Allocation | None:
        giving = [(victim, keeps, freed) for victim, keeps in victims if (freed := self._surplus(victim, keeps))]

        def place_among(count: int) -> Allocation | None:
            """Find hosts for the job if the first `count` victims gave up what they can."""
            more: dict[str, int] = {}
            for _, _, freed in giving[:count]:
                for host, number in freed.items():
                    more[host] = more.get(host, 0) + number
            return self.room.span(gpus, more)

        fewest = bisect_left(range(len(giving)), True, key=lambda count: place_among(count) is not None)
        place = place_among(fewest)
        if place is None:
            return None
        before: _Before = {}
        for victim, keeps, freed in giving[:fewest]:
            if any(self.room.free(host) < place.get(host, 0) for host in freed):
                self._shrink(victim, keeps, job, before)
        if all(self.room.fits(host, number) for host, number in place.items()):
            return place
        self._restore(before)  # as above
        return None

    def _restore(self, before: _Before) -> None:
        for victim, allocation, lost_to in before.values():
            self._release(self.allocations.pop(victim.id, {}))
            self._put(victim, allocation)
            del self._lost_to[victim.id]
            if lost_to is not None:
                self._lost_to[victim.id] = lost_to

    def _surplus(self, victim: JobView, keeps: int) -> dict[str, int]:
        now = self.allocations.get(victim.id, {})
        if keeps == 0 or not now:
            return dict(now)
        left = _first_gpus(now, keeps)
        return {host: gpus - left.get(host, 0) for host, gpus in now.items() if gpus > left.get(host, 0)}

    def _shrink(self, victim: JobView, keeps: int, for_job: JobView, before: _Before) -> None:
        before[victim.id] = (victim, self.allocations[victim.id], self._lost_to.get(victim.id))
        left = _first_gpus(self.allocations[victim.id], keeps)
        self._release(self._surplus(victim, keeps))
        if left:
            self.allocations[victim.id] = left
        else:
            del self.allocations[victim.id]
        self._lost_to[victim.id] = for_job.id

    def _put(self, job: JobView, place: Allocation) -> None:
        for host, gpus in place.items():
            self.room.take(host, gpus)
        self.allocations[job.id] = dict(place)

    def _release(self, place: Allocation) -> None:
        for host, gpus in place.items():
            self.room.give_back(host, gpus)


def _first_gpus(allocation: Allocation, gpus: int) -> dict[str, int]:
    """Choose `gpus` GPUs of an allocation, on as few of its hosts as possible."""
    left: dict[str, int] = {}
    for host, held in sorted(allocation.items(), key=lambda item: (-item[1], item[0])):
        if gpus > 0:
            left[host] = min(held, gpus)
            gpus -= left[host]
    return left


def length(job: JobView) -> float:
    """Return the remaining work of a job, in seconds on one GPU.

    If it is unknown, the job is taken to need as much again as it has had. The heavy-tailed run times of training jobs
    make this likely (Gu et al., Tiresias, NSDI 2019, section 3.2).
    """
    return job.remaining if job.remaining is not None else job.attained_gpu_seconds


def serve_by_rank(
    snapshot: Snapshot,
    order: Order,
    may_preempt: Callable[[JobView, JobView], bool],
    holds_back: Callable[[JobView], bool] = lambda job: False,
    *,
    reserves: Callable[[JobView], bool] = lambda job: False,
    stops_rigid: bool = False,
) -> Plan:
    """Start waiting jobs in order with their `fixed_size`, with preemption.

    A job that finds too few free GPUs takes those of running elastic jobs that it `may_preempt`, the last in the order
    first. If that does not help either, others pass it, unless it `holds_back` those behind. `reserves`: GPUs are
    reserved for the first such job that does not fit; others pass it only on free GPUs, and only if they do not delay
    it. `stops_rigid`: preemptible rigid jobs give up theirs too.

    `may_preempt` must follow the order. An earlier job may preempt every job that a later one may. A later job may be
    preempted by every job that may preempt an earlier one.
    """
    plan = Rearrangement(snapshot)
    last_first = sorted(plan.movable + plan.preemptible * stops_rigid, key=order.key, reverse=True)
    reasons: dict[str, str] = {}
    blocker: JobView | None = None
    kept: Reservation | None = None
    hopeless: dict[bool, float] = {}  # whether on several hosts -> minimum number of GPUs not found
    for job in sorted((job for job in snapshot.jobs if not job.allocation), key=order.key):
        gpus = fixed_size(job)
        if (never := plan.room.too_small_for(gpus)) is not None:
            reasons[job.id] = never
            continue
        if blocker is not None:
            reasons[job.id] = behind(order, blocker)
            continue
        # GPUs that one job can't find here, those behind it can't find either.
        several = gpus > plan.room.largest
        try_hard = kept is None and gpus < hopeless.get(several, inf)
        behind_it = takewhile(partial(may_preempt, job), last_first) if try_hard else ()
        # Run times are predicted only for jobs that fit: most do not.
        beside = kept.room if kept is not None and plan.fits(gpus) and outlives(job, gpus, kept) else None
        if plan.start(job, gpus, ((victim, 0) for victim in behind_it), beside):
            continue
        if kept is not None and beside is not None and plan.fits(gpus):
            reasons[job.id] = held_up(kept)
            continue
        hopeless[several] = min(gpus, hopeless.get(several, inf))
        reasons[job.id] = plan.room.too_full_for(gpus)
        blocker = job if holds_back(job) else None
        if kept is None and reserves(job):
            kept = plan.reserve(job, gpus)
            reasons[job.id] = reserved(reasons[job.id], kept)
    return plan.plan(reasons)


def is_rigid(job: JobView) -> bool:
    return not job.elastic
