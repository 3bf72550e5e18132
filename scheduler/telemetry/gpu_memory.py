"""Peak GPU memory of running tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from schedulearn.metrics.probe.readings import GpuReading
from schedulearn.scheduler.core.cluster_state import Task


def memory_by_task(reading: GpuReading, tasks: Collection[str]) -> dict[str, int]:
    """Return the memory of each task on a GPU, from the driver's processes.

    If its processes can't be identified, a task that is alone on the GPU gets all used memory."""
    found: dict[str, int] = {}
    for process in reading.processes or ():
        if process.task in tasks and process.memory_bytes is not None:
            found[process.task] = found.get(process.task, 0) + process.memory_bytes
    if not found and len(tasks) == 1 and reading.memory_bytes is not None:
        [alone] = tasks
        return {alone: int(reading.memory_bytes)}
    return found


class GpuMemoryPeaks:
    """Peaks since the last `take`. One thread uses it, except for `notice`, which another thread calls."""

    def __init__(self) -> None:
        self._tasks_on: Mapping[str, Sequence[str]] = {}
        self._peaks: dict[str, int] = {}

    def notice(self, tasks: Sequence[Task], left_out: Collection[str]) -> None:
        """Set the live tasks. The GPUs in `left_out` are simulated, so their readings are not real."""
        on: dict[str, list[str]] = {}
        for task in tasks:
            for uuid in task.gpu_uuids if task.running else ():
                if uuid not in left_out:
                    on.setdefault(uuid, []).append(task.id)
        self._tasks_on = on

    def look(self, reading_of: Callable[[str], GpuReading | None]) -> None:
        for uuid, tasks in self._tasks_on.items():
            if (reading := reading_of(uuid)) is not None:
                for task_id, size in memory_by_task(reading, tasks).items():
                    self._peaks[task_id] = max(size, self._peaks.get(task_id, 0))

    def take(self) -> dict[str, int]:
        """Return task -> peak bytes on one GPU, and start again from zero."""
        peaks, self._peaks = self._peaks, {}
        return {task_id: size for task_id, size in peaks.items() if size > 0}
