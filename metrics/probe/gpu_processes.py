"""Identity of a process on a GPU, from /proc.

Fields that can't be read are left empty.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

from schedulearn.metrics.probe.readings import GpuProcess

_CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_TASK = b"SCHEDULEARN_TASK="


def describe(pid: int, memory_bytes: int | None) -> GpuProcess:
    """Describe a process. `memory_bytes`: GPU memory that it holds, by NVML.

    `/proc` must be that of the namespace in which NVML numbers processes, the machine's own.
    """
    started = _started(f"/proc/{pid}/stat")
    name, container, task, uid = ("", "", "", None) if started is None else _identity(f"/proc/{pid}", started)
    return GpuProcess(pid, name, None if memory_bytes is None else int(memory_bytes), container, task, uid)


@lru_cache(maxsize=1024)
def _identity(folder: str, started: bytes) -> tuple[str, str, str, int | None]:
    """Return (name, container, task, user id). `started` distinguishes processes that had the same number."""
    name = _read(f"{folder}/comm").decode(errors="replace").strip()
    found = _CONTAINER.findall(_read(f"{folder}/cgroup").decode(errors="replace"))
    task = next((entry for entry in _read(f"{folder}/environ").split(b"\0") if entry.startswith(_TASK)), b"")
    try:
        uid: int | None = os.stat(folder).st_uid
    except OSError:
        uid = None
    return name[:64], found[-1] if found else "", task[len(_TASK) :].decode(errors="replace")[:200], uid


def _started(stat: str) -> bytes | None:
    """The start time of a process, as its kernel counts; None if it has ended."""
    content = _read(stat)
    fields = content[content.rfind(b")") + 1 :].split()
    return fields[19] if len(fields) > 19 else None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 16)
    except OSError:
        return b""
