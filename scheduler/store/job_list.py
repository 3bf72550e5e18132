"""Filters and sort orders of job lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Select, SQLColumnExpression, and_, bindparam, exists, func, or_, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.store.columns import pairs_of
from schedulearn.scheduler.store.models import Job, Profile, ReadLog, Task

Sort = Literal[
    "submitted", "-submitted", "name", "-name", "user", "-user", "state", "-state", "gpus", "-gpus",
    "started", "-started", "finished", "-finished", "duration", "-duration",
]  # fmt: skip
"""Sort keys of a list; a minus means descending order."""
FAILED = (JobState.FAILED, JobState.TIMEOUT)


def on_host(host: str) -> ColumnElement[bool]:
    """Match jobs of which a container is or was on this host."""
    return exists().where(col(Task.job_id) == col(Job.id), col(Task.host_id) == host)


def ended_between(since: float | None, until: float | None) -> ColumnElement[bool]:
    """Match jobs that ended in this time; without `until` also unfinished ones."""
    ended = col(Job.finished_at)
    after = or_(ended.is_(None), ended >= since) if since is not None else ended == ended
    if until is None:
        return after
    return and_(after, ended < until)


@dataclass(frozen=True)
class JobFilter:
    """Conditions that all jobs of a list meet, except their states.

    None and empty values are no condition."""

    user: str | None = None
    text: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    sweep: str | None = None
    schedule: str | None = None
    host: str | None = None
    ended_since: float | None = None
    ended_until: float | None = None

    def narrow(self, db: Connection, query: Select[Any]) -> Select[Any]:
        """Return `query` without the jobs that don't meet the conditions."""
        equal = ((col(Job.user), self.user), (col(Job.sweep), self.sweep), (col(Job.schedule), self.schedule))
        for column, asked in equal:
            if asked is not None:
                query = query.where(column == asked)
        if self.text:
            query = query.where(or_(*(of.contains(self.text, autoescape=True) for of in (col(Job.name), col(Job.id)))))
        for name, value in self.labels.items():
            pair = pairs_of(db, col(Job.labels))
            query = query.where(exists().where(pair.c.key == name, pair.c.value == value).select_from(pair))
        if self.host is not None:
            query = query.where(on_host(self.host))
        if self.ended_since is not None or self.ended_until is not None:
            query = query.where(ended_between(self.ended_since, self.ended_until))
        return query


ALL_JOBS = JobFilter()

_KEYS: Mapping[str, SQLColumnExpression[Any]] = {
    "submitted": col(Job.id),  # which grows with each submission, and has an index
    "name": func.lower(col(Job.name)),
    "user": func.lower(func.coalesce(col(Job.user), "")),
    "state": col(Job.state),
    "gpus": col(Job.required_gpus),
    "started": func.coalesce(col(Job.started_at), 0.0),
    "finished": func.coalesce(col(Job.finished_at), 0.0),
}
"""Sort keys. A missing start or end counts as 0."""


def _key(sort: Sort) -> tuple[SQLColumnExpression[Any], bool]:
    """Return the expression to sort by, and whether the greatest comes first."""
    name, greatest_first = sort.removeprefix("-"), sort.startswith("-")
    if name == "duration":
        ended = func.coalesce(col(Job.finished_at), bindparam("now"))
        return func.coalesce(ended - col(Job.started_at), 0.0), greatest_first
    return _KEYS[name], greatest_first


@cache  # the first page is requested often, and building and compiling the query takes a fifth of its time
def jobs_by(sort: Sort) -> Select[Any]:
    """Return a query of all jobs in this order, ties by id.

    Parameters: `most` is the maximum number of jobs. Durations of unfinished jobs extend to `now`."""
    key, greatest_first = _key(sort)
    ident = col(Job.id)
    order = (key.desc(), ident.desc()) if greatest_first else (key, ident)
    return select(Job).order_by(*order).limit(bindparam("most"))


def behind(query: Select[Any], db: Connection, sort: Sort, after: str, now: float) -> Select[Any]:
    """Restrict `query`, which is in this order, to the jobs behind the job `after`."""
    key, greatest_first = _key(sort)
    ident = col(Job.id)
    last = db.execute(select(key).where(ident == after), {"now": now}).scalar_one()
    beyond, later = (key < last, ident < after) if greatest_first else (key > last, ident > after)
    return query.where(or_(beyond, and_(key == last, later)))


def failed_since(db: Connection, since: float) -> int:
    """Return the number of jobs that failed or timed out since then."""
    query = select(func.count()).where(col(Job.state).in_(FAILED), col(Job.finished_at) >= since)
    return int(db.execute(query).scalar() or 0)


_PROGRESS = select(
    col(Profile.job_id), col(Profile.epoch), col(Profile.epochs), col(Profile.position), col(Profile.epoch_samples)
).where(col(Profile.job_id).in_(bindparam("job_ids", expanding=True)), col(Profile.epochs) > 0)


_IN_LOGS = (
    select(col(ReadLog.job_id), col(ReadLog.fraction))
    .join(Job, and_(col(Job.id) == col(ReadLog.job_id), col(Job.attempt) == col(ReadLog.attempt)))
    .where(col(ReadLog.job_id).in_(bindparam("job_ids", expanding=True)), col(ReadLog.fraction).is_not(None))
)


def run_pages_of(db: Connection, job_id: str) -> list[str]:
    """Return the addresses of the job's run in trackers of experiments, from its log."""
    reading = db.execute(select(col(ReadLog.reading)).where(col(ReadLog.job_id) == job_id)).scalar()
    pages = (reading or {}).get("run_pages", [])
    return [str(page) for page in pages] if isinstance(pages, list) else []


class ShownProgress(NamedTuple):
    fraction: float
    from_log: bool
    """Whether it was read from the job's log, since its workers don't report it."""


def progress_of(db: Connection, job_ids: list[str]) -> dict[str, ShownProgress]:
    """Return the progress of jobs, from 0 to 1; jobs that show none are missing."""
    in_logs = db.execute(_IN_LOGS, {"job_ids": job_ids})
    found = {job_id: ShownProgress(fraction or 0.0, True) for job_id, fraction in in_logs}
    for job_id, epoch, epochs, position, samples in db.execute(_PROGRESS, {"job_ids": job_ids}):
        if epochs:
            within = position / samples if samples > 0 else 0.0
            found[job_id] = ShownProgress(max(0.0, min(1.0, (epoch + within) / epochs)), False)
    return found
