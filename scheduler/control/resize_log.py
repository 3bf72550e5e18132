"""What each resize gained and cost, in the job's events, once that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.model import JobView, gpu_count
from schedulearn.scheduler.core.snapshot import UNREPORTED_S
from schedulearn.scheduler.core.states import JobStatus
from schedulearn.scheduler.reports.store import STALL, metrics_of, observations_of
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job

KIND = "job.resized"
MEASURED, UNMEASURED = "measured", "unmeasured"
_ALIKE = 0.01  # of speed: below that it says that nothing has changed


def tell_resizes(db: Database, jobs: Mapping[str, Any], views: Sequence[JobView], now: float) -> None:
    """Writes an event for each job that has trained on its new allocation for long enough to be measured there.
    `jobs`: their rows; `views`: what they hold."""
    for view in views:
        job = jobs[view.id]
        if not job.resized_from or job.status != JobStatus.RUNNING or not view.held_seconds:
            continue
        with db.read() as connection:
            seen = observations_of(connection, [job.id])
            stalls = metrics_of(connection, job.id).get(STALL, [])
        if (result := outcome(job, view, seen, stalls)) is not None:
            db.write(partial(_tell, job=job, result=result, now=now))


def outcome(
    job: Any, view: JobView, seen: Sequence[Any], stalls: Sequence[Sequence[float]]
) -> tuple[str, str, dict[str, Any]] | None:
    """(code, sentence, data) of the last resize of `job`; None: too early to tell. `seen`: its observations, `stalls`:
    [step, seconds, time] of each time that it stood still for a resize."""
    before, after = sum(job.resized_from.values()), view.gpus
    stood_still = next((seconds for _, seconds, at in reversed(stalls) if at >= job.resized_at), None)
    old, new = _speed(seen, before), _speed(seen, after, job.resized_at)
    what = f"From {before} to {gpu_count(after)}"
    if before == after:
        what = f"From {', '.join(sorted(job.resized_from))} to {', '.join(sorted(view.allocation))}"
    data = {"gpus_before": before, "gpus_after": after, "stall_seconds": stood_still}
    if new is None or (stood_still is None and (view.held_seconds or 0.0) < UNREPORTED_S):
        if (view.held_seconds or 0.0) < UNREPORTED_S:
            return None
        return UNMEASURED, f"{what}: what that gained is not known, since it has reported no step since.", data
    cost = "how long it stood still is not known" if stood_still is None else f"it stood still for {stood_still:.1f} s"
    if old is None:
        return UNMEASURED, f"{what}: {cost}; how fast it was before is not known.", data
    data["speed"] = ratio = new / old
    sentence = f"{what}: {ratio:.2f} times as many samples a second, and {cost}."
    if ratio > 1 + _ALIKE and stood_still is not None:
        sentence = f"{sentence[:-1]}, which is made up for after {stood_still / (ratio - 1):.0f} s."
    return MEASURED, sentence, data


def _speed(seen: Sequence[Any], gpus: int, since: float = 0.0) -> float | None:
    """Samples a second on so many GPUs, as measured last; None if never since then."""
    rows = [row for row in seen if row.num_gpus == gpus and row.at >= since]
    newest = max(rows, key=lambda row: row.at, default=None)
    return None if newest is None else float(gpus * newest.atomic_batch / newest.iter_time)


def _tell(db: Connection, job: Any, result: tuple[str, str, dict[str, Any]], now: float) -> None:
    same = (col(Job.id) == job.id, col(Job.resized_at) == job.resized_at)
    if db.execute(update(Job).where(*same).values(resized_from=None)).rowcount:
        code, message, data = result
        repository.add_event(db, now, KIND, code=code, message=message, job_id=job.id, data=data)
