"""Elastic SRTF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schedulearn.scheduler.domain import Plan, Snapshot
from schedulearn.scheduler.policies.elastic import Claim, Damping, allocate_shares, fill, give_least
from schedulearn.scheduler.policies.srtf import BY_LENGTH


@dataclass(frozen=True)
class ElasticShortestRemainingTimeFirst(Damping):
    """Every job gets its least size, the shortest first; what is left goes to the shortest job up to its largest useful
    size, then to the next one (Elastic-SRJF of VodaScheduler). Lengths as in `srtf`. Running elastic jobs shrink, and
    stop where even the least sizes do not go round."""

    name: ClassVar[str] = "elastic-srtf"
    resizes: ClassVar[bool] = True

    def allocate(self, snapshot: Snapshot) -> Plan:
        return allocate_shares(snapshot, BY_LENGTH, self, _share_out)


def _share_out(claims: list[Claim], gpus: int) -> None:
    fill(claims, give_least(claims, gpus))
