"""Database part of a GPU reset: the GPU is cordoned meanwhile."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.errors import ConflictError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.gpus import find_gpu
from schedulearn.scheduler.store.models import Gpu, Lease, Task


class Resetting(NamedTuple):
    uuid: str
    ordinal: int
    cordoned: bool
    """Whether the GPU was cordoned before the reset."""
    fault: str


def begin_reset(db: Connection, host_id: str, name: str) -> Resetting:
    """Cordon a GPU before its reset.

    Raises NotFoundError, or ConflictError if the GPU can't be reset or is in use."""
    row = find_gpu(db, host_id, name)
    which = f"GPU {row.ordinal} of {host_id}"
    if row.simulated:
        raise ConflictError(f"{which} is simulated: there is nothing to reset")
    if row.uuid.startswith("MIG-"):
        raise ConflictError(f"{which} is a MIG device: only the whole GPU can be reset, by nvidia-smi on the host")
    if row.occupied:
        raise ConflictError(f"{which} is used by {row.occupied}: end it first")
    holders = select(col(Task.job_id)).join(Lease, col(Lease.task_id) == col(Task.id))
    jobs = sorted(set(db.execute(holders.where(col(Lease.gpu_uuid) == row.uuid)).scalars()))
    if jobs:
        raise ConflictError(
            f"{which} has a job ({', '.join(jobs[:3])}): drain it first, `schedulearn hosts gpu drain {host_id} "
            f"{row.ordinal}`"
        )
    db.execute(update(Gpu).where(col(Gpu.uuid) == row.uuid).values(cordoned=True))
    return Resetting(str(row.uuid), row.ordinal, row.cordoned, row.fault)


def end_reset(db: Connection, host_id: str, gpu: Resetting, now: float, error: str = "") -> None:
    """Restore the cordon of before the reset, and record an event.

    `error`: why the GPU was not reset; empty: it was."""
    db.execute(update(Gpu).where(col(Gpu.uuid) == gpu.uuid).values(cordoned=gpu.cordoned))
    what = f"was not reset: {error}" if error else "was reset"
    message = f"GPU {gpu.ordinal} of {host_id} {what}."
    data = {"gpu": gpu.uuid, "error": error}
    repository.add_event(db, now, "gpu.reset", host_id=host_id, message=message, data=data)
