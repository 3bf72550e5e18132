"""CPU and memory limits of tasks, and the operator's data sets that jobs may mount. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.task import GIB
from schedulearn.scheduler.errors import InvalidError

SHARES_A_GPU = 1024
"""CPU weight for each GPU; Docker's default of a container."""
SHM_A_GPU = 4 * GIB
MAX_SHM = 1 << 42
_SPARE = 0.05  # share of the memory for the system and the engine
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_OURS = ("/schedulearn", "/proc", "/sys", "/dev", "/etc", "/inputs", "/outputs")


@dataclass(frozen=True)
class Limits:
    cpu_shares: int
    """Weight against other containers while all processors are busy."""
    cpus: float | None = None
    """Maximum processors; None: no limit."""
    memory_bytes: int | None = None
    """Memory above which the kernel kills the task; None: no limit."""
    shm_bytes: int = GIB


class Asked(Protocol):
    """Resources that a job requests beside its GPUs."""

    @property
    def cpus(self) -> float | None: ...
    @property
    def memory_bytes(self) -> int | None: ...
    @property
    def shm_bytes(self) -> int: ...


def limits(asked: Asked, gpus: int, gpus_of_host: int, facts: HostFacts | None) -> Limits:
    """Return the limits of a task with `gpus` of the `gpus_of_host`.

    The default is its share of the host. Its shared memory always fits."""
    memory, shm = asked.memory_bytes, asked.shm_bytes
    if facts is not None and facts.memory_bytes:
        shm = min(shm, facts.memory_bytes)
    if memory is None and facts is not None and facts.memory_bytes and (gpus_of_host or not gpus):
        share = int(facts.memory_bytes * (1 - _SPARE) * min(1.0, gpus / max(1, gpus_of_host)))
        memory = min(facts.memory_bytes, max(share, usual_memory(asked)))
    return Limits(SHARES_A_GPU * max(1, gpus), asked.cpus, memory, shm)


def usual_shm(gpus: int) -> int:
    """Return the default shared memory of a job, in bytes. NCCL and data loaders need it per GPU."""
    return min(MAX_SHM, SHM_A_GPU * gpus) if gpus else GIB


def usual_memory(asked: Asked) -> int:
    """Return the default memory of a job, in bytes."""
    return asked.shm_bytes + GIB


def check_data_sets(data_sets: Mapping[str, str]) -> None:
    """Raise InvalidError for an invalid name or path of a data set."""
    for name, path in data_sets.items():
        if not _NAME.fullmatch(name):
            raise InvalidError(f"{name!r} can't name a data set: letters, digits, '_', '.' and '-'", field="data_sets")
        if not path.startswith("/"):
            raise InvalidError(f"data set {name!r}: {path!r} must be an absolute path on the hosts", field="data_sets")


def check_writable(writable: Mapping[str, Sequence[str]], data_sets: Mapping[str, str]) -> None:
    """Raise InvalidError for a name that is not a data set."""
    for name in writable:
        if name not in data_sets:
            raise InvalidError(f"{name!r} is not among data_sets: declare its folder there", field="writable_data_sets")


def check_target(target: str) -> str:
    """Return the normalized path of a data set in the container. Raises ValueError if it is not allowed."""
    path = posixpath.normpath(f"/{target.lstrip('/')}")
    if not target.startswith("/") or path == "/" or ".." in target.split("/") or "\0" in target:
        raise ValueError(f"{target!r} must be an absolute path in the container, without '..'")
    if any(path == place or path.startswith(f"{place}/") for place in _OURS):
        raise ValueError(f"{target!r} can't be used for data sets: choose another folder, e.g. /data/...")
    return path


def nested_target(targets: Sequence[str]) -> str | None:
    """Return a path that is given twice or contains another one; None: there is none."""
    ordered = sorted(f"{target}/" for target in targets)
    return next((one.rstrip("/") for one, other in pairwise(ordered) if other.startswith(one)), None)


def sources(mounts: Mapping[str, str], data_sets: Mapping[str, str]) -> dict[str, str]:
    """Return path in the container -> path on the host, given `mounts`: data set -> path in the container.

    The path on the host is empty if the data set is not declared any more."""
    return {target: data_sets.get(name, "") for name, target in mounts.items()}


def data_variables(paths: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that give a script its data sets. `paths`: data set -> path as the job sees it."""
    return {f"SCHEDULEARN_DATA_{re.sub('[^A-Z0-9]', '_', name.upper())}": path for name, path in paths.items()}
