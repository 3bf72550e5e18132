"""Thread that deletes old events and old jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sqlalchemy import delete, func, or_, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.background import Background
from schedulearn.scheduler.control.service import Service
from schedulearn.scheduler.core.states import UNFINISHED
from schedulearn.scheduler.errors import SchedulearnError
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.data.needed import needed_outputs
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Event, Job

log = logging.getLogger(__name__)

DAY_S = 86_400.0
EVENTS, JOBS = 2_000, 20
"""Maximum events read, and jobs deleted, in one step. Other changes of the database take their turn between steps."""
_TRIED = 200  # ended jobs, some of which can't be deleted now
_FIRST_S, _EVERY_S, _PAUSE_S = 60.0, 3600.0, 1.0


class Retention:
    """Deletes events after `keep_events` days and ended jobs after `keep_jobs` days, in small steps."""

    def __init__(
        self,
        db: Database,
        service: Service,
        shows: Callable[[str], bool],
        settings: ClusterSettings,
        aged: Callable[[float], Callable[[], float]],
    ) -> None:
        """`shows`: whether a host shows a container of a job. `aged`: makes a clock for data kept for some seconds."""
        self._db = db
        self._service = service
        self._shows = shows
        self._events_s = settings.keep_events * DAY_S
        # Outputs and checkpoints go with their job, and were promised for their own time.
        self._jobs_s = settings.keep_jobs * DAY_S
        self._jobs_at_least_s = max(settings.keep_outputs * DAY_S, settings.keep_checkpoints)
        self._clock_of_events = aged(self._events_s)
        self._clock_of_jobs = aged(max(self._jobs_s, self._jobs_at_least_s))
        self._read_up_to = 0
        self._thread = Background("retention", self._run, first_s=_FIRST_S, trouble="old data could not be deleted")

    def start(self) -> None:
        if self._events_s or self._jobs_s:
            self._thread.start()

    def close(self) -> None:
        self._thread.close()

    def _run(self) -> float:
        return _PAUSE_S if self.step() else _EVERY_S

    def step(self) -> bool:
        """Delete some old events and jobs. Return whether there may be more."""
        more_events = self._events_s > 0 and self._delete_events()
        more_jobs = self._jobs_s > 0 and self._delete_jobs()
        return more_events or more_jobs

    def _delete_events(self) -> bool:
        before, after = self._clock_of_events() - self._events_s, self._read_up_to

        def change(conn: Connection) -> int | None:
            """Return the last id of the part that was read; None: there is nothing old after it."""
            part = select(col(Event.id), col(Event.at)).where(col(Event.id) > after).order_by(col(Event.id))
            rows = conn.execute(part.limit(EVENTS)).all()
            if not any(row.at < before for row in rows):
                return None
            last: int = rows[-1].id
            unfinished = select(col(Job.id)).where(col(Job.state).in_(UNFINISHED))
            old = (
                col(Event.id) > after,
                col(Event.id) <= last,
                col(Event.at) < before,
                or_(col(Event.job_id).is_(None), col(Event.job_id).not_in(unfinished)),
            )
            resizes = conn.execute(select(func.count()).select_from(Event).where(repository.IS_RESIZE, *old)).scalar()
            repository.count_deleted(conn, "resizes", resizes or 0)
            conn.execute(delete(Event).where(*old))
            return last

        last = self._db.write(change)
        self._read_up_to = last or 0
        return last is not None

    def _delete_jobs(self) -> bool:
        before = self._clock_of_jobs() - max(self._jobs_s, self._jobs_at_least_s)
        with self._db.read() as conn:
            query = select(col(Job.id)).where(
                col(Job.finished_at) < before, col(Job.sweep).is_(None), col(Job.id).not_in(_needed(conn))
            )
            old = list(conn.execute(query.order_by(col(Job.submitted_at)).limit(_TRIED)).scalars())
        deleted = 0
        for job_id in old:
            if deleted == JOBS:
                return True
            try:
                self._service.delete(job_id, shown=self._shows)
                deleted += 1
            except SchedulearnError as error:
                log.info("the old job %s stays for now: %s", job_id, error)
        return False


def _needed(conn: Connection) -> set[str]:
    """Return the ended jobs that unfinished ones wait for, or whose outputs they need."""
    after = conn.execute(select(col(Job.after)).where(col(Job.state).in_(UNFINISHED), col(Job.after).is_not(None)))
    return {job_id for each in after.scalars() if each for job_id in each["jobs"]} | set(needed_outputs(conn))
