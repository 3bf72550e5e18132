"""Jobs that hold GPUs and seem to do nothing: no output, no step reported, no use of a GPU for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.states import JobStatus
from schedulearn.scheduler.runtimes.log_store import LogStore
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job, Profile, Task

IDLE = "job.idle"
_BUSY_PERCENT = 1.0
_CHECK_EVERY_S = 15.0  # at most


@dataclass(frozen=True)
class Signs:
    """What a job has done so far. `busy`: whether one of its GPUs computes now; None: nobody measures that."""

    job_id: str
    log_bytes: int
    steps: int
    busy: bool | None


@dataclass
class _Last:
    log_bytes: int
    steps: int
    at: float
    """When it was seen to do something."""


class IdleWatch:
    """Looks at the running jobs now and then, and writes an event each time that one has done nothing for `after_s`; 0:
    never. Jobs that pause, and those without GPUs, are left out."""

    def __init__(
        self, db: Database, logs: LogStore, utilization: Callable[[str], float | None], after_s: float
    ) -> None:
        self._db = db
        self._logs = logs
        self._utilization = utilization
        self._after_s = after_s
        self._last: dict[str, _Last] = {}
        self._looked_at = float("-inf")
        self.idle: Mapping[str, str] = {}
        """Job id -> what is wrong, now."""

    def look(self, now: float) -> None:
        if not self._after_s or 0 <= now - self._looked_at < min(_CHECK_EVERY_S, self._after_s / 2):
            return
        self._looked_at = now
        with self._db.read() as conn:
            signs = list(self._signs(conn))
        idle = self.judge(signs, now)
        news = {job_id: why for job_id, why in idle.items() if job_id not in self.idle}
        self.idle = idle
        if news:
            self._db.write(lambda conn: _write(conn, news, now))

    def judge(self, signs: Iterable[Signs], now: float) -> dict[str, str]:
        """Job id -> what is wrong, for those that did nothing for long enough."""
        seen: dict[str, _Last] = {}
        found: dict[str, str] = {}
        for each in signs:
            last = self._last.get(each.job_id)
            if last is None or each.busy or (each.log_bytes, each.steps) != (last.log_bytes, last.steps):
                last = _Last(each.log_bytes, each.steps, now)
            seen[each.job_id] = last
            if now - last.at >= self._after_s:
                unused = "" if each.busy is None else ", and it does not use its GPUs"
                found[each.job_id] = (
                    f"It has done nothing that can be seen for {self._after_s / 60:.0f} min or more: no output, no "
                    f"step reported{unused}. It may hang."
                )
        self._last = seen
        return found

    def _signs(self, conn: Connection) -> Iterable[Signs]:
        tasks: dict[str, list[_RunningTask]] = {}
        for task in map(_RunningTask._make, conn.execute(_RUNNING)):
            tasks.setdefault(task.job_id, []).append(task)
        for job_id, mine in tasks.items():
            if any(task.paused_at is not None for task in mine):
                continue
            readings = [self._utilization(uuid) for task in mine for uuid in task.gpu_uuids]
            measured = [reading for reading in readings if reading is not None]
            yield Signs(
                job_id,
                sum(self._logs.size(task.task_id) for task in mine),
                mine[0].steps or 0,
                max(measured) >= _BUSY_PERCENT if measured else None,
            )


class _RunningTask(NamedTuple):
    job_id: str
    task_id: str
    gpu_uuids: Sequence[str]
    paused_at: float | None
    steps: int | None


_RUNNING = (
    select(col(Job.id), col(Task.id), col(Task.gpu_uuids), col(Task.paused_at), col(Profile.steps))
    .join(Task, col(Task.job_id) == col(Job.id))
    .outerjoin(Profile, col(Profile.job_id) == col(Job.id))
    .where(col(Job.status) == JobStatus.RUNNING, col(Task.state) == "running", col(Job.required_gpus) > 0)
)


def _write(conn: Connection, news: Mapping[str, str], now: float) -> None:
    for job_id, why in news.items():
        repository.add_event(conn, now, IDLE, code="idle", message=why, job_id=job_id)
