"""Detection of foreign holders of a GPU, by processes and unexplained memory. Pure.

Processes of other PID namespaces have no visible name. Processes of a dead container may have left memory behind, and
with hidepid no process can be seen. Such memory still counts as held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schedulearn.metrics.probe.readings import GpuProcess, GpuReading

IsOurs = Callable[[GpuProcess], bool]

SHARE = 0.05
MIN_BYTES = 2 << 30
"""Minimum of the memory that counts as free, since a driver, a display and small tools may use it. SHARE of the GPU's
memory applies if that is more."""
SETTLE_S = 30.0
"""Seconds that a finished job may take to free its memory. After that the memory counts as held by others."""
ASK_S = 5.0
"""Maximum seconds that a GPU waits for its first reading after its job left."""


@dataclass(frozen=True)
class GpuHolder:
    who: str = ""
    """Description of the holder; empty if there is none."""
    hidden: bool = False
    """Whether only the holder's memory is visible, and no process."""


NOBODY = GpuHolder()


def is_free(reading: GpuReading, total: int) -> bool:
    """Return whether a GPU's memory is free, or unknown."""
    return reading.memory_bytes is None or reading.memory_bytes <= max(MIN_BYTES, SHARE * total)


def holder(reading: GpuReading, total: int, is_ours: IsOurs, *, held: bool) -> GpuHolder | None:
    """Return the foreign holder of a GPU with `total` bytes, or None if that is unknown.

    `held` says that a job of this service has the GPU. Without process names, its memory and others' look the same.
    """
    named = [process for process in reading.processes or () if process.name and not is_ours(process)]
    if named:
        return GpuHolder(_described(named))
    if not held and not is_free(reading, total):
        return GpuHolder(_unseen(reading), hidden=True)
    return None if reading.processes is None else NOBODY


def stranger(reading: GpuReading, total: int, is_ours: IsOurs) -> str:
    """Return the foreign holder of memory of a GPU that a job has just left; empty if there is none."""
    found = holder(reading, total, is_ours, held=any(map(is_ours, reading.processes or ())))
    return found.who if found is not None else ""


def _unseen(reading: GpuReading) -> str:
    nameless = [str(process.pid) for process in reading.processes or () if not process.name]
    seen = f"process {', '.join(nameless[:3])}, which can't be inspected" if nameless else "no visible process"
    return f"{seen}, with {(reading.memory_bytes or 0.0) / 1e9:.1f} GB of its memory"


def _described(processes: Sequence[GpuProcess]) -> str:
    first = processes[0]
    details = [f"process {first.pid}"]
    if first.uid is not None:
        details.append(f"user id {first.uid}")
    if first.container:
        details.append(f"container {first.container[:12]}")
    more = f" and {len(processes) - 1} more" if len(processes) > 1 else ""
    return f"{first.name} ({', '.join(details)}){more}"
