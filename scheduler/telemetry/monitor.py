"""Follows the probes of all hosts: readings into memory, verdicts and averages into the database.

One thread a probed host, and one that ticks once a second for all that are simulated, for probes that have gone silent
and for what is due by the minute.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from schedulearn.metrics.readings import GpuProcess, GpuReading, Inventory, Sample
from schedulearn.scheduler.core.cluster_state import Gpu, Task
from schedulearn.scheduler.core.gpu_health import Known, judge
from schedulearn.scheduler.core.task import ObservedTask
from schedulearn.scheduler.errors import SchedulearnError
from schedulearn.scheduler.store import gpus as store
from schedulearn.scheduler.store import history
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.telemetry.history import Telemetry
from schedulearn.scheduler.telemetry.probes import Probe, SimulatedProbe

log = logging.getLogger(__name__)

SILENT_S = 15.0  # without a reading, after which a probe is followed anew
_BACKOFF_S = (1.0, 2.0, 5.0, 10.0, 30.0, 120.0)
_LASTING_S = 30.0  # a probe that was followed for so long was no failure
_DROP_EVERY = 60  # minutes

TasksOn = Callable[[str], Sequence[ObservedTask] | None]
"""host id -> what runs there of ours; None while it does not answer."""


@dataclass(frozen=True)
class ClusterUtility:
    """`utility`: speedups of all jobs together over the GPUs; None: the policy in force knows none. `low`, `high`:
    within them it leaves the number of hosts as it is; None: it wants none switched."""

    utility: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass
class _Followed:
    host_id: str
    probe: Probe
    thread: threading.Thread | None = None
    stopping: threading.Event = field(default_factory=threading.Event)
    heard: float = 0.0
    """The last reading of any kind, by the monotonic clock; 0 while there is nothing to be heard."""
    problem: str = "its GPUs are being looked for"
    known: dict[str, Known] = field(default_factory=dict)
    shown: Inventory | None = None
    last: dict[str, tuple[float, GpuReading]] = field(default_factory=dict)
    """By UUID the time of the last sample, by the clock of the host, and the reading in it."""


class Monitor:
    """`follow` and `leave` hosts at any time. `wake` is called when the loop should look again."""

    def __init__(
        self,
        db: Database,
        tasks_on: TasksOn,
        wake: Callable[[], None],
        *,
        keep_days: float,
        utility: Callable[[], ClusterUtility],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.telemetry = Telemetry()
        self._db = db
        self._tasks_on = tasks_on
        self._wake = wake
        self._keep_minutes = int(keep_days * 24 * 60)
        self._utility = utility
        self._clock = clock
        self._lock = threading.Lock()
        self._followed: dict[str, _Followed] = {}
        self._pretence = SimulatedProbe()
        self._simulated: Mapping[str, list[tuple[str, int]]] = {}
        self._simulated_uuids: Set[str] = frozenset()
        self._busy: Set[str] = frozenset()
        self._minute = int(clock() // 60)
        self._energy_until = clock()
        self._energy_seen: tuple[Sequence[str], int] = ((), 0)
        self._stopping = threading.Event()
        self._ticker = threading.Thread(target=self._tick_forever, name="telemetry", daemon=True)

    def start(self) -> None:
        with self._db.read() as db:
            self._energy_seen = store.live_tasks(db)
        self._energy_until = self._clock()
        self._ticker.start()

    def close(self) -> None:
        self._stopping.set()
        with self._lock:
            followed, self._followed = list(self._followed.values()), {}
        for each in followed:
            each.stopping.set()
            each.probe.close()
        for each in followed:
            if each.thread is not None:
                each.thread.join(timeout=5)
        if self._ticker.is_alive():
            self._ticker.join(timeout=5)

    def follow(self, host_id: str, probe: Probe) -> None:
        """Begins to follow a host's probe, unless that is done already: then `probe` is not used."""
        with self._lock:
            if host_id in self._followed or self._stopping.is_set():
                return
            followed = self._followed[host_id] = _Followed(host_id, probe)
        thread = threading.Thread(target=self._follow, args=(followed,), name=f"probe-{host_id}", daemon=True)
        followed.thread = thread
        thread.start()

    def leave(self, host_id: str) -> None:
        """Stops following a host that is removed, and takes the probe off it if it answers."""
        with self._lock:
            followed = self._followed.pop(host_id, None)
        if followed is not None:
            followed.stopping.set()
            threading.Thread(target=followed.probe.close, kwargs={"remove": True}, daemon=True).start()

    def problem(self, host_id: str) -> str:
        """Why the GPUs of a host are not known, or not watched; empty if all is well."""
        followed = self._followed.get(host_id)
        return followed.problem if followed is not None else ""

    def reading(self, uuid: str) -> GpuReading | None:
        """The latest of a GPU; None if there is none of the last seconds."""
        return self.telemetry.reading(uuid, self._clock())

    def utilization(self, uuid: str) -> float | None:
        """Measured, in per cent; None for simulated GPUs too: no decision should rest on a pretence."""
        reading = None if uuid in self._simulated_uuids else self.reading(uuid)
        return reading.utilization if reading is not None else None

    def looked_at(self, host_id: str) -> float | None:
        """When the GPUs of a host were last looked at; None if no probe speaks for it now."""
        followed = self._followed.get(host_id)
        if followed is None or followed.heard < time.monotonic() - SILENT_S:
            return None
        return self.telemetry.heard_at(host_id)

    def notice(self, gpus: Sequence[Gpu], tasks: Sequence[Task], answering: Collection[str]) -> None:
        """What the loop knows: present GPUs, live tasks, and hosts that answer."""
        simulated: dict[str, list[tuple[str, int]]] = {}
        for gpu in gpus:
            if gpu.simulated and gpu.host_id in answering:
                simulated.setdefault(gpu.host_id, []).append((gpu.uuid, gpu.memory_bytes))
        self._busy = {uuid for task in tasks if task.running and task.paused_at is None for uuid in task.gpu_uuids}
        self._simulated = simulated
        self._simulated_uuids = {gpu.uuid for gpu in gpus if gpu.simulated}

    def return_gpu(self, host_id: str, name: str) -> str:
        """An operator's word that a GPU, given by index or UUID, is well; its UUID. Errors as `store.return_gpu`."""
        followed = self._followed.get(host_id)

        def forgive(uuid: str) -> tuple[bool, float | None, int]:
            if followed is None or followed.shown is None:
                return True, None, 0
            at, reading = followed.last.get(uuid, (0.0, GpuReading(uuid)))
            shown = any(gpu.uuid == uuid for gpu in followed.shown.gpus) and not reading.lost
            return shown, at or None, reading.ecc_errors or 0

        uuid = self._db.write(lambda db: store.return_gpu(db, host_id, name, forgive, self._clock()))
        if followed is not None:
            self._load(followed, set())
            followed.probe.interrupt(renew=True)
        self._wake()
        return uuid

    def _follow(self, followed: _Followed) -> None:
        failures = 0
        while not followed.stopping.is_set():
            began = time.monotonic()
            try:
                for reading in followed.probe.readings():
                    if followed.stopping.is_set():
                        return
                    followed.heard = time.monotonic()
                    if isinstance(reading, Inventory):
                        self._take_inventory(followed, reading)
                    else:
                        self._take_sample(followed, reading)
                problem = "its probe has ended, and is started again"
            except Exception as error:
                if not isinstance(error, SchedulearnError) and not followed.stopping.is_set():
                    log.exception("the probe of %s can't be followed", followed.host_id)
                problem = f"its GPUs can't be watched: {error}"
            followed.heard = 0.0
            failures = 0 if time.monotonic() - began > _LASTING_S else failures + 1
            if failures:  # else it may well go on at once
                followed.problem = problem
            followed.stopping.wait(_BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)])

    def _take_inventory(self, followed: _Followed, inventory: Inventory) -> None:
        if inventory.problem:
            followed.problem = f"no GPU can be watched there: {inventory.problem}"
            return  # says nothing of the GPUs themselves
        if inventory == followed.shown and followed.problem == "":
            return
        fresh = self._db.write(
            lambda db: store.found_gpus(db, followed.host_id, inventory.gpus, self._clock())
        )  # fmt: skip
        followed.shown, followed.problem = inventory, ""
        self._load(followed, fresh)
        self._wake()

    def _load(self, followed: _Followed, fresh: Set[str]) -> None:
        with self._db.read() as db:
            rows = store.of_host(db, followed.host_id)
        followed.known = {
            row.uuid: Known(row.fault, row.occupied, row.cleared_at or 0.0, row.ecc_accepted, row.uuid in fresh)
            for row in rows
        }

    def _take_sample(self, followed: _Followed, sample: Sample) -> None:
        now = self._clock()
        tasks = self._tasks_on(followed.host_id)
        ours = None if tasks is None else {name for task in tasks for name in (task.task_id, task.container) if name}

        def is_ours(process: GpuProcess) -> bool:
            return ours is not None and (process.container in ours or process.task in ours)

        changes: list[Future[None]] = []
        monotonic = time.monotonic()
        for reading in sample.gpus:
            followed.last[reading.uuid] = (sample.at, reading)
            known = followed.known.get(reading.uuid)
            if known is None:
                continue
            verdict = judge(known, reading, is_ours if ours is not None else None, monotonic)
            if verdict.fault is not None:
                changes.append(self._submit(store.set_fault, reading.uuid, verdict.fault, now))
            if verdict.occupied is not None:
                changes.append(self._submit(store.set_occupied, reading.uuid, verdict.occupied, now))
        for change in changes:
            change.result()
        # After the verdicts: who waits for this sample may rely on them.
        self.telemetry.take(followed.host_id, sample, now)
        if changes:
            self._wake()

    def _submit(self, write: Callable[[Any, str, str, float], None], uuid: str, word: str, now: float) -> Future[None]:
        return self._db.submit(lambda db: write(db, uuid, word, now))

    def _tick_forever(self) -> None:
        due = time.monotonic()
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            due = max(due + 1.0, time.monotonic())
            try:
                self._tick()
            except Exception:
                if not self._stopping.is_set():
                    log.exception("telemetry could not be kept")

    def _tick(self) -> None:
        now = self._clock()
        for host_id, gpus in self._simulated.items():
            self.telemetry.take(host_id, self._pretence.sample(gpus, self._busy, now), now)
        limit = time.monotonic() - SILENT_S
        for followed in list(self._followed.values()):
            if 0 < followed.heard < limit:
                followed.heard = time.monotonic()
                followed.probe.interrupt()
        minute = int(now // 60)
        if minute != self._minute:
            done, self._minute = self._minute, minute
            self._keep(done, now)

    def _keep(self, minute: int, now: float) -> None:
        rows, measured = self.telemetry.minute(minute), self._utility()
        since, self._energy_until = self._energy_until, now

        def joules(uuid: str, begin: float, end: float) -> float:
            return 0.0 if uuid in self._simulated_uuids else self.telemetry.joules(uuid, begin, end)

        def change(db: Any) -> tuple[Sequence[str], int]:
            store.add_minutes(db, rows)
            if measured.utility is not None:
                history.add_minute(db, minute, measured.utility, measured.low, measured.high)
            if minute % _DROP_EVERY == 0:
                store.drop_minutes(db, minute - self._keep_minutes)
                history.drop_minutes(db, minute - self._keep_minutes)
            return store.add_energy(db, joules, since, now, self._energy_seen)

        self._energy_seen = self._db.write(change)
