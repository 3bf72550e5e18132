"""Table and queries of maintenance windows, inside the caller's transaction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any

from sqlalchemy import Row, Text, delete, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.core import cluster_state as records
from schedulearn.scheduler.core.instants import shown
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.specs.cron import Repetition
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.columns import InstantColumn, json_column
from schedulearn.scheduler.store.models import Host

MAX = 100


class HostWindow(SQLModel, table=True):
    """Maintenance window of hosts. It is deleted when it is over; a repeated one moves to its next occurrence."""

    __tablename__ = "host_window"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: int | None = Field(default=None, primary_key=True)
    hosts: list[str] = Field(sa_column=json_column())
    """Empty: all hosts."""
    starts_at: float = Field(sa_type=InstantColumn)
    ends_at: float = Field(sa_type=InstantColumn)
    reason: str = Field(default="", sa_type=Text)
    cron: str = ""
    """Cron expression of its starts; empty: it takes place once."""
    time_zone: str
    stops_rigid_s: float = 0.0
    """Seconds after its start at which rigid jobs are stopped too."""
    told: list[str] = Field(sa_column=json_column())
    """Running jobs that know of this occurrence."""


_STORED = [name for name in records.MaintenanceWindow._fields if name != "longest_gap"]
_ALL = select(*(col(getattr(HostWindow, name)) for name in _STORED)).order_by(
    col(HostWindow.starts_at), col(HostWindow.id)
)
_COUNTED = 60
"""Occurrences by which the longest gap is found."""


def _record(row: Row[Any]) -> records.MaintenanceWindow:
    found = records.MaintenanceWindow._make((*row, math.inf))
    if not found.cron:
        return found
    return found._replace(
        longest_gap=_longest_gap(found.cron, found.time_zone, found.starts_at, found.ends_at - found.starts_at)
    )


@lru_cache(4 * MAX)
def _longest_gap(cron: str, zone: str, start: float, length: float) -> float:
    starts = [start, *islice(Repetition(cron, zone).after(start), _COUNTED)]
    gaps = [after - before - length for before, after in pairwise(starts)]
    return max(gaps) if len(gaps) == _COUNTED else math.inf


def load_windows(db: Connection) -> list[records.MaintenanceWindow]:
    """Return all windows, the next one first."""
    return [_record(row) for row in db.execute(_ALL)]


def get_window(db: Connection, window_id: int) -> records.MaintenanceWindow:
    """Return a window. Raises NotFoundError."""
    row = db.execute(_ALL.where(col(HostWindow.id) == window_id)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no maintenance window {window_id}: `schedulearn maintenance ls` lists them")
    return _record(row)


def add_window(db: Connection, values: Mapping[str, Any], now: float) -> records.MaintenanceWindow:
    """Add a window. Raises ConflictError if there are too many, and NotFoundError for an unknown host."""
    if (db.execute(select(func.count()).select_from(HostWindow)).scalar() or 0) >= MAX:
        raise ConflictError(f"there are {MAX} maintenance windows, the maximum: delete one first")
    known = set(db.execute(select(col(Host.id))).scalars())
    if unknown := [name for name in values["hosts"] if name not in known]:
        raise NotFoundError(f"there is no host {unknown[0]!r}: `schedulearn hosts ls` lists them")
    [window_id] = db.execute(insert(HostWindow).values(told=[], **values)).inserted_primary_key or (0,)
    window = get_window(db, window_id)
    _note(db, window, "added", f"from {shown(window.starts_at)} to {shown(window.ends_at)}", now)
    return window


def delete_window(db: Connection, window_id: int, now: float) -> None:
    """Delete a window, and return the hosts that it drained. Raises NotFoundError."""
    window = get_window(db, window_id)
    return_hosts(db, window_id, now)
    db.execute(delete(HostWindow).where(col(HostWindow.id) == window_id))
    _note(db, window, "deleted", "", now)


def move_on(db: Connection, window: records.MaintenanceWindow, starts_at: float | None, now: float) -> None:
    """Return the hosts of an occurrence that is over, and set the next one; None: there is none."""
    return_hosts(db, window.id, now)
    which = col(HostWindow.id) == window.id
    if starts_at is None:
        db.execute(delete(HostWindow).where(which))
    else:
        ends_at = starts_at + window.ends_at - window.starts_at
        db.execute(update(HostWindow).where(which).values(starts_at=starts_at, ends_at=ends_at, told=[]))


def begin(db: Connection, window: records.MaintenanceWindow, host_id: str, message: str, now: float) -> None:
    """Drain a host for a window, unless an operator has closed it meanwhile."""
    which = (col(Host.id) == host_id, col(Host.state) == "active")
    values = {"state": "cordoned", "drain_until": window.starts_at + window.stops_rigid_s, "window_id": window.id}
    if db.execute(update(Host).where(*which).values(values)).rowcount:
        repository.add_event(db, now, "host.maintenance", host_id=host_id, message=message, data={"window": window.id})


def set_told(db: Connection, window_id: int, job_ids: Sequence[str]) -> None:
    """Record which jobs know of the present occurrence."""
    db.execute(update(HostWindow).where(col(HostWindow.id) == window_id).values(told=list(job_ids)))


def is_current(db: Connection, window: records.MaintenanceWindow) -> bool:
    """Return whether a window is as it was when it was read."""
    found = db.execute(select(col(HostWindow.starts_at)).where(col(HostWindow.id) == window.id)).scalar()
    return found == window.starts_at


def return_hosts(db: Connection, window_id: int, now: float) -> None:
    """Return the hosts that a window drained to service."""
    mine: Sequence[Row[Any]] = db.execute(select(col(Host.id)).where(col(Host.window_id) == window_id)).all()
    for (host_id,) in mine:
        values = {"state": "active", "drain_until": None, "window_id": None}
        db.execute(update(Host).where(col(Host.id) == host_id).values(values))
        message = f"The maintenance of {host_id} is over: it is in service again."
        repository.add_event(db, now, "host.active", host_id=host_id, message=message)


def _note(db: Connection, window: records.MaintenanceWindow, what: str, when: str, now: float) -> None:
    where = (
        ", ".join(window.hosts[:5]) + (" and more" if len(window.hosts) > 5 else "") if window.hosts else "all hosts"
    )
    told = (
        f"Maintenance window {window.id} of {where} was {what}{f' ({when})' if when else ''}. {window.reason}".strip()
    )
    repository.add_event(db, now, f"host.window_{what}", message=told, data={"window": window.id})
