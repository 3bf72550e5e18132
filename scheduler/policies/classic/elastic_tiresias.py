"""Elastic Tiresias policy.

Source: E-Tiresias of Wu et al., Elastic Deep Learning in Multi-Tenant GPU Clusters, IEEE TPDS 2022.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import ClassVar

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.elastic import Claim, Damping, allocate_shares
from schedulearn.scheduler.policies.classic.queueing import fixed_size
from schedulearn.scheduler.policies.classic.tiresias import Queues


@dataclass(frozen=True)
class ElasticTiresias(Damping, Queues, Policy):
    """Queues and promotion as `tiresias`. Jobs get their required size in that order; when many wait nevertheless
    (`compact_above`), jobs of later queues shrink to their least size, which lets others in. GPUs that are left go
    where they raise the speedup most."""

    name: ClassVar[str] = "elastic-tiresias"
    resizes: ClassVar[bool] = True

    compact_above: int = field(
        default=10, metadata={"doc": "jobs of later queues shrink to their minimum size when more jobs than this wait"}
    )

    def __post_init__(self) -> None:
        Damping.__post_init__(self)
        Queues.__post_init__(self)

    def allocate(self, snapshot: Snapshot) -> Plan:
        now = snapshot.now

        def share_out(claims: list[Claim], gpus: int) -> None:
            for claim in claims:
                wanted = bisect_right(claim.sizes, fixed_size(claim.job)) - 1
                if claim.sizes[wanted] <= gpus:
                    claim.step = wanted
                    gpus -= claim.share
                elif self.starves(claim.job, now):
                    return  # jobs behind it get nothing, else it would go on starving
            if sum(claim.step < 0 for claim in claims) > self.compact_above:
                for claim in claims:
                    if claim.step > 0 and self.queue(claim.job, now) > 0:
                        gpus += claim.share - claim.least
                        claim.step = 0
            _give_by_gain(claims, gpus)

        return allocate_shares(snapshot, self.order(now), self, share_out, lambda job: self.starves(job, now))


def _give_by_gain(claims: list[Claim], gpus: int) -> None:
    """Give each next GPU to the claim whose speedup it raises most.

    Among equal claims, one without GPUs comes first; then the order decides.
    """
    best = [(-claim.gain, claim.step >= 0, index) for index, claim in enumerate(claims)]
    heapq.heapify(best)
    while best and gpus > 0:
        _, _, index = heapq.heappop(best)
        more = claims[index].next_gpus
        if more is not None and more <= gpus:
            claims[index].step += 1
            gpus -= more
            heapq.heappush(best, (-claims[index].gain, True, index))
