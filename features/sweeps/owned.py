"""Sweeps as objects that users own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.features.sweeps.service import cancel_sweep
from schedulearn.features.sweeps.table import Sweep, SweepRun
from schedulearn.scheduler.store.owned import OWNED, Owned


def _jobs_to_come(db: Connection) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for sweep_id, spec in db.execute(select(col(Sweep.id), col(Sweep.spec)).where(col(Sweep.finished_at).is_(None))):
        yield sweep_id, spec["job"]


OWNED["sweep"] = Owned(
    Sweep,
    parts=((SweepRun, "sweep_id IN (SELECT id FROM sweep)"),),
    jobs_to_come=_jobs_to_come,
    cancel=cancel_sweep,
)
