"""Peak GPU memory of jobs, and predictions for their families.

Every function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import BigInteger, Column, ForeignKey, Index, String, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.core.cluster_state import Job
from schedulearn.scheduler.core.planning.placement import predicted_memory
from schedulearn.scheduler.store.models import Job as JobRow
from schedulearn.scheduler.store.models import Task
from schedulearn.scheduler.store.people.kin import Kin, owners_of

_SOME = 500  # parameters of one statement


class JobGpuMemory(SQLModel, table=True):
    """Maximum memory of one GPU that was measured for a job."""

    __tablename__ = "job_gpu_memory"
    __table_args__ = (Index("job_gpu_memory_by_family", "family", "bytes"),)

    job_id: str = Field(sa_column=Column(String, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True))
    family: str
    bytes: int = Field(sa_type=BigInteger)


def note_gpu_peaks(conn: Connection, peaks: Mapping[str, int]) -> None:
    """Update the peaks of jobs. `peaks`: task -> bytes of one GPU.

    A job's peak never decreases. Deleted tasks are skipped."""
    for task_id, size in peaks.items():
        found = conn.execute(
            select(col(JobRow.id), col(JobRow.family))
            .join(Task, col(Task.job_id) == col(JobRow.id))
            .where(col(Task.id) == task_id)
        ).one_or_none()
        if found is None:
            continue
        known = conn.execute(select(col(JobGpuMemory.bytes)).where(col(JobGpuMemory.job_id) == found.id)).scalar()
        if known is None:
            conn.execute(insert(JobGpuMemory).values(job_id=found.id, family=found.family, bytes=size))
        elif known < size:
            conn.execute(update(JobGpuMemory).where(col(JobGpuMemory.job_id) == found.id).values(bytes=size))


def predicted_needs(conn: Connection, jobs: Mapping[str, Job], *, hints: bool = True) -> dict[str, int]:
    """Predict the peak memory of each job on each of its GPUs, in bytes.

    Jobs without a prediction are missing. `hints`: use the peaks of other owners' jobs of the family if nothing else
    is known."""
    own = _own(conn, list(jobs))
    owners = owners_of(conn, {job.user for job in jobs.values()})
    by_kin = _by_kin(conn, sorted({job.family for job in jobs.values() if job.family}))
    by_family: dict[str, int] = {}
    for kin, size in by_kin.items() if hints else ():
        by_family[kin.family] = max(size, by_family.get(kin.family, 0))
    needs = {
        job.id: predicted_memory(
            own.get(job.id),
            by_kin.get(Kin(job.family, owners[job.user])),
            job.gpu_memory,
            by_family.get(job.family),
        )
        for job in jobs.values()
    }
    return {job_id: need for job_id, need in needs.items() if need is not None}


def _own(conn: Connection, job_ids: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for begin in range(0, len(job_ids), _SOME):
        query = select(col(JobGpuMemory.job_id), col(JobGpuMemory.bytes))
        rows = conn.execute(query.where(col(JobGpuMemory.job_id).in_(job_ids[begin : begin + _SOME])))
        found.update({row.job_id: row.bytes for row in rows})
    return found


def _by_kin(conn: Connection, families: list[str]) -> dict[Kin, int]:
    """Return the maximum over all jobs of each family and owner."""
    found: dict[Kin, int] = {}
    for begin in range(0, len(families), _SOME):
        query = (
            select(col(JobGpuMemory.family), col(JobRow.user), func.max(col(JobGpuMemory.bytes)).label("most"))
            .join(JobRow, col(JobRow.id) == col(JobGpuMemory.job_id))
            .where(col(JobGpuMemory.family).in_(families[begin : begin + _SOME]))
            .group_by(col(JobGpuMemory.family), col(JobRow.user))
        )
        rows = conn.execute(query).all()
        owners = owners_of(conn, {row.user for row in rows})
        for row in rows:
            kin = Kin(row.family, owners[row.user])
            found[kin] = max(row.most, found.get(kin, 0))
    return found
