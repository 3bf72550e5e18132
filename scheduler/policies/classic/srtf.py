"""Shortest remaining service first, also known as SRTF and SRJF."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from schedulearn.scheduler.core.model import JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.queueing import Order
from schedulearn.scheduler.policies.classic.rearranging import is_rigid, length, serve_by_rank

_ORDER = Order(lambda job: (length(job), job.order), "by remaining work, shortest first")


@dataclass(frozen=True)
class ShortestRemainingTimeFirst(Policy):
    """The job with the least service left comes first: seconds on one GPU, not the time that it will take on the GPUs
    that it gets (SRSF; Gu et al., Tiresias, NSDI 2019). Large jobs may wait as long as shorter ones come. Elastic jobs
    are preempted, rigid ones never.

    On one server this order has the minimum mean completion time (Schrage, 1968); for several GPUs there is no proof.
    Service left is declared or predicted from the job's family. If neither is known, attained service (GPU-seconds) is
    used in its place. An unknown job that has just arrived therefore counts as short, as with `las`.

    A running job gives way only to one that is far shorter (`factor`), so that two jobs cannot alternate.
    """

    name: ClassVar[str] = "srtf"

    factor: float = field(
        default=2.0, metadata={"doc": "a job is preempted only by one whose remaining work is this many times less"}
    )
    least_length: float = field(
        default=600.0, metadata={"doc": "seconds on one GPU below which remaining work counts as equal"}
    )

    def __post_init__(self) -> None:
        if self.factor < 1 or self.least_length < 0:
            raise ValueError("factor must be at least 1 and least_length at least 0")

    def allocate(self, snapshot: Snapshot) -> Plan:
        return serve_by_rank(snapshot, _ORDER, self._may_preempt, reserves=is_rigid)

    def _may_preempt(self, job: JobView, running: JobView) -> bool:
        return length(running) > self.factor * max(length(job), self.least_length)
