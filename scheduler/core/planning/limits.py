"""What a job may use of a host beside its GPUs, and which of the operator's data sets it sees. Pure."""

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
"""Docker's own default for a container: so much weight, for each GPU."""
SHM_A_GPU = 4 * GIB
MAX_SHM = 1 << 42
_SPARE = 0.05  # of the memory, for the system and the engine
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_OURS = ("/schedulearn", "/proc", "/sys", "/dev", "/etc", "/inputs", "/outputs")


@dataclass(frozen=True)
class Limits:
    cpu_shares: int
    """Weight against its neighbours while the processors are busy: idle ones are anybody's."""
    cpus: float | None = None
    """Never more than so many; None: no such bound."""
    memory_bytes: int | None = None
    """Beyond that the kernel kills it; None: no bound."""
    shm_bytes: int = GIB


class Asked(Protocol):
    """What a job asks for beside its GPUs."""

    @property
    def cpus(self) -> float | None: ...
    @property
    def memory_bytes(self) -> int | None: ...
    @property
    def shm_bytes(self) -> int: ...


def limits(asked: Asked, gpus: int, gpus_of_host: int, facts: HostFacts | None) -> Limits:
    """For a task with `gpus` of the `gpus_of_host`: by its share of those, unless the job says otherwise. Its shared
    memory fits in any case."""
    memory, shm = asked.memory_bytes, asked.shm_bytes
    if facts is not None and facts.memory_bytes:
        shm = min(shm, facts.memory_bytes)
    if memory is None and facts is not None and facts.memory_bytes and (gpus_of_host or not gpus):
        share = int(facts.memory_bytes * (1 - _SPARE) * min(1.0, gpus / max(1, gpus_of_host)))
        memory = min(facts.memory_bytes, max(share, usual_memory(asked)))
    return Limits(SHARES_A_GPU * max(1, gpus), asked.cpus, memory, shm)


def usual_shm(gpus: int) -> int:
    """Bytes of shared memory of a job that does not say how much it needs: NCCL and loaders take it by GPU."""
    return min(MAX_SHM, SHM_A_GPU * gpus) if gpus else GIB


def usual_memory(asked: Asked) -> int:
    """Bytes that any job gets which does not say how many it needs."""
    return asked.shm_bytes + GIB


def check_data_sets(data_sets: Mapping[str, str]) -> None:
    """Raises InvalidError for a name or path that can't be one."""
    for name, path in data_sets.items():
        if not _NAME.fullmatch(name):
            raise InvalidError(f"{name!r} can't name a data set: letters, digits, '_', '.' and '-'", field="data_sets")
        if not path.startswith("/"):
            raise InvalidError(f"data set {name!r}: {path!r} must be an absolute path on the hosts", field="data_sets")


def check_writable(writable: Mapping[str, Sequence[str]], data_sets: Mapping[str, str]) -> None:
    """Raises InvalidError for a name that is none of the data sets."""
    for name in writable:
        if name not in data_sets:
            raise InvalidError(f"{name!r} is not among data_sets: declare its folder there", field="writable_data_sets")


def check_target(target: str) -> str:
    """Where in the container a data set may be, as an engine writes that path. Raises ValueError."""
    path = posixpath.normpath(f"/{target.lstrip('/')}")
    if not target.startswith("/") or path == "/" or ".." in target.split("/") or "\0" in target:
        raise ValueError(f"{target!r} must be an absolute path in the container, without '..'")
    if any(path == place or path.startswith(f"{place}/") for place in _OURS):
        raise ValueError(f"{target!r} is not free for data sets: choose another folder, e.g. /data/...")
    return path


def nested_target(targets: Sequence[str]) -> str | None:
    """A path that stands twice, or has another one inside; None: there is none."""
    ordered = sorted(f"{target}/" for target in targets)
    return next((one.rstrip("/") for one, other in pairwise(ordered) if other.startswith(one)), None)


def sources(mounts: Mapping[str, str], data_sets: Mapping[str, str]) -> dict[str, str]:
    """`mounts`: data set -> path in the container. Path in the container -> path on the host, empty for a data set that
    is not declared any more."""
    return {target: data_sets.get(name, "") for name, target in mounts.items()}


def data_variables(paths: Mapping[str, str]) -> dict[str, str]:
    """Data set -> path as the job sees it: how its script finds them, in a container or not."""
    return {f"SCHEDULEARN_DATA_{re.sub('[^A-Z0-9]', '_', name.upper())}": path for name, path in paths.items()}
