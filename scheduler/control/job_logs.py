"""Limits for the logs of all attempts of a job.

Without them, a job that fails repeatedly would fill the disk.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Iterable, Mapping

from sqlalchemy import select
from sqlmodel import col

from schedulearn.scheduler.background import Background
from schedulearn.scheduler.runtimes.log_store import LogStore
from schedulearn.scheduler.store.accounting.usage import unknown_tasks
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job

log = logging.getLogger(__name__)

KEPT = 2
"""Number of attempts whose logs are always kept: the first, which often shows the cause, and the last."""


def surplus_attempts(sizes: Mapping[int, int], max_attempts: int, max_bytes: int) -> list[int]:
    """Return the attempts whose logs must be deleted, oldest first. Pure.

    `sizes`: attempt -> bytes, for attempts with a log. The first and the last of these are kept. A limit of 0 means no
    limit."""
    between = sorted(sizes)[1:-1]
    gone: list[int] = []
    count, total = len(sizes), sum(sizes.values())
    for attempt in between:
        if not (0 < max_attempts < count or 0 < max_bytes < total):
            break
        gone.append(attempt)
        count, total = count - 1, total - sizes[attempt]
    return gone


class JobLogs:
    """Background thread that deletes surplus logs.

    It checks a job after each attempt beyond `KEPT`, and all such unfinished jobs at the start of the service."""

    def __init__(self, db: Database, logs: LogStore, *, max_attempts: int, max_bytes: int) -> None:
        """Limits are for all logs of one job; 0: no limit."""
        self._db = db
        self._logs = logs
        self._max_attempts = max_attempts
        self._max_bytes = max_bytes
        self._jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._deleted: queue.SimpleQueue[str] = queue.SimpleQueue()
        """Tasks of deleted jobs, whose logs are still to be deleted."""
        self._untrackeds = True
        """Whether logs may exist of jobs that were deleted before the service stopped."""
        self._thread = Background("job-logs", self._run)

    def start(self) -> None:
        with self._db.read() as conn:
            often = select(col(Job.id)).where(col(Job.attempt) > KEPT, col(Job.finished_at).is_(None))
            for job_id in conn.execute(often).scalars():
                self._jobs.put(job_id)
        self._thread.start()

    def close(self) -> None:
        self._thread.close()

    def attempt_ended(self, job_id: str, attempt: int) -> None:
        if attempt > KEPT:
            self._jobs.put(job_id)
            self._thread.wake()

    def forget(self, task_ids: Iterable[str]) -> None:
        """Delete the logs of deleted jobs soon."""
        for task_id in task_ids:
            self._deleted.put(task_id)
        self._thread.wake()

    def prune(self, job_id: str) -> None:
        with self._db.read() as conn:
            tasks = [(task.attempt, task.id) for task in tasks_of(conn, [job_id])]
        sizes: dict[int, int] = {}
        for attempt, task_id in tasks:
            if kept := self._logs.kept(task_id):
                sizes[attempt] = sizes.get(attempt, 0) + kept
        gone = set(surplus_attempts(sizes, self._max_attempts, self._max_bytes))
        for attempt, task_id in tasks:
            if attempt in gone:
                self._logs.empty(task_id)
        if gone:
            log.info("job %s: the logs of %d attempts went, to keep within job_log_attempts and job_log_room",
                     job_id, len(gone))  # fmt: skip

    def _run(self) -> None:
        if self._untrackeds:
            self._untrackeds = False
            with self._db.read() as conn:
                # List the logs first: the log of a task begins after its row is stored.
                for task_id in unknown_tasks(conn, self._logs.task_ids()):
                    self._logs.delete(task_id)
        while not self._deleted.empty():
            self._logs.delete(self._deleted.get())
        self._prune_all()

    def _prune_all(self) -> None:
        while not self._jobs.empty():
            job_id = self._jobs.get()
            try:
                self.prune(job_id)
            except Exception:
                log.exception("the logs of job %s could not be pruned", job_id)
