"""Program that runs one interactive command in a local task.

It is a separate process, whose input and output are passed to the command. It ends with its task, or when its
connection to the service closes, at the latest with the service. It then sends SIGHUP to all processes that the command
started, as a closing terminal does, and soon after SIGKILL. It answers with the exit code as one line.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from schedulearn.scheduler.runtimes import procfs
from schedulearn.scheduler.runtimes.process.keeper import NOT_EXECUTABLE, NOT_FOUND, PR_SET_CHILD_SUBREAPER
from schedulearn.scheduler.runtimes.terminals.contract import HANG_UP_S

KILLED = 128 + signal.SIGKILL


def main(directory: str, control_fd: str, wish: str) -> int:
    """Run the command. `wish` holds the command and its extra variables, as JSON."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    control = socket.socket(fileno=int(control_fd))
    spec = procfs.read_json(os.path.join(directory, "spec.json"))
    ran = procfs.read_json(os.path.join(directory, "pid.json"))
    task = procfs.open_process(procfs.Identity(*ran[:3])) if spec and ran else None
    if task is None:
        control.sendall(f"{KILLED}\n".encode())  # it has just ended
        return 0
    child = os.fork()
    if child == 0:
        control.close()
        _become(spec, json.loads(wish))
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)  # only the command holds its output then, so that both end together
    ended = os.pidfd_open(child)
    poller = select.poll()
    for fd in (ended, task, control.fileno()):
        poller.register(fd, select.POLLIN)
    poller.poll()
    statuses: dict[int, int] = {}
    _hang_up(child, partial(_reap, statuses))
    procfs.kill_children(partial(_reap, statuses))
    code = os.waitstatus_to_exitcode(statuses[child])
    try:
        control.sendall(f"{code if code >= 0 else 128 - code}\n".encode())
    except OSError:
        pass  # the service no longer waits for it
    return 0


def _hang_up(child: int, reap: Callable[[], bool]) -> None:
    """Send SIGHUP to the command and everything it started. Waits at most HANG_UP_S for their end."""
    with suppress(ProcessLookupError):  # the command has no process group of its own yet
        os.killpg(child, signal.SIGHUP)
    for pid in procfs.children_of_self():
        os.kill(pid, signal.SIGHUP)
    end = time.monotonic() + HANG_UP_S
    while reap() and time.monotonic() < end:
        time.sleep(0.01)


def _reap(statuses: dict[int, int]) -> bool:
    """Reap ended children and store their statuses. False if no child is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        statuses[pid] = status


def _become(spec: dict[str, Any], wish: dict[str, Any]) -> None:
    """Replace the child process by the command. Never returns."""
    argv = wish["argv"]
    code, error = NOT_EXECUTABLE, ""
    try:
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(spec["work"])
        os.execvpe(argv[0], argv, {**spec["env"], **wish["env"]})  # noqa: S606  # never a shell
    except (FileNotFoundError, NotADirectoryError):
        code, error = NOT_FOUND, f"{argv[0]}: command not found"
    except OSError as reason:
        error = f"{argv[0]}: {reason.strerror}"
    finally:
        os.write(2, f"schedulearn: {error}\n".encode())
        os._exit(code)
