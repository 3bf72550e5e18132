"""Elastic SRTF."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log2
from typing import ClassVar

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.elastic import Claim, Damping, allocate_shares, fill, give_least
from schedulearn.scheduler.policies.classic.queueing import Order
from schedulearn.scheduler.policies.classic.rearranging import length

_SHORTEST = 64.0  # seconds on one GPU; jobs with less remaining work count as equal
_ORDER = Order(lambda job: (floor(log2(max(length(job), _SHORTEST))), job.order), "by remaining work, shortest first")


@dataclass(frozen=True)
class ElasticShortestRemainingTimeFirst(Damping, Policy):
    """Every job gets its least size, the shortest first; what is left goes to the shortest job up to its largest useful
    size, then to the next one (Elastic-SRJF of VodaScheduler). Lengths as in `srtf`. Running elastic jobs shrink, and
    stop where even the least sizes do not go round.

    Besides `min_run` and `min_gain`, rounding limits resizes: remaining work is compared in powers of two, and equal
    jobs keep the order of submission. Two jobs of similar length therefore do not alternate as the shortest.
    """

    name: ClassVar[str] = "elastic-srtf"
    resizes: ClassVar[bool] = True

    def allocate(self, snapshot: Snapshot) -> Plan:
        return allocate_shares(snapshot, _ORDER, self, _share_out)


def _share_out(claims: list[Claim], gpus: int) -> None:
    fill(claims, give_least(claims, gpus))
