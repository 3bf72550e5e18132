"""A command that somebody runs in a running task, with a terminal or with pipes: what each engine gives.

One conformance suite (tests/runtimes/terminals/) holds Docker, local processes and the fake to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from schedulearn.scheduler.errors import ConflictError

OUT, ERR = 1, 2
NO_CODE = 255
"""The exit code of a command of which nobody saw the end, as ssh has it."""
PROCESSES, COMMAND = 500, 1000
"""Processes of one task of which is told, and characters of the command of one."""
TERM = "xterm-256color"


class NotRunningError(ConflictError):
    """The task is not running now, or is paused: nothing can run in it."""

    code = "not_running"


@dataclass(frozen=True)
class Size:
    """Of a terminal, in characters."""

    columns: int
    rows: int


HANG_UP_S = 1.0
"""For which what runs in a terminal that closes may clean up: SIGHUP comes first, SIGKILL so long after it."""


class Terminal(Protocol):
    """One command and its connection. The command and all that it started end with `close`, at the latest with the
    service, and with their task: by SIGHUP, what is left after HANG_UP_S by SIGKILL. `read`, the writing calls and
    `close` may come from three threads."""

    def read(self) -> tuple[int, bytes] | None:
        """What the command wrote, and whether to OUT or ERR (with a terminal it is all OUT). Waits for some; None:
        there will be no more."""
        ...

    def write(self, data: bytes) -> None:
        """To the command's input; waits while it takes none. Nothing happens once it has ended."""
        ...

    def end_input(self) -> None:
        """The command sees the end of its input."""
        ...

    def resize(self, size: Size) -> None:
        """Of a terminal; nothing happens where there is none."""
        ...

    def exit_code(self) -> int:
        """Of the command, once `read` has given None; 128 + n for a signal, NO_CODE if nobody saw it."""
        ...

    def close(self) -> None:
        """Ends the command and everything that it started, and returns when they have ended. Twice is fine."""
        ...


@dataclass(frozen=True)
class Process:
    """One of a task, as its host sees it."""

    pid: int
    """On the host."""
    user: str
    cpu_percent: float
    """Of one processor, since it began."""
    memory_bytes: int
    seconds: float
    """Since it began."""
    command: str


@dataclass(frozen=True)
class TaskLoad:
    """What runs in a task, and how much it takes now."""

    processes: tuple[Process, ...]
    """The busiest first, at most PROCESSES."""
    cpu_percent: float
    """Of one processor, all together."""
    memory_bytes: int
    memory_limit: int | None = None
    """None: no bound that is known."""


class Terminals(Protocol):
    """What people run in the tasks of one host."""

    def open(self, task_id: str, argv: Sequence[str], size: Size | None) -> Terminal:
        """Runs a command in a running task: as its user, in its directory, with its variables and GPUs. With a `size`
        it has a terminal, else pipes. One that can't be run says so and exits with 126 or 127. Raises NotRunningError,
        or RuntimeFault."""
        ...

    def load(self, task_id: str) -> TaskLoad:
        """What runs in a running task now; takes a second or two. Raises as `open`, also of a paused one."""
        ...

    def clean(self) -> None:
        """Ends what terminals of a service that was killed have left in the tasks of this host."""
        ...


def busiest(processes: Iterable[Process]) -> tuple[Process, ...]:
    """What is told of them."""
    return tuple(sorted(processes, key=lambda each: (-each.cpu_percent, each.pid))[:PROCESSES])
