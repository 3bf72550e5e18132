"""Terminals that outlive their socket for a while.

A page finds its shell again after a reload.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from schedulearn.features.interactive.terminals.job_terminals import OpenTerminal
from schedulearn.scheduler.errors import NotFoundError

TAIL = 256 << 10
"""Maximum bytes of output that are shown again to a client that comes back."""
AHEAD = 256 << 10
"""Maximum bytes that are read but not yet sent.

At that point the command waits, as it would for any slow terminal."""


class Output:
    """Output of a terminal: read once, shown to one socket at a time.

    `tail`: bytes that are kept after they were shown."""

    def __init__(self, opened: OpenTerminal, threads: ThreadPoolExecutor, tail: int) -> None:
        self._terminal = opened.terminal
        self._threads = threads
        self._tail = tail
        self._pieces: deque[bytes] = deque()
        self._shown = 0
        """Number of the present pieces that were sent to the current socket."""
        self._size = self._unshown = 0
        self._code: int | None = None
        self._fault: BaseException | None = None
        self._changed = asyncio.Event()
        self.attached = False
        self.active = time.monotonic()
        self._reading = asyncio.create_task(self._read())

    async def show(self, send: Callable[[bytes], Awaitable[None]]) -> int:
        """Send what is kept and all that comes, and return the exit code.

        Raises what the terminal or `send` raises."""
        self.attached, self._shown, self._unshown = True, 0, self._size
        try:
            while True:
                await self._until(lambda: self._shown < len(self._pieces) or self._has_ended)
                if self._shown < len(self._pieces):
                    piece = self._pieces[self._shown]
                    await send(piece)
                    self._shown += 1
                    self._unshown -= len(piece)
                    self._trim()
                elif self._fault is not None:
                    raise self._fault
                elif self._code is not None:
                    return self._code
        finally:
            self.attached = False
            self._changed.set()

    def stop(self) -> None:
        self._reading.cancel()

    @property
    def _has_ended(self) -> bool:
        return self._code is not None or self._fault is not None

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while (piece := await loop.run_in_executor(self._threads, self._terminal.read)) is not None:
                stream, data = piece
                self.active = time.monotonic()
                self._pieces.append(bytes([stream]) + data)
                self._size += len(data) + 1
                self._unshown += len(data) + 1
                self._trim()
                await self._until(lambda: not self.attached or self._unshown < AHEAD)
            self._code = await loop.run_in_executor(self._threads, self._terminal.exit_code)
        except Exception as fault:
            self._fault = fault
        self._changed.set()

    def _trim(self) -> None:
        """Forget the oldest pieces, except those that the current socket still has to get."""
        while self._size > self._tail and self._pieces and (not self.attached or self._shown > 0):
            self._size -= len(self._pieces.popleft())
            self._shown -= 1 if self.attached else 0
        self._changed.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()


class Shell:
    """Terminal of a user in a job, with its output and its threads. `keeps`: it may be found again."""

    def __init__(
        self, opened: OpenTerminal, threads: ThreadPoolExecutor, job_id: str, user: str, *, keeps: bool
    ) -> None:
        self.id = secrets.token_urlsafe(16)
        self.opened = opened
        self.threads = threads
        self.job_id = job_id
        self.user = user
        self.keeps = keeps
        self.output = Output(opened, threads, TAIL if keeps else 0)
        self.taken = asyncio.Event()
        """Set when it is shown elsewhere."""

    def close(self) -> None:
        """Close it without awaiting: a service that stops cancels what is awaited."""
        self.output.stop()
        self.threads.submit(self.opened.close)
        self.threads.shutdown(wait=False)


class KeptShells:
    """Shells by their ids, including those that are shown now."""

    def __init__(self) -> None:
        self._shells: dict[str, Shell] = {}
        self._ends: dict[str, asyncio.TimerHandle] = {}

    def add(self, shell: Shell) -> None:
        self._shells[shell.id] = shell

    def find(self, shell_id: str, job_id: str, user: str) -> Shell:
        """Return a shell, and cancel its end. Raises NotFoundError, also for another user's."""
        shell = self._shells.get(shell_id)
        if shell is None or shell.job_id != job_id or shell.user != user:
            raise NotFoundError("that shell has ended")
        if (end := self._ends.pop(shell_id, None)) is not None:
            end.cancel()
        shell.taken.set()
        shell.taken = asyncio.Event()
        return shell

    def leave(self, shell: Shell, seconds: float) -> None:
        """End a shell in `seconds`: nobody looks at it any more."""
        self._ends[shell.id] = asyncio.get_running_loop().call_later(seconds, self.end, shell)

    def end(self, shell: Shell) -> None:
        self._shells.pop(shell.id, None)
        if (end := self._ends.pop(shell.id, None)) is not None:
            end.cancel()
        shell.close()

    def end_all(self) -> None:
        for shell in list(self._shells.values()):
            self.end(shell)
