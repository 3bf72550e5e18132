"""Runner of the hosts' CUDA checks.

It runs at most one at a time per host, and stores the results in the database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.background import start_once
from schedulearn.scheduler.core.outcomes.gpu_health import FaultKind
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.cuda_check import Checked, CudaCheck
from schedulearn.scheduler.store import gpus, repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.early_failures import close, reopen
from schedulearn.scheduler.store.models import Lease


class CudaChecks:
    """CUDA checks in progress. `wake` makes the loop start another scheduling cycle."""

    def __init__(self, db: Database, wake: Callable[[], None], clock: Callable[[], float]) -> None:
        self._db = db
        self._wake = wake
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: set[str] = set()

    def begin(self, host_id: str, check: CudaCheck) -> None:
        """Check the idle GPUs of a host in a separate thread. Does nothing during a check of the host."""
        with self._lock:
            if host_id in self._under_way:
                return
            self._under_way.add(host_id)
        start_once(f"cuda-check-{host_id}", lambda: self._run(host_id, check))

    def _run(self, host_id: str, check: CudaCheck) -> None:
        try:
            with self._db.read() as conn:
                idle = _idle(conn, host_id)
            if idle:
                found = _asked(check, idle)
                self._db.write(lambda conn: _note(conn, host_id, found, self._clock()))
                self._wake()
        finally:
            with self._lock:
                self._under_way.discard(host_id)


def _asked(check: CudaCheck, uuids: list[str]) -> Checked:
    try:
        return check.run(uuids)
    except RuntimeFault as fault:
        return Checked(skipped=str(fault))


def _idle(conn: Connection, host_id: str) -> list[str]:
    held = set(conn.execute(select(col(Lease.gpu_uuid))).scalars())
    usable = [gpu for gpu in gpus.of_host(conn, host_id) if not (gpu.simulated or gpu.occupied or gpu.unwatched)]
    return [gpu.uuid for gpu in usable if not gpu.fault and gpu.uuid not in held]


def _note(conn: Connection, host_id: str, found: Checked, now: float) -> None:
    """Store the result of a check and its event. A skipped check changes no other state."""
    if found.skipped:
        message = f"CUDA was not checked on {host_id}: {found.skipped}."
    elif not found.errors:
        message = f"CUDA works on {host_id}."
        reopen(conn, host_id, "CUDA works there", now)
    else:
        message = f"CUDA does not work on {host_id}: {'; '.join(sorted(set(found.errors.values())))}."
        for uuid, why in found.errors.items():
            if uuid:
                gpus.set_fault(conn, uuid, f"the CUDA check failed: {why}", now, FaultKind.WATCH)
            else:
                close(conn, host_id, why if why.startswith("on ") else f"on {host_id} CUDA fails: {why}", now)
    code = "skipped" if found.skipped else "failed" if found.errors else "passed"
    repository.add_event(conn, now, "host.cuda_check", code=code, host_id=host_id, message=message)
