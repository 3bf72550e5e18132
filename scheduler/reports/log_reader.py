"""Background thread that reads metrics and progress from the logs of running jobs.

Logs of all hosts are copied to the service's disk while jobs run. The thread reads what was added to the log of a job's
first task, a bounded part at a time. Position and parser state are stored with the metrics, so that a restart of the
service continues in the middle. A log that grows faster than it is read loses metrics, never time of the service.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Row, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.background import Background
from schedulearn.scheduler.core.planning.remaining_work import MEASURED_S
from schedulearn.scheduler.core.states import TaskPhase
from schedulearn.scheduler.reports.log_lines import LogReading, complete_part, lines_of, normal_name
from schedulearn.scheduler.reports.store import NOISE, STALL, store_points, thinned
from schedulearn.scheduler.runtimes.log_masking import hide, parts_of
from schedulearn.scheduler.runtimes.log_store import LogStore, Written
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job, ReadLog, Task

LOOK_S = 2.0
"""Interval of checks. A log that did not grow costs one listing of its folder."""
PART = 64 << 10
"""Bytes of one log that are read at a check."""
MAX_LINES = 2_000
"""Lines of one log that are read at a check."""
MAX_COMPUTING_S = 0.2
"""Seconds of CPU time of a check, for all logs. The next check continues with the others."""
MAX_BACKLOG = 1 << 20
"""Bytes of a log that may wait to be read; older ones are left out."""
MIN_STORE_S, MAX_STORE_S = 2.0, 10.0
"""Interval at which a job's points are stored: a twentieth of its run time, within these bounds."""
MAX_NEW_POINTS = 40
"""Points of a metric that are stored at once."""
MAX_ENDED = 200
"""Newest ended tasks whose logs are compared at the start with what was read of them."""
_MAX_WAITING = 400
_CLOSING_CHECKS = 15
"""Checks of an ended task whose log is not marked as complete."""
_MAX_FAILURES = 5

log = logging.getLogger(__name__)


@dataclass
class _Tracked:
    """One attempt whose log is read."""

    task_id: str
    job_id: str
    attempt: int
    state: TaskPhase = TaskPhase.WANTED
    opened: bool = False
    off: bool = False
    """Whether the job's key `log_metrics` is false."""
    names: Collection[str] | None = None
    """Metrics that the job names; None: the usual ones."""
    hidden: Sequence[bytes] = ()
    """Secret values of the job."""
    offset: int = 0
    reading: LogReading = field(default_factory=LogReading)
    points: dict[str, list[list[float]]] = field(default_factory=dict)
    """Points that are not stored yet."""
    began_at: float = 0.0
    stored_at: float = 0.0
    stored_offset: int = 0
    fraction: float | None = None
    changed_at: float | None = None
    first_fraction: float | None = None
    first_at: float | None = None
    next_forecast_s: float = MEASURED_S
    """Seconds since the first progress at which a new forecast is worth its time: the double of the last one."""
    closing: int = 0
    failures: int = 0


class LogReader:
    """Reader of all running jobs' logs. `on_progress` is called when much more is known of a job's progress."""

    def __init__(
        self,
        db: Database,
        logs: LogStore,
        secrets_of: Callable[[str], Mapping[str, str]],
        on_progress: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._db = db
        self._logs = logs
        self._secrets_of = secrets_of
        self._on_progress = on_progress
        self._clock = clock
        self._tracked: dict[str, _Tracked] = {}
        self._last_seq = 0
        self._thread = Background("log-metrics", self._run, first_s=LOOK_S)

    def start(self) -> None:
        self.find_tasks()
        self._thread.start()

    def find_tasks(self) -> None:
        """Find the tasks whose logs are not read to their end, before any other is seen to end.

        A task may have ended just before the service was killed."""
        with self._db.read() as conn:
            self._last_seq = conn.execute(select(func.max(col(Task.seq)))).scalar() or 0
            self._track(conn.execute(_FIRST_TASKS.where(col(Task.state) != TaskPhase.ENDED)))
            ended = conn.execute(_LAST_ENDED).all()
            unread = [task_id for task_id, read in ended if self._logs.size(task_id) > (read or 0)]
            self._track(conn.execute(_FIRST_TASKS.where(col(Task.id).in_(unread))))

    def close(self) -> None:
        self._thread.close()

    def _run(self) -> float:
        self.look()
        return LOOK_S

    def look(self) -> None:
        """Read what was added to the logs, and store what is due."""
        with self._db.read() as conn:
            new = conn.execute(_FIRST_TASKS.where(col(Task.seq) > self._last_seq)).all()
            self._track(new)
            if not self._tracked:
                return
            living = {task_id: TaskPhase(state) for task_id, state in conn.execute(_LIVING)}
        began = time.thread_time()
        for tracked in list(self._tracked.values()):
            if time.thread_time() - began > MAX_COMPUTING_S:
                return
            self._tracked[tracked.task_id] = self._tracked.pop(tracked.task_id)  # the others come first next time
            tracked.state = living.get(tracked.task_id, TaskPhase.ENDED)
            if tracked.state == TaskPhase.WANTED:
                continue
            try:
                if self._follow(tracked):
                    del self._tracked[tracked.task_id]
            except Exception:
                log.exception("the metrics in the log of %s can't be read", tracked.task_id)
                self._try_again(tracked)
            time.sleep(0)  # lets requests go first

    def _try_again(self, tracked: _Tracked) -> None:
        """Continue from what is stored, or give up after several failures."""
        fresh = _Tracked(tracked.task_id, tracked.job_id, tracked.attempt, failures=tracked.failures + 1)
        if fresh.failures < _MAX_FAILURES:
            self._tracked[tracked.task_id] = fresh
        else:
            del self._tracked[tracked.task_id]

    def _track(self, rows: Iterable[Row[int | None, str, str, int]]) -> None:
        for seq, task_id, job_id, attempt in rows:
            self._last_seq = max(self._last_seq, seq or 0)
            self._tracked.setdefault(task_id, _Tracked(task_id, job_id, attempt))

    def _follow(self, tracked: _Tracked) -> bool:
        """Read a part of a log. Return whether it is read to its end."""
        if not tracked.opened:
            self._open(tracked)
        if tracked.off:
            return True
        now = self._clock()
        was_last = tracked.state == TaskPhase.ENDED and (
            self._logs.ended(tracked.task_id) or not self._logs.exists(tracked.task_id)
        )
        grew = self._read(tracked, now, was_last)
        tracked.closing += tracked.state == TaskPhase.ENDED and not grew
        is_over = not grew and (was_last or tracked.closing >= _CLOSING_CHECKS)
        wait_s = min(MAX_STORE_S, max(MIN_STORE_S, (now - tracked.began_at) / 20))
        is_due = not 0 <= now - tracked.stored_at < wait_s
        if tracked.offset != tracked.stored_offset and (is_due or is_over):
            self._store(tracked, now)
        return is_over

    def _open(self, tracked: _Tracked) -> None:
        """Continue where an earlier run of the service stopped."""
        tracked.opened, tracked.began_at = True, self._clock()
        tracked.hidden = parts_of(self._secrets_of(tracked.job_id).values())
        with self._db.read() as conn:
            spec = conn.execute(select(col(Job.spec)).where(col(Job.id) == tracked.job_id)).scalar()
            row = conn.execute(select(ReadLog).where(col(ReadLog.job_id) == tracked.job_id)).one_or_none()
        wanted = (spec or {}).get("log_metrics", True)
        tracked.off = spec is None or wanted is False
        tracked.names = frozenset(map(normal_name, wanted)) if isinstance(wanted, list) else None
        if row is not None and row.task_id == tracked.task_id:
            tracked.offset = tracked.stored_offset = row.bytes_read
            tracked.reading = LogReading.load(row.reading)
            tracked.fraction, tracked.changed_at = row.fraction, row.changed_at
            tracked.first_fraction, tracked.first_at = row.first_fraction, row.first_at

    def _read(self, tracked: _Tracked, now: float, was_last: bool) -> bool:
        """Read the next part of a log. Return whether there was any."""
        size = self._logs.size(tracked.task_id)
        if size - tracked.offset > MAX_BACKLOG:
            tracked.offset = size - PART
        if size <= tracked.offset:
            return False
        start, data = self._logs.read(tracked.task_id, tracked.offset, PART)
        length = complete_part(data)
        if not length:
            if len(data) < PART and not was_last:
                return False  # the line is still being written
            length = len(data)
        elif was_last and start + len(data) >= size:
            length = len(data)
        data = hide(data[:length], tracked.hidden)
        times = self._logs.times(tracked.task_id, start, length)
        for number, (offset, line) in enumerate(lines_of(data)):
            if number >= MAX_LINES:
                length = offset
                break
            self._read_line(tracked, line, _written_at(times, start + offset) or now)
        if length:
            self._follow_progress(tracked, _written_at(times, start + length - 1) or now, now)
        tracked.offset = start + length
        return length > 0

    def _read_line(self, tracked: _Tracked, line: str, at: float) -> None:
        for name, step, value in tracked.reading.read(line, tracked.names):
            if name in (NOISE, STALL):
                continue
            points = tracked.points.setdefault(name, [])
            if points and points[-1][0] >= step:
                points.pop()
            points.append([float(step), value, round(at, 3)])
            if len(points) > _MAX_WAITING:
                tracked.points[name] = thinned(points, MAX_NEW_POINTS)

    def _follow_progress(self, tracked: _Tracked, at: float, now: float) -> None:
        """`at`: the second of the last line. The time of a check is more precise than that."""
        progress = tracked.reading.progress
        fraction = None if progress is None else progress.fraction
        if fraction == tracked.fraction:
            return
        starts_over = fraction is None or tracked.first_fraction is None or fraction < tracked.first_fraction
        tracked.fraction, tracked.changed_at = fraction, now if now - at < LOOK_S + 1 else at
        if starts_over:
            tracked.first_fraction, tracked.first_at = fraction, tracked.changed_at

    def _store(self, tracked: _Tracked, now: float) -> None:
        points = {name: thinned(points, MAX_NEW_POINTS) for name, points in tracked.points.items()}
        self._db.write(lambda conn: _write(conn, tracked, points))
        tracked.points.clear()
        tracked.stored_at, tracked.stored_offset = now, tracked.offset
        if tracked.changed_at is not None and tracked.first_at is not None:
            seen_s = tracked.changed_at - tracked.first_at
            if seen_s >= tracked.next_forecast_s:
                tracked.next_forecast_s = max(MEASURED_S, 2 * seen_s)
                self._on_progress()


_FIRST_TASKS = (
    select(col(Task.seq), col(Task.id), col(Task.job_id), col(Task.attempt))
    .where(col(Task.rank) == 0)
    .order_by(col(Task.seq))
)
_LAST_ENDED = (
    select(col(Task.id), col(ReadLog.bytes_read))
    .join(Job, col(Job.id) == col(Task.job_id))
    .outerjoin(ReadLog, (col(ReadLog.job_id) == col(Task.job_id)) & (col(ReadLog.task_id) == col(Task.id)))
    .where(col(Task.rank) == 0, col(Task.state) == TaskPhase.ENDED, col(Task.attempt) == col(Job.attempt))
    .order_by(col(Task.seq).desc())
    .limit(MAX_ENDED)
)
_LIVING = select(col(Task.id), col(Task.state)).where(col(Task.state) != TaskPhase.ENDED, col(Task.rank) == 0)


def _written_at(times: Sequence[Written], offset: int) -> float | None:
    index = bisect_right(times, offset, key=lambda written: written.offset) - 1
    return float(times[index].second) if index >= 0 and times[index].second else None


def _write(conn: Connection, tracked: _Tracked, points: Mapping[str, list[list[float]]]) -> None:
    """Store points, progress and the position in the log, unless the job was deleted or has a newer attempt."""
    if conn.execute(select(col(Job.id)).where(col(Job.id) == tracked.job_id)).first() is None:
        return
    attempt = conn.execute(select(col(ReadLog.attempt)).where(col(ReadLog.job_id) == tracked.job_id)).scalar()
    if attempt is not None and attempt > tracked.attempt:
        return
    progress = tracked.reading.progress
    values: dict[str, object] = {
        "attempt": tracked.attempt, "task_id": tracked.task_id, "bytes_read": tracked.offset,
        "reading": tracked.reading.dump(), "fraction": tracked.fraction, "changed_at": tracked.changed_at,
        "first_fraction": tracked.first_fraction, "first_at": tracked.first_at,
        "epochs": None, **(progress._asdict() if progress is not None else {}),
    }  # fmt: skip
    if attempt is None:
        conn.execute(insert(ReadLog).values(job_id=tracked.job_id, **values))
    else:
        conn.execute(update(ReadLog).where(col(ReadLog.job_id) == tracked.job_id).values(**values))
    store_points(conn, tracked.job_id, points, from_log=True)
