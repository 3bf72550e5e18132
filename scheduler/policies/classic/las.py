"""Least attained service first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from schedulearn.scheduler.core.model import JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.queueing import Order
from schedulearn.scheduler.policies.classic.rearranging import is_rigid, serve_by_rank

_ORDER = Order(lambda job: (job.attained_gpu_seconds, job.order), "by attained service, lowest first")


@dataclass(frozen=True)
class LeastAttainedService(Policy):
    """The job that has had the fewest GPU-seconds comes first: without knowing lengths, short jobs get through early
    (continuous 2D-LAS: attained service is time x GPUs; Gu et al., Tiresias, NSDI 2019, section 3.2). GPUs are
    reserved for the first rigid job that waits. Elastic jobs are preempted, rigid ones never.

    A running job gives way only to one with far less service (`factor`). The two can change places again only after the
    other one has had that many times more service. The times between changes therefore grow geometrically.
    """

    name: ClassVar[str] = "las"

    factor: float = field(
        default=2.0, metadata={"doc": "a job is preempted only by one whose attained service is this many times lower"}
    )
    least_service: float = field(default=600.0, metadata={"doc": "GPU-seconds below which services count as equal"})

    def __post_init__(self) -> None:
        if self.factor < 1 or self.least_service < 0:
            raise ValueError("factor must be at least 1 and least_service at least 0")

    def allocate(self, snapshot: Snapshot) -> Plan:
        return serve_by_rank(snapshot, _ORDER, self._may_preempt, reserves=is_rigid)

    def _may_preempt(self, job: JobView, running: JobView) -> bool:
        service = max(job.attained_gpu_seconds, self.least_service)
        return running.attained_gpu_seconds > self.factor * service
