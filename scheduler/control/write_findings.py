"""Storage of findings and evictions, in the caller's transaction."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sqlalchemy.engine import Connection

from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.core.outcomes.findings import (
    Finding,
    JobMoved,
    TaskEnded,
    TaskPaused,
    TaskResumed,
    TaskStarted,
)
from schedulearn.scheduler.core.planning.evictions import Eviction
from schedulearn.scheduler.core.states import JobState, Reason
from schedulearn.scheduler.errors import IllegalTransitionError
from schedulearn.scheduler.store import repository

log = logging.getLogger(__name__)


def write_findings(conn: Connection, findings: Sequence[Finding], now: float) -> None:
    """Store the findings about tasks and jobs.

    Jobs and tasks that have changed since they were read are left to the next scheduling cycle."""
    for finding in findings:
        match finding:
            case TaskStarted(task, started_at, image):
                repository.mark_running(conn, task, started_at, image)
            case TaskPaused(task, at, by_others):
                repository.mark_paused(conn, task, at)
                if by_others:
                    _tell_pause(conn, task, now)
            case TaskResumed(task, at):
                repository.mark_resumed(conn, task, at)
            case TaskEnded(task, outcome, exit_code, error, started_at, finished_at, image):
                repository.end_task(
                    conn, task, outcome=outcome.value, now=now, exit_code=exit_code, error=error,
                    started_at=started_at, finished_at=finished_at, image=image or task.image,
                )  # fmt: skip
            case JobMoved():
                _move(conn, finding, now)


def _tell_pause(conn: Connection, task: Task, now: float) -> None:
    message = (
        f"{task.id} on {task.host_id} was paused from outside (docker pause, SIGSTOP), and is resumed. "
        "To keep a job from running, cancel it, or drain its host."
    )
    repository.add_event(
        conn, now, "job.paused", code="paused_by_others", message=message, job_id=task.job_id, host_id=task.host_id
    )


def evict(conn: Connection, leaving: Sequence[Eviction], now: float) -> None:
    for eviction in leaving:
        job = eviction.job
        # Jobs that don't run yet have nothing to save: their containers stop, and they wait again.
        reason = eviction.reason if job.state == JobState.RUNNING else Reason(job.reason)
        if repository.move_job(conn, job, reason, eviction.why, now):
            repository.stop_tasks(conn, job.id)


def _move(conn: Connection, moved: JobMoved, now: float) -> None:
    try:
        if not repository.move_job(conn, moved.job, moved.reason, moved.message, now, **moved.changes):
            return
    except IllegalTransitionError:
        log.exception("job %s", moved.job.id)
        return
    if moved.stop_tasks or moved.stop_only:
        repository.stop_tasks(conn, moved.job.id, None if moved.stop_tasks else moved.stop_only)
    if moved.stopped_as is not None:
        repository.name_stopped(conn, moved.job, moved.stopped_as)
