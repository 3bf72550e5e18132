"""Finished jobs with their configurations and results, for advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import and_, func, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.store.accounting.usage import gpu_types
from schedulearn.scheduler.store.models import Job, Metric, Profile, Task
from schedulearn.scheduler.store.people.kin import owned_by
from schedulearn.scheduler.store.predictions import versions

_MAX_STAYS = 20_000


class PastRun(NamedTuple):
    """Job that ran once, without a resize or retry."""

    job_id: str
    family: str
    gpu_type: str
    gpus: int
    batch_size: int
    """This and the next two are 0 if unknown."""
    epochs: int
    input_size: int
    run_seconds: float
    metric: float | None


class HostStay(NamedTuple):
    job_id: str
    host_id: str
    begin: float
    end: float


def past_runs(conn: Connection, owner: str, metric: str, limit: int) -> list[PastRun]:
    """Return the newest jobs of an owner that succeeded at once.

    They succeeded in their first attempt, without a resize. They belong to the model version in use of their family.
    `owner`: see `Kin`."""
    query = (
        select(
            col(Job.id), col(Job.family), col(Job.spec), col(Profile.init_batch), col(Profile.epochs),
            func.coalesce(col(Profile.epoch_samples), 0), col(Job.run_seconds), col(Metric.last),
        )
        .outerjoin(Profile, col(Profile.job_id) == col(Job.id))
        .outerjoin(Metric, and_(col(Metric.job_id) == col(Job.id), col(Metric.name) == metric))
        .outerjoin(*versions.of_version())
        .where(
            owned_by(owner), versions.belongs(), col(Job.state) == JobState.SUCCEEDED, col(Job.attempt) == 1,
            col(Job.generation) <= 1, col(Job.run_seconds) > 0, col(Job.required_gpus) > 0,
        )
        .order_by(col(Job.finished_at).desc())
        .limit(limit)
    )  # fmt: skip
    rows: list[tuple[Any, ...]] = [tuple(row) for row in conn.execute(query)]
    held = _held(conn, [row[0] for row in rows])
    types = gpu_types(conn, sorted({uuid for uuids in held.values() for uuid in uuids}))
    return [
        PastRun(
            job_id,
            family,
            types.get(held[job_id][0], ""),
            len(held[job_id]),
            spec.get("batch_size") or batch or 0,
            epochs or spec.get("epochs") or 0,
            size,
            seconds,
            last,
        )
        for job_id, family, spec, batch, epochs, size, seconds, last in rows
        if held.get(job_id)
    ]


def _held(conn: Connection, job_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return job id -> GPUs that the job had."""
    found: dict[str, list[str]] = {}
    for row in conn.execute(select(col(Task.job_id), col(Task.gpu_uuids)).where(col(Task.job_id).in_(job_ids))):
        found.setdefault(row.job_id, []).extend(row.gpu_uuids)
    return found


def host_stays(conn: Connection, since: float, now: float) -> list[HostStay]:
    """Return the periods in which jobs ran on hosts, since `since`.

    At most `_MAX_STAYS` periods are returned, newest first."""
    query = (
        select(col(Task.job_id), col(Task.host_id), col(Task.started_at), col(Task.finished_at))
        .where(col(Task.started_at).is_not(None), col(Task.finished_at).is_(None) | (col(Task.finished_at) > since))
        .order_by(col(Task.seq).desc())
        .limit(_MAX_STAYS)
    )
    rows: list[tuple[Any, ...]] = [tuple(row) for row in conn.execute(query)]
    return [HostStay(job_id, host_id, begin, end or now) for job_id, host_id, begin, end in rows]


def since_when(conn: Connection, job_ids: Sequence[str]) -> float:
    """Return the earliest start of these jobs; 0 if none."""
    found = conn.execute(select(func.min(col(Job.started_at))).where(col(Job.id).in_(job_ids))).scalar()
    return float(found or 0.0)
