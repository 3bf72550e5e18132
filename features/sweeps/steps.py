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
    DISK_LOW = "disk_low"
    COMPLETED = "completed"
    TOO_MANY_FAILURES = "too_many_failures"
    REFUSED = "refused"
    CANCELLED = "cancelled"


_WAITS = {SweepReason.OVER_QUOTA: "quota", SweepReason.DISK_LOW: "disk"}
"""Why no run of a sweep starts -> what must have room for that."""


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


def next_step(sweep: SweepProgress, room: int | None = None, *, disk_low: bool = False) -> SweepStep | None:
    """What is to be done now; None: nothing, until one of its jobs ends. After a step there may be another one.
    `room`: so many more jobs of its user may wait; None: there is no quota. `disk_low`: no job may be added."""
    match sweep.status:
        case SweepStatus.RUNNING:
            return _next_of_running(sweep, room, disk_low)
        case SweepStatus.STOPPING if not sweep.active:
            return ChangeStatus(_end_of(sweep.reason), sweep.reason, _summary(sweep))
    return None


def _next_of_running(sweep: SweepProgress, room: int | None, disk_low: bool) -> SweepStep | None:
    if sweep.max_failures is not None and sweep.failed > sweep.max_failures:
        message = (
            f"{_count(sweep.failed, 'run')} failed and max_failures is {sweep.max_failures}: no further run starts; "
            "those that run go on to their end."
        )
        return ChangeStatus(SweepStatus.STOPPING, SweepReason.TOO_MANY_FAILURES, message, cancel_waiting=True)
    if count := min(sweep.pending, max(0, sweep.max_parallel - sweep.active)):
        return _start(sweep, count, count if room is None else min(count, room), disk_low)
    if not sweep.pending and not sweep.active and not sweep.open:
        return ChangeStatus(SweepStatus.COMPLETED, SweepReason.COMPLETED, _summary(sweep))
    return None


def _start(sweep: SweepProgress, count: int, allowed: int, disk_low: bool) -> SweepStep | None:
    """A sweep that may not start any of `count` runs waits, and says why. It does not speak of a quota while one of its
    jobs is left: with each of those that starts there is room for another one."""
    if allowed > 0 and not disk_low:
        what = _WAITS.get(sweep.reason)
        if what is None:
            return StartRuns(allowed)
        return ChangeStatus(sweep.status, SweepReason.STARTED, f"The {what} has room again: further runs start.")
    reason = SweepReason.DISK_LOW if disk_low else SweepReason.OVER_QUOTA
    if reason is sweep.reason or (sweep.active and not disk_low and sweep.reason not in _WAITS):
        return None
    why = "the disk of the service is almost full: remove files, or outputs of jobs"
    if not disk_low:
        why = f"{sweep.user}, or their group, has as many jobs waiting as may be"
    return ChangeStatus(sweep.status, reason, f"{_count(count, 'run')} can't start yet: {why}.")


def _end_of(reason: SweepReason) -> SweepStatus:
    return SweepStatus.CANCELLED if reason is SweepReason.CANCELLED else SweepStatus.FAILED


def _summary(sweep: SweepProgress) -> str:
    counts = {"succeeded": sweep.succeeded, "failed": sweep.failed, "were cancelled": sweep.cancelled}
    told = [f"{count} {what}" for what, count in counts.items() if count]
    told += [f"{sweep.pending} never started"] if sweep.pending else []
    return f"Of {_count(sweep.runs, 'run')} {', '.join(told) or 'none succeeded'}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
