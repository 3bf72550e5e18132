"""Correction of stored times after the system clock is set.

Times of unfinished jobs move with the clock, so that durations stay correct. Steps are detected by comparison with the
machine's monotonic clock, which counts from boot. Steps between two runs of the service are therefore detected too,
unless the machine was rebooted.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlalchemy import (
    ColumnElement,
    Float,
    SQLColumnExpression,
    and_,
    case,
    delete,
    insert,
    literal,
    select,
    true,
    type_coerce,
    update,
)
from sqlalchemy.engine import Connection
from sqlmodel import SQLModel, col

from schedulearn.scheduler.background import Timing
from schedulearn.scheduler.core.instants import EARLIEST, LATEST
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Host, Job, Lease, Meta, Profile, ReadLog, Task
from schedulearn.scheduler.store.people.notices import WAITING, Notice
from schedulearn.scheduler.store.people.tables import LoginSession

log = logging.getLogger(__name__)

TOLERANCE_S = 1.0
"""Seconds. Smaller steps are ordinary corrections, and are ignored."""
_KEY = "clock"
_STEPS = 50


@dataclass(frozen=True)
class Step:
    at: float
    """Time after the step, by the new clock."""
    seconds: float


@dataclass(frozen=True)
class _KnownClock:
    boot: str
    offset: float
    """Clock minus monotonic clock, seconds."""
    steps: Sequence[Step] = ()


class ClockWatch:
    """Detector of clock steps. Call `look` before decisions about durations."""

    def __init__(self, db: Database, timing: Timing) -> None:
        self.on_step: Callable[[], None] = lambda: None
        """Called after the stored times have moved, for times held in memory."""
        self._db = db
        self._timing = timing
        self._lock = threading.Lock()
        self._boot = _boot()
        with db.read() as conn:
            known = _load(conn)
        if known is None or known.boot != self._boot:
            known = _KnownClock(self._boot, self._offset(), known.steps if known is not None else ())
            db.write(partial(_store, known=known))
        self._known = known
        self.look()

    def look(self) -> None:
        """Move the times of unfinished jobs if the clock was set."""
        with self._lock:
            before, offset = self._known, self._offset()
            seconds = offset - before.offset
            if abs(seconds) <= TOLERANCE_S:
                return
            step = Step(self._timing.clock(), seconds)
            known = _KnownClock(self._boot, offset, (*before.steps, step)[-_STEPS:])
            self._db.write(partial(_follow, known=known, step=step))
            self._known = known
        log.warning("%s", _message(seconds))
        self.on_step()

    def aged(self, keep_s: float) -> Callable[[], float]:
        """Return a clock for the expiry of data kept for `keep_s` seconds.

        It ignores the net forward steps of the last `keep_s` seconds, so that nothing expires early."""

        def clock() -> float:
            self.look()
            now = self._timing.clock()
            return now - max(0.0, sum(step.seconds for step in self._known.steps if now - step.at <= keep_s))

        return clock

    def _offset(self) -> float:
        return self._timing.clock() - self._timing.monotonic()


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _load(conn: Connection) -> _KnownClock | None:
    found = repository.meta(conn, _KEY)
    if found is None:
        return None
    stored = json.loads(found)
    return _KnownClock(stored["boot"], stored["offset"], tuple(Step(*each) for each in stored["steps"]))


def _store(conn: Connection, known: _KnownClock) -> None:
    steps = [(step.at, step.seconds) for step in known.steps]
    value = json.dumps({"boot": known.boot, "offset": known.offset, "steps": steps})
    conn.execute(delete(Meta).where(col(Meta.key) == _KEY))
    conn.execute(insert(Meta).values(key=_KEY, value=value))


def _follow(conn: Connection, known: _KnownClock, step: Step) -> None:
    _store(conn, known)
    unfinished = col(Job.finished_at).is_(None)
    these = select(col(Job.id)).where(unfinished)
    of_jobs = "submitted_at", "started_at", "not_before", "forming_at", "resized_at", "held_at", "released_at"
    moved: tuple[tuple[type[SQLModel], tuple[str, ...], ColumnElement[bool]], ...] = (
        (Job, of_jobs, unfinished),
        (Job, ("start_after",), and_(unfinished, col(Job.start_delay).is_not(None))),  # a time of day stays
        (Task, ("created_at", "started_at", "paused_at"), col(Task.state) != "ended"),
        (Notice, ("created_at", "next_at"), col(Notice.state) == WAITING),
        (Profile, ("reported_at",), col(Profile.job_id).in_(these)),
        (ReadLog, ("changed_at", "first_at"), col(ReadLog.job_id).in_(these)),
        (Lease, ("claimed_at",), true()),
        (Host, ("drain_until", "lost_at"), true()),
        (LoginSession, ("created_at", "expires_at"), true()),
    )
    for table, names, which in moved:
        values = {name: _later(getattr(table, name), step.seconds) for name in names}
        conn.execute(update(table).where(which).values(values))
    repository.add_event(conn, step.at, "clock.set", code="clock_set", message=_message(step.seconds))


def _later(column: SQLColumnExpression[float], seconds: float) -> ColumnElement[float]:
    """Return `column` plus `seconds`, within the range of valid times."""
    sum_ = type_coerce(column, Float) + literal(seconds, Float)
    return case((sum_ < EARLIEST, EARLIEST), (sum_ > LATEST, LATEST), else_=sum_)


def _message(seconds: float) -> str:
    way = "forward" if seconds > 0 else "back"
    return f"The clock was set {way} by {abs(seconds):.0f} s. The times of unfinished jobs moved with it."
