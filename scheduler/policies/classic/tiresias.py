"""Tiresias policy: discretised least attained service, with promotion against starvation.

Source: Gu et al., NSDI 2019.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import ClassVar

from schedulearn.scheduler.core.model import JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.queueing import Order
from schedulearn.scheduler.policies.classic.rearranging import serve_by_rank

_MIN_RUN = 600.0  # minimum run time, seconds, that a job's waiting time is compared with
_PROMOTED = -1


@dataclass(frozen=True)
class Queues:
    """Queues of `tiresias` and `elastic-tiresias`, and their parameters."""

    thresholds: tuple[float, ...] | str = field(
        default=(3600.0,),
        metadata={"doc": "GPU-seconds at which a job moves to the next queue, ascending, separated by commas"},
    )
    promote: float = field(
        default=8.0,
        metadata={
            "doc": "a job that has waited this many times its run time (counted as at least 10 minutes) comes before "
            "all others, and no job may pass it"
        },
    )

    def __post_init__(self) -> None:
        numbers = _numbers(self.thresholds)
        if not all(0 < number < inf for number in numbers) or list(numbers) != sorted(set(numbers)):
            raise ValueError(f"thresholds must be finite, above 0 and ascending, not {self.thresholds}")
        if self.promote <= 0:
            raise ValueError(f"promote must be above 0, not {self.promote}")

    def queue(self, job: JobView, now: float) -> int:
        """Return the job's queue: 0 is served first, then 1, ...; -1, before all, for a job that starves."""
        waited = job.waited(now)
        if waited >= self.promote * max(job.run_seconds, _MIN_RUN):
            return _PROMOTED
        return bisect_right(_numbers(self.thresholds), job.attained_gpu_seconds)

    def starves(self, job: JobView, now: float) -> bool:
        return self.queue(job, now) == _PROMOTED

    def order(self, now: float) -> Order:
        return Order(
            lambda job: (self.queue(job, now), job.order), "by queue (promoted ones first), then in order of submission"
        )


@lru_cache
def _numbers(thresholds: tuple[float, ...] | str) -> tuple[float, ...]:
    if not isinstance(thresholds, str):
        return thresholds
    try:
        return tuple(float(number) for number in thresholds.split(",") if number.strip())
    except ValueError as error:
        raise ValueError(f"thresholds must be numbers separated by commas, not {thresholds!r}") from error


@dataclass(frozen=True)
class Tiresias(Queues, Policy):
    """Discretised 2D-LAS (section 3.2 of the paper): queues by attained GPU-seconds, first in, first out within each,
    so that short jobs need not be known to get through early, and a job is preempted only for one of a queue before
    its own. Elastic jobs are preempted, rigid ones never.

    Promotion (section 3.2.3, PROMOTEKNOB): a job that has waited far longer than it has run goes before all queues. The
    first such job that does not fit holds all others back. It starts once enough running jobs have ended, so no job
    starves, however large.

    The queues limit preemption: there is none within a queue, and a job passes each threshold once.
    """

    name: ClassVar[str] = "tiresias"

    def allocate(self, snapshot: Snapshot) -> Plan:
        now = snapshot.now
        return serve_by_rank(
            snapshot,
            self.order(now),
            lambda job, running: self.queue(job, now) < self.queue(running, now),
            lambda job: self.starves(job, now),
        )
