"""Elastic FIFO."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from schedulearn.scheduler.core.model import JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.elastic import Claim, Damping, allocate_shares, give_least
from schedulearn.scheduler.policies.classic.queueing import BY_SUBMISSION


@dataclass(frozen=True)
class ElasticFifo(Damping, Policy):
    """Every job gets its least size in the order of submission, then one GPU more each in turn while that makes them
    faster (Elastic-FIFO of VodaScheduler). Running jobs shrink for those that come, down to their least size, and are
    never stopped."""

    name: ClassVar[str] = "elastic-fifo"
    resizes: ClassVar[bool] = True

    backfill: bool = field(default=False, metadata={"doc": "later jobs that fit may start before one that waits"})

    def allocate(self, snapshot: Snapshot) -> Plan:
        return allocate_shares(snapshot, BY_SUBMISSION, self, self._share_out, self._holds_back)

    def _holds_back(self, job: JobView) -> bool:
        return not self.backfill

    def _share_out(self, claims: list[Claim], gpus: int) -> None:
        running = [claim for claim in claims if claim.job.allocation]
        waiting = [claim for claim in claims if not claim.job.allocation]
        gpus = give_least(waiting, give_least(running, gpus), self._holds_back)
        growing = [claim for claim in claims if claim.step >= 0]
        while growing and gpus > 0:
            still = []
            for claim in growing:
                more = claim.next_gpus
                if more is not None and more <= gpus:
                    claim.step += 1
                    gpus -= more
                    still.append(claim)
            growing = still
