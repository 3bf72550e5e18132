"""Deadline status of jobs. Pure."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Protocol

from schedulearn.scheduler.core.model import Basis
from schedulearn.scheduler.core.states import JobState


class Late(StrEnum):
    NO = "no"
    """The job ended in time, or is expected to."""
    EXPECTED = "expected"
    """The deadline is in the future, and the job is expected to end after it."""
    YES = "yes"
    """The deadline passed before the job had succeeded."""


class Expected(Protocol):
    """Expected end of a job."""

    @property
    def end(self) -> float | None: ...
    @property
    def basis(self) -> Basis: ...
    @property
    def awaits_image(self) -> bool: ...


def expected_end(eta: Expected | None, until: float) -> float | None:
    """Return the expected end of a job, or None if it is unknown or a mere guess.

    The forecast goes up to `until`. A job that does not end before then is assumed to end then.
    """
    if eta is None or eta.awaits_image or eta.basis == Basis.GUESS:
        return None
    if eta.end is None:
        return until if math.isfinite(until) else None
    return eta.end


def late(
    deadline: float | None, state: JobState, finished_at: float | None, expected: float | None, now: float
) -> Late | None:
    """Return whether a job is late. None if it has no deadline, was cancelled before it, or nothing is known yet."""
    if deadline is None:
        return None
    if (now if finished_at is None else finished_at) > deadline:
        return Late.YES
    if finished_at is not None:
        return {JobState.SUCCEEDED: Late.NO, JobState.CANCELLED: None}.get(state, Late.YES)
    if expected is None:
        return None
    return Late.EXPECTED if expected > deadline else Late.NO
