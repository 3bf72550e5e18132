"""Monitor of SDK jobs without reports, with explanations and events.

Jobs that have reported before use the worker SDK. Elastic jobs are assumed to use it, since they are of little use
without it. If an elastic job has never reported, its script may lack the SDK, or its workers may not reach the service.
These cases can't be distinguished, so the message names both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import insert, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Event, Job, Profile, Task

SILENT, HEARD = "job.silent", "job.heard"
NO_REPORTS = "no_reports"
_INTERVALS = 4  # minimum number of missed report intervals before a job counts as silent, however long one is
_CHECK_EVERY_S = 5.0  # maximum interval of checks


@dataclass(frozen=True)
class RunningJob:
    """Properties of a job whose workers train and none of which is paused."""

    id: str
    elastic: bool
    started_at: float
    """Start time of its last container."""
    reported_at: float | None


def silent_jobs(
    jobs: Iterable[RunningJob], seen_since: Mapping[str, float], now: float, after_s: float, url: str | None
) -> dict[str, str]:
    """Return job id -> problem, for jobs whose reports are missing.

    `seen_since` maps a job to the time since which it has been seen to train. Before that, it may have been paused, or
    this service may have been down. `url` is where workers report to.
    """
    found = {}
    for job in jobs:
        if not job.elastic and job.reported_at is None:
            continue
        quiet = now - max(job.started_at, job.reported_at or 0.0, seen_since.get(job.id, now))
        if quiet >= after_s:
            found[job.id] = _sentence(job, quiet, url)
    return found


def _sentence(job: RunningJob, quiet_s: float, url: str | None) -> str:
    if url is None:
        return "Its workers can't report: the service does not know its own address for them. Set report_url."
    duration = f"{quiet_s / 60:.0f} min" if quiet_s >= 120 else f"{quiet_s:.0f} s"
    if job.reported_at is None:
        return (
            f"No report for {duration}, so its speed is unknown: its script does not use schedulearn.worker, or its "
            f"workers can't reach {url}."
        )
    effect = " Until they report, its size follows from earlier reports." if job.elastic else ""
    return f"Its workers have not reported for {duration}: they can no longer reach {url}, or hang.{effect}"


class SilenceWatch:
    """Periodic check of running jobs, with an event when one falls silent and when it reports again.

    Events from before this service started are read at the first check.
    """

    def __init__(self, db: Database, url: str | None, interval_s: float, after_s: float) -> None:
        self._db = db
        self._url = url
        self._after_s = max(after_s, _INTERVALS * interval_s)
        self._seen_since: dict[str, float] = {}
        self._looked_at = float("-inf")
        self._told: set[str] | None = None
        """Jobs whose last event of the two kinds is SILENT."""
        self.silent: Mapping[str, str] = {}
        """Job id -> problem, for jobs that are silent now."""

    def look(self, now: float) -> None:
        if 0 <= now - self._looked_at < min(_CHECK_EVERY_S, self._after_s / 2):
            return
        self._looked_at = now
        with self._db.read() as conn:
            jobs = _running_jobs(conn)
            self._told = _told_before(conn) if self._told is None else _unfinished(conn, self._told)
        self._seen_since = {job.id: min(now, self._seen_since.get(job.id, now)) for job in jobs}
        self.silent = silent_jobs(jobs, self._seen_since, now, self._after_s, self._url)
        heard = self._told & {
            job.id for job in jobs if job.reported_at is not None and now - job.reported_at < self._after_s
        }
        news = {job_id: (SILENT, why) for job_id, why in self.silent.items() if job_id not in self._told}
        news.update(dict.fromkeys(heard, (HEARD, "Its workers report again.")))
        if news:
            self._db.write(lambda conn: _write(conn, news, now))
            self._told = (self._told | self.silent.keys()) - heard


def _running_jobs(conn: Connection) -> list[RunningJob]:
    rows = conn.execute(
        select(col(Job.id), col(Job.elastic), col(Task.started_at), col(Task.paused_at), col(Profile.reported_at))
        .join(Task, col(Task.job_id) == col(Job.id))
        .outerjoin(Profile, col(Profile.job_id) == col(Job.id))
        .where(col(Job.state) == JobState.RUNNING, col(Task.state) == "running")
        .order_by(col(Job.id))
    )
    found: dict[str, RunningJob] = {}
    paused = set()
    for job_id, elastic, started_at, paused_at, reported_at in rows:
        if paused_at is not None:
            paused.add(job_id)
        last = max(started_at or 0.0, found[job_id].started_at if job_id in found else 0.0)
        found[job_id] = RunningJob(job_id, elastic, last, reported_at)
    return [job for job_id, job in found.items() if job_id not in paused]


def _told_before(conn: Connection) -> set[str]:
    query = select(col(Job.id), col(Event.kind)).join(Event, col(Job.id) == col(Event.job_id))
    query = query.where(col(Job.finished_at).is_(None), col(Event.kind).in_([SILENT, HEARD]))
    told: set[str] = set()
    for job_id, kind in conn.execute(query.order_by(col(Event.id))):
        told.add(job_id) if kind == SILENT else told.discard(job_id)
    return told


def _unfinished(conn: Connection, job_ids: Collection[str]) -> set[str]:
    if not job_ids:
        return set()
    query = select(col(Job.id)).where(col(Job.id).in_(job_ids), col(Job.finished_at).is_(None))
    return set(conn.execute(query).scalars())


def _write(conn: Connection, news: Mapping[str, tuple[str, str]], now: float) -> None:
    """Write each event, unless its job has ended meanwhile."""
    there = _unfinished(conn, news.keys())
    rows = [
        {"at": now, "kind": kind, "job_id": job_id, "code": NO_REPORTS if kind == SILENT else "", "message": message,
         "data": {}}
        for job_id, (kind, message) in news.items() if job_id in there
    ]  # fmt: skip
    if rows:
        conn.execute(insert(Event), rows)
