"""A sweep: one job tried with many parameters. Which of its runs start next, and when it ends. Pure.

running ──► completed                    every run has ended
   ├──► stopping ──► failed              more runs failed than `max_failures`, or the rest can't start
   └──► stopping ──► cancelled           somebody cancelled it

A retry takes a sweep that has ended back to `running`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class SweepStatus(StrEnum):
    RUNNING = "running"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self not in UNFINISHED


UNFINISHED = (SweepStatus.RUNNING, SweepStatus.STOPPING)


class SweepReason(StrEnum):
    """Why a sweep is in its state, for machines."""

    STARTED = "started"
    RETRIED = "retried"
    OVER_QUOTA = "over_quota"
    COMPLETED = "completed"
    TOO_MANY_FAILURES = "too_many_failures"
    REFUSED = "refused"
    CANCELLED = "cancelled"


class SweepProgress(NamedTuple):
    """How far a sweep is. Its runs are counted by how the job of each stands."""

    id: str
    user: str
    status: SweepStatus
    reason: SweepReason
    max_parallel: int
    max_failures: int | None
    runs: int
    open: bool
    """Whether more runs may be added: it does not end before that is over."""
    pending: int
    """Runs that have no job yet."""
    active: int
    succeeded: int
    failed: int
    """Time limits too."""
    cancelled: int


@dataclass(frozen=True)
class StartRuns:
    """So many of the pending runs are to start, in their order."""

    count: int


@dataclass(frozen=True)
class ChangeStatus:
    status: SweepStatus
    reason: SweepReason
    message: str
    cancel_waiting: bool = False
    """Its jobs that have not started yet are to be cancelled."""


SweepStep = StartRuns | ChangeStatus


def next_step(sweep: SweepProgress, room: int | None = None) -> SweepStep | None:
    """What is to be done now; None: nothing, until one of its jobs ends. After a step there may be another one.
    `room`: so many more jobs of its user may wait; None: there is no quota."""
    match sweep.status:
        case SweepStatus.RUNNING:
            return _next_of_running(sweep, room)
        case SweepStatus.STOPPING if not sweep.active:
            return ChangeStatus(_end_of(sweep.reason), sweep.reason, _summary(sweep))
    return None


def _next_of_running(sweep: SweepProgress, room: int | None) -> SweepStep | None:
    if sweep.max_failures is not None and sweep.failed > sweep.max_failures:
        message = (
            f"{_count(sweep.failed, 'run')} failed and max_failures is {sweep.max_failures}: no further run starts; "
            "those that run go on to their end."
        )
        return ChangeStatus(SweepStatus.STOPPING, SweepReason.TOO_MANY_FAILURES, message, cancel_waiting=True)
    if count := min(sweep.pending, max(0, sweep.max_parallel - sweep.active)):
        return _start(sweep, count, count if room is None else min(count, room))
    if not sweep.pending and not sweep.active and not sweep.open:
        return ChangeStatus(SweepStatus.COMPLETED, SweepReason.COMPLETED, _summary(sweep))
    return None


def _start(sweep: SweepProgress, count: int, allowed: int) -> SweepStep | None:
    """A sweep that may not start any of `count` runs waits. It says so only where none of its jobs is left: with each
    of those that starts there is room for another one."""
    waits = sweep.reason is SweepReason.OVER_QUOTA
    if allowed > 0 and waits:
        return ChangeStatus(sweep.status, SweepReason.STARTED, "The quota has room again: further runs start.")
    if allowed > 0:
        return StartRuns(allowed)
    if sweep.active or waits:
        return None
    message = (
        f"{_count(count, 'run')} can't start yet: {sweep.user}, or their group, has as many jobs waiting as may be."
    )
    return ChangeStatus(sweep.status, SweepReason.OVER_QUOTA, message)


def _end_of(reason: SweepReason) -> SweepStatus:
    return SweepStatus.CANCELLED if reason is SweepReason.CANCELLED else SweepStatus.FAILED


def _summary(sweep: SweepProgress) -> str:
    counts = {"succeeded": sweep.succeeded, "failed": sweep.failed, "were cancelled": sweep.cancelled}
    told = [f"{count} {what}" for what, count in counts.items() if count]
    told += [f"{sweep.pending} never started"] if sweep.pending else []
    return f"Of {_count(sweep.runs, 'run')} {', '.join(told) or 'none succeeded'}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
