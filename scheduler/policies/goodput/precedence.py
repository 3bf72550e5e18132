"""Which waiting jobs take GPUs back from elastic jobs, whatever their weights. Pure.

Weights decide between jobs, but two kinds of jobs must not wait for that:

- A job of higher priority starts before elastic jobs of lower priority, and is not stopped for them.
- A job that has waited for a multiple of its expected run time is due. While rigid jobs wait, it starts before elastic
  jobs of its priority that were submitted later. Each of them may weigh more while it is young, so a stream of them
  would keep a rigid job waiting for ever, or an elastic one that rigid jobs wait for.

Only the minimum of a job is claimed like this. Weights share out the rest, and decide which elastic jobs give way.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate

from schedulearn.scheduler.core.model import Allocation, JobView, Snapshot
from schedulearn.scheduler.policies.goodput.admission import gpus_by_type, held_by_type, is_due, open_types
from schedulearn.scheduler.policies.goodput.host_kinds import suits_kind
from schedulearn.scheduler.policies.goodput.objective import GoodputObjective


def claimants(
    objective: GoodputObjective, snapshot: Snapshot, allocations: Mapping[str, Allocation], held_back: Collection[str]
) -> set[str]:
    """Return the jobs that wait under `allocations` and must not.

    They fit if elastic jobs that come after them stop, and the others shrink to their minimum. Jobs that are
    `held_back` wait for rigid jobs, or stop."""
    rigid = any(not job.elastic and not job.allocation for job in snapshot.jobs)
    lowest = min(job.priority for job in snapshot.jobs)
    waiting = [job for job in snapshot.jobs if job.id not in allocations and job.id not in held_back]
    due = {job.id for job in waiting if rigid and is_due(objective, snapshot.now, job)}
    waiting = [job for job in waiting if job.id in due or job.priority > lowest]
    if not waiting:
        return set()
    room = _Room(objective, snapshot, allocations, held_back)
    return {job.id for job in sorted(waiting, key=lambda job: job.by_priority) if room.claim(job, due=job.id in due)}


class _Room:
    """GPUs of each type that waiting jobs can claim."""

    def __init__(
        self,
        objective: GoodputObjective,
        snapshot: Snapshot,
        allocations: Mapping[str, Allocation],
        stopped: Collection[str],
    ) -> None:
        kind_of = open_types(snapshot.hosts)
        self._free = gpus_by_type(snapshot.hosts)
        """GPUs that running rigid jobs do not hold, and no job has claimed."""
        self._givers: dict[str, list[tuple[JobView, int]]] = {kind: [] for kind in self._free}
        """Elastic jobs, and rigid ones that would only start now, with their GPUs of each type."""
        self._minimums: dict[str, _Minimums] = {}
        self._stops = min((job.priority for job in snapshot.jobs if job.allocation and job.id in stopped), default=100)
        """Minimum priority of the rigid jobs that stop."""
        for job in snapshot.jobs:
            for kind, gpus in held_by_type(allocations.get(job.id, {}), kind_of).items():
                if not job.allocation or (job.elastic and not objective.keeps(job)):
                    self._givers[kind].append((job, gpus))
                else:
                    self._free[kind] -= gpus

    def claim(self, job: JobView, *, due: bool) -> bool:
        """Claim the minimum of a job, if it finds room where elastic jobs after it stop."""
        need = job.needed_gpus
        for kind, givers in self._givers.items():
            if kind not in self._minimums:
                self._minimums[kind] = _Minimums(givers)
            gives, kept = self._minimums[kind].beside(job, due=due)
            takes = gives or job.priority > self._stops
            if takes and need <= self._free[kind] - kept and suits_kind(job, kind):
                self._free[kind] -= need
                return True
        return False


class _Minimums:
    """Minimum GPUs of givers, by priority and order."""

    def __init__(self, givers: Sequence[tuple[JobView, int]]) -> None:
        by_priority = sorted((job.priority, min(gpus, job.needed_gpus)) for job, gpus in givers)
        self._priorities = [priority for priority, _ in by_priority]
        self._gpus = list(accumulate((gpus for _, gpus in by_priority), initial=0))
        elastic: dict[int, list[tuple[tuple[float, int, str], int]]] = {}
        for job, gpus in givers:
            if job.elastic:
                elastic.setdefault(job.priority, []).append((job.order, min(gpus, job.needed_gpus)))
        self._elastic = {
            priority: ([order for order, _ in found], list(accumulate((gpus for _, gpus in found), initial=0)))
            for priority, found in ((priority, sorted(found)) for priority, found in elastic.items())
        }
        """Priority -> orders of elastic givers, and sums of their minimum GPUs."""

    def beside(self, job: JobView, *, due: bool) -> tuple[bool, int]:
        """Return whether any giver comes after a job, and the minimum GPUs of the others.

        Givers of lower priority come after it, and after a `due` job also later elastic ones of its priority."""
        lower = bisect_left(self._priorities, job.priority)
        gives, kept = lower > 0, self._gpus[-1] - self._gpus[lower]
        if due and job.priority in self._elastic:
            orders, gpus = self._elastic[job.priority]
            later = bisect_right(orders, job.order)
            gives, kept = gives or later < len(orders), kept - (gpus[-1] - gpus[later])
        return gives, kept
