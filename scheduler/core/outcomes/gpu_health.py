"""What readings say of whether a GPU may be used. Pure.

`occupied`: somebody computes on it who has it not from us; it is left alone, and comes back by itself.
`fault`: it can't be trusted any more (Xid, ECC, lost); an operator brings it back. One that is only not listed any more
comes back by itself once it is listed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schedulearn.metrics.probe.readings import GpuProcess, GpuReading

OCCUPIED_AFTER_S = 5.0
FREE_AFTER_S = 10.0
"""For so long a change must last: a process of a job that has just ended, or one short look, is none."""

VANISHED = "it is not there any more"
"""The fault of a GPU that its driver does not list."""

PROGRAM_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""Xid errors that a faulty program causes on a healthy GPU (as NVIDIA's own Kubernetes device plugin has it)."""


@dataclass
class Known:
    """What is held of one GPU: four columns of its row, and since when its processes say otherwise."""

    fault: str = ""
    occupied: str = ""
    cleared_at: float = 0.0
    """Xid errors up to then are forgiven, by the clock of its host."""
    ecc_accepted: int = 0
    fresh: bool = False
    """It has never been looked at: the first look decides at once."""
    since: float | None = None


@dataclass(frozen=True)
class Verdict:
    """What is to be written down; None: as it was."""

    fault: str | None = None
    occupied: str | None = None


_AS_IT_WAS = Verdict()


def judge(known: Known, reading: GpuReading, is_ours: Callable[[GpuProcess], bool] | None, now: float) -> Verdict:
    """Takes one reading into account, and changes `known` to what follows from it. `is_ours`: None while it can't be
    told who is; `now` by one clock for all readings of a GPU."""
    fault = occupied = None
    if known.fault in ("", VANISHED) and (why := _fault(known, reading)):
        known.fault = fault = why
    if is_ours is not None and reading.processes is not None:
        # One without a name has just ended, or lives where we can't look.
        who = _others([process for process in reading.processes if process.name and not is_ours(process)])
        if bool(who) == bool(known.occupied):
            known.since = None
        else:
            known.since = now if known.since is None else known.since
            if known.fresh or now - known.since >= (OCCUPIED_AFTER_S if who else FREE_AFTER_S):
                known.occupied = occupied = who
                known.since = None
        known.fresh = False
    return _AS_IT_WAS if fault is None and occupied is None else Verdict(fault, occupied)


def _fault(known: Known, reading: GpuReading) -> str:
    if (
        reading.xid is not None
        and reading.xid not in PROGRAM_XIDS
        and (reading.xid_at is None or reading.xid_at > known.cleared_at)
    ):
        return f"Xid {reading.xid}"
    if reading.lost:
        return "it has fallen off the bus"
    if reading.ecc_errors is not None:
        known.ecc_accepted = min(known.ecc_accepted, reading.ecc_errors)  # counted from 0 again by a new driver
        if reading.ecc_errors > known.ecc_accepted:
            return f"{reading.ecc_errors - known.ecc_accepted} uncorrected memory errors (ECC)"
    return ""


def _others(processes: list[GpuProcess]) -> str:
    if not processes:
        return ""
    first = processes[0]
    details = [f"process {first.pid}"]
    if first.uid is not None:
        details.append(f"user id {first.uid}")
    if first.container:
        details.append(f"container {first.container[:12]}")
    more = f" and {len(processes) - 1} more" if len(processes) > 1 else ""
    return f"{first.name} ({', '.join(details)}){more}"
