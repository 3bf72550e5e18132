"""What tasks and hosts took up to now. One conformance suite (tests/runtimes/resources/) holds Docker, local processes
and the fake to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from schedulearn.metrics.probe.machine import MachineCounters


class TaskCounters(NamedTuple):
    """A running task at one moment: its memory now, and all else since it began. None: its engine does not tell."""

    task_id: str
    cpu_seconds: float
    memory_bytes: int
    """Without what the kernel only keeps because nobody else needs the memory."""
    memory_limit: int | None = None
    network_in: int | None = None
    """Bytes."""
    network_out: int | None = None
    disk_read: int | None = None
    """Bytes that came from a disk, not from memory."""
    disk_written: int | None = None


class Resources(Protocol):
    """Of one host."""

    def tasks(self, task_ids: Sequence[str]) -> Iterator[TaskCounters]:
        """Asks after these tasks, one after another; those that don't run are left out. Each answer takes some
        milliseconds: nothing waits for a second look. Raises RuntimeFault if the host does not answer."""
        ...

    def machine(self) -> MachineCounters | None:
        """The host itself, and the disk on which the service keeps its data; None: this can't be told from here."""
        ...
