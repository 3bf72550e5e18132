"""Terminals in local tasks, by a pseudo-terminal or pipes.

The service holds one end of them, `process/session.py` the other.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import select
import socket
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.private_files import umask_of_user
from schedulearn.scheduler.runtimes import procfs
from schedulearn.scheduler.runtimes.process.boot import program
from schedulearn.scheduler.runtimes.terminals.contract import (
    COMMAND,
    ERR,
    NO_CODE,
    OUT,
    TERM,
    NotRunningError,
    Process,
    Size,
    TaskLoad,
    busiest,
)

_READ = 1 << 16
_END_S = 10.0
_LOOK_S = 0.5
"""Duration over which a task's CPU usage is measured."""


class LocalTerminals:
    """`Terminals` of local processes.

    `directory_of` returns the directory of a running task, and None for any other. `pids_of` returns its processes."""

    def __init__(
        self, directory_of: Callable[[str], Path | None], pids_of: Callable[[str], Sequence[procfs.Identity]]
    ) -> None:
        self._directory_of = directory_of
        self._pids_of = pids_of

    def open(self, task_id: str, argv: Sequence[str], size: Size | None) -> LocalTerminal:
        directory = self._directory_of(task_id)
        if directory is None:
            raise NotRunningError(f"{task_id} is paused or not running: nothing can run in it")
        try:
            return LocalTerminal(directory, argv, size)
        except OSError as error:
            raise RuntimeFault(f"no terminal can be opened in {task_id}: {error}") from error

    def load(self, task_id: str) -> TaskLoad:
        if self._directory_of(task_id) is None:
            raise NotRunningError(f"{task_id} is paused or not running")
        pids = [who.pid for who in self._pids_of(task_id)]
        before, began = {pid: procfs.used_seconds(pid) for pid in pids}, time.monotonic()
        time.sleep(_LOOK_S)
        passed = time.monotonic() - began
        seen = [process for pid in pids if (process := _process(pid)) is not None]
        used = sum(max(0.0, procfs.used_seconds(each.pid) - before.get(each.pid, 0.0)) for each in seen)
        memory = sum(each.memory_bytes for each in seen)
        return TaskLoad(busiest(seen), round(100 * used / passed, 1), memory)

    def clean(self) -> None:
        """Do nothing: a session ends with its service."""


class LocalTerminal:
    def __init__(self, directory: Path, argv: Sequence[str], size: Size | None) -> None:
        self._master: int | None = None
        self._reading, self._writing, self._closing = threading.Lock(), threading.Lock(), threading.Lock()
        self._closed = False
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC)
        self._control, theirs = socket.socketpair()
        wish = {"argv": list(argv), "env": {} if size is None else {"TERM": TERM}}
        if size is not None:
            self._master, ends = self._terminal(size)
            self._input, self._outputs = self._master, {self._master: OUT}
        else:
            ends, self._input, self._outputs = _pipes()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    program("session", str(directory), str(theirs.fileno()), json.dumps(wish)),
                    stdin=ends[0],
                    stdout=ends[1],
                    stderr=ends[2],
                    pass_fds=[theirs.fileno()],
                    env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
                    start_new_session=True,
                    umask=umask_of_user(),
                )
        except BaseException:
            self._let_go()
            raise
        finally:
            for fd in set(ends):
                os.close(fd)

    def _terminal(self, size: Size) -> tuple[int, tuple[int, int, int]]:
        master, slave = os.openpty()
        _set_size(master, size)
        os.set_blocking(master, False)
        return master, (slave, slave, slave)

    def read(self) -> tuple[int, bytes] | None:
        with self._reading:
            while self._outputs and not self._closed:
                poller = select.poll()
                for fd in (self._woken, *self._outputs):
                    poller.register(fd, select.POLLIN)
                ready = [fd for fd, _ in poller.poll() if fd != self._woken]
                for fd in ready:
                    try:
                        data = os.read(fd, _READ)
                    except BlockingIOError:
                        continue
                    except OSError:
                        data = b""  # a terminal's read fails if its other end is closed
                    if data:
                        return self._outputs[fd], data
                    del self._outputs[fd]
                    if fd != self._master:
                        os.close(fd)
            return None

    def write(self, data: bytes) -> None:
        with self._writing:
            rest = memoryview(data)
            while rest and not self._closed and self._input >= 0:
                try:
                    rest = rest[os.write(self._input, rest) :]
                except BlockingIOError:
                    poller = select.poll()
                    poller.register(self._woken, select.POLLIN)
                    poller.register(self._input, select.POLLOUT)
                    poller.poll()
                except OSError:
                    return  # it has ended

    def end_input(self) -> None:
        if self._master is not None:
            self.write(b"\x04")
            return
        with self._writing:
            if self._input >= 0:
                os.close(self._input)
                self._input = -1

    def resize(self, size: Size) -> None:
        with self._writing:
            if self._master is not None and not self._closed:
                _set_size(self._master, size)

    def exit_code(self) -> int:
        words = b""
        try:
            while not words.endswith(b"\n") and (data := self._control.recv(64)):
                words += data
        except OSError:
            pass
        return int(words) if words.strip().isdigit() else NO_CODE

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            os.write(self._wake, b"x")
            try:
                self._control.shutdown(socket.SHUT_WR)  # the session kills its processes, and ends
            except OSError:
                pass
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired as error:
                self._process.kill()
                raise RuntimeFault("a terminal can't be ended: a process of it hangs in the kernel") from error
            finally:
                self._let_go()

    def _let_go(self) -> None:
        self._closed = True
        with self._reading, self._writing:
            mine = {self._woken, self._wake, *self._outputs, *([self._input] if self._input >= 0 else [])}
            mine |= {self._master} if self._master is not None else set()
            for fd in mine:
                os.close(fd)
            self._outputs, self._input, self._master = {}, -1, None
        self._control.close()


def _process(pid: int) -> Process | None:
    """Return a process's description; None if it has ended."""
    seconds = procfs.age(pid)
    try:
        folder = Path("/proc", str(pid))
        words = (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
        pages = int((folder / "statm").read_text().split()[1])
        uid = folder.stat().st_uid
    except OSError:
        return None
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    cpu = 100 * procfs.used_seconds(pid) / seconds if seconds > 0 else 0.0
    return Process(pid, user, round(cpu, 1), pages * os.sysconf("SC_PAGE_SIZE"), round(seconds, 1), words[:COMMAND])


def _pipes() -> tuple[tuple[int, int, int], int, dict[int, int]]:
    """Return (the command's three ends, our end of its input, our ends of its outputs)."""
    theirs_in, ours_in = os.pipe2(os.O_CLOEXEC)
    ours_out, theirs_out = os.pipe2(os.O_CLOEXEC)
    ours_err, theirs_err = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(ours_in, False)
    return (theirs_in, theirs_out, theirs_err), ours_in, {ours_out: OUT, ours_err: ERR}


def _set_size(terminal: int, size: Size) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))
