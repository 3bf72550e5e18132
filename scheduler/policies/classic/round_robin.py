"""Round-robin policy over hosts.

Each new job goes to the next host in turn that has enough free GPUs, as in the original Schedulearn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.queueing import SharingParameters, serve_in_order


@dataclass(frozen=True)
class RoundRobin(SharingParameters, Policy):
    """Jobs start in the order of submission, on hosts that take turns, which spreads the load."""

    name: ClassVar[str] = "round-robin"

    def allocate(self, snapshot: Snapshot) -> Plan:
        room = self.room(snapshot)
        turn = [host.id for host in snapshot.hosts]
        if snapshot.last_host in turn:
            after = turn.index(snapshot.last_host) + 1
            turn = turn[after:] + turn[:after]

        def next_host(gpus: int, idle: int) -> str | None:
            for position, host in enumerate(turn):
                if room.fits(host, gpus, idle):
                    turn[:] = turn[position + 1 :] + turn[: position + 1]
                    return host
            return None

        return serve_in_order(snapshot, room, next_host, backfill=self.backfill)
