"""Earliest deadline first."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

from schedulearn.scheduler.core.model import JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.queueing import Order, Room, SortKey, fixed_size, serve_in_order


@dataclass(frozen=True)
class EarliestDeadlineFirst(Policy):
    """Waiting jobs start by their deadline, on the first host in order with enough GPUs. Those that can't meet theirs
    any more come after all that can: they would make others late too, for nothing. Then come those without one, in
    order of submission. Running jobs are not interrupted."""

    name: ClassVar[str] = "edf"

    backfill: bool = field(default=False, metadata={"doc": "let later jobs that fit pass one that waits"})

    def allocate(self, snapshot: Snapshot) -> Plan:
        room = Room(snapshot)

        def key(job: JobView) -> SortKey:
            return (_rank(job, snapshot.now), inf if job.deadline is None else job.deadline, job.order)

        order = Order(key, "by deadline, earliest first, those that can still be in time first")
        return serve_in_order(snapshot, room, room.first_host, backfill=self.backfill, order=order)


def _rank(job: JobView, now: float) -> int:
    if job.deadline is None:
        return 2
    return int(out_of_time(job, now))


def out_of_time(job: JobView, now: float) -> bool:
    """Whether it would end after its deadline even if it started now. Where nobody knows how much is left: whether its
    deadline has passed."""
    if job.deadline is None:
        return False
    gpus = fixed_size(job)
    speedup = float(gpus)
    if job.goodput is not None and (one := job.goodput(1, 1)) > 0:
        speedup = float(job.goodput(1, gpus)) / float(one)
    left = 0.0 if job.remaining is None else job.remaining / max(speedup, 1e-9)
    return now + left > job.deadline
