"""Steps of maintenance windows: hosts drain and return, running jobs are told.

All steps of a cycle are one transaction. `HostWindow.told` is stored with the events, so no job is told twice.
"""

from __future__ import annotations

from sqlalchemy import update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.cluster_state import ClusterState, MaintenanceWindow
from schedulearn.scheduler.core.planning.windows import WindowSteps, maintenance, window_steps
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.specs.cron import Repetition
from schedulearn.scheduler.store import repository, windows
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job


def follow_windows(db: Database, state: ClusterState, now: float) -> bool:
    """Take the steps that are due; return whether there were any."""
    steps = window_steps(state, now) if state.windows else None
    if not steps:
        return False
    next_starts = {window.id: next_start(window, now) for window in steps.ended}
    db.write(lambda conn: _take(conn, steps, next_starts, now))
    return True


def next_start(window: MaintenanceWindow, now: float) -> float | None:
    """Return the start of the next occurrence that is not over; None: there is none."""
    if not window.cron:
        return None
    length = window.ends_at - window.starts_at
    return Repetition(window.cron, window.time_zone).next(max(window.starts_at, now - length))


def _take(conn: Connection, steps: WindowSteps, next_starts: dict[int, float | None], now: float) -> None:
    for window in steps.ended:
        if windows.is_current(conn, window):
            windows.move_on(conn, window, next_starts[window.id], now)
    for window, host_id in steps.begun:
        if windows.is_current(conn, window):
            windows.begin(conn, window, host_id, maintenance(window, host_id, now), now)
    told: dict[int, list[str]] = {}
    for window, job, sentence in steps.told:
        if windows.is_current(conn, window):
            running = (col(Job.id) == job.id, col(Job.state) == JobState.RUNNING.value)
            if conn.execute(update(Job).where(*running).values(message=sentence)).rowcount:
                data = {"window": window.id}
                repository.add_event(
                    conn, now, "job.maintenance", code="maintenance", message=sentence, job_id=job.id, data=data
                )
            told.setdefault(window.id, list(window.told)).append(job.id)
    for window_id, job_ids in told.items():
        windows.set_told(conn, window_id, job_ids)
