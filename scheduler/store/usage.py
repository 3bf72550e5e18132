"""Who used how much: GPU-hours and energy by user, label and day, summed from the history of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.cluster_state import run_seconds
from schedulearn.scheduler.store.models import Job, Task

DAY_S = 86_400


@dataclass
class Usage:
    """One row of a report; parts that it is not grouped by are empty."""

    day: str
    user: str
    label: str
    gpu_hours: float = 0.0
    energy_kwh: float = 0.0
    jobs: int = 0


@dataclass(frozen=True)
class Service:
    """What a job has been given."""

    run_seconds: float = 0.0
    gpu_seconds: float = 0.0


def live_service(tasks: Iterable[Any], now: float) -> dict[str, Service]:
    """Job id -> what its live `tasks` have taken up to `now`, which its row counts only once they have ended."""
    found: dict[str, Service] = {}
    for task in tasks:
        before, seconds = found.get(task.job_id, Service()), run_seconds(task, now)
        found[task.job_id] = Service(
            before.run_seconds + (seconds if task.rank == 0 else 0.0),
            before.gpu_seconds + seconds * len(task.gpu_uuids),
        )
    return found


def usage(
    db: Connection, since: float, until: float, now: float, *, by: Sequence[str] = ("user",), label: str = ""
) -> list[Usage]:
    """What was used from `since` to `until`, grouped by any of "day" (UTC), "user" and "label" (the value of the label
    of that name). GPUs count from the time that a task was given them, also before its container runs, until it is gone
    or up to `now`; a pause holds its GPUs, and counts. Energy is laid over a task's time evenly."""
    query = (
        select(
            col(Task.job_id), col(Task.created_at), col(Task.finished_at), col(Task.gpu_uuids),
            col(Task.energy_joules), col(Job.user), col(Job.labels),
        )
        .join(Job, col(Job.id) == col(Task.job_id))
        .where(col(Task.created_at) < until)
        .where(col(Task.finished_at).is_(None) | (col(Task.finished_at) > since))
    )  # fmt: skip
    found: dict[tuple[str, str, str], Usage] = {}
    jobs: dict[tuple[str, str, str], set[str]] = {}
    for row in db.execute(query):
        end = row.finished_at or now
        joules_a_second = row.energy_joules / max(1e-9, end - row.created_at)
        for begin, finish in (
            _days(max(since, row.created_at), min(until, end))
            if "day" in by
            else [(max(since, row.created_at), min(until, end))]
        ):
            seconds = max(0.0, finish - begin)
            key = (
                datetime.fromtimestamp(begin, UTC).date().isoformat() if "day" in by else "",
                row.user if "user" in by else "",
                row.labels.get(label, "") if "label" in by else "",
            )
            entry = found.setdefault(key, Usage(*key))
            entry.gpu_hours += seconds * len(row.gpu_uuids) / 3600
            entry.energy_kwh += seconds * joules_a_second / 3.6e6
            jobs.setdefault(key, set()).add(row.job_id)
    for key, entry in found.items():
        entry.jobs = len(jobs[key])
    return [found[key] for key in sorted(found)]


def _days(begin: float, end: float) -> list[tuple[float, float]]:
    """The parts of a span by day (UTC)."""
    parts = []
    while begin < end:
        midnight = (begin // DAY_S + 1) * DAY_S
        parts.append((begin, min(end, midnight)))
        begin = midnight
    return parts
