"""Events with the measured gain and cost of each resize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.cluster_state import Job
from schedulearn.scheduler.core.model import JobView, gpu_count
from schedulearn.scheduler.core.planning.snapshot import UNREPORTED_S
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.reports.records import MeasuredPasses
from schedulearn.scheduler.reports.store import STALL, metrics_of, observations_of
from schedulearn.scheduler.store import models as tables
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database

KIND = "job.resized"
MEASURED, UNMEASURED = "measured", "unmeasured"
_ALIKE = 0.01  # of speed; smaller changes count as none


@dataclass(frozen=True)
class ResizeOutcome:
    """Gain and cost of a resize."""

    gpus_before: int
    gpus_after: int
    stall_seconds: float | None
    message: str
    speed: float | None = None
    """Samples per second after the resize, divided by those before; None: unknown."""

    @property
    def code(self) -> str:
        return UNMEASURED if self.speed is None else MEASURED

    @property
    def data(self) -> dict[str, float | None]:
        found = {"gpus_before": self.gpus_before, "gpus_after": self.gpus_after, "stall_seconds": self.stall_seconds}
        return found if self.speed is None else {**found, "speed": self.speed}


def tell_resizes(db: Database, jobs: Mapping[str, Job], views: Sequence[JobView], now: float) -> None:
    """Record an event for each job whose last resize was measured.

    `views`: jobs at the beginning of the scheduling cycle. Some may have ended since."""
    for view in views:
        job = jobs.get(view.id)
        if job is None or not job.resized_from or job.state != JobState.RUNNING or not view.held_seconds:
            continue
        with db.read() as conn:
            seen = observations_of(conn, [job.id])
            stalls = metrics_of(conn, job.id).get(STALL, [])
        if (found := outcome(job, view, seen, stalls)) is not None:
            db.write(partial(_tell, job=job, found=found, now=now))


def outcome(
    job: Job, view: JobView, seen: Sequence[MeasuredPasses], stalls: Sequence[Sequence[float]]
) -> ResizeOutcome | None:
    """Return the outcome of the last resize of `job`.

    None if it was not resized, or if it is too early. `stalls`: [step, seconds, time] of each pause for a resize."""
    if not job.resized_from or job.resized_at is None:
        return None
    since, held = job.resized_at, view.held_seconds or 0.0
    before, after = sum(job.resized_from.values()), view.gpus
    stood_still = next((seconds for _, seconds, at in reversed(stalls) if at >= since), None)
    old, new = _speed(seen, before), _speed(seen, after, since)
    what = f"From {before} to {gpu_count(after)}"
    if before == after:
        what = f"From {', '.join(sorted(job.resized_from))} to {', '.join(sorted(view.allocation))}"
    if held < UNREPORTED_S and (new is None or stood_still is None):
        return None
    if new is None:
        message = f"{what}: the gain is unknown, since it has reported no step since."
        return ResizeOutcome(before, after, stood_still, message)
    cost = "the length of its pause is unknown" if stood_still is None else f"it paused for {stood_still:.1f} s"
    if old is None:
        message = f"{what}: {cost}; its speed before is unknown."
        return ResizeOutcome(before, after, stood_still, message)
    ratio = new / old
    message = f"{what}: {ratio:.2f} times the samples per second, and {cost}."
    if ratio > 1 + _ALIKE and stood_still is not None:
        message = f"{message[:-1]}, which pays off after {stood_still / (ratio - 1):.0f} s."
    return ResizeOutcome(before, after, stood_still, message, ratio)


def _speed(seen: Sequence[MeasuredPasses], gpus: int, since: float = 0.0) -> float | None:
    """Return the latest samples per second on `gpus` GPUs.

    None if nothing was measured since `since`."""
    rows = [row for row in seen if row.num_gpus == gpus and row.at >= since]
    newest = max(rows, key=lambda row: row.at, default=None)
    return None if newest is None else gpus * newest.atomic_batch / newest.iter_time


def _tell(conn: Connection, job: Job, found: ResizeOutcome, now: float) -> None:
    same = (col(tables.Job.id) == job.id, col(tables.Job.resized_at) == job.resized_at)
    if conn.execute(update(tables.Job).where(*same).values(resized_from=None)).rowcount:
        repository.add_event(conn, now, KIND, code=found.code, message=found.message, job_id=job.id, data=found.data)
