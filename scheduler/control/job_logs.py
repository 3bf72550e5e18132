"""The logs of a job's attempts are bounded together: one that fails again and again would fill the disk."""

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
"""Attempts whose logs always stay: the first one, which often tells what is wrong, and the last."""


def surplus_attempts(sizes: Mapping[int, int], max_attempts: int, max_bytes: int) -> list[int]:
    """Attempts whose logs must go, oldest first; `sizes`: attempt -> bytes of those that still have one. The first one
    that there is and the last one stay. A bound of 0 is none. Pure."""
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
    """Looks at a job's logs each time that an attempt of it has ended, in a thread of its own; at the service's start
    at those of all jobs that are not over."""

    def __init__(self, db: Database, logs: LogStore, *, max_attempts: int, max_bytes: int) -> None:
        """The bounds are for all logs of one job; 0: none."""
        self._db = db
        self._logs = logs
        self._max_attempts = max_attempts
        self._max_bytes = max_bytes
        self._jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._deleted: queue.SimpleQueue[str] = queue.SimpleQueue()
        """Tasks of deleted jobs."""
        self._strays = True
        """Logs may be there of jobs that a service deleted before it ended."""
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
        """Removes the logs of deleted jobs soon."""
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
        if self._strays:
            self._strays = False
            with self._db.read() as conn:
                # Names first: the log of a task begins after its row.
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
