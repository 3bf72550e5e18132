"""Who holds a GPU beside us, by its processes and by memory that none of them shows. Pure.

Processes of other PID namespaces have no name to us, those of a dead container may have left their memory, and with
hidepid none can be seen: such memory is somebody's all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schedulearn.metrics.probe.readings import GpuProcess, GpuReading

IsOurs = Callable[[GpuProcess], bool]

SHARE = 0.05
LEAST_BYTES = 2 << 30
"""Of its memory so much, at least, is what a driver, a display and small tools take: it counts as free."""
SETTLE_S = 30.0
"""For so long a job that has ended may take to leave its memory; then it counts as somebody's."""
ASK_S = 5.0
"""For so long a GPU that was left waits for its first reading."""


@dataclass(frozen=True)
class Holder:
    who: str = ""
    """Empty: nobody."""
    hidden: bool = False
    """Only its memory shows."""


NOBODY = Holder()


def is_free(reading: GpuReading, total: int) -> bool:
    """Whether a GPU's memory is free, as far as it tells."""
    return reading.memory_bytes is None or reading.memory_bytes <= max(LEAST_BYTES, SHARE * total)


def holder(reading: GpuReading, total: int, is_ours: IsOurs, *, held: bool) -> Holder | None:
    """Who beside us holds a GPU with `total` bytes; None: that can't be told. `held`: a job of ours has it, and
    where processes have no names nobody can tell its memory from others'."""
    named = [process for process in reading.processes or () if process.name and not is_ours(process)]
    if named:
        return Holder(_described(named))
    if not held and not is_free(reading, total):
        return Holder(_unseen(reading), hidden=True)
    return None if reading.processes is None else NOBODY


def stranger(reading: GpuReading, total: int, is_ours: IsOurs) -> str:
    """Who beside us holds memory of a GPU that a job of ours has just left; empty: nobody."""
    found = holder(reading, total, is_ours, held=any(map(is_ours, reading.processes or ())))
    return found.who if found is not None else ""


def _unseen(reading: GpuReading) -> str:
    nameless = [str(process.pid) for process in reading.processes or () if not process.name]
    seen = f"process {', '.join(nameless[:3])}, which can't be looked at" if nameless else "no process that can be seen"
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
