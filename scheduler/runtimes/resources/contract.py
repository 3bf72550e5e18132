"""Interface for the resource usage of tasks and hosts.

One conformance suite (tests/runtimes/resources/) checks Docker, local processes and the fake against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from schedulearn.metrics.probe.machine import MachineCounters


class TaskCounters(NamedTuple):
    """Resource usage of a running task: current memory, and totals since its start.

    None means that the engine does not report the value."""

    task_id: str
    cpu_seconds: float
    memory_bytes: int
    """Without the page cache, which the kernel gives up when memory is needed."""
    memory_limit: int | None = None
    network_in: int | None = None
    """Bytes."""
    network_out: int | None = None
    disk_read: int | None = None
    """Bytes read from a disk, not from the page cache."""
    disk_written: int | None = None


class Resources(Protocol):
    """Resource usage of one host."""

    def tasks(self, task_ids: Sequence[str]) -> Iterator[TaskCounters]:
        """Read the usage of these tasks, one after another. Tasks that don't run are left out.

        Each reading takes some milliseconds, because no second sample is taken. Raises RuntimeFault if the host does
        not answer."""
        ...

    def machine(self) -> MachineCounters | None:
        """Return the usage of the host and of the disk with the service's data. None if unreadable from here."""
        ...
