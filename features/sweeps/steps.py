"""State machine of sweeps, which run one job with many parameters. Pure.

running ──► completed                    every run has ended
   ├──► stopping ──► failed              more runs failed than `max_failures`, or the rest can't start
   └──► stopping ──► cancelled           somebody cancelled it

A retry returns a finished sweep to `running`. This module decides which runs start next, and when a sweep ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class SweepState(StrEnum):
    RUNNING = "running"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self not in UNFINISHED


UNFINISHED = (SweepState.RUNNING, SweepState.STOPPING)


class SweepReason(StrEnum):
    """Reason for the state of a sweep, for programs."""

    STARTED = "started"
    RETRIED = "retried"
    OVER_QUOTA = "over_quota"
    DISK_LOW = "disk_low"
    COMPLETED = "completed"
    TOO_MANY_FAILURES = "too_many_failures"
    REFUSED = "refused"
    CANCELLED = "cancelled"


_WAITS = {SweepReason.OVER_QUOTA: "quota", SweepReason.DISK_LOW: "disk"}
"""Reason why no run of a sweep starts -> resource that must have capacity again."""


class SweepProgress(NamedTuple):
    """Progress of a sweep.

    Its runs are counted by the states of their jobs."""

    id: str
    user: str
    state: SweepState
    reason: SweepReason
    max_parallel: int
    max_failures: int | None
    runs: int
    open: bool
    """Whether more runs may be added. The sweep does not end while it is open."""
    pending: int
    """Number of runs without a job."""
    active: int
    succeeded: int
    failed: int
    """Number of failed runs, including those that reached a time limit."""
    cancelled: int
    pruned: int = 0
    """Number of runs that were stopped because of their metric."""


@dataclass(frozen=True)
class StartRuns:
    """Step that starts `count` of the pending runs, in their order."""

    count: int


@dataclass(frozen=True)
class ChangeState:
    state: SweepState
    reason: SweepReason
    message: str
    cancel_waiting: bool = False
    """Whether the sweep's jobs that have not started are cancelled."""


SweepStep = StartRuns | ChangeState


def next_step(sweep: SweepProgress, room: int | None = None, *, disk_low: bool = False) -> SweepStep | None:
    """Return the next step of a sweep, or None while nothing can be done.

    None means that one of its jobs must end first. One step may be followed by another. `room` is the number of further
    jobs of its user that may wait; None means no quota. If `disk_low`, no job may be added."""
    match sweep.state:
        case SweepState.RUNNING:
            return _next_of_running(sweep, room, disk_low)
        case SweepState.STOPPING if not sweep.active:
            return ChangeState(_end_of(sweep.reason), sweep.reason, _summary(sweep))
    return None


def _next_of_running(sweep: SweepProgress, room: int | None, disk_low: bool) -> SweepStep | None:
    if sweep.max_failures is not None and sweep.failed > sweep.max_failures:
        message = (
            f"{_count(sweep.failed, 'run')} failed and max_failures is {sweep.max_failures}: no further run starts; "
            "running ones continue to their end."
        )
        return ChangeState(SweepState.STOPPING, SweepReason.TOO_MANY_FAILURES, message, cancel_waiting=True)
    if count := min(sweep.pending, max(0, sweep.max_parallel - sweep.active)):
        return _start(sweep, count, count if room is None else min(count, room), disk_low)
    if not sweep.pending and not sweep.active and not sweep.open:
        return ChangeState(SweepState.COMPLETED, SweepReason.COMPLETED, _summary(sweep))
    return None


def _start(sweep: SweepProgress, count: int, allowed: int, disk_low: bool) -> SweepStep | None:
    """Start runs, or report why none of `count` runs can start.

    A quota is not reported while one of the sweep's jobs is left, since each start frees a place."""
    if allowed > 0 and not disk_low:
        what = _WAITS.get(sweep.reason)
        if what is None:
            return StartRuns(allowed)
        return ChangeState(sweep.state, SweepReason.STARTED, f"The {what} has capacity again: more runs start.")
    reason = SweepReason.DISK_LOW if disk_low else SweepReason.OVER_QUOTA
    if reason is sweep.reason or (sweep.active and not disk_low and sweep.reason not in _WAITS):
        return None
    why = "the disk of the service is almost full: remove files, or outputs of jobs"
    if not disk_low:
        why = f"{sweep.user}, or their group, has reached the quota of waiting jobs"
    return ChangeState(sweep.state, reason, f"{_count(count, 'run')} can't start yet: {why}.")


def _end_of(reason: SweepReason) -> SweepState:
    return SweepState.CANCELLED if reason is SweepReason.CANCELLED else SweepState.FAILED


def _summary(sweep: SweepProgress) -> str:
    counts = {"succeeded": sweep.succeeded, "failed": sweep.failed, "were cancelled": sweep.cancelled}
    counts["were pruned"] = sweep.pruned
    told = [f"{count} {what}" for what, count in counts.items() if count]
    told += [f"{sweep.pending} never started"] if sweep.pending else []
    return f"Of {_count(sweep.runs, 'run')} {', '.join(told) or 'none succeeded'}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
