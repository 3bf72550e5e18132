"""Load of a machine: processors, memory, network, disks and one file system.

It is read from /proc. Standard library only, and Python 3.8: the probe's container runs this file too. Inside a
container, these files of /proc still describe the whole machine.
"""

from __future__ import annotations

import os
import re
from typing import Container, NamedTuple, Optional, Tuple


class MachineCounters(NamedTuple):
    """Counters of a machine at one moment."""

    cpus: int
    """Logical processors."""
    cpu_seconds: float
    """Busy time since it started, added up over its processors."""
    memory_bytes: int
    """In use: what could not be given to a new program at once."""
    memory_total: int
    disk_bytes: int
    """In use, of the requested file system."""
    disk_total: int
    network_in: int | None = None
    """Bytes since it started, as in the next fields; None: this can't be read from here."""
    network_out: int | None = None
    disk_read: int | None = None
    """From and to its disks, not from memory."""
    disk_written: int | None = None


_IDLE = (3, 4)
"""Indices of the numbers of a line "cpu": idle, and idle while it waits for a disk."""
_COUNTED = 8
"""Numbers of that line that count; the next ones are in the first two already."""

_SECTOR = 512
"""Bytes, in /proc/diskstats, whatever the disk has."""
_NO_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd)\d")
"""Devices in memory, or on a disk that is itself counted."""
_NO_CARD = re.compile(
    r"lo$|veth|docker|br[-_\d]|bridge|virbr|vnet|tap|tun|wg|bond|team|dummy|ifb|cni|flannel|cali|cilium|lxc|lxd|kube"
    r"|nodelocaldns|vxlan|ovs|podman|sit|gre|ip6|ip_vti|teql|erspan|.*[.:@]"
)
"""Networks within the machine, and those made of other networks: their bytes pass a card if they leave the machine."""


def read_machine(folder: str, proc: str = "/proc") -> MachineCounters | None:
    """Read the counters, with the file system that `folder` is on; None if they can't be read."""
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
    # Space that only root may still use counts as used, as in `df`.
    room = used + disk.f_bavail * disk.f_frsize
    received, sent = _network(proc)
    read, written = _disks(proc)
    return MachineCounters(
        cpus, busy / os.sysconf("SC_CLK_TCK"), max(0, total - available), total, used, room, received, sent, read,
        written,
    )  # fmt: skip


_Bytes = Tuple[Optional[int], Optional[int]]


def _network(proc: str) -> _Bytes:
    """Return (in, out) of all cards.

    /proc/net is that of the container itself. The first process of the machine has the machine's, and it is visible
    where the kernel's own processes are.
    """
    try:
        with open(os.path.join(proc, "2", "comm"), encoding="ascii") as file:
            if file.read().strip() != "kthreadd":
                return None, None
        with open(os.path.join(proc, "1", "net", "dev"), encoding="ascii") as file:
            lines = [line.partition(":") for line in file if ":" in line]
        counters = [words.split() for name, _, words in lines if not _NO_CARD.match(name.strip())]
        return _sums([(int(words[0]), int(words[8])) for words in counters])
    except (OSError, ValueError, LookupError):
        return None, None


def _disks(proc: str) -> _Bytes:
    """Return (read, written) of all whole disks."""
    try:
        with open(os.path.join(proc, "diskstats"), encoding="ascii") as file:
            rows = {line.split()[2]: line.split() for line in file if line.strip()}
        whole = [row for name, row in rows.items() if not _NO_DISK.match(name) and not _is_part(name, rows)]
        return _sums([(int(row[5]) * _SECTOR, int(row[9]) * _SECTOR) for row in whole])
    except (OSError, ValueError, LookupError):
        return None, None


def _is_part(name: str, names: Container[str]) -> bool:
    """Return whether it is a partition, as sda1 of sda, or nvme0n1p1 of nvme0n1."""
    stem = name.rstrip("0123456789")
    return stem != name and (stem in names or (stem.endswith("p") and stem[:-1] in names))


def _sums(pairs: list[tuple[int, int]]) -> _Bytes:
    return (sum(first for first, _ in pairs), sum(second for _, second in pairs)) if pairs else (None, None)
