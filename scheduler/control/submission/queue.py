"""Stores jobs that are submitted at the same time by one statement, and one flush of the disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

from sqlalchemy.engine import Connection, Dialect

from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.store.columns import prepare_rows
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Event, Job
from schedulearn.scheduler.store.people.acting import ACTOR

JobValues = Mapping[str, object]
"""Column -> value, of a job that is to be stored."""
B = TypeVar("B")

_FEW = 100  # jobs of one submission: more are stored by themselves
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

        if len(jobs) > _FEW:
            self._store_by_themselves(jobs, settle)
            return stored
        with self._lock:
            self._waiting.append(_Submission(jobs, ACTOR.get(), settle))
            alone = len(self._waiting) == 1
        if alone:
            self._store_soon()
        return stored

    def _store_by_themselves(self, jobs: Sequence[JobValues], settle: Callable[[BaseException | None], None]) -> None:
        """Many jobs are prepared by who sends them, not by the one writer, for whom all others wait."""
        actor = ACTOR.get()
        change = prepare_jobs(self._db.engine.dialect, [(job, actor) for job in jobs])

        def stored(done: Future[None]) -> None:
            settle(done.exception())
            self._on_stored()

        self._db.submit(change).add_done_callback(stored)

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
    prepare_jobs(conn.dialect, jobs)(conn)


def prepare_jobs(dialect: Dialect, jobs: Sequence[tuple[JobValues, str]]) -> Callable[[Connection], None]:
    """What inserts the jobs, made before the writer is asked to."""
    submitted = [
        {"kind": "job.queued", "code": Reason.SUBMITTED.value, "data": {}, "job_id": job["id"],
         "at": job["submitted_at"], "message": job["message"], "actor": actor}
        for job, actor in jobs
    ]  # fmt: skip
    of_jobs = prepare_rows(dialect, Job, [job for job, _ in jobs])
    of_events = prepare_rows(dialect, Event, submitted)

    def insert(conn: Connection) -> None:
        of_jobs(conn)
        of_events(conn)

    return insert
