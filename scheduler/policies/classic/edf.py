"""Earliest deadline first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

from schedulearn.scheduler.core.model import JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.queueing import (
    BACKFILL,
    Backfill,
    Order,
    Room,
    SortKey,
    fixed_size,
    serve_in_order,
)


@dataclass(frozen=True)
class EarliestDeadlineFirst(Policy):
    """Waiting jobs start by their deadline, on the first host in order with enough GPUs. Those that can't meet theirs
    any more come after all that can: they would make others late too, for nothing. Then come those without one, in
    order of submission. Running jobs are not interrupted."""

    name: ClassVar[str] = "edf"

    backfill: Backfill = field(default="reserved", metadata=BACKFILL)

    def allocate(self, snapshot: Snapshot) -> Plan:
        room = Room(snapshot)
        late = out_of_time(snapshot.jobs, snapshot.now)

        def key(job: JobView) -> SortKey:
            rank = 2 if job.deadline is None else int(job.id in late)
            return (rank, inf if job.deadline is None else job.deadline, job.order)

        order = Order(key, "by deadline, earliest first, those that can still be in time first")
        return serve_in_order(snapshot, room, room.first_host, backfill=self.backfill, order=order)


def out_of_time(jobs: Sequence[JobView], now: float) -> set[str]:
    """The jobs that would end after their deadline even if they started now. Where nobody knows how much is left: those
    whose deadline has passed."""
    due = [job for job in jobs if job.deadline is not None]
    speedups = _speedups([job for job in due if job.remaining is not None])
    late = set()
    for job in due:
        left = 0.0 if job.remaining is None else job.remaining / speedups[job.id]
        if job.deadline is not None and now + left > job.deadline:
            late.add(job.id)
    return late


def _speedups(jobs: Sequence[JobView]) -> dict[str, float]:
    """Of each job with the GPUs that it gets, against one GPU; those that were not measured scale perfectly."""
    found = {job.id: float(fixed_size(job)) for job in jobs}
    measured = [job for job in jobs if job.goodput is not None]
    if measured:
        import numpy as np  # here, so that a service whose jobs report nothing need not load it

        from schedulearn.metrics.model.goodput import goodput_table

        sizes = sorted({1, *(fixed_size(job) for job in measured)})
        table = goodput_table([job.goodput for job in measured], np.ones(len(sizes)), np.array(sizes))
        for job, row in zip(measured, table, strict=True):
            one, here = float(row[0]), float(row[sizes.index(fixed_size(job))])
            if one > 0:
                found[job.id] = max(here / one, 1e-9)
    return found
