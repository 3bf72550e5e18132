"""Terminals of the fake runtime: each command behaves like `cat`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from schedulearn.scheduler.runtimes.terminals.contract import OUT, NotRunningError, Process, Size, TaskLoad


class FakeTerminal:
    """Gives back what is written, and ends with 0 at the end of its input."""

    def __init__(self, argv: Sequence[str], size: Size | None) -> None:
        self.argv = tuple(argv)
        self.sizes = [size] if size is not None else []
        """Those that it had, the last one now."""
        self.closed = False
        self._output = bytearray()
        self._code: int | None = None
        self._changed = threading.Condition()

    def read(self) -> tuple[int, bytes] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._output or self._code is not None)
            if not self._output:
                return None
            data = bytes(self._output)
            self._output.clear()
            return OUT, data

    def write(self, data: bytes) -> None:
        with self._changed:
            if self._code is None:
                self._output += data
                self._changed.notify_all()

    def end_input(self) -> None:
        self.end(0)

    def resize(self, size: Size) -> None:
        if self.sizes:
            self.sizes.append(size)

    def exit_code(self) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._code is not None)
            return self._code or 0

    def close(self) -> None:
        self.closed = True
        self.end(137)

    def end(self, code: int) -> None:
        """The command ends by itself."""
        with self._changed:
            if self._code is None:
                self._code = code
            self._changed.notify_all()


class FakeTerminals:
    def __init__(self, is_running: Callable[[str], bool]) -> None:
        self._is_running = is_running
        self.opened: list[tuple[str, FakeTerminal]] = []
        """Task and terminal of each that was opened."""

    def open(self, task_id: str, argv: Sequence[str], size: Size | None) -> FakeTerminal:
        if not self._is_running(task_id):
            raise NotRunningError(f"{task_id} is not running")
        terminal = FakeTerminal(argv, size)
        self.opened.append((task_id, terminal))
        return terminal

    def load(self, task_id: str) -> TaskLoad:
        if not self._is_running(task_id):
            raise NotRunningError(f"{task_id} is not running")
        return TaskLoad((Process(4711, "root", 99.5, 1 << 20, 60.0, "python train.py"),), 99.5, 1 << 20, 1 << 30)

    def clean(self) -> None:
        """Nothing is ever left."""

    def task_ended(self, task_id: str) -> None:
        for of, terminal in self.opened:
            if of == task_id:
                terminal.end(137)
