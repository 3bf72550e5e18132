"""Which waiting jobs take GPUs back from elastic jobs, whatever their weights. Pure.

Weights decide between jobs, but two kinds of jobs must not wait for that:

- A job of higher priority starts before elastic jobs of lower priority, and is not stopped for them.
- A job that has waited for a multiple of its expected run time is due. While rigid jobs wait, it starts before elastic
  jobs of its priority that were submitted later. Each of them may weigh more while it is young, so a stream of them
  would keep a rigid job waiting for ever, or an elastic one that rigid jobs wait for.

Only the minimum of a job is claimed like this. Weights share out the rest, and decide which elastic jobs give way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

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


def _comes_after(other: JobView, job: JobView, *, due: bool) -> bool:
    if other.priority != job.priority:
        return other.priority < job.priority
    return due and other.elastic and other.order > job.order


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
        self._known: dict[tuple[str, int, object], tuple[bool, int]] = {}
        """(type, priority, order of a job that is due) -> answer of `_given`."""
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
        for kind in self._givers:
            gives, kept = self._given(kind, job, due=due)
            takes = gives or job.priority > self._stops
            if takes and need <= self._free[kind] - kept and suits_kind(job, kind):
                self._free[kind] -= need
                return True
        return False

    def _given(self, kind: str, job: JobView, *, due: bool) -> tuple[bool, int]:
        """Return whether any giver comes after a job, and the GPUs that the others keep.

        For jobs that are not due, it depends on their priority alone."""
        key = kind, job.priority, job.order if due else None
        if key not in self._known:
            givers = self._givers[kind]
            before = [(other, gpus) for other, gpus in givers if not _comes_after(other, job, due=due)]
            kept = sum(min(gpus, other.needed_gpus) for other, gpus in before)
            self._known[key] = len(before) < len(givers), kept
        return self._known[key]
