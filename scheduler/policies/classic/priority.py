"""Priority: the most important waiting job starts first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.queueing import BACKFILL, Backfill, Order, Room, serve_in_order

_ORDER = Order(lambda job: (-job.priority, job.order), "by priority, highest first")


@dataclass(frozen=True)
class Priority(Policy):
    """Waiting jobs start by priority (0 to 100, higher first), then in order of submission, on the first host in
    order with enough GPUs. Running jobs are not interrupted: a job without checkpoints would lose its work."""

    name: ClassVar[str] = "priority"

    backfill: Backfill = field(default="reserved", metadata=BACKFILL)

    def allocate(self, snapshot: Snapshot) -> Plan:
        room = Room(snapshot)
        return serve_in_order(snapshot, room, room.first_host, backfill=self.backfill, order=_ORDER)
