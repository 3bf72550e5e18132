"""First in, first out: the first host in order that has enough GPUs (the original Schedulearn's default)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from schedulearn.scheduler.domain import Plan, Snapshot
from schedulearn.scheduler.policies.queueing import Room, serve_in_order


@dataclass(frozen=True)
class Fifo:
    """Jobs start in the order of submission. Strict by default: a job that does not fit holds back all behind it,
    so that big jobs do not starve; `backfill` lets later ones pass."""

    name: ClassVar[str] = "fifo"

    backfill: bool = field(default=False, metadata={"doc": "let later jobs that fit pass one that waits"})
    jobs_per_gpu: int = field(default=1, metadata={"doc": "how many jobs may share one GPU (1 to 16)"})
    max_utilization: float = field(
        default=90.0, metadata={"doc": "share a GPU that has a job only below this utilisation, in per cent"}
    )

    def __post_init__(self) -> None:
        check_sharing(self.jobs_per_gpu, self.max_utilization)

    def allocate(self, snapshot: Snapshot) -> Plan:
        room = Room(snapshot, self.jobs_per_gpu, self.max_utilization)
        return serve_in_order(snapshot, room, room.first_host, backfill=self.backfill)


def check_sharing(jobs_per_gpu: int, max_utilization: float) -> None:
    """Raises ValueError unless both parameters are in range."""
    if not 1 <= jobs_per_gpu <= 16:
        raise ValueError(f"jobs_per_gpu must be 1 to 16, not {jobs_per_gpu}")
    if not 0 < max_utilization <= 100:
        raise ValueError(f"max_utilization must be above 0 and at most 100 per cent, not {max_utilization}")
