"""Storage of early failures of hosts and GPUs.

Each function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.outcomes.early_failures import FailuresChange
from schedulearn.scheduler.core.outcomes.gpu_health import FaultKind
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.gpus import set_fault
from schedulearn.scheduler.store.models import Gpu, Host


def write_failures(db: Connection, changes: Sequence[FailuresChange], now: float) -> None:
    for change in changes:
        failures = list(change.failures)
        if change.gpu_uuid:
            db.execute(update(Gpu).where(col(Gpu.uuid) == change.gpu_uuid).values(failures=failures))
            if change.fault:
                set_fault(db, change.gpu_uuid, change.fault, now, FaultKind.WATCH)  # NVML does not see it end
        else:
            db.execute(update(Host).where(col(Host.id) == change.host_id).values(gpu_failures=failures))
            if change.fault:
                close(db, change.host_id, change.fault, now)


def close(db: Connection, host_id: str, fault: str, now: float) -> None:
    """Close a host for jobs with GPUs. Does nothing if it is closed already."""
    which = (col(Host.id) == host_id, col(Host.gpu_fault) == "")
    if db.execute(update(Host).where(*which).values(gpu_fault=fault)).rowcount:
        message = (
            f"{host_id} takes no more jobs with GPUs: {fault}. Other jobs are not affected. `schedulearn hosts "
            f"uncordon {host_id}` allows them again."
        )
        data = {"fault": fault}
        repository.add_event(db, now, "host.gpus_closed", host_id=host_id, message=message, data=data)


def reopen(db: Connection, host_id: str, why: str, now: float) -> None:
    """Open a host for jobs with GPUs again, and forget its early failures."""
    fault = db.execute(select(col(Host.gpu_fault)).where(col(Host.id) == host_id)).scalar()
    db.execute(update(Host).where(col(Host.id) == host_id).values(gpu_fault="", gpu_failures=[]))
    db.execute(update(Gpu).where(col(Gpu.host_id) == host_id).values(failures=[]))
    if fault:
        message = f"{host_id} takes jobs with GPUs again: {why}."
        repository.add_event(db, now, "host.gpus_opened", host_id=host_id, message=message)
