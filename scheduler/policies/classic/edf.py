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
    seconds_left,
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

        order = Order(key, "by deadline (earliest first; jobs that can't meet theirs come later)")
        return serve_in_order(snapshot, room, room.first_host, backfill=self.backfill, order=order)


def out_of_time(jobs: Sequence[JobView], now: float) -> set[str]:
    """Return the ids of jobs that would end after their deadline even if they started now.

    A job of unknown remaining time is in the set only once its deadline has passed.
    """
    due = [job for job in jobs if job.deadline is not None]
    left = seconds_left([(job, fixed_size(job)) for job in due])
    return {
        job.id
        for job, seconds in zip(due, left, strict=True)
        if job.deadline is not None and now + (seconds or 0.0) > job.deadline
    }
