"""Resources of the fake runtime: what a test says that its tasks took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from schedulearn.metrics.probe.machine import MachineCounters
from schedulearn.scheduler.core.task import GIB
from schedulearn.scheduler.runtimes.resources.contract import TaskCounters

MACHINE = MachineCounters(8, 100.0, 4 * GIB, 16 * GIB, 40 * GIB, 100 * GIB, 1000, 2000, 3000, 4000)


class FakeResources:
    """`limit_of` gives the bound of a task's memory; it raises KeyError for one that does not run. `check` raises where
    a call should fail."""

    def __init__(self, limit_of: Callable[[str], int | None], check: Callable[[], None]) -> None:
        self._limit_of = limit_of
        self._check = check
        self._taken: dict[str, TaskCounters] = {}
        self.of_machine: MachineCounters | None = MACHINE
        """What `machine` gives."""

    def take(
        self, task_id: str, *, cpu_seconds: float = 0.0, memory_bytes: int = 0, network: int = 0, disk: int = 0
    ) -> None:
        """The task takes so much more; its memory is so much now."""
        before = self._taken.get(task_id, TaskCounters(task_id, 0.0, 0, None, 0, 0, 0, 0))
        self._taken[task_id] = TaskCounters(
            task_id,
            before.cpu_seconds + cpu_seconds,
            memory_bytes,
            None,
            (before.network_in or 0) + network,
            (before.network_out or 0) + network,
            (before.disk_read or 0) + disk,
            (before.disk_written or 0) + disk,
        )

    def tasks(self, task_ids: Sequence[str]) -> Iterator[TaskCounters]:
        self._check()
        for task_id in task_ids:
            try:
                limit = self._limit_of(task_id)
            except KeyError:
                continue
            found = self._taken.get(task_id, TaskCounters(task_id, 0.0, 1 << 20, None, 0, 0, 0, 0))
            yield found._replace(memory_limit=limit)

    def machine(self) -> MachineCounters | None:
        self._check()
        return self.of_machine
