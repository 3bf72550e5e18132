"""Supervisor process of one local task.

It starts the task's command once, copies its output, stops it, and records how it ended. `process.ProcessRuntime`
starts it as a separate process, which survives the end of the service and of the terminal. Only the standard library is
used, because every task pays for these imports.

Files in a task's directory, and their writers:

    spec.json    service     what to run
    grace.json   service     seconds between SIGTERM and SIGKILL; written before the supervisor gets its SIGTERM
    lock         supervisor  held for its whole life, so that there is at most one supervisor
    keeper.json  supervisor  its own identity
    pid.json     supervisor  the command's identity; written before the command may begin: without it, nothing ever ran
    joining/     workers     whether they joined each other
    exit.json    supervisor  how the command ended; final (the service writes it if the supervisor was killed)
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from pathlib import Path
from typing import Any

from schedulearn.scheduler.runtimes import procfs
from schedulearn.scheduler.runtimes.log_store import LogStore, LogWriter
from schedulearn.worker.supervisor import ALONE, Stop, descendants, worked_alone
from schedulearn.worker.supervisor import LOOK_S as STOPPING_LOOK_S

PR_SET_CHILD_SUBREAPER = 36
NOT_EXECUTABLE = 126
NOT_FOUND = 127
NOTES = "joining"
"""Folder in which workers record whether they joined each other."""
DEFAULT_GRACE = 10.0
DRAIN_S = 5.0
LOOK_S = 5.0
RECORD_ATTEMPTS = 60_000
"""Attempts within about a week. A disk may stay full over a weekend, and the training until then must count."""
LOG_ATTEMPTS = 10
"""Attempts after which the end of the task is recorded without the end of its log."""
RECORD_STOP_S = 5.0
"""Time limit of the attempts for a task that is being stopped. The caller waits for it."""
_READ = 1 << 16

# The supervisor's answer to the service, which waits for it: one line on stdout.
RUNS = "runs"  # the command is running, or has run
BUSY = "busy"  # another supervisor has the task


def main(directory: str, logs: str, cap_bytes: str) -> int:
    """Run the task in `directory`, unless it ran before or another supervisor has it."""
    if os.fork():
        os._exit(0)  # our parent waits for this process only: it keeps no zombie, and the supervisor has no parent
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    lock = procfs.try_lock(os.path.join(directory, "lock"))
    if lock is None:
        _answer(BUSY)
        return 0
    if os.path.exists(os.path.join(directory, "pid.json")) or os.path.exists(os.path.join(directory, "exit.json")):
        _answer(RUNS)
        return 0
    Keeper(directory, lock, LogStore(Path(logs), int(cap_bytes))).run()
    return 0


class Keeper:
    def __init__(self, directory: str, lock: int, logs: LogStore) -> None:
        self._directory = directory
        self._lock = lock
        self._log = logs.writer(os.path.basename(directory))
        self._pid = 0
        self._status: int | None = None
        self._deadline: float | None = None  # time of SIGKILL during a stop
        self._stop: Stop | None = None
        self._started_at = 0.0
        self._signals, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._stop_asked = False
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def run(self) -> None:
        # Orphans of the command become our children instead of init's: nothing that it starts can escape.
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        procfs.write_json(self._file("keeper.json"), _known(os.getpid()), durable=False)
        spec = procfs.read_json(self._file("spec.json"))
        output, error = self._start(spec)
        if error:
            _append(self._log, f"schedulearn: {error['error']}\n".encode())
            self._end({**error, "started_at": self._started_at})
            _answer(RUNS)
            return
        _answer(RUNS)
        self._keep(output)
        self._kill_rest()
        self._drain(output)
        code = os.waitstatus_to_exitcode(self._status or 0)
        if code == 0 and worked_alone(self._file(NOTES)):
            _append(self._log, ALONE + b"\n")
        self._end({"exit_code": code if code >= 0 else 128 - code, "started_at": self._started_at})

    def _start(self, spec: dict[str, Any]) -> tuple[int, dict[str, Any] | None]:
        """Start the command; return (read end of its output, error). The error is None if it was started."""
        output, child_output = os.pipe()
        gate, gate_open = os.pipe()
        failure, child_failure = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(gate_open)  # otherwise the child would never see its own gate closed
            _become(spec, child_output, gate, child_failure)
        for fd in (child_output, gate, child_failure):
            os.close(fd)
        self._started_at = time.time()
        # The command may begin only after this. If we are killed before, the gate closes and the child ends at once.
        # A task without pid.json never ran, and a task with it never runs again.
        procfs.write_json(self._file("pid.json"), [*_known(self._pid), self._started_at])
        os.write(gate_open, b"g")
        os.close(gate_open)
        with open(failure, "rb") as file:
            words = file.read()  # returns when exec closes the other end
        if not words:
            return output, None
        os.close(output)
        code, _, error = words.decode(errors="replace").partition(" ")
        return -1, {"exit_code": int(code), "error": error}

    def _keep(self, output: int) -> None:
        """Copy the output and handle stops until the command has ended.

        After a stop, also waits for everything the command started."""
        poller = select.poll()
        poller.register(self._signals, select.POLLIN)
        poller.register(output, select.POLLIN)
        self._reap()
        while self._status is None or self._goes_on():
            wait = min(self._left(), LOOK_S if self._stop is None else STOPPING_LOOK_S)
            for fd, _ in poller.poll(wait * 1000):
                if fd == self._signals:
                    os.read(self._signals, _READ)
                elif not self._copy(output):
                    poller.unregister(output)  # closed by the command, which keeps running
            if self._stop_asked or (self._deadline is None and self._is_forgotten()):
                self._stop_asked = False
                self._begin_stop()
            if self._left() <= 0:
                self._kill_rest()
            self._reap()

    def _goes_on(self) -> bool:
        """Whether processes that were told to stop are still running."""
        if self._stop is None or self._left() <= 0:
            return False
        self._stop.goes_on()
        return self._reap()  # False without children, which include orphans

    def _left(self) -> float:
        """Seconds left of the grace period; LOOK_S without a stop."""
        return LOOK_S if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def _is_forgotten(self) -> bool:
        """Whether the task's directory was deleted; renaming or unmounting it doesn't count.

        Nobody can see or stop the task any more, so it must not hold its GPUs."""
        return os.fstat(self._lock).st_nlink == 0

    def _on_term(self, *_: object) -> None:
        self._stop_asked = True

    def _begin_stop(self) -> None:
        grace = procfs.read_json(self._file("grace.json"))
        deadline = time.monotonic() + (DEFAULT_GRACE if grace is None else float(grace))
        self._deadline = min(deadline, self._deadline or deadline)
        # The signal goes to the command's process group, as in a container. A launcher ends its own workers, and would
        # treat a signal that they get from elsewhere as a crash.
        self._stop = self._stop or Stop(self._pid, lambda: descendants(os.getpid()))

    def _kill_rest(self) -> None:
        """Send SIGKILL to all descendants, including the command."""
        procfs.kill_children(self._reap)

    def _reap(self) -> bool:
        """Reap ended children and store the command's status. False if no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._pid:
                self._status = status

    def _copy(self, output: int) -> bool:
        """Copy one read of the output into the log. False at the end of the output."""
        data = os.read(output, _READ)
        _append(self._log, data)
        return bool(data)

    def _drain(self, output: int) -> None:
        # All writers have ended, so the output ends at once, unless a process received the pipe through a socket.
        os.set_blocking(output, False)
        poller = select.poll()
        poller.register(output, select.POLLIN)
        deadline = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline:
            if poller.poll(100) and not self._copy(output):
                return

    def _end(self, record: dict[str, Any]) -> None:
        """Record the end of the log, then of the task.

        A reader that sees the task ended can then read the whole log."""
        give_up_at: float | None = None
        for attempt in range(RECORD_ATTEMPTS):
            if give_up_at is None and (self._stop_asked or self._deadline is not None):
                give_up_at = time.monotonic() + RECORD_STOP_S
            try:
                self._end_log(attempt)
                procfs.write_json(self._file("exit.json"), {**record, "finished_at": time.time()})
                return
            except OSError as error:  # most likely a full disk, which is temporary
                if self._is_forgotten() or (give_up_at is not None and time.monotonic() > give_up_at):
                    return  # the service finds the task without a supervisor, and records that it was lost
                if attempt == 0:
                    _tell(f"can't record the end of the task: {error}")
                self._rest(min(10, 1 + attempt // 30))

    def _end_log(self, attempt: int) -> None:
        try:
            self._log.close()
        except OSError:
            if attempt < LOG_ATTEMPTS:
                raise
            self._log.abandon()

    def _rest(self, seconds: float) -> None:
        """Wait for some seconds (at most 1 during a stop), or until a signal comes."""
        if select.select([self._signals], [], [], 1.0 if self._deadline is not None else seconds)[0]:
            os.read(self._signals, _READ)

    def _file(self, name: str) -> str:
        return os.path.join(self._directory, name)


def _become(spec: dict[str, Any], output: int, gate: int, failure: int) -> None:
    """Wait in the child process for the gate, then execute the command. Never returns."""
    code, error = NOT_EXECUTABLE, ""
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if not os.read(gate, 1):
            os._exit(NOT_EXECUTABLE)
        os.chdir(spec["work"])
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606  # never a shell
    except (FileNotFoundError, NotADirectoryError):
        code, error = NOT_FOUND, f"{spec['argv'][0]}: command not found"
    except OSError as reason:
        error = f"{spec['argv'][0]}: {reason.strerror}"
    finally:
        os.write(failure, f"{code} {error}".encode())
        os._exit(code)


def _known(pid: int) -> procfs.Identity:
    identity = procfs.identify(pid)
    if identity is None:
        raise OSError(f"process {pid} ended before its command started")
    return identity


def _append(log: LogWriter, data: bytes) -> None:
    try:
        log.append(data, time.time())
    except OSError:
        pass  # the disk is full: output is lost, but the training continues


def _tell(problem: str) -> None:
    """Write a problem to keeper.err, if its disk has space."""
    try:
        os.write(2, f"{problem}\n".encode())
    except OSError:
        pass


def _answer(word: str) -> None:
    """Answer the waiting service, if it still runs, and close the connection to it."""
    try:
        os.write(1, f"{word}\n".encode())
    except OSError:
        pass
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
