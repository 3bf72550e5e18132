"""Attempts of a job that ended before the job did. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from schedulearn.scheduler.core.cluster_state import Task, run_seconds
from schedulearn.scheduler.core.states import Reason

_PLANNED = {Reason.RESIZED, Reason.EVICTED, Reason.PAUSED}
"""Outcomes of an elastic job's attempts that ended with a checkpoint, for a resize, a move or a pause."""


class Interruptions(NamedTuple):
    times: int
    """Number of attempts that were cut off. Resizes, moves and pauses of an elastic job don't count."""
    repeated_s: float
    """Run time in seconds of these attempts, if the job starts from the beginning each time; else 0."""


def interruptions_of(tasks: Sequence[Task], *, elastic: bool, waits: bool) -> Interruptions:
    """Return how often a job was interrupted, from all its tasks.

    `elastic`: the job continues from its checkpoint. `waits`: the job waits, so that its last attempt has ended too.
    """
    last = max((task.attempt for task in tasks), default=0)
    ran: dict[int, float] = {}
    for task in tasks:
        if (task.attempt < last or waits) and not (elastic and task.outcome in _PLANNED):
            ran[task.attempt] = max(run_seconds(task, task.finished_at or 0.0), ran.get(task.attempt, 0.0))
    return Interruptions(len(ran), 0.0 if elastic else sum(ran.values()))
