"""Whether a job keeps to its deadline. Pure."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Protocol

from schedulearn.scheduler.core.model import Basis
from schedulearn.scheduler.core.states import JobStatus


class Late(StrEnum):
    NO = "no"
    """It ended in time, or is expected to."""
    EXPECTED = "expected"
    """Its deadline is still to come, and it is expected to end after it."""
    YES = "yes"
    """Its deadline passed before it had succeeded."""


class Expected(Protocol):
    """When a job is expected to end."""

    @property
    def end(self) -> float | None: ...
    @property
    def basis(self) -> Basis: ...
    @property
    def awaits_image(self) -> bool: ...


def expected_end(eta: Expected | None, until: float) -> float | None:
    """None: nobody can tell, or it would be a mere guess. `until`: up to when it was looked for; a job that does not
    end before then is taken to end then."""
    if eta is None or eta.awaits_image or eta.basis == Basis.GUESS:
        return None
    if eta.end is None:
        return until if math.isfinite(until) else None
    return eta.end


def late(
    deadline: float | None, status: JobStatus, finished_at: float | None, expected: float | None, now: float
) -> Late | None:
    """None: it has no deadline, nobody can tell yet, or it was cancelled before it."""
    if deadline is None:
        return None
    if (now if finished_at is None else finished_at) > deadline:
        return Late.YES
    if finished_at is not None:
        return {JobStatus.SUCCEEDED: Late.NO, JobStatus.CANCELLED: None}.get(status, Late.YES)
    if expected is None:
        return None
    return Late.EXPECTED if expected > deadline else Late.NO
