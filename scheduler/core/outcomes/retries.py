"""Retry delays of jobs whose command failed. Pure.

The delay grows each time, so that a job that can't work costs little. A job that always ends in the same way is not
retried forever.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from schedulearn.scheduler.core.model import Explanation
from schedulearn.scheduler.core.states import JobState


class Waiting(Protocol):
    """Job, with the properties that its next retry depends on."""

    @property
    def state(self) -> JobState: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def not_before(self) -> float | None: ...


FIRST_S = 1.0
MAX_S = 300.0
SOON_S = 60.0
"""Seconds after its start within which a failing command has done no work."""


def delay(retries: int, ran_s: float) -> float:
    """Return the seconds until the next retry of a command that had `retries` retries and now ran for `ran_s`.

    A command that ran for long is retried soon, since it mostly works.
    """
    return FIRST_S if ran_s > MAX_S else min(MAX_S, FIRST_S * 2.0 ** min(retries, 30))


def equal_exits(before: int, last_exit: int | None, exit_code: int | None, ran_s: float) -> int:
    """Return how many times in a row, including now, the command ended with this code soon after its start.

    Return 0 if it ran for longer now. `before` is the count as of the previous exit, which had the code `last_exit`.
    """
    if ran_s > SOON_S or exit_code is None:
        return 0
    return before + 1 if exit_code == last_exit else 1


def next_tries(jobs: Mapping[str, Waiting], now: float) -> dict[str, float]:
    """Return job id -> when it may start again, for jobs that may not start yet."""
    return {job_id: at for job_id, job in jobs.items() if (at := _next_try(job, now)) is not None}


def why_resting(job: Waiting, now: float) -> Explanation | None:
    """Explain why a job waits for its next retry; None for other jobs."""
    if (at := _next_try(job, now)) is None:
        return None
    return Explanation(job.reason, f"{job.message} It tries again in {math.ceil(at - now)} s.")


def _next_try(job: Waiting, now: float) -> float | None:
    """Return the time of the next retry. One further away than any delay was stored before the clock was set back, and
    is ignored."""
    rests = job.state == JobState.QUEUED and job.not_before is not None and 0 < job.not_before - now <= MAX_S
    return job.not_before if rests else None
