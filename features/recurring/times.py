"""Which time of a schedule runs now, and how many were missed. Pure."""

from __future__ import annotations

from itertools import chain, islice, takewhile
from typing import NamedTuple

from schedulearn.scheduler.specs.cron import MAX_COUNTED, Repetition

LATE_S = 300.0
"""Seconds for which a time may still run, for example after a restart of the service."""


class Due(NamedTuple):
    """What to do at a moment."""

    run_at: float | None
    """Time that runs now; None: all were missed."""
    missed: int
    """Number of earlier times that do not run. At `MAX_COUNTED` there may be more."""
    next_at: float | None
    """Next time after now; None: there is none."""


def due_at(repetition: Repetition, first: float, now: float) -> Due:
    """Return what to do now. `first`: the time that was due first, at or before now.

    Only the latest time runs, and only if it is recent: runs never come in a burst."""
    times = chain([first], repetition.after(first))
    passed = list(islice(takewhile(lambda at: at <= now, times), MAX_COUNTED + 1))
    if len(passed) > MAX_COUNTED:  # the latest one is not among them: a long outage with frequent times
        passed += takewhile(lambda at: at <= now, repetition.after(max(passed[-1], now - LATE_S)))
    run_at = passed[-1] if passed[-1] > now - LATE_S else None
    missed = len(passed) - (run_at is not None)
    return Due(run_at, min(missed, MAX_COUNTED), repetition.next(now))
