"""Holding, pausing and releasing jobs, in the caller's transaction.

`held_at` is the intention, as rows of `task` are: the loop keeps held jobs from starting, and stops those that run.
"""

from __future__ import annotations

from sqlalchemy import update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.states import WAITS, JobState
from schedulearn.scheduler.errors import ConflictError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.models import Job
from schedulearn.scheduler.store.people.acting import ACTOR
from schedulearn.scheduler.store.repository import JobRow

_WILL_WAIT = (*WAITS, JobState.RESIZING)


def hold_job(conn: Connection, job: JobRow, now: float) -> None:
    """Keep a waiting job from starting. A job that is held stays as it is. Raises ConflictError for other jobs."""
    _check_not_ending(job)
    if job.state not in _WILL_WAIT:
        how = "pause it" if job.elastic else "a rigid job can't be paused: cancel it"
        raise ConflictError(f"job {job.id} is {job.state}, and only waiting jobs can be held: {how}")
    _hold(conn, job, now, "Held.")


def pause_job(conn: Connection, job: JobRow, now: float) -> None:
    """Have a running job save a checkpoint and give its GPUs back; hold one that waits.

    Raises ConflictError for a rigid job that has started, and for one that ends."""
    _check_not_ending(job)
    if job.state not in _WILL_WAIT and not job.elastic:
        raise ConflictError(
            f"job {job.id} is rigid, so it can't continue from a checkpoint: only elastic jobs can be paused. "
            "Cancel it, or let it run"
        )
    _hold(conn, job, now, "Held." if job.state in WAITS else "To be paused.")


def release_job(conn: Connection, job: JobRow, now: float) -> None:
    """Let a held or paused job start. A job that is not held stays as it is. Raises ConflictError if it has ended.

    The time until now does not count as waiting: its weight, or a claim, would grow while it is held."""
    _check_not_ended(job)
    if job.held_at is not None:
        _change(conn, job, None, "")
        conn.execute(update(Job).where(col(Job.id) == job.id).values(released_at=now))
        repository.add_event(conn, now, "job.released", message="Released.", job_id=job.id)


def _hold(conn: Connection, job: JobRow, now: float, message: str) -> None:
    if job.held_at is None:
        _change(conn, job, now, ACTOR.get())
        repository.add_event(conn, now, "job.held", message=message, job_id=job.id)


def _change(conn: Connection, job: JobRow, held_at: float | None, held_by: str) -> None:
    """Set who holds a job. Decisions on the earlier version are dropped, and no GPUs stay reserved for it."""
    values = {"held_at": held_at, "held_by": held_by, "target": None, "version": col(Job.version) + 1}
    conn.execute(update(Job).where(col(Job.id) == job.id).values(values))


def _check_not_ended(job: JobRow) -> None:
    if JobState(job.state).terminal:
        raise ConflictError(f"job {job.id} has ended already: {job.state}")


def _check_not_ending(job: JobRow) -> None:
    _check_not_ended(job)
    if job.state == JobState.STOPPING:
        raise ConflictError(f"job {job.id} is stopping: it will not start again")
