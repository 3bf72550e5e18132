"""Earliest deadline first."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.queueing import Order, Room, serve_in_order

_ORDER = Order(lambda job: (inf if job.deadline is None else job.deadline, job.order), "by deadline, earliest first")


@dataclass(frozen=True)
class EarliestDeadlineFirst(Policy):
    """Waiting jobs start by their deadline, those without one last, then in order of submission, on the first host
    in order with enough GPUs. Running jobs are not interrupted."""

    name: ClassVar[str] = "edf"

    backfill: bool = field(default=False, metadata={"doc": "let later jobs that fit pass one that waits"})

    def allocate(self, snapshot: Snapshot) -> Plan:
        room = Room(snapshot)
        return serve_in_order(snapshot, room, room.first_host, backfill=self.backfill, order=_ORDER)
