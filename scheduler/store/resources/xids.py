"""Xid errors of GPUs, by job, and the GPUs suspected of faults.

Every function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Column, ForeignKey, String, delete, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.metrics.probe.readings import Xid
from schedulearn.scheduler.core.outcomes.gpu_health import FaultKind
from schedulearn.scheduler.core.outcomes.xids import (
    REPEATED,
    WATCHED_S,
    Suspects,
    WatchedXid,
    XidVerdict,
    meaning_of,
    suspects,
)
from schedulearn.scheduler.store import gpus, repository
from schedulearn.scheduler.store.columns import InstantColumn
from schedulearn.scheduler.store.models import Gpu, Job, Lease, Task


class GpuXid(SQLModel, table=True):
    """Xid of a GPU within the last day, for each job that held it.

    The job id is empty if no job held the GPU."""

    __tablename__ = "gpu_xid"

    gpu_uuid: str = Field(sa_column=Column(String, ForeignKey("gpu.uuid", ondelete="CASCADE"), primary_key=True))
    code: int = Field(primary_key=True)
    job_id: str = Field(primary_key=True)
    program: str
    """The job's user and family."""
    seen_at: float = Field(sa_type=InstantColumn)
    """Time of the last occurrence, by the clock of the GPU's host."""
    noted_at: float = Field(sa_type=InstantColumn)


def last_seen(db: Connection, host_id: str) -> dict[str, dict[int, float]]:
    """Return when each Xid last occurred: GPU of a host -> Xid -> time.

    Times are by the clock of the host."""
    query = (
        select(col(GpuXid.gpu_uuid), col(GpuXid.code), func.max(GpuXid.seen_at))
        .join(Gpu, col(Gpu.uuid) == col(GpuXid.gpu_uuid))
        .where(col(Gpu.host_id) == host_id)
        .group_by(col(GpuXid.gpu_uuid), col(GpuXid.code))
    )
    found: dict[str, dict[int, float]] = {}
    for uuid, code, at in db.execute(query):
        found.setdefault(uuid, {})[code] = at
    return found


def note_xids(db: Connection, uuid: str, events: Sequence[Xid], now: float) -> None:
    """Store new Xids of a GPU, with an event for each job's first occurrence.

    GPUs that repeated Xids make suspect are taken out of service. GPUs that were suspected wrongly are returned to
    service."""
    gpu = db.execute(select(Gpu).where(col(Gpu.uuid) == uuid)).one_or_none()
    if gpu is None:
        return
    holders = list(
        db.execute(
            select(col(Job.id), col(Job.user), col(Job.family))
            .join(Task, col(Task.job_id) == col(Job.id))
            .join(Lease, col(Lease.task_id) == col(Task.id))
            .where(col(Lease.gpu_uuid) == uuid)
            .distinct()
        )
    )
    db.execute(delete(GpuXid).where(col(GpuXid.noted_at) < now - WATCHED_S))
    for event in events:
        for job_id, program in [(job.id, f"{job.user}/{job.family}") for job in holders] or [("", "")]:
            key = (col(GpuXid.gpu_uuid) == uuid, col(GpuXid.code) == event.code, col(GpuXid.job_id) == job_id)
            if db.execute(update(GpuXid).where(*key).values(seen_at=event.at, noted_at=now)).rowcount:
                continue
            row = {"gpu_uuid": uuid, "code": event.code, "job_id": job_id, "program": program}
            db.execute(insert(GpuXid).values(**row, seen_at=event.at, noted_at=now))
            message = f"GPU {gpu.ordinal} of {gpu.host_id} reported Xid {event.code}: {meaning_of(event.code).what}."
            data = {"gpu": uuid, "xid": event.code}
            repository.add_event(
                db, now, "gpu.xid", host_id=gpu.host_id, job_id=job_id or None, message=message, data=data
            )
    if any(meaning_of(event.code).verdict is XidVerdict.WATCH for event in events):
        _apply(db, suspects(_watched(db)), now)


def forget_xids(db: Connection, uuid: str) -> None:
    """Delete the Xids of a GPU, so that they no longer make it suspect."""
    db.execute(delete(GpuXid).where(col(GpuXid.gpu_uuid) == uuid))


def _watched(db: Connection) -> list[WatchedXid]:
    rows: Iterable[GpuXid] = db.execute(select(GpuXid).where(col(GpuXid.job_id) != ""))  # type: ignore[assignment]
    return [
        WatchedXid(row.gpu_uuid, row.job_id, row.program)
        for row in rows
        if meaning_of(row.code).verdict is XidVerdict.WATCH
    ]


def _apply(db: Connection, found: Suspects, now: float) -> None:
    for uuid, fault in found.faults.items():
        gpus.set_fault(db, uuid, fault, now, FaultKind.WATCH)
    ours = select(col(Gpu.uuid)).where(col(Gpu.uuid).in_(found.cleared), col(Gpu.fault).startswith(REPEATED))
    for uuid in db.execute(ours).scalars().all():
        gpus.clear_fault(db, uuid, now, FaultKind.WATCH)
