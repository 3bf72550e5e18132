"""Health of GPUs, judged by readings. Pure.

`occupied`: a foreign program computes on the GPU. It is left alone, and returns to service by itself.
`fault`: the GPU can't be trusted any more, or not be used as it is. The kind of the fault determines the consequences.
A GPU that is merely not listed any more returns by itself once it is listed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from schedulearn.metrics.probe.readings import GpuHealth, GpuReading, Xid
from schedulearn.scheduler.core.outcomes.gpu_conditions import WELL, Lasting, hindrances, warnings
from schedulearn.scheduler.core.outcomes.gpu_holders import SETTLE_S, IsOurs, holder
from schedulearn.scheduler.core.outcomes.xids import XidVerdict, fault_by, worst

OCCUPIED_AFTER_S = 5.0
FREE_AFTER_S = 10.0
"""Minimum seconds that a change must last. A process of a job that has just ended, or seen only briefly, is no
change."""
HINDERED_AFTER_S = 8.0
"""Minimum seconds that a hindrance must last, or be absent: two health checks."""
STUCK_AFTER_S = 20.0
"""Minimum seconds that a GPU must be stuck. It counts as stuck 10 s after an NVML call that has not returned."""
WARNED_AFTER_S = 28.0
RETURN_AFTER_S = 60.0
"""Minimum seconds that a GPU must be healthy before it returns to service by itself. They double each time."""
_HEALTH_S = 30.0
"""Maximum age of a health check, seconds."""

VANISHED = "it is not there any more"
"""Fault of a GPU that its driver does not list."""
STUCK = "NVML does not answer questions about it"


class FaultKind(StrEnum):
    LEAVE = "leave"
    """The GPU's jobs leave at once. It ends by an operator, or once the driver requests no recovery action."""
    RESET = "reset"
    """Like `leave`, but its jobs continue."""
    WATCH = "watch"
    """Repeated Xids. Its jobs continue. It ends by an operator, or once the same Xids occur elsewhere."""
    STATE = "state"
    """The GPU can't be used in its present state. Its jobs continue. It ends with that state."""


_WEIGHTS: Mapping[str, int] = {FaultKind.STATE: 1, FaultKind.WATCH: 3, FaultKind.RESET: 4}


def weight(fault: str, kind: str) -> int:
    """Return the weight of a fault. Of two faults, the heavier one stays, or else the first one."""
    return 0 if not fault else 2 if fault == VANISHED else _WEIGHTS.get(kind, 5)


def jobs_leave(kind: str) -> bool:
    """Return whether a GPU's jobs leave it at once for this kind of fault. Faults from before there were kinds have an
    empty one."""
    return kind in ("", FaultKind.LEAVE)


@dataclass
class Known:
    """State of one GPU: columns of its row, and since when its readings differ from them."""

    fault: str = ""
    occupied: str = ""
    cleared_at: float = 0.0
    """Time on the host's clock up to which Xid errors are forgiven."""
    ecc_accepted: int = 0
    fresh: bool = False
    """Whether the GPU has never been checked. The first check decides at once."""
    since: float | None = None
    fault_kind: str = ""
    xids: dict[int, Xid] = field(default_factory=dict)
    """Code -> Xid event as last taken into account."""
    warnings: tuple[str, ...] = ()
    """Warnings, as sentences without a final period."""
    health: GpuHealth | None = None
    health_at: float = 0.0
    well_since: float | None = None
    returned: int = 0
    """Number of times that the GPU returned to service by itself."""
    most_nvlinks: int | None = None
    ecc_seen: int = 0
    hindered: Lasting = field(default_factory=lambda: Lasting(HINDERED_AFTER_S, HINDERED_AFTER_S))
    stuck: Lasting = field(default_factory=lambda: Lasting(STUCK_AFTER_S, HINDERED_AFTER_S))
    warned: Lasting = field(default_factory=lambda: Lasting(WARNED_AFTER_S, WARNED_AFTER_S))
    texts: dict[str, str] = field(default_factory=dict)
    total: int = 0
    """Size of its memory in bytes."""

    def afresh(self) -> Known:
        """Return the state after an operator returned the GPU to service: errors are known, all durations restart."""
        return Known(
            xids=self.xids, ecc_seen=self.ecc_seen, most_nvlinks=self.most_nvlinks, warned=self.warned,
            texts=self.texts, warnings=self.warnings,
        )  # fmt: skip


@dataclass(frozen=True)
class GpuFault:
    text: str
    kind: FaultKind


@dataclass(frozen=True)
class Verdict:
    """Changes to be stored; None means no change."""

    fault: GpuFault | None = None
    occupied: str | None = None
    xids: tuple[Xid, ...] = ()
    """New Xid events."""
    returned: str | None = None
    """Kind of the fault from which the GPU recovered."""


_AS_IT_WAS = Verdict()


def judge(known: Known, reading: GpuReading, is_ours: IsOurs | None, now: float, *, held: bool = False) -> Verdict:
    """Apply one reading to `known`, and return the changes.

    `is_ours` is None while foreign processes can't be told apart. `now` is from the same clock for all readings of a
    GPU. `held` says that a job of this service has the GPU.
    """
    xids = _new_xids(known, reading)
    if reading.health is not None:
        _take_health(known, reading, reading.health, now)
    hindering = _hindering(known, reading, now)
    fault = _event_fault(known, reading, xids) or (
        GpuFault("; ".join(hindering), FaultKind.STATE) if hindering else None
    )
    returned = None
    if fault is not None and _outweighs(fault, known):
        known.fault, known.fault_kind = fault.text, fault.kind
    else:
        fault = None
        returned = _returned(known, reading, hindering, now)
    if worst(xids) >= XidVerdict.RESET or fault is not None:
        known.well_since = None
    occupied = _occupied(known, reading, is_ours, now, held=held)
    if fault is None and occupied is None and not xids and returned is None:
        return _AS_IT_WAS
    return Verdict(fault, occupied, xids, returned)


def _occupied(known: Known, reading: GpuReading, is_ours: IsOurs | None, now: float, *, held: bool) -> str | None:
    found = holder(reading, known.total, is_ours, held=held) if is_ours is not None else None
    if found is None:
        return None
    occupied = None
    if bool(found.who) == bool(known.occupied):
        known.since = None
    else:
        known.since = now if known.since is None else known.since
        lasts = SETTLE_S if found.hidden else OCCUPIED_AFTER_S if found.who else FREE_AFTER_S
        if known.fresh or now - known.since >= lasts:
            known.occupied = occupied = found.who
            known.since = None
    known.fresh = False
    return occupied


def _new_xids(known: Known, reading: GpuReading) -> tuple[Xid, ...]:
    """Return the new Xid events. A higher count is new too, so that a clock that was set back hides none."""
    found = []
    for event in reading.xids:
        before = known.xids.get(event.code)
        if event == before:
            continue
        known.xids[event.code] = event
        since = known.cleared_at if before is None else max(known.cleared_at, before.at)
        if event.at > since or (before is not None and 0 < before.times < event.times):
            found.append(event)
    return tuple(found)


def _event_fault(known: Known, reading: GpuReading, xids: Sequence[Xid]) -> GpuFault | None:
    if why := fault_by(xids):
        return GpuFault(why, FaultKind.LEAVE if worst(xids) is XidVerdict.LEAVE else FaultKind.RESET)
    if reading.lost:
        return GpuFault("it has fallen off the bus", FaultKind.LEAVE)
    if reading.ecc_errors is not None:
        known.ecc_accepted = min(known.ecc_accepted, reading.ecc_errors)  # a new driver counts from 0 again
        if reading.ecc_errors != known.ecc_seen:
            known.ecc_seen, known.well_since = reading.ecc_errors, None
        if reading.ecc_errors > known.ecc_accepted:
            errors = reading.ecc_errors - known.ecc_accepted
            return GpuFault(f"{errors} uncorrected memory errors (ECC)", FaultKind.LEAVE)
    return None


def _outweighs(fault: GpuFault, known: Known) -> bool:
    before = weight(known.fault, known.fault_kind)
    same_state = fault.kind is FaultKind.STATE and known.fault_kind == FaultKind.STATE
    return weight(fault.text, fault.kind) > before or (same_state and fault.text != known.fault)


def _take_health(known: Known, reading: GpuReading, health: GpuHealth, now: float) -> None:
    known.health, known.health_at = health, now
    if health.nvlinks is not None:
        known.most_nvlinks = max(known.most_nvlinks or 0, health.nvlinks)
    odd = warnings(reading, health, known.most_nvlinks)
    known.warnings = _texts(known, odd, known.warned.update(odd, now))


def _hindering(known: Known, reading: GpuReading, now: float) -> tuple[str, ...]:
    """Return the lasting reasons why no job may start on the GPU."""
    stuck = known.stuck.update([STUCK] if reading.stuck else [], now)
    known.texts[STUCK] = STUCK
    if reading.health is not None:
        found = {text: text for text in hindrances(reading.health)}
        known.texts |= found
        known.hindered.update(found, now)
    return _texts(known, {}, stuck | known.hindered.lasting)


def _texts(known: Known, now: Mapping[str, str], lasting: set[str]) -> tuple[str, ...]:
    known.texts |= now
    return tuple(known.texts[name] for name in sorted(lasting))


def _returned(known: Known, reading: GpuReading, hindering: Sequence[str], now: float) -> str | None:
    """Return the kind of fault from which the GPU returns to service by itself now, or None."""
    if not known.fault or known.fault == VANISHED or known.fault_kind in ("", FaultKind.WATCH):
        return None
    recent = known.health is not None and now - known.health_at < _HEALTH_S
    well = recent and not (reading.lost or reading.stuck or hindering)
    if known.fault_kind != FaultKind.STATE:
        well = well and known.health is not None and known.health.recovery == WELL
    if not well:
        known.well_since = None
        return None
    known.well_since = now if known.well_since is None else known.well_since
    if now - known.well_since < RETURN_AFTER_S * 2**known.returned:
        return None
    kind = known.fault_kind
    known.fault = known.fault_kind = ""
    known.well_since = None
    known.returned += kind != FaultKind.STATE
    known.ecc_accepted = reading.ecc_errors or known.ecc_accepted
    return kind
