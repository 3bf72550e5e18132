"""Interface for interactive commands in running tasks, with a terminal or pipes.

One conformance suite (tests/runtimes/terminals/) checks Docker, local processes and the fake against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from schedulearn.scheduler.errors import ConflictError

OUT, ERR = 1, 2
NO_CODE = 255
"""Exit code of a command whose end nobody saw, as in ssh."""
PROCESSES, COMMAND = 500, 1000
"""Maximum number of processes reported per task, and of characters of a process's command line."""
TERM = "xterm-256color"


class NotRunningError(ConflictError):
    """The task is not running, or is paused, so that nothing can run in it."""

    code = "not_running"


@dataclass(frozen=True)
class Size:
    """Size of a terminal, in characters."""

    columns: int
    rows: int


HANG_UP_S = 1.0
"""Time to clean up when a terminal closes: the delay between SIGHUP and SIGKILL."""


class Terminal(Protocol):
    """One command and its connection.

    The command and everything it started end with `close`, with their task, and at the latest with the service. They
    get SIGHUP, and SIGKILL after HANG_UP_S. `read`, the writing calls and `close` may come from three threads."""

    def read(self) -> tuple[int, bytes] | None:
        """Wait for output; return (OUT or ERR, bytes), or None at its end.

        With a terminal, all output is OUT."""
        ...

    def write(self, data: bytes) -> None:
        """Write to the command's input; block while it accepts none. Does nothing after the command has ended."""
        ...

    def end_input(self) -> None:
        """Send the end of input to the command."""
        ...

    def resize(self, size: Size) -> None:
        """Resize the terminal, if there is one."""
        ...

    def exit_code(self) -> int:
        """Return the command's exit code, once `read` has returned None.

        It is 128 + n for a signal n, and NO_CODE if nobody saw the end."""
        ...

    def close(self) -> None:
        """End the command and everything it started; return when they have ended. A second call does nothing."""
        ...


@dataclass(frozen=True)
class Process:
    """Process of a task, as its host sees it."""

    pid: int
    """Pid on the host."""
    user: str
    cpu_percent: float
    """Percent of one processor, since the process started."""
    memory_bytes: int
    seconds: float
    """Age of the process."""
    command: str


@dataclass(frozen=True)
class TaskLoad:
    """Processes of a task, and its current resource usage."""

    processes: tuple[Process, ...]
    """The busiest first, at most PROCESSES."""
    cpu_percent: float
    """Percent of one processor, for all processes together."""
    memory_bytes: int
    memory_limit: int | None = None
    """None: no known limit."""


class Terminals(Protocol):
    """Interactive commands in the tasks of one host."""

    def open(self, task_id: str, argv: Sequence[str], size: Size | None) -> Terminal:
        """Run a command in a running task.

        The command has the task's user, directory, variables and GPUs. With a `size` it has a terminal, otherwise
        pipes. A command that can't be run prints an error and exits with 126 or 127. Raises NotRunningError or
        RuntimeFault."""
        ...

    def load(self, task_id: str) -> TaskLoad:
        """Return the processes and resource usage of a running task. Takes a second or two.

        Raises the same errors as `open`, also for a paused task."""
        ...

    def clean(self) -> None:
        """End commands that a killed service left in the tasks of this host."""
        ...


def busiest(processes: Iterable[Process]) -> tuple[Process, ...]:
    """Return the busiest processes, at most PROCESSES."""
    return tuple(sorted(processes, key=lambda each: (-each.cpu_percent, each.pid))[:PROCESSES])
