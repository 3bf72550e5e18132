"""Resource usage of containers, as reported by Docker Engine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import docker.errors

from schedulearn.metrics.probe.machine import MachineCounters, read_machine
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.resources.contract import TaskCounters


class DockerResources:
    """`Resources` of one engine."""

    def __init__(self, engine: Engine, data_dir: Path) -> None:
        self._engine = engine
        self._data_dir = data_dir
        self._is_here: bool | None = None
        """Whether the engine is on this machine; None until it is checked."""

    def tasks(self, task_ids: Sequence[str]) -> Iterator[TaskCounters]:
        for task_id in task_ids:
            with self._engine.errors(f"read the resource usage of {task_id}"):
                try:
                    # With `one_shot` the engine answers at once: it does not wait a second for another sample.
                    stats = self._engine.api.stats(task_id, stream=False, one_shot=True)
                except docker.errors.APIError:
                    continue  # it has just ended, or can't be read
            if (counters := read_stats(task_id, stats)) is not None:
                yield counters

    def machine(self) -> MachineCounters | None:
        if self._is_here is None:
            self._is_here = self._engine.url.startswith("unix://") and self._has_our_kernel()
        return read_machine(str(self._data_dir)) if self._is_here else None

    def _has_our_kernel(self) -> bool:
        """Whether the engine runs on this machine's kernel. Its socket may lead into a virtual machine."""
        with self._engine.errors("describe itself"):
            info = self._engine.api.info()
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return bool(info.get("KernelVersion") == os.uname().release and info.get("MemTotal") == memory)


def read_stats(task_id: str, stats: Mapping[str, Any]) -> TaskCounters | None:
    """Convert the engine's answer to `stats`; None for a container that does not run."""
    memory = stats.get("memory_stats") or {}
    if "usage" not in memory:
        return None
    details = memory.get("stats") or {}
    cache = details.get("inactive_file", details.get("total_inactive_file", 0))
    networks = stats.get("networks")
    sums = _disk(stats.get("blkio_stats") or {})
    return TaskCounters(
        task_id,
        float(stats["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9,
        max(0, int(memory["usage"]) - int(cache)),
        int(memory["limit"]) if memory.get("limit") else None,
        None if networks is None else sum(int(each["rx_bytes"]) for each in networks.values()),
        None if networks is None else sum(int(each["tx_bytes"]) for each in networks.values()),
        sums["read"],
        sums["write"],
    )


def _disk(stats: Mapping[str, Any]) -> dict[str, int]:
    sums = {"read": 0, "write": 0}
    for each in stats.get("io_service_bytes_recursive") or ():
        operation = str(each.get("op", "")).lower()
        if operation in sums:
            sums[operation] += int(each.get("value", 0))
    return sums
