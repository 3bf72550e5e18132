"""Watch for starts and ends of local tasks, by pidfds."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from schedulearn.scheduler.runtimes import procfs


class ProcessWatch:
    """Notifies consumers when local tasks start or end. `tasks` returns the directories of the current tasks."""

    def __init__(self, tasks: Callable[[], Iterable[Path]]) -> None:
        self.closed = threading.Event()
        self._tasks = tasks
        self._wakers: set[int] = set()  # the pipe of each `changes`
        self._lock = threading.Lock()

    def changes(self) -> Iterator[bool]:
        """Yield once at first, then after each change, and sometimes without a change."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        with self._lock:
            self._wakers.add(writer)
        try:
            known: set[str] | None = None
            while not self.closed.is_set():
                alive = self._await_change(reader, known)
                if self.closed.is_set():
                    return
                known = alive
                yield False
        finally:
            with self._lock:
                self._wakers.discard(writer)
                os.close(writer)
            os.close(reader)

    def wake(self) -> None:
        with self._lock:
            for writer in self._wakers:
                try:
                    os.write(writer, b"w")
                except BlockingIOError:
                    pass  # the pipe is full, so it will wake anyway

    def close(self) -> None:
        self.closed.set()
        self.wake()

    def _await_change(self, wake: int, known: set[str] | None) -> set[str]:
        """Block until the set of running tasks differs from `known`; return the new set."""
        keepers: dict[int, str] = {}
        starting = False
        try:
            for directory in self._tasks():
                keeper = read_identity(directory / "keeper.json")
                fd = procfs.open_process(keeper) if keeper else None
                if fd is not None:
                    keepers[fd] = directory.name
                elif procfs.is_locked(directory / "lock"):
                    starting = True  # its supervisor has not written its identity yet
            alive = set(keepers.values())
            if alive != known:
                return alive
            poller = select.poll()
            for fd in (wake, *keepers):
                poller.register(fd, select.POLLIN)
            # A supervisor's pidfd becomes readable when it ends, in whatever way.
            ended = [fd for fd, _ in poller.poll(100 if starting else None)]
            if wake in ended:
                os.read(wake, 4096)
            return alive - {keepers[fd] for fd in ended if fd in keepers}
        finally:
            for fd in keepers:
                os.close(fd)


def read_identity(path: Path) -> procfs.Identity | None:
    fields = procfs.read_json(str(path))
    return procfs.Identity(*fields[:3]) if fields else None
