"""Priority: the most important waiting job starts first, on GPUs of less important ones if need be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from schedulearn.scheduler.core.model import JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.queueing import BACKFILL, Backfill, Order
from schedulearn.scheduler.policies.classic.rearranging import serve_by_rank

_ORDER = Order(lambda job: job.by_priority, "by priority, highest first")


@dataclass(frozen=True)
class Priority(Policy):
    """Waiting jobs start by priority (0 to 100, higher first), then in order of submission. A job that finds too few
    free GPUs takes those of running elastic jobs of lower priority: the lowest first, of equal ones the newest. These
    save a checkpoint, and go on when they are next. Rigid jobs keep their GPUs unless they are preemptible: they would
    lose their work."""

    name: ClassVar[str] = "priority"

    backfill: Backfill = field(default="reserved", metadata=BACKFILL)

    def allocate(self, snapshot: Snapshot) -> Plan:
        strict = self.backfill in (False, "none")
        reserves = self.backfill == "reserved"
        return serve_by_rank(
            snapshot,
            _ORDER,
            _is_more_important,
            lambda job: strict,
            reserves=lambda job: reserves,
            stops_rigid=True,
        )


def _is_more_important(job: JobView, running: JobView) -> bool:
    return job.priority > running.priority
