"""Counts of jobs that met their deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import case, or_, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.outcomes.lateness import Late, late
from schedulearn.scheduler.store.accounting.usage import day_of
from schedulearn.scheduler.store.models import Job

Key = tuple[str, str, str]
"""Day, user and label of a row of usage."""


@dataclass
class Kept:
    deadlines: int = 0
    """Jobs whose deadline was met or missed."""
    met: int = 0


def kept_deadlines(
    db: Connection, since: float, until: float, now: float, *, by: Sequence[str], label: str = ""
) -> dict[Key, Kept]:
    """Count deadlines of jobs by day, user and label. Deleted jobs don't count.

    A job counts at the time when it ends or when its deadline passes, whichever comes first."""
    job = Job.__table__.c  # type: ignore[attr-defined]
    decided = case((job.finished_at < job.deadline, job.finished_at), else_=job.deadline)
    query = select(job.user, job.labels, job.deadline, job.state, job.finished_at, decided.label("at")).where(
        col(Job.deadline).is_not(None),
        or_(col(Job.finished_at).is_not(None), col(Job.deadline) < now),
        decided >= since,
        decided < until,
    )
    found: dict[Key, Kept] = {}
    for row in db.execute(query):
        kept = late(row.deadline, row.state, row.finished_at, None, now)
        if kept is None:
            continue
        key = (
            day_of(row.at) if "day" in by else "",
            row.user if "user" in by else "",
            row.labels.get(label, "") if "label" in by else "",
        )
        entry = found.setdefault(key, Kept())
        entry.deadlines += 1
        entry.met += kept == Late.NO
    return found
