"""Resource usage of running tasks and hosts: CPU, memory, network and disk.

It is polled every ten seconds. The last minutes are kept in memory, and averages by the minute in the database. A small
thread pool polls the hosts. A poll that hangs delays only the next poll of the same host, so that nothing else waits
for an engine. A poll without running tasks costs almost nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy.engine import Connection

from schedulearn.metrics.probe.machine import MachineCounters
from schedulearn.scheduler.background import Background
from schedulearn.scheduler.core.outcomes.task_outcomes import MemorySeen
from schedulearn.scheduler.core.task import EngineState, ObservedTask
from schedulearn.scheduler.errors import SchedulearnError
from schedulearn.scheduler.runtimes.resources.contract import Resources, TaskCounters
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.resources import minutes as store
from schedulearn.scheduler.telemetry.ring import Ring, mean, shown

log = logging.getLogger(__name__)

EVERY_S = 10.0
KEPT_S = 600.0
"""Length of the history in memory."""
STALE_S = 3 * EVERY_S
"""Older readings don't count as current."""
MAX_TASKS = 100
"""Maximum number of tasks read per host and poll. If there are more, successive polls rotate through them."""
_LOOKS = 4  # maximum number of concurrent polls
_SIZE = int(KEPT_S / EVERY_S) + 12
_DROP_EVERY = 60  # minutes
_RATES = ("cpu_seconds", "network_in", "network_out", "disk_read", "disk_written")
"""Counters of tasks and hosts that are converted to rates."""


@dataclass(frozen=True)
class WatchedHost:
    """A host that answers, and its tasks."""

    resources: Resources
    tasks: Sequence[ObservedTask] = ()


@dataclass(frozen=True)
class TaskReading:
    """Current resource usage of a task, in the order of `TASK_METRICS`, and its totals."""

    host_id: str
    values: tuple[float | None, ...]
    counters: TaskCounters


@dataclass(frozen=True)
class HostReading:
    """Current resource usage of a host, by all tasks and other programs.

    `rates` are in the order of `_RATES`; None in the first poll, and for unknown values."""

    rates: tuple[float | None, ...]
    counters: MachineCounters

    @property
    def cpus(self) -> float | None:
        """Number of busy cores."""
        return self.rates[0]


@dataclass
class _TaskSeries:
    host_id: str
    ring: Ring
    last: TaskCounters | None = None
    looked_at: float = 0.0
    """Time of the last reading, by the monotonic clock."""
    at: float = 0.0
    values: tuple[float | None, ...] = ()
    peak: int = 0
    noted: int = 0
    """Peak that is stored in the database."""


@dataclass
class _HostSeries:
    ring: Ring = field(default_factory=lambda: Ring(_SIZE, len(store.HOST_METRICS)))
    last: MachineCounters | None = None
    looked_at: float = 0.0
    at: float = 0.0
    rates: tuple[float | None, ...] = ()
    is_seen: bool = False
    """Whether this service reads the host itself, instead of its probe."""


class ResourceWatch:
    """Polls the resource usage of tasks and hosts. Thread-safe. `hosts` returns the hosts that answer now."""

    def __init__(
        self,
        db: Database,
        hosts: Callable[[], Mapping[str, WatchedHost]],
        *,
        keep_days: float,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        aged: Callable[[], float] | None = None,
    ) -> None:
        """`aged` is the clock for the age of stored readings; None means `clock`."""
        self._aged = aged or clock
        self._db = db
        self._hosts = hosts
        self._keep_minutes = int(keep_days * 24 * 60)
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._began = clock()
        self._tasks: dict[str, _TaskSeries] = {}
        self._machines: dict[str, _HostSeries] = {}
        self._under_way: set[str] = set()
        self._turns: dict[str, int] = {}
        """Host -> index of the task at which the next poll starts."""
        self._minute = int(clock() // 60)
        self._pool = ThreadPoolExecutor(_LOOKS, "resources")
        self._ticker = Background("resources", self._tick, trouble="the resource usage of tasks could not be read")

    def start(self) -> None:
        self._ticker.start()

    def close(self) -> None:
        self._ticker.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._ticker.close()
        self._note_peaks()

    def task(self, task_id: str) -> TaskReading | None:
        """Return the latest reading of a task; None if there is no recent one."""
        with self._lock:
            series = self._tasks.get(task_id)
            if series is None or series.last is None or self._clock() - series.at > STALE_S:
                return None
            return TaskReading(series.host_id, series.values, series.last)

    def tasks_of(self, host_id: str) -> dict[str, TaskReading]:
        """Return task -> latest reading of the tasks that run on this host."""
        host = self._hosts().get(host_id)
        ids = sorted(_running(host)) if host is not None else []
        return {task_id: reading for task_id in ids if (reading := self.task(task_id)) is not None}

    def host(self, host_id: str) -> HostReading | None:
        """Return the latest reading of a host; None if there is no recent one."""
        with self._lock:
            series = self._machines.get(host_id)
            if series is None or series.last is None or self._clock() - series.at > STALE_S:
                return None
            return HostReading(series.rates, series.last)

    def host_cpus(self, host_id: str) -> int | None:
        """Return the number of cores of a host; None without a recent reading."""
        reading = self.host(host_id)
        return reading.counters.cpus if reading is not None else None

    def memory(self, task_id: str) -> MemorySeen | None:
        """Return a task's peak memory since its first reading here, and its limit. None without a reading."""
        with self._lock:
            series = self._tasks.get(task_id)
            if series is None or series.last is None:
                return None
            return MemorySeen(series.peak, series.last.memory_limit)

    def task_points(self, task_id: str, since: float, until: float) -> list[tuple[float | None, ...]]:
        """Return the rows (seconds since the epoch, `TASK_METRICS`) of this time span in memory, oldest first."""
        with self._lock:
            series = self._tasks.get(task_id)
            rows = series.ring.rows(since, until) if series is not None else []
        return [_point(row) for row in rows]

    def host_points(self, host_id: str, since: float, until: float) -> list[tuple[float | None, ...]]:
        """Do the same as `task_points` for a host, with `HOST_METRICS`."""
        with self._lock:
            machine = self._machines.get(host_id)
            rows = machine.ring.rows(since, until) if machine is not None else []
        return [_point(row) for row in rows]

    def mean_task_cpus(self, task_id: str, since: float, until: float) -> float | None:
        """Return a task's mean number of busy cores, from memory. None without readings."""
        with self._lock:
            series = self._tasks.get(task_id)
            rows = series.ring.rows(since, until) if series is not None else []
        return mean([row[1] for row in rows])

    def mean_host_cpus(self, host_id: str, since: float, until: float) -> float | None:
        """Return a host's mean number of busy cores, from memory. None without readings."""
        with self._lock:
            machine = self._machines.get(host_id)
            rows = machine.ring.rows(since, until) if machine is not None else []
        return mean([row[1] for row in rows])

    def hear_machine(self, host_id: str, found: MachineCounters) -> None:
        """Take a probe's reading of its host.

        It is ignored if this service reads the host itself, since that reading includes the disk with its data."""
        with self._lock:
            series = self._machines.get(host_id)
            known = series is not None and series.is_seen
        if not known:
            self._take_machine(host_id, found, is_seen=False)

    def _take_machine(self, host_id: str, found: MachineCounters, *, is_seen: bool) -> None:
        now, monotonic = self._clock(), self._monotonic()
        with self._lock:
            series = self._machines.setdefault(host_id, _HostSeries())
            series.is_seen = is_seen
            series.rates = _machine_rates(series.last, found, monotonic - series.looked_at)
            series.last, series.looked_at, series.at = found, monotonic, now
            cpus, *others = series.rates
            series.ring.push(now, cpus, found.memory_bytes, found.disk_bytes, *others)

    def look(self) -> None:
        """Poll all hosts in the caller's thread."""
        for host_id, host in self._hosts().items():
            self._look(host_id, host)

    def _tick(self) -> float:
        for host_id, host in self._hosts().items():
            with self._lock:
                if host_id in self._under_way:
                    continue
                self._under_way.add(host_id)
            self._pool.submit(self._look_apart, host_id, host)
        now = self._clock()
        if (minute := int(now // 60)) != self._minute:
            done, self._minute = self._minute, minute
            self.keep(done, now)
        return EVERY_S

    def _look_apart(self, host_id: str, host: WatchedHost) -> None:
        try:
            self._look(host_id, host)
        except Exception:
            if not self._ticker.stopping:
                log.exception("can't read the resource usage of %s", host_id)
        finally:
            with self._lock:
                self._under_way.discard(host_id)

    def _look(self, host_id: str, host: WatchedHost) -> None:
        running = _running(host)
        try:
            for found in host.resources.tasks(self._next(host_id, sorted(running))):
                self._take(host_id, running[found.task_id], found)
                if self._ticker.stopping:
                    return
            if (machine := host.resources.machine()) is not None:
                self._take_machine(host_id, machine, is_seen=True)
        except SchedulearnError as error:
            log.debug("%s does not report its resource usage: %s", host_id, error)  # its agent reports this

    def _next(self, host_id: str, task_ids: Sequence[str]) -> Sequence[str]:
        """Return the tasks to read in this poll."""
        if len(task_ids) <= MAX_TASKS:
            return task_ids
        begin = self._turns.get(host_id, 0) % len(task_ids)
        self._turns[host_id] = begin + MAX_TASKS
        return [*task_ids[begin:], *task_ids[:begin]][:MAX_TASKS]

    def _take(self, host_id: str, task: ObservedTask, found: TaskCounters) -> None:
        now, monotonic = self._clock(), self._monotonic()
        with self._lock:
            series = self._tasks.get(found.task_id)
            if series is None:
                series = self._tasks[found.task_id] = _TaskSeries(host_id, Ring(_SIZE, len(store.TASK_METRICS)))
            before, passed = series.last, monotonic - series.looked_at
            if before is None and task.started_at is not None and self._began <= task.started_at < now:
                # The totals of a task that started after this service began count from its start.
                before, passed = TaskCounters(found.task_id, 0.0, 0, None, 0, 0, 0, 0), now - task.started_at
            series.values = _rates(before, found, passed)
            series.last, series.looked_at, series.at = found, monotonic, now
            series.peak = max(series.peak, found.memory_bytes)
            series.ring.push(now, *series.values)

    def keep(self, minute: int, now: float) -> None:
        """Store the averages of a minute, and the peak memory of tasks."""
        tasks: dict[str, list[float | None]] = {}
        hosts: dict[str, list[float | None]] = {}
        since, until = 60.0 * minute, 60.0 * (minute + 1)
        with self._lock:
            for task_id, series in self._tasks.items():
                if rows := series.ring.rows(since, until):
                    tasks[task_id] = _means(rows)
            for host_id, machine in self._machines.items():
                if rows := machine.ring.rows(since, until):
                    hosts[host_id] = _means(rows)
            self._tasks = {key: each for key, each in self._tasks.items() if now - each.at <= KEPT_S}
            self._machines = {key: each for key, each in self._machines.items() if now - each.at <= KEPT_S}

        last = min(minute, int(self._aged() // 60)) - self._keep_minutes

        def change(db: Connection) -> None:
            store.add_minute(db, minute, tasks, hosts)
            if minute % _DROP_EVERY == 0:
                store.drop_minutes(db, last)

        if tasks or hosts or minute % _DROP_EVERY == 0:
            self._db.write(change)
        self._note_peaks()

    def _note_peaks(self) -> None:
        with self._lock:
            peaks = {task_id: each.peak for task_id, each in self._tasks.items() if each.peak > each.noted}
        if peaks:
            self._db.write(partial(store.note_peaks, peaks=peaks))
        with self._lock:
            for task_id, peak in peaks.items():
                if (series := self._tasks.get(task_id)) is not None:
                    series.noted = peak


def _running(host: WatchedHost) -> dict[str, ObservedTask]:
    return {task.task_id: task for task in host.tasks if task.state is EngineState.RUNNING}


def _rates(before: TaskCounters | None, now: TaskCounters, passed: float) -> tuple[float | None, ...]:
    """Return the values of a task, in the order of `TASK_METRICS`."""
    if before is None or passed <= 0:
        return (None, float(now.memory_bytes), None, None, None, None)
    cpus, *others = (_rate(getattr(before, name), getattr(now, name), passed) for name in _RATES)
    return (cpus, float(now.memory_bytes), *others)


def _machine_rates(before: MachineCounters | None, now: MachineCounters, passed: float) -> tuple[float | None, ...]:
    """Return a host's rates. All are None after its restart, and in the first poll after a longer gap."""
    if before is None or not 0 < passed <= STALE_S or now.cpu_seconds < before.cpu_seconds:
        return (None,) * len(_RATES)
    cpus, *others = (_rate(getattr(before, name), getattr(now, name), passed) for name in _RATES)
    return (None if cpus is None else min(float(now.cpus), cpus), *others)


def _rate(was: float | None, found: float | None, passed: float) -> float | None:
    return None if was is None or found is None else max(0.0, found - was) / passed


def _means(rows: Sequence[tuple[float, ...]]) -> list[float | None]:
    """Return the means of the columns. The first is busy cores, rounded to hundredths.

    All others are whole numbers, which SQLite stores in fewer bytes."""
    cpus, *others = [mean(column) for column in list(zip(*rows, strict=True))[1:]]
    return [
        None if cpus is None else round(cpus, 2),
        *(None if each is None else float(round(each)) for each in others),
    ]


def _point(row: tuple[float, ...]) -> tuple[float | None, ...]:
    at, cpus, *others = row
    return (round(at, 3), None if cpus != cpus else round(cpus, 3), *map(shown, others))
