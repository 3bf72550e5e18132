"""Succeeded jobs for the simulator, which replays them with other policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.cluster_state import Job, Task
from schedulearn.scheduler.reports.fitting import make_profile
from schedulearn.scheduler.reports.records import BatchLimits, MetricPoint
from schedulearn.scheduler.reports.relatives import REMEMBERED
from schedulearn.scheduler.reports.store import NOISE, STALL, last_reports, observations_of
from schedulearn.scheduler.sim.replay import FinishedJob, JobKind, noise_curve
from schedulearn.scheduler.store.cluster_state import succeeded_jobs, tasks_of
from schedulearn.scheduler.store.models import Metric
from schedulearn.scheduler.store.people.kin import Kin, owners_of


class _KindKey(NamedTuple):
    """Key that jobs of one kind share."""

    kin: Kin
    limits: BatchLimits


def load_finished_jobs(conn: Connection, limit: int) -> list[FinishedJob]:
    """Return the last succeeded jobs by time of submission, with their history."""
    jobs = succeeded_jobs(conn, limit)
    ids = [job.id for job in jobs]
    tasks: dict[str, list[Task]] = {}
    for task in tasks_of(conn, ids):
        tasks.setdefault(task.job_id, []).append(task)
    noise, stalls = _points(conn, ids, NOISE), _points(conn, ids, STALL)
    return [
        FinishedJob(
            job,
            tasks.get(job.id, []),
            noise.get(job.id, ()),
            sum(point.value for point in stalls.get(job.id, ())),
        )
        for job in jobs
    ]


def kinds(conn: Connection, past: Sequence[FinishedJob]) -> Callable[[Job], JobKind | None]:
    """Return a function from a finished job to its kind, with the kind's newest profile.

    Jobs of one kind have the same family, owner and batch limits.
    """
    found: dict[_KindKey, JobKind] = {}
    of_job: dict[str, _KindKey] = {}
    namesakes: dict[str, int] = {}
    owners = owners_of(conn, {finished.job.user for finished in past})
    reports = last_reports(conn, [finished.job.id for finished in past if finished.job.elastic])
    for finished in reversed(past):
        job = finished.job
        if (report := reports.get(job.id)) is None:
            continue
        key = of_job[job.id] = _KindKey(Kin(job.family or job.id, owners[job.user]), report.batch_limits)
        if key not in found and (passes := observations_of(conn, [job.id])[-REMEMBERED:]):
            number = namesakes[job.name] = namesakes.get(job.name, 0) + 1
            name = job.name if number == 1 else f"{job.name} ({number})"
            found[key] = JobKind(name, make_profile(report, passes).goodput, noise_curve(finished.noise))

    def kind_of(job: Job) -> JobKind | None:
        key = of_job.get(job.id)
        return None if key is None else found.get(key)

    return kind_of


def _points(conn: Connection, job_ids: Sequence[str], name: str) -> Mapping[str, Sequence[MetricPoint]]:
    """Return job id -> points of one metric."""
    query = select(col(Metric.job_id), col(Metric.points))
    rows = conn.execute(query.where(col(Metric.job_id).in_(job_ids), col(Metric.name) == name))
    return {job_id: [MetricPoint._make(point) for point in points] for job_id, points in rows}
