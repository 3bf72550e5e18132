"""Loading of reports of a job and its relatives, for its profile."""

from __future__ import annotations

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.reports.records import JobHistory, Relative
from schedulearn.scheduler.reports.store import NOISE, STALL, observations_of, points_of, profile_of
from schedulearn.scheduler.store.models import Job, PassMeasurement, Profile
from schedulearn.scheduler.store.people.kin import Kin, of_family, of_kin, owner_of

REMEMBERED = 40  # measurements of a family
CANDIDATES = 5  # maximum number of jobs of a family considered as relatives of a new one


def load_history(conn: Connection, job_id: str) -> JobHistory:
    points = points_of(conn, job_id, (NOISE, STALL))
    return JobHistory(
        profile_of(conn, job_id),
        observations_of(conn, [job_id]),
        points.get(NOISE, []),
        [point.value for point in points.get(STALL, [])],
    )


def load_relative(conn: Connection, job_id: str, *, hints: bool = True) -> Relative | None:
    """Return a measured job of the same family and the same user or group, or None.

    If there is none and `hints` is True, another owner's job is used.
    """
    job = conn.execute(select(col(Job.family), col(Job.user)).where(col(Job.id) == job_id)).one_or_none()
    if job is None or not job.family:
        return None
    mine = _most_telling(conn, job_id, of_kin(Kin(job.family, owner_of(conn, job.user))))
    relative = mine or (_most_telling(conn, job_id, of_family(job.family)) if hints else None)
    if relative is None:
        return None
    found = load_history(conn, relative)
    resizes = conn.execute(select(col(Job.resize)).where(col(Job.id).in_([job_id, relative]))).scalars()
    newest = JobHistory(found.report, found.passes[-REMEMBERED:], found.noise, found.stalls)
    return Relative(newest, resized_alike=len(set(resizes)) == 1, is_hint=mine is None)


def _most_telling(conn: Connection, job_id: str, which: ColumnElement[bool]) -> str | None:
    """Return the job measured on the most GPUs, among those that reported last."""
    most = func.max(col(PassMeasurement.num_gpus)).label("most")
    query = (
        select(col(Profile.job_id), most)
        .join(Job, col(Job.id) == col(Profile.job_id))
        .join(PassMeasurement, col(PassMeasurement.job_id) == col(Profile.job_id))
        .where(which, col(Job.id) != job_id)
        .group_by(col(Profile.job_id))
        .order_by(col(Profile.reported_at).desc())
        .limit(CANDIDATES)
    )
    newest = list(conn.execute(query))
    return max(newest, key=lambda row: row.most).job_id if newest else None
