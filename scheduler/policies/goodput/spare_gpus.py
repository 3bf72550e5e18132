"""Spare GPUs, which the chosen sizes leave idle, go to whoever gains by them: no GPU of an open host idles while a job
on one host would train faster with it, there or by moving to it, by more than its restart costs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from schedulearn.metrics.model.goodput import goodput_table
from schedulearn.scheduler.core.model import Allocation, HostView, JobView
from schedulearn.scheduler.policies.goodput.knapsack import Floats

if TYPE_CHECKING:
    from schedulearn.metrics.model.goodput import GoodputFunction

_MORE = 1 + 1e-6  # a gain below this is none
RestartShare = Callable[[Sequence[JobView], Floats], Floats]
"""What is left of each speedup (jobs, any) if a running job must restart for it."""


@dataclass
class _Candidate:
    """An elastic job on one open host, which could have more GPUs."""

    job: JobView
    host: str
    gpus: int
    weight: float
    speedups: dict[str, Sequence[float]] = field(default_factory=dict)
    """GPU type -> speedup on 1, 2, ... GPUs of one host, against one GPU."""
    restarted: dict[str, Sequence[float]] = field(default_factory=dict)
    """The same with the restart that it takes."""

    def worth(self, gpu_type: str, gpus: int, restarts: bool) -> float:
        return (self.restarted if restarts else self.speedups)[gpu_type][gpus - 1]


@dataclass(frozen=True)
class _Grant:
    candidate: _Candidate
    host: str
    gpus: int
    saving: float
    """Of the job's weighted time, for each GPU more."""


def give_spare_gpus(
    allocations: MutableMapping[str, Allocation],
    jobs: Sequence[JobView],
    hosts: Sequence[HostView],
    function_of: Callable[[JobView], GoodputFunction | None],
    weights: Mapping[str, float],
    share: RestartShare,
) -> dict[str, float]:
    """Gives the GPUs that `allocations` leaves idle to those of `jobs` that gain most; returns their new speedups."""
    free = {host.id: host.gpus for host in hosts if host.open and host.gpus}
    for allocation in allocations.values():
        for host_id, gpus in allocation.items():
            if host_id in free:
                free[host_id] -= gpus
    if not any(gpus > 0 for gpus in free.values()):
        return {}
    type_of = {host.id: host.gpu_type for host in hosts}
    candidates = _candidates(allocations, jobs, hosts, free, function_of, weights, share)
    changed: dict[str, float] = {}
    while (grant := _best(candidates, allocations, free, type_of)) is not None:
        winner = grant.candidate
        free[winner.host] += winner.gpus
        free[grant.host] -= grant.gpus
        winner.host, winner.gpus = grant.host, grant.gpus
        allocations[winner.job.id] = {grant.host: grant.gpus}
        changed[winner.job.id] = winner.speedups[type_of[grant.host]][grant.gpus - 1]
    return changed


def _candidates(
    allocations: Mapping[str, Allocation],
    jobs: Sequence[JobView],
    hosts: Sequence[HostView],
    free: Mapping[str, int],
    function_of: Callable[[JobView], GoodputFunction | None],
    weights: Mapping[str, float],
    share: RestartShare,
) -> list[_Candidate]:
    widest = max(host.gpus for host in hosts if host.id in free)
    types = sorted({host.gpu_type for host in hosts if host.id in free})
    found = []
    for job in jobs:
        if not job.elastic or len(allocation := allocations.get(job.id, {})) != 1:
            continue
        [(host, gpus)] = allocation.items()
        if host in free and gpus < min(job.max_gpus, widest):
            found.append(_Candidate(job, host, gpus, weights[job.id]))
    if not found:
        return []
    counts = np.tile(np.arange(1, widest + 1), len(types))
    kinds = [kind for kind in types for _ in range(widest)] if len(types) > 1 else None
    table = goodput_table([function_of(candidate.job) for candidate in found], np.ones_like(counts), counts, kinds)
    blind = np.array([function_of(candidate.job) is None for candidate in found])
    table[blind] = counts
    ones = table[:, counts == 1]
    unit = np.where(ones > 0, ones, np.inf).min(axis=1, keepdims=True)
    table /= np.where(np.isfinite(unit), unit, 1.0)
    restarted = table * share([candidate.job for candidate in found], table)
    for row, candidate in enumerate(found):
        for index, kind in enumerate(types):
            columns = slice(index * widest, (index + 1) * widest)
            candidate.speedups[kind] = table[row, columns].tolist()
            candidate.restarted[kind] = restarted[row, columns].tolist()
    return found


def _best(
    candidates: Sequence[_Candidate],
    allocations: Mapping[str, Allocation],
    free: Mapping[str, int],
    type_of: Mapping[str, str],
) -> _Grant | None:
    """The grant that saves most for each GPU; of equal ones one that moves nobody."""
    emptiest: dict[str, str] = {}  # GPU type -> the host with the most free GPUs
    for host in sorted(free):
        if free[host] > free.get(emptiest.get(type_of[host], ""), 0):
            emptiest[type_of[host]] = host
    best: _Grant | None = None
    for candidate in candidates:
        for host in dict.fromkeys([candidate.host, *emptiest.values()]):
            room = free[host] + (candidate.gpus if host == candidate.host else 0)
            for gpus in range(candidate.gpus + 1, min(room, candidate.job.max_gpus) + 1):
                saving = _saving(candidate, allocations, host, gpus, type_of)
                if saving > 0 and (best is None or saving > best.saving * _MORE):
                    best = _Grant(candidate, host, gpus, saving)
    return best


def _saving(
    candidate: _Candidate,
    allocations: Mapping[str, Allocation],
    host: str,
    gpus: int,
    type_of: Mapping[str, str],
) -> float:
    held = candidate.job.allocation
    before = candidate.worth(type_of[candidate.host], candidate.gpus, restarts=held != allocations[candidate.job.id])
    after = candidate.worth(type_of[host], gpus, restarts=held != {host: gpus})
    if before <= 0 or after <= before * _MORE:
        return 0.0
    return candidate.weight * (1 / before - 1 / after) / (gpus - candidate.gpus)
