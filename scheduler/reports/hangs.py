"""Monitor of running jobs that writes an event for each hang."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.outcomes.hangs import Course, Hang, HangKind, HangLimits, Signs, follow, hang_of
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.runtimes.log_store import LogStore
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job, Profile, Task

HUNG = "job.hung"
_BUSY_PERCENT = 1.0
_CHECK_EVERY_S = 15.0  # maximum interval of checks


@dataclass(frozen=True)
class FoundHang:
    """Hang as it was found. It is shown unchanged as long as it lasts."""

    kind: HangKind
    since: float
    message: str


class HangWatch:
    """Periodic check of running jobs.

    Jobs that are paused, have no GPUs, or have a host that does not answer are skipped.
    """

    def __init__(
        self,
        db: Database,
        logs: LogStore,
        utilization: Callable[[str], float | None],
        settings: ClusterSettings,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db = db
        self._logs = logs
        self._utilization = utilization
        self._limits = HangLimits(
            settings.idle_after, settings.gpus_unused_after, settings.hang_steps, settings.hang_after
        )
        self._monotonic = monotonic
        self._courses: Mapping[str, Course] = {}
        self._looked_at = float("-inf")
        self.hung: Mapping[str, FoundHang] = {}
        """Job -> hang, for jobs that hang now."""

    def look(self, now: float, answering: Collection[str]) -> Mapping[str, Hang]:
        """Check the jobs if it is time, and return those that hang.

        `now` is the time of day, for events. `answering` are the hosts that answer.
        """
        at, shortest_s = self._monotonic(), self._limits.shortest_s
        if not shortest_s or at - self._looked_at < min(_CHECK_EVERY_S, shortest_s / 2):
            return {}
        self._looked_at = at
        with self._db.read() as conn:
            signs = list(self._signs(conn, answering))
        self._courses = follow(self._courses, signs, at)
        hangs = {
            job_id: hang
            for job_id, course in self._courses.items()
            if (hang := hang_of(course, self._limits, at)) is not None
        }
        self._tell(hangs, now)
        return hangs

    def _tell(self, hangs: Mapping[str, Hang], now: float) -> None:
        """Report each hang once, as long as it lasts."""
        same = {
            job_id: found for job_id, found in self.hung.items() if job_id in hangs and hangs[job_id].kind is found.kind
        }
        news = {
            job_id: FoundHang(hang.kind, now - hang.seconds, hang.message)
            for job_id, hang in hangs.items()
            if job_id not in same
        }
        if news:
            self._db.write(lambda conn: _write(conn, news, now))
        self.hung = {**same, **news}

    def _signs(self, conn: Connection, answering: Collection[str]) -> Iterator[Signs]:
        tasks: dict[str, list[_WatchedTask]] = {}
        for task in map(_WatchedTask._make, conn.execute(_RUNNING)):
            tasks.setdefault(task.job_id, []).append(task)
        for job_id, mine in tasks.items():
            if any(task.paused_at is not None or task.host_id not in answering for task in mine):
                continue
            first = mine[0]
            readings = [self._utilization(uuid) for task in mine for uuid in task.gpu_uuids]
            measured = [reading for reading in readings if reading is not None]
            yield Signs(
                job_id,
                first.attempt,
                log_bytes=sum(self._logs.size(task.task_id) for task in mine),
                steps=first.steps or 0,
                gpus=len(readings),
                busy=max(measured) >= _BUSY_PERCENT if measured else None,
                reported_at=first.reported_at,
                trained=first.epochs is not None and (first.epoch or 0) >= first.epochs,
            )


class _WatchedTask(NamedTuple):
    job_id: str
    attempt: int
    task_id: str
    host_id: str
    gpu_uuids: Sequence[str]
    paused_at: float | None
    steps: int | None
    epoch: int | None
    epochs: int | None
    reported_at: float | None


_RUNNING = (
    select(
        col(Job.id),
        col(Task.attempt),
        col(Task.id),
        col(Task.host_id),
        col(Task.gpu_uuids),
        col(Task.paused_at),
        col(Profile.steps),
        col(Profile.epoch),
        col(Profile.epochs),
        col(Profile.reported_at),
    )
    .join(Task, col(Task.job_id) == col(Job.id))
    .outerjoin(Profile, col(Profile.job_id) == col(Job.id))
    .where(col(Job.state) == JobState.RUNNING, col(Task.state) == "running", col(Job.required_gpus) > 0)
)


def _write(conn: Connection, news: Mapping[str, FoundHang], now: float) -> None:
    for job_id, hang in news.items():
        repository.add_event(conn, now, HUNG, code=hang.kind.value, message=hang.message, job_id=job_id)
