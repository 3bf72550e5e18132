"""Stores jobs that are submitted at the same time by one statement, and one flush of the disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

from sqlalchemy.engine import Connection

from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.store.columns import insert_rows
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Event, Job
from schedulearn.scheduler.store.people.acting import ACTOR

JobValues = Mapping[str, object]
"""Column -> value, of a job that is to be stored."""
B = TypeVar("B")

_GATHER_S = 0.002
"""So long a submission waits for others while many come: a flush of the disk takes about as long."""


class _Submission(NamedTuple):
    """Jobs that are to be stored. `settle` tells their sender that they are, or the error."""

    jobs: Sequence[JobValues]
    actor: str
    settle: Callable[[BaseException | None], None]


class SubmissionQueue:
    """`on_stored` is called after each flush."""

    def __init__(self, db: Database, on_stored: Callable[[], None]) -> None:
        self._db = db
        self._on_stored = on_stored
        self._waiting: list[_Submission] = []
        self._lock = threading.Lock()
        self._busy = False  # the last statement stored several submissions

    def store(self, jobs: Sequence[JobValues], answer: B) -> Future[B]:
        """Done, with `answer`, once the jobs are on disk."""
        stored: Future[B] = Future()

        def settle(error: BaseException | None) -> None:
            stored.set_exception(error) if error else stored.set_result(answer)

        with self._lock:
            self._waiting.append(_Submission(jobs, ACTOR.get(), settle))
            alone = len(self._waiting) == 1
        if alone:
            self._store_soon()
        return stored

    def _store_soon(self) -> None:
        taken: list[_Submission] = []

        def take() -> None:
            with self._lock:
                taken.extend(self._waiting)
                self._waiting.clear()

        def change(conn: Connection) -> None:
            if self._busy:
                time.sleep(_GATHER_S)
            take()
            self._busy = len(taken) > 1
            insert_jobs(conn, [(job, submission.actor) for submission in taken for job in submission.jobs])

        def settle(done: Future[None]) -> None:
            error = done.exception()
            if error and not taken:  # not even begun: the database is locked, say
                take()
            for submission in taken:
                submission.settle(error)
            self._on_stored()

        self._db.submit(change).add_done_callback(settle)


def insert_jobs(conn: Connection, jobs: Sequence[tuple[JobValues, str]]) -> None:
    """The jobs, each with its first event, which says who sent it."""
    insert_rows(conn, Job, [job for job, _ in jobs])
    submitted = [
        {"kind": "job.queued", "code": Reason.SUBMITTED.value, "data": {}, "job_id": job["id"],
         "at": job["submitted_at"], "message": job["message"], "actor": actor}
        for job, actor in jobs
    ]  # fmt: skip
    insert_rows(conn, Event, submitted)
