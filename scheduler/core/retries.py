"""When a job whose command failed is tried again: later each time, so that one that can't work costs little. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from schedulearn.scheduler.core.states import JobStatus

FIRST_S = 1.0
MOST_S = 300.0


def delay(retries: int, ran_s: float) -> float:
    """Seconds until the next try of a command that has been tried again `retries` times before, and ran for `ran_s`
    now. One that ran for long is tried again soon: it works, mostly."""
    return FIRST_S if ran_s > MOST_S else min(MOST_S, FIRST_S * 2.0 ** min(retries, 30))


def resting(jobs: Mapping[str, Any], now: float) -> dict[str, float]:
    """Job id -> when it may start again, of those that may not yet."""
    return {job_id: job.not_before for job_id, job in jobs.items() if _rests(job, now)}


def why_resting(job: Any, now: float) -> tuple[str, str] | None:
    """(code, sentence) for a job that waits for its next try; None for others."""
    if not _rests(job, now):
        return None
    return job.reason, f"{job.message} It tries again in {math.ceil(job.not_before - now)} s."


def _rests(job: Any, now: float) -> bool:
    return bool(job.status == JobStatus.QUEUED and job.not_before is not None and job.not_before > now)
