"""Resource usage of local tasks, by their process trees.

One walk through /proc serves all tasks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from schedulearn.metrics.probe.machine import MachineCounters, read_machine
from schedulearn.scheduler.runtimes import procfs
from schedulearn.scheduler.runtimes.resources.contract import TaskCounters

_PAGE = os.sysconf("SC_PAGE_SIZE")


class LocalResources:
    """`Resources` of local processes.

    `keeper_of` returns the supervisor process of a running task, and None for any other. All processes of a task
    descend from its supervisor."""

    def __init__(self, keeper_of: Callable[[str], procfs.Identity | None], data_dir: Path) -> None:
        self._keeper_of = keeper_of
        self._data_dir = data_dir

    def tasks(self, task_ids: Sequence[str]) -> Iterator[TaskCounters]:
        keepers = {task_id: keeper for task_id in task_ids if (keeper := self._keeper_of(task_id)) is not None}
        if not keepers:
            return
        children, seconds = procfs.family_tree()
        for task_id, keeper in keepers.items():
            family = _descendants(keeper.pid, children)
            if family:
                yield _counters(task_id, keeper.pid, family, seconds)

    def machine(self) -> MachineCounters | None:
        return read_machine(str(self._data_dir))


def _descendants(pid: int, children: Mapping[int, Sequence[int]]) -> list[int]:
    found: list[int] = []
    ahead = [pid]
    while ahead:
        below = children.get(ahead.pop(), ())
        found += below
        ahead += below
    return found


def _counters(
    task_id: str, keeper: int, family: Sequence[int], seconds: Mapping[int, procfs.CpuSeconds]
) -> TaskCounters:
    """Sum the usage of a task's processes.

    Processes that have ended are counted at the process that waited for them; for orphans it is the supervisor."""
    cpu = seconds[keeper].of_children if keeper in seconds else 0.0
    own = shared = read = written = 0
    told = False
    for pid in family:
        cpu += seconds[pid].own + seconds[pid].of_children
        resident, common = _memory(pid)
        own += resident - common
        shared = max(shared, common)  # mostly the same pages in all processes
        if (disk := _disk(pid)) is not None:
            told, read, written = True, read + disk[0], written + disk[1]
    # A local task has no memory limit and no network of its own.
    return TaskCounters(
        task_id, cpu, own + shared, disk_read=read if told else None, disk_written=written if told else None
    )


def _memory(pid: int) -> tuple[int, int]:
    """Return (resident memory, the part of it that others may share) in bytes."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, resident, shared, *_ = file.read().split()
    except (OSError, ValueError):
        return 0, 0
    return int(resident) * _PAGE, int(shared) * _PAGE


def _disk(pid: int) -> tuple[int, int] | None:
    """Return (read, written) in bytes; None for another user's process."""
    try:
        with open(f"/proc/{pid}/io", "rb") as file:
            values = dict(line.split(b": ") for line in file.read().splitlines())
        return int(values[b"read_bytes"]), int(values[b"write_bytes"])
    except (OSError, ValueError, LookupError):
        return None
