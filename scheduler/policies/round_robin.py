"""Round robin over hosts: each new job goes to the next host in turn that has room (the original Schedulearn's)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from schedulearn.scheduler.domain import Plan, Snapshot
from schedulearn.scheduler.policies.fifo import check_sharing
from schedulearn.scheduler.policies.queueing import Room, serve_in_order


@dataclass(frozen=True)
class RoundRobin:
    """Jobs start in the order of submission, on hosts that take turns, which spreads the load."""

    name: ClassVar[str] = "round-robin"

    backfill: bool = field(default=False, metadata={"doc": "let later jobs that fit pass one that waits"})
    jobs_per_gpu: int = field(default=1, metadata={"doc": "how many jobs may share one GPU (1 to 16)"})
    max_utilization: float = field(
        default=90.0, metadata={"doc": "share a GPU that has a job only below this utilisation, in per cent"}
    )

    def __post_init__(self) -> None:
        check_sharing(self.jobs_per_gpu, self.max_utilization)

    def allocate(self, snapshot: Snapshot) -> Plan:
        room = Room(snapshot, self.jobs_per_gpu, self.max_utilization)
        turn = [host.id for host in snapshot.hosts]
        if snapshot.last_host in turn:
            after = turn.index(snapshot.last_host) + 1
            turn = turn[after:] + turn[:after]

        def next_host(gpus: int) -> str | None:
            for position, host in enumerate(turn):
                if room.fits(host, gpus):
                    turn[:] = turn[position + 1 :] + turn[: position + 1]
                    return host
            return None

        return serve_in_order(snapshot, room, next_host, backfill=self.backfill)
