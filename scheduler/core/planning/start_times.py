"""Waiting jobs that may not start yet: held ones, and those before their `start_after`. Pure.

Policies don't see these jobs. A job keeps its time of submission, and with it its place in the queue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from schedulearn.scheduler.core.instants import to_the_second
from schedulearn.scheduler.core.model import Explanation
from schedulearn.scheduler.core.states import WAITS, JobState, Reason


class Startable(Protocol):
    """Job, with the properties that decide when it may start."""

    @property
    def state(self) -> JobState: ...
    @property
    def start_after(self) -> float | None: ...
    @property
    def held_at(self) -> float | None: ...


def start_times(jobs: Mapping[str, Startable], now: float) -> dict[str, float]:
    """Return job id -> when it may start, for jobs that may not start yet; infinite: it is held.

    A job that stops to be paused counts as one that waits: nothing is planned for it."""
    return {job_id: at for job_id, job in jobs.items() if (at := _start_time(job)) is not None and at > now}


def _start_time(job: Startable) -> float | None:
    if job.held_at is not None and (job.state in WAITS or job.state == JobState.RESIZING):
        return math.inf
    return job.start_after if job.state in WAITS else None


def held(held_at: float, held_by: str) -> str:
    """Return a sentence that says since when a job is held, and by whom."""
    return f"Held by {held_by or 'the operator'} since {to_the_second(held_at)}."


def why_not_yet(held_at: float | None, held_by: str, start_after: float | None, now: float) -> Explanation | None:
    """Explain why a waiting job may not start yet; None: it may."""
    if held_at is not None:
        return Explanation(Reason.HELD.value, f"{held(held_at, held_by)} It starts after a release.")
    if start_after is not None and start_after > now:
        return Explanation(Reason.START_AFTER.value, f"It may start from {to_the_second(start_after)}.")
    return None
