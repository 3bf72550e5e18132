"""Grants of spare GPUs, which the chosen sizes leave idle. Pure.

No GPU of an open host stays idle while a job on one host would train faster with it by more than its restart costs. The
job may be on that host or move to it.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from schedulearn.scheduler.core.model import Allocation, HostView, JobView
from schedulearn.scheduler.policies.goodput.knapsack import Floats, Ints
from schedulearn.scheduler.policies.goodput.restarts import Restarts

_MORE = 1 + 1e-6  # a smaller gain counts as none


@dataclass(frozen=True)
class Takers:
    """Jobs, of which some may take GPUs that are left over."""

    jobs: Sequence[JobView]
    weight: Floats
    """(jobs,)"""
    types: Sequence[str]
    one_host: Floats
    """(jobs, types, any): the speedup of each job on 1, 2, ... GPUs of one host of each type."""
    restarts: Restarts

    def of(self, rows: Sequence[int], types: Set[str]) -> Takers:
        """Return only these rows and types."""
        there = [at for at, kind in enumerate(self.types) if kind in types]
        return Takers(
            [self.jobs[row] for row in rows],
            self.weight[rows],
            [self.types[at] for at in there],
            self.one_host[rows][:, there],
            self.restarts.of(rows),
        )


class _Grant(NamedTuple):
    row: int
    host: str
    gpus: int


def give_spare_gpus(
    allocations: MutableMapping[str, Allocation], takers: Takers, able: Sequence[int], hosts: Sequence[HostView]
) -> dict[str, float]:
    """Give the GPUs that `allocations` leaves idle to those of `takers` that gain most; return their new speedups.

    `able`: rows of the jobs that may take some.
    """
    if not able:
        return {}
    free = {host.id: host.gpus for host in hosts if host.open and host.gpus}
    for allocation in allocations.values():
        for host_id, gpus in allocation.items():
            if host_id in free:
                free[host_id] -= gpus
    if not any(gpus > 0 for gpus in free.values()):
        return {}
    rows = []
    for row in able:
        job = takers.jobs[row]
        if not job.elastic or len(allocation := allocations.get(job.id, {})) != 1:
            continue
        [(host_id, gpus)] = allocation.items()
        if host_id in free and gpus < min(job.max_gpus, takers.one_host.shape[2]):
            rows.append(row)
    if not rows:
        return {}
    type_of = {host.id: host.gpu_type for host in hosts if host.id in free}
    found = takers.of(rows, set(type_of.values()))
    spare = _Spare(free, type_of)
    candidates = _Growable(found, allocations, type_of)
    candidates.look_at_all(spare)
    changed: dict[str, float] = {}
    while (grant := candidates.best(spare)) is not None:
        job = found.jobs[grant.row]
        changed[job.id] = candidates.grant(grant, spare)
        allocations[job.id] = {grant.host: grant.gpus}
    return changed


def _present(takers: Takers, type_of: Mapping[str, str]) -> Floats:
    """(takers,): the speedup of each where it is; 0 if that is not on one open host."""
    now = np.zeros(len(takers.jobs))
    for row, job in enumerate(takers.jobs):
        if len(job.allocation) == 1:
            [(host_id, gpus)] = job.allocation.items()
            if host_id in type_of and gpus <= takers.one_host.shape[2]:
                now[row] = takers.one_host[row, takers.types.index(type_of[host_id]), gpus - 1]
    return now


class _Spare:
    """Free GPUs of hosts, and which host of a type has most."""

    def __init__(self, free: dict[str, int], type_of: Mapping[str, str]) -> None:
        self.free, self.type_of = free, type_of
        self._most: dict[str, list[tuple[int, str]]] = {}
        for host in free:
            self._most.setdefault(type_of[host], []).append((-free[host], host))
        for heap in self._most.values():
            heapq.heapify(heap)

    def add(self, host: str, gpus: int) -> None:
        self.free[host] += gpus
        heapq.heappush(self._most[self.type_of[host]], (-self.free[host], host))

    def emptiest(self, gpu_type: str) -> str:
        """The host of the type with most free GPUs; of equal ones the first by its id."""
        heap = self._most[gpu_type]
        while -heap[0][0] != self.free[heap[0][1]]:
            heapq.heappop(heap)
        return heap[0][1]


@dataclass(frozen=True)
class _HeldGpus:
    """GPUs that a job holds now, if on one host. To have them again takes no restart."""

    host: str
    gpus: int


class _Growable:
    """Elastic jobs on one open host that could have more GPUs, and what each would save.

    A saving is weighted time per additional GPU, with the best GPUs that are free. Arrays are by row; a grant changes a
    few rows.
    """

    def __init__(self, takers: Takers, allocations: Mapping[str, Allocation], type_of: Mapping[str, str]) -> None:
        jobs, types, self._speedups = takers.jobs, takers.types, takers.one_host
        self._types, self._type_of, self._weight = list(types), type_of, takers.weight
        flat, now = self._speedups.reshape(len(jobs), -1), _present(takers, type_of)
        self._resized, self._moved = (
            (flat * takers.restarts.share(flat, now, moves=moves)).reshape(self._speedups.shape)
            for moves in (False, True)
        )
        self._hosts = [next(iter(allocations[job.id])) for job in jobs]
        self._gpus = np.array([allocations[job.id][host] for job, host in zip(jobs, self._hosts, strict=True)])
        self._most = np.array([job.max_gpus for job in jobs])
        self._held = [
            _HeldGpus(*next(iter(job.allocation.items()))) if len(job.allocation) == 1 else None for job in jobs
        ]
        self._before = np.zeros(len(jobs))
        self._on: dict[str, set[int]] = {}
        self._held_on: dict[str, list[int]] = {}
        for row, host in enumerate(self._hosts):
            self._on.setdefault(host, set()).add(row)
            if (held := self._held[row]) is not None:
                self._held_on.setdefault(held.host, []).append(row)
            self._before[row] = self._worth(row, host, int(self._gpus[row]))
        # Column 0: by more GPUs of its own host; then by those of the emptiest host of each type.
        self._saving = np.zeros((len(jobs), 1 + len(types)))
        self._target = np.zeros((len(jobs), 1 + len(types)), dtype=np.int64)
        self._room = [0] * len(types)

    def look_at_all(self, spare: _Spare) -> None:
        for host, rows in self._on.items():
            for row in rows:
                self._look_at_own(row, spare.free[host])
        self._look_at_types(spare)

    def best(self, spare: _Spare) -> _Grant | None:
        """Return the grant that saves most per GPU; of equal ones, one that moves no job."""
        most = float(self._saving.max())
        again = self._back_to_what_it_held(spare)
        if again is not None and again[0] > most * _MORE:
            return again[1]
        if most <= 0:
            return None
        row, column = divmod(int((self._saving * _MORE >= most).argmax()), self._saving.shape[1])
        host = self._hosts[row] if column == 0 else spare.emptiest(self._types[column - 1])
        return _Grant(row, host, int(self._target[row, column]))

    def grant(self, grant: _Grant, spare: _Spare) -> float:
        """Apply a grant; return the speedup that the job then has."""
        row, before = grant.row, self._hosts[grant.row]
        spare.add(before, int(self._gpus[row]))
        spare.add(grant.host, -grant.gpus)
        self._on[before].discard(row)
        self._on.setdefault(grant.host, set()).add(row)
        self._hosts[row], self._gpus[row] = grant.host, grant.gpus
        self._before[row] = self._worth(row, grant.host, grant.gpus)
        for host in dict.fromkeys((before, grant.host)):
            for other in self._on[host]:
                self._look_at_own(other, spare.free[host])
        self._look_at_types(spare, row)
        return float(self._speedups[row, self._types.index(self._type_of[grant.host]), grant.gpus - 1])

    def _worth(self, row: int, host: str, gpus: int) -> float:
        held = self._held[row]
        table = self._moved if held is None or held.host != host else self._resized
        table = self._speedups if held == _HeldGpus(host, gpus) else table
        return float(table[row, self._types.index(self._type_of[host]), gpus - 1])

    def _look_at_own(self, row: int, free: int) -> None:
        host, gpus = self._hosts[row], int(self._gpus[row])
        best, target, before = 0.0, 0, self._before[row]
        for more in range(gpus + 1, min(gpus + free, int(self._most[row])) + 1):
            after = self._worth(row, host, more)
            if before > 0 and after > before * _MORE:
                saving = float(self._weight[row]) * (1 / before - 1 / after) / (more - gpus)
                if saving > best * _MORE:
                    best, target = saving, more
        self._saving[row, 0], self._target[row, 0] = best, target

    def _look_at_types(self, spare: _Spare, changed: int | None = None) -> None:
        """Update all rows for types whose emptiest host changed its free GPUs; for other types, the row `changed`."""
        for at, kind in enumerate(self._types):
            room = max(0, spare.free[spare.emptiest(kind)])
            if room != self._room[at]:
                rows = np.arange(len(self._saving))
            elif changed is not None:
                rows = np.array([changed])
            else:
                continue
            self._room[at] = room
            self._saving[rows, 1 + at], self._target[rows, 1 + at] = self._by_moving(rows, at, room)

    def _by_moving(self, rows: Ints, at: int, room: int) -> tuple[Floats, Ints]:
        """Return (what each of `rows` would save on a host with `room` free GPUs, how many of them it would take)."""
        before, gpus, most = self._before[rows, None], self._gpus[rows, None], self._most[rows, None]
        after = self._moved[rows, at, :room]
        if after.size == 0:
            return np.zeros(len(after)), np.zeros(len(after), dtype=np.int64)
        sizes = np.arange(1, after.shape[1] + 1)
        able = (sizes > gpus) & (sizes <= most) & (before > 0) & (after > before * _MORE)
        gain = 1 / np.where(able, before, 1.0) - 1 / np.where(able, after, 1.0)
        saving = np.where(able, self._weight[rows, None] * gain / np.maximum(sizes - gpus, 1), 0.0)
        pick = saving.argmax(axis=1)
        return saving[np.arange(len(pick)), pick], sizes[pick]

    def _back_to_what_it_held(self, spare: _Spare) -> tuple[float, _Grant] | None:
        """Find the best grant that lets a job stay where it is now, without a restart, instead of moving."""
        best: tuple[float, _Grant] | None = None
        for kind in self._types:
            host = spare.emptiest(kind)
            for row in self._held_on.get(host, ()):
                held, gpus, before = self._held[row], int(self._gpus[row]), float(self._before[row])
                if held is None or self._hosts[row] == host or not gpus < held.gpus <= spare.free[host]:
                    continue
                after = self._worth(row, host, held.gpus)
                if before > 0 and after > before * _MORE and held.gpus <= self._most[row]:
                    saving = float(self._weight[row]) * (1 / before - 1 / after) / (held.gpus - gpus)
                    if best is None or saving > best[0] * _MORE:
                        best = saving, _Grant(row, host, held.gpus)
        return best
