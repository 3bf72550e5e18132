"""What becomes of what somebody has who is removed."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import delete, func, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.control.service import cancel_job
from schedulearn.scheduler.control.sweeps import cancel_sweep
from schedulearn.scheduler.core.states import TERMINAL
from schedulearn.scheduler.errors import ConflictError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.data import versions
from schedulearn.scheduler.store.data.tables import DataVersion
from schedulearn.scheduler.store.models import Job
from schedulearn.scheduler.store.people import accounts
from schedulearn.scheduler.store.people.tables import GroupMember, Quota, Secret
from schedulearn.scheduler.store.sweeps import Sweep


class OfJobs(StrEnum):
    """Those that have not ended, and sweeps."""

    CANCEL = "cancel"
    KEEP = "keep"


class OfThings(StrEnum):
    """Secrets, or data sets and models."""

    REMOVE = "remove"
    KEEP = "keep"


def remove_person(
    conn: Connection, name: str, jobs: OfJobs | None, secrets: OfThings | None, data: OfThings | None, now: float
) -> None:
    """Raises NotFoundError, and ConflictError where they have something of which nobody said what becomes of it, or
    where a job needs their data."""
    accounts.get_account(conn, name)
    live = select(col(Job.id)).where(col(Job.user) == name, col(Job.status).not_in([each.value for each in TERMINAL]))
    unfinished = list(conn.execute(live).scalars())
    going = select(col(Sweep.id)).where(col(Sweep.user) == name, col(Sweep.finished_at).is_(None))
    sweeps = list(conn.execute(going).scalars())
    mine = (col(DataVersion.user) == name, col(DataVersion.removed_at).is_(None))
    found = conn.execute(select(col(DataVersion.name), col(DataVersion.version)).where(*mine)).all()
    count = conn.execute(select(func.count()).where(col(Secret.owner) == name)).scalar() or 0
    asked = (
        (jobs, len(unfinished) + len(sweeps), "jobs and sweeps that have not ended", "jobs=cancel or keep"),
        (secrets, count, "secrets", "secrets=remove or keep"),
        (data, len(found), "versions of data sets and models", "data=remove or keep"),
    )
    if open_questions := [(number, what, how) for said, number, what, how in asked if said is None and number]:
        has = ", ".join(f"{number} {what}" for number, what, _ in open_questions)
        ways = ", ".join(how for *_, how in open_questions)
        raise ConflictError(f"{name} has {has}: say what becomes of them ({ways})")
    if jobs is OfJobs.CANCEL:
        for sweep_id in sweeps:
            cancel_sweep(conn, sweep_id, now)
        for job_id in unfinished:
            cancel_job(conn, repository.get_job(conn, job_id), now)
    if jobs is not OfJobs.KEEP:  # else they bound what goes on
        conn.execute(delete(Quota).where(col(Quota.user) == name))
        conn.execute(delete(GroupMember).where(col(GroupMember.user) == name))
    if data is OfThings.REMOVE:
        for reference in found:
            versions.remove(conn, reference.name, reference.version, now)
    if secrets is OfThings.REMOVE:
        conn.execute(delete(Secret).where(col(Secret.owner) == name))
    accounts.remove_account(conn, name, now)
