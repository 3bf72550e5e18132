"""Thread that follows the probe of one host.

It keeps the readings in memory, and stores the state of the GPUs in the database.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial

from sqlalchemy.engine import Connection

from schedulearn.metrics.probe.machine import MachineCounters
from schedulearn.metrics.probe.readings import GpuProcess, GpuReading, Inventory, Sample, Xid
from schedulearn.scheduler.background import Background, Timing, delay_after, start_once
from schedulearn.scheduler.core import topology
from schedulearn.scheduler.core.outcomes.blame import Blame, of_start
from schedulearn.scheduler.core.outcomes.gpu_health import Known, Verdict, judge
from schedulearn.scheduler.core.outcomes.gpu_holders import stranger
from schedulearn.scheduler.core.task import ObservedTask
from schedulearn.scheduler.errors import ConflictError, SchedulearnError
from schedulearn.scheduler.runtimes.cuda_check import TASK
from schedulearn.scheduler.store import gpus as store
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.resources.xids import last_seen, note_xids
from schedulearn.scheduler.telemetry.history import Telemetry
from schedulearn.scheduler.telemetry.probes import Probe

log = logging.getLogger(__name__)

MARGIN_S = 0.5
"""Maximum assumed delay between taking a reading and its arrival."""
UNWATCHED_AFTER_S = 60.0
"""Time since a probe began to fail after which its GPUs get no more jobs."""
SILENT_S = 15.0  # time without a reading after which a probe is followed anew
_SILENT = "its probe sends no readings, and is tried again repeatedly: check whether its engine and driver answer"
VANISHED_AFTER = 3
"""Number of successive valid inventories without a GPU after which it counts as removed."""
LET_GO_S = 20.0  # maximum time for a probe to end its readings
_BACKOFF_S = (1.0, 2.0, 5.0, 10.0, 30.0, 120.0)
_LASTING_S = 30.0  # following a probe for longer than this does not count as a failure


class HostWatch:
    """Watches the GPUs of one host.

    `tasks_on` returns this service's tasks on the host; None while it does not answer. `wake` makes the loop start
    another scheduling cycle. `hear_machine` gets the readings of the host itself. `unknown` is the stored reason why
    its GPUs are not known, at the start. `is_held` says whether a job of this service has a GPU. `check_cuda` starts
    the CUDA check."""

    def __init__(
        self,
        host_id: str,
        probe: Probe,
        db: Database,
        telemetry: Telemetry,
        tasks_on: Callable[[], Sequence[ObservedTask] | None],
        wake: Callable[[], None],
        timing: Timing,
        hear_machine: Callable[[str, MachineCounters], None] = lambda host_id, found: None,
        unknown: str = "",
        is_held: Callable[[str], bool] = lambda uuid: False,
        check_cuda: Callable[[], None] = lambda: None,
    ) -> None:
        self.host_id = host_id
        self.unknown = unknown
        """Why the GPUs can't be determined; empty if they are known, or not asked yet."""
        self.problem = _problem(unknown) if unknown else "its GPUs are being detected"
        """Why its GPUs are not known or not watched; empty if there is no problem."""
        with db.read() as conn:
            self.driver = store.driver_of(conn, host_id)
            self.gpus = store.for_images(conn, host_id)
        """Last stored driver and GPUs: after a restart the service knows them before the first inventory."""
        self._probe = probe
        self._db = db
        self._telemetry = telemetry
        self._tasks_on = tasks_on
        self._wake = wake
        self._clock = timing.clock
        self._monotonic = timing.monotonic
        self._hear_machine = hear_machine
        self._known: dict[str, Known] = {}
        self._is_held = is_held
        self._check_cuda = check_cuda
        self._check_due = False
        """Whether a CUDA check is due, because the probe failed or a GPU was returned."""
        self._strangers: dict[str, str] = {}
        self._read_at: dict[str, float] = {}
        """UUID -> time of arrival of the last reading, by the monotonic clock."""
        self._inventory: Inventory | None = None
        self._missed: dict[str, int] = {}
        """GPU -> number of successive valid inventories without it."""
        self._last: dict[str, tuple[float, GpuReading]] = {}
        """UUID -> (time of the last sample by the clock of the host, reading in it)."""
        self._heard = 0.0
        """Time of the last reading of any kind, by the monotonic clock; 0 while none is expected."""
        self._answered_at: dict[str, float] = {}
        """UUID -> time of the last processed reading that the driver answered, by the monotonic clock."""
        self._renewed = False
        """Whether a GPU was returned. It may be missing in the database although the inventory is the same."""
        self._silent = False
        """Whether no sample came since the probe fell silent. An inventory may be an old one, sent again."""
        self._failures = 0
        """Number of successive failures to follow the probe."""
        self._failing_since: float | None = None
        self._following = threading.Lock()
        """Held while readings are consumed, and while a GPU is reset."""
        self.judging = threading.RLock()
        """Held from judging a reading until its consequences are stored.

        A change by an operator is stored before or after."""
        self._thread = Background(f"probe-{host_id}", self._follow)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop following; the probe's container stays for the next service."""
        self._thread.stop()
        self._probe.close()

    def join(self) -> None:
        self._thread.close()

    def remove(self) -> None:
        """Stop following, and remove the probe from the host if the host answers."""
        self._thread.stop()
        start_once(f"close-probe-{self.host_id}", partial(self._probe.close, remove=True))

    @property
    def heard_lately(self) -> bool:
        return self._heard >= self._monotonic() - SILENT_S

    def last_look_s(self, uuid: str) -> float | None:
        """Return the seconds since a GPU answered; None if no probe reports it.

        Infinite before its first answer, and while the cause of a missing answer is being determined."""
        answered_at = self._answered_at.get(uuid)
        if answered_at is None:
            return None if self._failures or self._silent else math.inf
        if self.heard_lately and (uuid in self._missed or self._last[uuid][1].stuck):
            return math.inf
        since = self._monotonic() - answered_at
        return since if since < SILENT_S else None

    def interrupt_if_silent(self) -> None:
        if self._heard > 0 and not self.heard_lately:
            self._heard = self._monotonic()
            self._silent, self.problem = True, _SILENT
            self._probe.interrupt()

    def warnings(self, uuid: str) -> Sequence[str]:
        """Return warnings about a usable GPU."""
        known = self._known.get(uuid)
        return known.warnings if known is not None else ()

    def as_seen(self, uuid: str) -> store.GpuAsSeen:
        """Return what the host currently shows of a GPU. If its GPUs are not known, the GPU counts as present."""
        if self._inventory is None or self._inventory.problem:
            return store.GpuAsSeen()
        at, reading = self._last.get(uuid, (0.0, GpuReading(uuid)))
        shown = any(gpu.uuid == uuid for gpu in self._inventory.gpus) and not reading.lost
        at = max([at, *(xid.at for xid in reading.xids)])  # its clock may have been set back meanwhile
        return store.GpuAsSeen(shown, at or None, reading.ecc_errors or 0)

    def reading_since(self, uuid: str, instant: float) -> GpuReading | None:
        """Return the last reading of a GPU. None if it was taken before `instant`, by the monotonic clock."""
        if self._read_at.get(uuid, 0.0) < instant + MARGIN_S:
            return None
        return self._last[uuid][1]

    def stranger(self, uuid: str) -> str:
        """Return the program that used a GPU's memory without a lease at the last sample. Empty if unknown."""
        return self._strangers.get(uuid, "") if self.heard_lately else ""

    @property
    def is_new(self) -> bool:
        """Whether there was no reading of its GPUs yet."""
        looked = self._inventory is not None and (self._read_at or self._inventory.problem)
        return not (looked or self._failures or self._silent)

    def renew(self, uuid: str) -> None:
        """Judge a GPU again after an operator has returned it; request an inventory.

        The caller must have held `judging` since before the return was stored.
        """
        if (known := self._known.get(uuid)) is not None:
            self._known[uuid] = known.afresh()
        self._load(set())
        self._check_due = True
        self._renewed = True
        self._probe.interrupt(renew=True)

    def reset(self, uuid: str) -> None:
        """Reset a GPU while its probe has released it. Raises RuntimeFault, or ConflictError if the probe hangs."""
        self._probe.interrupt(renew=True)
        if not self._following.acquire(timeout=LET_GO_S):
            raise ConflictError(f"the probe of {self.host_id} hangs, and does not release its GPUs: reboot the host")
        try:
            self._probe.reset(uuid)
        finally:
            self._following.release()

    def _follow(self) -> float:
        """Follow the probe until its readings end; return the seconds until it is followed again."""
        began = self._monotonic()
        try:
            with self._following:
                self._take_readings()
            problem = "its probe ended, and is started again"
        except Exception as error:
            if not isinstance(error, SchedulearnError) and not self._thread.stopping:
                log.exception("can't read from the probe of %s", self.host_id)
            problem = f"its GPUs can't be monitored: {error}"
        self._heard = 0.0
        self._failures = 0 if self._monotonic() - began > _LASTING_S else self._failures + 1
        if self._silent:
            self.problem = _SILENT
        elif self._failures:  # otherwise it may well continue at once
            self.problem = problem
        self._leave_to_nobody(began, problem)
        return delay_after(self._failures + 1, _BACKOFF_S)

    def _leave_to_nobody(self, began: float, problem: str) -> None:
        """Give no more jobs to GPUs unwatched for UNWATCHED_AFTER_S. If the driver is broken, do so at once."""
        if not self._failures:
            self._failing_since = None
            return
        self._failing_since = began if self._failing_since is None else self._failing_since
        self._check_due = True
        cause = of_start(problem, self.host_id)
        broken = cause is not None and cause.cause.blame is Blame.HOST
        lasts = self._monotonic() - self._failing_since >= UNWATCHED_AFTER_S
        # A host that does not answer at all is reported by its agent.
        if (broken or lasts) and self._tasks_on() is not None and not self._thread.stopping:
            why = cause.sentence if cause is not None else problem
            if self._db.write(lambda conn: store.unwatch(conn, self.host_id, why, self._clock())):
                self._wake()

    def _take_readings(self) -> None:
        for reading in self._probe.readings():
            if self._thread.stopping:
                return
            self._heard = self._monotonic()
            with self.judging:
                if isinstance(reading, Inventory):
                    self._take_inventory(reading)
                else:
                    self._failing_since = None
                    self._take_sample(reading)

    def _take_inventory(self, inventory: Inventory) -> None:
        renewed, self._renewed = self._renewed, False
        if inventory == self._inventory and self.problem == "" and not (self._missed or renewed):
            self._load(set())  # changes stored for other hosts may concern these GPUs
            return
        problem = inventory.problem
        if problem and problem != self.unknown:
            log.warning("%s: %s", self.host_id, _problem(problem))
        if not self._known:
            self._load(set())
        listed = {gpu.uuid for gpu in inventory.gpus}
        lacking = set() if problem else self._known.keys() - listed
        self._missed = {uuid: self._missed.get(uuid, 0) + 1 for uuid in lacking}
        sought = {uuid for uuid, times in self._missed.items() if times < VANISHED_AFTER}
        driver = inventory.driver if inventory.gpus else self.driver if problem or sought else ""

        def change(conn: Connection) -> set[str]:
            if not (problem or sought):
                store.note_topology(conn, self.host_id, topology.to_text(inventory))
            return store.found_gpus(conn, self.host_id, inventory.gpus, self._clock(), driver, problem, sought)

        fresh = self._db.write(change)
        due = bool(fresh) or self._check_due or (self.driver != driver and bool(self.driver and driver))
        self._inventory, self.driver = inventory, driver
        self.unknown = problem
        if not self._silent:
            self.problem = _problem(problem) if problem else ""
        self._load(fresh)
        self._wake()
        if due and not problem:
            self._check_due = False
            self._check_cuda()

    def _load(self, fresh: Set[str]) -> None:
        with self._db.read() as conn:
            rows = store.of_host(conn, self.host_id)
            self.gpus = store.for_images(conn, self.host_id)
            seen = last_seen(conn, self.host_id)
        self._known = {row.uuid: self._known.get(row.uuid) or _known(seen.get(row.uuid, {})) for row in rows}
        for row in rows:
            known = self._known[row.uuid]
            known.fault, known.fault_kind, known.occupied = row.fault, row.fault_kind, row.occupied
            known.cleared_at, known.ecc_accepted = row.cleared_at or 0.0, row.ecc_accepted
            known.total = row.memory_bytes
            known.fresh = known.fresh or row.uuid in fresh

    def _take_sample(self, sample: Sample) -> None:
        now, monotonic = self._clock(), self._monotonic()
        if self._silent:
            self._silent, self.problem = False, _problem(self.unknown) if self.unknown else ""
        if sample.machine is not None:
            self._hear_machine(self.host_id, sample.machine)
        is_ours = _recognise(self._tasks_on())
        changes: list[Callable[[Connection], None]] = []
        noted = False
        for reading in sample.gpus:
            self._last[reading.uuid] = (sample.at, reading)
            self._read_at[reading.uuid] = monotonic
            known = self._known.get(reading.uuid)
            if known is None:
                continue
            verdict = judge(known, reading, is_ours, monotonic, held=self._is_held(reading.uuid))
            if is_ours is not None:
                self._strangers[reading.uuid] = stranger(reading, known.total, is_ours)
            changes += _writes(reading, verdict, now)
            noted = noted or bool(verdict.xids)
        self._write(changes)
        self._answered_at |= {reading.uuid: monotonic for reading in sample.gpus if not reading.stuck}
        if noted:
            self._load(set())  # repeated Xids may have made a GPU unhealthy, or healthy
        # After the verdicts, so that callers who wait for this sample may rely on them.
        self._telemetry.take(self.host_id, sample, now)
        if changes:
            self._wake()

    def _write(self, changes: Sequence[Callable[[Connection], None]]) -> None:
        """Store all changes or none. An Xid stored without its consequences would later count as an old one."""
        if not changes:
            return

        def write(conn: Connection) -> None:
            for change in changes:
                change(conn)

        try:
            self._db.write(write)
        except BaseException:
            self._known = {}  # the verdicts are not stored: the GPUs are judged again from the stored state
            raise


def _known(xids: Mapping[int, float]) -> Known:
    """Return the initial state of a GPU that this service reads for the first time."""
    return Known(xids={code: Xid(code, 0, at) for code, at in xids.items()})


def _writes(reading: GpuReading, verdict: Verdict, now: float) -> list[Callable[[Connection], None]]:
    """Return the database changes of a verdict."""
    uuid = reading.uuid
    writes: list[Callable[[Connection], None]] = []
    if verdict.xids:
        writes.append(partial(note_xids, uuid=uuid, events=verdict.xids, now=now))
    if verdict.fault is not None:
        fault, kind = verdict.fault.text, verdict.fault.kind
        writes.append(partial(store.set_fault, uuid=uuid, fault=fault, now=now, kind=kind))
    if verdict.returned is not None:
        forgiven = max((xid.at for xid in reading.xids), default=None)
        clear = partial(store.clear_fault, uuid=uuid, now=now, kind=verdict.returned)
        writes.append(partial(clear, cleared_at=forgiven, ecc_errors=reading.ecc_errors))
    if verdict.occupied is not None:
        writes.append(partial(store.set_occupied, uuid=uuid, who=verdict.occupied, now=now))
    return writes


def _problem(why: str) -> str:
    return (
        f"the list of its GPUs may be incomplete: {why}. Their jobs continue, but no others start on GPUs that "
        "don't answer"
    )


def _recognise(tasks: Sequence[ObservedTask] | None) -> Callable[[GpuProcess], bool] | None:
    """Return a function that says whether a process belongs to `tasks`. None if they are not known."""
    if tasks is None:
        return None
    ours = {TASK, *(name for task in tasks for name in (task.task_id, task.container) if name)}
    return lambda process: process.container in ours or process.task in ours
