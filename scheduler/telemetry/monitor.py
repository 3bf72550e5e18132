"""Monitor of the GPUs of all hosts.

It keeps readings in memory, and stores verdicts and averages in the database. Each probed host has a thread
(`host_watch.py`). Another thread ticks once per second. It simulates GPUs, interrupts silent probes, and does the tasks
of each minute.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from sqlalchemy.engine import Connection

from schedulearn.metrics.probe.machine import MachineCounters
from schedulearn.metrics.probe.readings import GpuReading
from schedulearn.scheduler.background import MACHINE, Background, Timing
from schedulearn.scheduler.core.cluster_state import Gpu, Task
from schedulearn.scheduler.core.job_image import HostGpus
from schedulearn.scheduler.core.outcomes.gpu_holders import ASK_S, SETTLE_S, is_free
from schedulearn.scheduler.core.task import ObservedTask
from schedulearn.scheduler.errors import ConflictError, SchedulearnError
from schedulearn.scheduler.runtimes.cuda_check import CudaCheck
from schedulearn.scheduler.store import gpus as store
from schedulearn.scheduler.store import history
from schedulearn.scheduler.store.accounting.capacity import note_capacity
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.gpu_reset import Resetting, begin_reset, end_reset
from schedulearn.scheduler.store.resources.gpu_memory import note_gpu_peaks
from schedulearn.scheduler.store.resources.xids import forget_xids
from schedulearn.scheduler.telemetry.cuda_checks import CudaChecks
from schedulearn.scheduler.telemetry.gpu_memory import GpuMemoryPeaks
from schedulearn.scheduler.telemetry.history import Telemetry
from schedulearn.scheduler.telemetry.host_watch import HostWatch
from schedulearn.scheduler.telemetry.probes import Probe, SimulatedGpu, SimulatedProbe

_DROP_EVERY = 60  # minutes

TasksOn = Callable[[str], Sequence[ObservedTask] | None]
"""Host id -> this service's tasks on the host; None while it does not answer."""


@dataclass(frozen=True)
class ClusterUtility:
    """Cluster utility for the history.

    `utility` is the sum of the speedups of all jobs, divided by the number of GPUs. It is None if the active policy
    has none. Between `low` and `high` the policy keeps the number of hosts; None if it never changes that number."""

    utility: float | None = None
    low: float | None = None
    high: float | None = None


class Monitor:
    """Watches GPUs of all hosts; hosts can be added (`follow`) and removed (`leave`) at any time.

    `wake` makes the loop start another scheduling cycle. `hear_machine` gets a probe's readings of its host."""

    def __init__(
        self,
        db: Database,
        tasks_on: TasksOn,
        wake: Callable[[], None],
        *,
        keep_days: float,
        utility: Callable[[], ClusterUtility],
        timing: Timing = MACHINE,
        hear_machine: Callable[[str, MachineCounters], None] = lambda host_id, found: None,
        aged: Callable[[], float] | None = None,
    ) -> None:
        """`aged` is the clock for the age of stored readings; None means the clock of `timing`."""
        self._aged = aged or timing.clock
        self.telemetry = Telemetry()
        self._db = db
        self._tasks_on = tasks_on
        self._wake = wake
        self._keep_minutes = int(keep_days * 24 * 60)
        self._utility = utility
        self._timing = timing
        self._clock = timing.clock
        self._hear_machine = hear_machine
        self._lock = threading.Lock()
        self._watches: dict[str, HostWatch] = {}
        self._simulated_probe = SimulatedProbe()
        self._simulated: Mapping[str, Sequence[SimulatedGpu]] = {}
        """Simulated GPUs of the hosts that answer, by host."""
        self._simulated_uuids: Set[str] = frozenset()
        self._busy: Set[str] = frozenset()
        self._held: Set[str] = frozenset()
        """GPUs of live tasks."""
        self._left: dict[str, float] = {}
        """GPU -> when its job left it, by the monotonic clock. Only GPUs not yet seen with free memory."""
        self._minute = int(timing.clock() // 60)
        self._energy_until = timing.clock()
        self._energy_asked = 0.0
        self._energy_of = store.LiveTasks()
        self._gpu_memory = GpuMemoryPeaks()
        self._cuda_checks = CudaChecks(db, wake, timing.clock)
        self._due = 0.0
        self._ticker = Background("telemetry", self._tick_on, trouble="telemetry could not be stored", trouble_s=1.0)

    def start(self) -> None:
        with self._db.read() as conn:
            self._energy_of = store.live_tasks(conn)
        self._energy_until = self._clock()
        self._due = time.monotonic()
        self._ticker.start()

    def close(self) -> None:
        self._ticker.stop()
        with self._lock:
            watches, self._watches = list(self._watches.values()), {}
        for watch in watches:
            watch.stop()
        for watch in watches:
            watch.join()
        self._ticker.close()

    def follow(self, host_id: str, probe: Probe, unknown: str = "", check: CudaCheck | None = None) -> None:
        """Start to follow a host's probe. Does nothing if the host is followed already; `probe` is not used then.

        `unknown` is the stored reason why its GPUs are not known. `check` is its CUDA check."""
        with self._lock:
            if host_id in self._watches or self._ticker.stopping:
                return
            tasks = partial(self._tasks_on, host_id)
            watch = HostWatch(
                host_id, probe, self._db, self.telemetry, tasks, self._wake, self._timing, self._hear_machine, unknown,
                lambda uuid: uuid in self._held,
                (lambda: None) if check is None else partial(self._cuda_checks.begin, host_id, check),
            )  # fmt: skip
            self._watches[host_id] = watch
            watch.start()

    def leave(self, host_id: str) -> None:
        """Stop following a host that is removed, and remove its probe if the host answers."""
        with self._lock:
            watch = self._watches.pop(host_id, None)
        if watch is not None:
            watch.remove()

    def problem(self, host_id: str) -> str:
        """Return why a host's GPUs are not known or not watched. Empty if there is no problem."""
        watch = self._watches.get(host_id)
        return watch.problem if watch is not None else ""

    def unknown(self) -> dict[str, str]:
        """Return host -> reason for the hosts whose GPUs can't be determined."""
        return {host_id: watch.unknown for host_id, watch in list(self._watches.items()) if watch.unknown}

    def gpus(self, host_id: str) -> HostGpus:
        """Return the properties of a host's real GPUs that the choice of an image needs."""
        watch = self._watches.get(host_id)
        return watch.gpus if watch is not None else HostGpus()

    def reading(self, uuid: str) -> GpuReading | None:
        """Return the latest reading of a GPU; None if there is no recent one."""
        return self.telemetry.reading(uuid, self._clock())

    def warnings(self, host_id: str, uuid: str) -> Sequence[str]:
        """Return warnings about a usable GPU, as sentences without their final period."""
        watch = self._watches.get(host_id)
        return watch.warnings(uuid) if watch is not None else ()

    def utilization(self, uuid: str) -> float | None:
        """Return the measured utilization in percent; None if unknown.

        It is also None for simulated GPUs, because no decision should depend on simulated readings."""
        reading = None if uuid in self._simulated_uuids else self.reading(uuid)
        return reading.utilization if reading is not None else None

    def mean_utilization(self, uuid: str, since: float, until: float) -> float | None:
        """Return a GPU's mean utilization in percent, from memory. None if unknown or simulated."""
        if uuid in self._simulated_uuids:
            return None
        used = [point.values[0] for point in self.telemetry.points(uuid, since, until)]
        known = [value for value in used if value is not None]
        return sum(known) / len(known) if known else None

    def is_energy_counted(self, uuids: Collection[str], until: float) -> bool:
        """Whether the database has the energy these GPUs drew before `until`.

        If not, it is stored soon, and `wake` is called then."""
        now = self._clock()
        measured = any(uuid not in self._simulated_uuids and self.telemetry.reading(uuid, now) for uuid in uuids)
        if not measured or self._energy_until >= until:
            return True
        self._energy_asked = max(self._energy_asked, until)
        return False

    def last_look_s(self, host_id: str, uuid: str) -> float | None:
        """Return the seconds since a GPU answered. Infinite before its first answer, None without a probe."""
        watch = self._watches.get(host_id)
        return watch.last_look_s(uuid) if watch is not None else None

    def settling(self, gpus: Sequence[Gpu], tasks: Sequence[Task]) -> Mapping[str, str]:
        """Return GPU -> reason for GPUs that are not reusable yet after a job.

        The GPU must be read again, and then its memory must be free. This takes at most `SETTLE_S`. If the memory is
        still used then, it belongs to another program, or the GPU is not watched."""
        held = {uuid for task in tasks for uuid in task.gpu_uuids}
        real = {gpu.uuid: gpu for gpu in gpus if not gpu.simulated}
        now = self._timing.monotonic()
        self._left |= {uuid: now for uuid in sorted(self._held - held) if uuid in real}
        self._held = held
        why = {uuid: self._unsettled(real[uuid], at, now) for uuid, at in self._left.items() if uuid in real}
        self._left = {uuid: at for uuid, at in self._left.items() if why.get(uuid) and uuid not in held}
        return {uuid: why[uuid] for uuid in self._left}

    def _unsettled(self, gpu: Gpu, left_at: float, now: float) -> str:
        watch = self._watches.get(gpu.host_id)
        if watch is None or not watch.heard_lately or now - left_at >= SETTLE_S:
            return ""
        reading = watch.reading_since(gpu.uuid, left_at)
        if reading is None:
            return "it has not been read since its last task" if now - left_at < ASK_S else ""
        if is_free(reading, gpu.memory_bytes):
            return ""
        return f"{(reading.memory_bytes or 0.0) / 1e9:.1f} GB of its memory are not released yet"

    def stranger(self, uuid: str) -> str:
        """Return the program that used a GPU's memory without a lease at the last reading. Empty if unknown."""
        return next((who for watch in list(self._watches.values()) if (who := watch.stranger(uuid))), "")

    def notice(self, gpus: Sequence[Gpu], tasks: Sequence[Task], answering: Collection[str]) -> None:
        """Set the loop's current state: present GPUs, live tasks, and hosts that answer."""
        self._busy = {uuid for task in tasks if task.running and task.paused_at is None for uuid in task.gpu_uuids}
        simulated: dict[str, list[SimulatedGpu]] = {}
        for gpu in gpus:
            if gpu.simulated and gpu.host_id in answering:
                simulated.setdefault(gpu.host_id, []).append(SimulatedGpu(gpu.uuid, gpu.memory_bytes))
        self._simulated_uuids = {gpu.uuid for gpu in gpus if gpu.simulated}
        self._simulated = simulated
        self._gpu_memory.notice(tasks, self._simulated_uuids)

    def return_gpu(self, host_id: str, name: str) -> str:
        """Mark a GPU, given by index or UUID, as healthy; return its UUID.

        This is an operator's request. Raises the errors of `store.return_gpu`, and ConflictError before the first
        reading of its host."""
        watch = self._looking_watch(host_id)

        def as_seen(uuid: str) -> store.GpuAsSeen:
            return watch.as_seen(uuid) if watch is not None else store.GpuAsSeen()

        def change(conn: Connection) -> str:
            uuid = store.return_gpu(conn, host_id, name, as_seen, self._clock())
            forget_xids(conn, uuid)
            return uuid

        return self._stored_between_looks(watch, change)

    def _stored_between_looks(self, watch: HostWatch | None, change: Callable[[Connection], str]) -> str:
        """Store an operator's change of a GPU between two readings; judge the GPU again.

        `change` returns the GPU's UUID."""
        with watch.judging if watch is not None else nullcontext():
            uuid = self._db.write(change)
            if watch is not None:
                watch.renew(uuid)
        self._wake()
        return uuid

    def _looking_watch(self, host_id: str) -> HostWatch | None:
        """Return the watch of a host. Raises ConflictError before its first reading.

        Errors in the first reading are not known before, and could not be cleared."""
        watch = self._watches.get(host_id)
        if watch is not None and watch.is_new:
            raise ConflictError(f"the GPUs of {host_id} have not been read yet: try again in a moment")
        return watch

    def reset_gpu(self, host_id: str, name: str) -> None:
        """Reset an idle GPU, given by index or UUID, and clear its errors.

        Raises NotFoundError, ConflictError for a GPU that is in use or can't be reset, and RuntimeFault if the host
        can't reset it."""
        gpu = self._db.write(lambda conn: begin_reset(conn, host_id, name))
        watch, error = self._watches.get(host_id), "it failed"
        try:
            if self._looking_watch(host_id) is None or watch is None:
                raise ConflictError(f"the GPUs of {host_id} are not monitored")
            reading = self.reading(gpu.uuid)
            if reading is not None and reading.processes:
                raise ConflictError(f"process {reading.processes[0].pid} uses GPU {gpu.ordinal} of {host_id}: end it")
            watch.reset(gpu.uuid)
            error = ""
        except SchedulearnError as fault:
            error = str(fault)
            raise
        finally:
            self._stored_between_looks(watch, partial(self._note_reset, host_id, gpu, watch, error))

    def _note_reset(self, host_id: str, gpu: Resetting, watch: HostWatch | None, error: str, conn: Connection) -> str:
        if watch is not None and gpu.fault and not error:
            store.return_gpu(conn, host_id, gpu.uuid, watch.as_seen, self._clock())
        end_reset(conn, host_id, gpu, self._clock(), error)
        return gpu.uuid

    def _tick_on(self) -> float:
        self._due = max(self._due + 1.0, time.monotonic())
        self._tick()
        return max(0.0, self._due - time.monotonic())

    def _tick(self) -> None:
        now = self._clock()
        for host_id, gpus in self._simulated.items():
            self.telemetry.take(host_id, self._simulated_probe.sample(gpus, self._busy, now), now)
        for watch in list(self._watches.values()):
            watch.interrupt_if_silent()
        self._gpu_memory.look(self.reading)
        minute = int(now // 60)
        if minute != self._minute:
            done, self._minute = self._minute, minute
            self._keep(done, now)
        elif 0 < self._energy_asked <= self.telemetry.measured_until(now):
            self._count_energy(now)

    def _keep(self, minute: int, now: float) -> None:
        """Store the averages of a minute, and the energy drawn since the last count."""
        averages, measured = self.telemetry.minute(minute), self._utility()
        peaks = self._gpu_memory.take()
        last = min(minute, int(self._aged() // 60)) - self._keep_minutes

        def change(conn: Connection) -> None:
            store.add_minutes(conn, averages)
            note_capacity(conn, now)
            note_gpu_peaks(conn, peaks)
            if measured.utility is not None:
                history.add_minute(conn, minute, measured.utility, measured.low, measured.high)
            if minute % _DROP_EVERY == 0:
                store.drop_minutes(conn, last)
                history.drop_minutes(conn, last)

        self._db.write(change)
        self._count_energy(now)

    def _count_energy(self, now: float) -> None:
        """Add the energy drawn since the last call to the tasks that held the GPUs.

        Only readings that have arrived count."""
        since, until = self._energy_until, self.telemetry.measured_until(now)
        if until <= since:
            return

        def joules(uuid: str, begin: float, end: float) -> float:
            return 0.0 if uuid in self._simulated_uuids else self.telemetry.joules(uuid, begin, end)

        asked, self._energy_asked = self._energy_asked, 0.0
        self._energy_of = self._db.write(lambda conn: store.add_energy(conn, joules, since, until, self._energy_of))
        self._energy_until = until
        if asked:
            self._wake()
