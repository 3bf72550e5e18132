"""How busy a machine is: its processors, memory and one of its file systems, by /proc.

Standard library only, and Python 3.8: the probe's container runs this file too. Inside of a container these files of
/proc still speak of the whole machine.
"""

from __future__ import annotations

import os
from typing import NamedTuple


class MachineCounters(NamedTuple):
    """A machine at one moment."""

    cpus: int
    """Logical processors."""
    cpu_seconds: float
    """For which its processors were busy, all together, since it started."""
    memory_bytes: int
    """In use: what could not be given to a new program at once."""
    memory_total: int
    disk_bytes: int
    """In use, of the file system that was asked about."""
    disk_total: int


_IDLE = (3, 4)
"""Of the numbers of a line "cpu": idle, and idle while it waits for a disk."""
_COUNTED = 8
"""Numbers of that line; what follows is in the first two already."""


def read_machine(folder: str, proc: str = "/proc") -> MachineCounters | None:
    """`folder` is on the file system that is asked about. None where this can't be told."""
    try:
        with open(os.path.join(proc, "stat"), encoding="ascii") as file:
            lines = file.read().splitlines()
        ticks = [int(word) for word in lines[0].split()[1 : 1 + _COUNTED]]
        busy = sum(ticks) - sum(ticks[place] for place in _IDLE)
        cpus = sum(1 for line in lines if line.startswith("cpu")) - 1
        with open(os.path.join(proc, "meminfo"), encoding="ascii") as file:
            sizes = {line.split(":")[0]: line.split()[1] for line in file if ":" in line}
        total, available = int(sizes["MemTotal"]) << 10, int(sizes["MemAvailable"]) << 10
        disk = os.statvfs(folder)
    except (OSError, ValueError, LookupError):
        return None
    used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
    # What only root may still use counts as used, as `df` has it.
    room = used + disk.f_bavail * disk.f_frsize
    return MachineCounters(cpus, busy / os.sysconf("SC_CLK_TCK"), max(0, total - available), total, used, room)
