"""When a job whose command failed is tried again: later each time, so that one that can't work costs little, and not
for ever if it always ends alike. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from schedulearn.scheduler.core.model import Explanation
from schedulearn.scheduler.core.states import JobStatus


class Waiting(Protocol):
    """A job, as far as its next try goes."""

    @property
    def status(self) -> JobStatus: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def not_before(self) -> float | None: ...


FIRST_S = 1.0
MOST_S = 300.0
SOON_S = 60.0
"""A command that fails within this of its start did not get to its work."""


def delay(retries: int, ran_s: float) -> float:
    """Seconds until the next try of a command that has been tried again `retries` times before, and ran for `ran_s`
    now. One that ran for long is tried again soon: it works, mostly."""
    return FIRST_S if ran_s > MOST_S else min(MOST_S, FIRST_S * 2.0 ** min(retries, 30))


def equal_exits(before: int, last_exit: int | None, exit_code: int | None, ran_s: float) -> int:
    """How many times in a row, now included, the command has ended with this code soon after its start; 0: it ran for
    longer now. `before`: as of the exit before this one, which had the code `last_exit`."""
    if ran_s > SOON_S or exit_code is None:
        return 0
    return before + 1 if exit_code == last_exit else 1


def next_tries(jobs: Mapping[str, Waiting], now: float) -> dict[str, float]:
    """Job id -> when it may start again, of those that may not yet."""
    return {job_id: at for job_id, job in jobs.items() if (at := _next_try(job, now)) is not None}


def why_resting(job: Waiting, now: float) -> Explanation | None:
    """For a job that waits for its next try; None for others."""
    if (at := _next_try(job, now)) is None:
        return None
    return Explanation(job.reason, f"{job.message} It tries again in {math.ceil(at - now)} s.")


def _next_try(job: Waiting, now: float) -> float | None:
    """One that is further away than any delay was written before the clock was set back."""
    rests = job.status == JobStatus.QUEUED and job.not_before is not None and 0 < job.not_before - now <= MOST_S
    return job.not_before if rests else None
