"""First in, first out (FIFO) policy.

A job gets the first host in order that has enough GPUs. This was the default of the original Schedulearn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.queueing import SharingParameters, serve_in_order


@dataclass(frozen=True)
class Fifo(SharingParameters, Policy):
    """Jobs start in the order of submission. The first that does not fit has GPUs kept for it, so that big jobs do not
    starve; later ones start where they do not hold it up (`backfill`)."""

    name: ClassVar[str] = "fifo"

    def allocate(self, snapshot: Snapshot) -> Plan:
        room = self.room(snapshot)
        return serve_in_order(snapshot, room, room.first_host, backfill=self.backfill)
