"""The keeper of one local task: starts its command once, copies its output, ends it, records how it ended.

It is a process of its own, started by `process.ProcessRuntime` and then on its own: it lives through the death of
the service and through the end of the terminal. Standard library only, because every task pays for these imports.

Files of a task's directory, and who writes them:

    spec.json    service  what to run
    grace.json   service  seconds between SIGTERM and SIGKILL; written before the keeper gets its SIGTERM
    lock         keeper   held for its whole life: there is one keeper at most
    keeper.json  keeper   its own identity
    pid.json     keeper   the command's identity. Written before the command may begin: without it, nothing ever ran
    joining/     workers  whether they joined each other
    exit.json    keeper   how the command ended; the last word (the service writes it where the keeper was killed)
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
"""The folder in which workers note whether they joined each other."""
DEFAULT_GRACE = 10.0
DRAIN_S = 5.0
LOOK_S = 5.0
RECORD_ATTEMPTS = 60_000
"""A week: a disk may stay full over a weekend, and what was trained until then must count."""
LOG_ATTEMPTS = 10
"""Of those, after which the end of the task is recorded without that of its log."""
RECORD_STOP_S = 5.0
"""The same for a task that was told to stop: somebody waits for it."""
_READ = 1 << 16

# What the keeper answers to the service, which waits for it: one line on stdout.
RUNS = "runs"  # the command runs, or ran
BUSY = "busy"  # another keeper is at it


def main(directory: str, logs: str, cap_bytes: str) -> int:
    """Runs the task in `directory`, unless it ran before or another keeper is at it."""
    if os.fork():
        os._exit(0)  # our parent waits for this one only: no zombie there, and we are nobody's child
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
        self._deadline: float | None = None  # of a stop: SIGKILL then
        self._stop: Stop | None = None
        self._started_at = 0.0
        self._signals, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._stop_asked = False
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def run(self) -> None:
        # Orphans of the command come to us instead of to init: nothing that it starts can escape.
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
        """Starts the command; returns the end of its output to read from, and why it could not be started."""
        output, child_output = os.pipe()
        gate, gate_open = os.pipe()
        failure, child_failure = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(gate_open)  # else we would keep our own gate from being seen closed
            _become(spec, child_output, gate, child_failure)
        for fd in (child_output, gate, child_failure):
            os.close(fd)
        self._started_at = time.time()
        # Only now may it begin. Were we killed before this line, the gate would close and the child end at once:
        # a task without pid.json never ran, one with it never runs again.
        procfs.write_json(self._file("pid.json"), [*_known(self._pid), self._started_at])
        os.write(gate_open, b"g")
        os.close(gate_open)
        with open(failure, "rb") as file:
            words = file.read()  # ends when exec closes the other end
        if not words:
            return output, None
        os.close(output)
        code, _, error = words.decode(errors="replace").partition(" ")
        return -1, {"exit_code": int(code), "error": error}

    def _keep(self, output: int) -> None:
        """Copies the output and obeys stops until the command has ended, and after a stop all that it started."""
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
                    poller.unregister(output)  # closed by the command, which goes on
            if self._stop_asked or (self._deadline is None and self._is_forgotten()):
                self._stop_asked = False
                self._begin_stop()
            if self._left() <= 0:
                self._kill_rest()
            self._reap()

    def _goes_on(self) -> bool:
        """Whether something that was told to stop is still at it."""
        if self._stop is None or self._left() <= 0:
            return False
        self._stop.goes_on()
        return self._reap()  # false without children, and orphans are ours

    def _left(self) -> float:
        """Seconds of the grace period."""
        return LOOK_S if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def _is_forgotten(self) -> bool:
        """Somebody deleted the task's directory (renaming or unmounting it is something else): nobody can see or stop
        the task any more, so it must not hold its GPUs."""
        return os.fstat(self._lock).st_nlink == 0

    def _on_term(self, *_: object) -> None:
        self._stop_asked = True

    def _begin_stop(self) -> None:
        grace = procfs.read_json(self._file("grace.json"))
        deadline = time.monotonic() + (DEFAULT_GRACE if grace is None else float(grace))
        self._deadline = min(deadline, self._deadline or deadline)
        # To the group of the command, as in a container: a launcher ends its own workers, and would take a signal that
        # they get from somebody else for a crash.
        self._stop = self._stop or Stop(self._pid, lambda: descendants(os.getpid()))

    def _kill_rest(self) -> None:
        """SIGKILLs everything that descends from us, the command included."""
        procfs.kill_children(self._reap)

    def _reap(self) -> bool:
        """Collects ended children, and keeps the command's status. False if there are no children left."""
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
        """One read of the output into the log; false at its end."""
        data = os.read(output, _READ)
        _append(self._log, data)
        return bool(data)

    def _drain(self, output: int) -> None:
        # All writers are dead, so the end comes at once, unless somebody was handed the pipe through a socket.
        os.set_blocking(output, False)
        poller = select.poll()
        poller.register(output, select.POLLIN)
        deadline = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline:
            if poller.poll(100) and not self._copy(output):
                return

    def _end(self, record: dict[str, Any]) -> None:
        """The log first: whoever sees the task ended may read all of it."""
        give_up_at: float | None = None
        for attempt in range(RECORD_ATTEMPTS):
            if give_up_at is None and (self._stop_asked or self._deadline is not None):
                give_up_at = time.monotonic() + RECORD_STOP_S
            try:
                self._end_log(attempt)
                procfs.write_json(self._file("exit.json"), {**record, "finished_at": time.time()})
                return
            except OSError as error:  # most likely a full disk, which may pass
                if self._is_forgotten() or (give_up_at is not None and time.monotonic() > give_up_at):
                    return  # the service finds that nobody holds the task, and records that it was lost
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
        """Until the time is over, or a signal comes."""
        if select.select([self._signals], [], [], 1.0 if self._deadline is not None else seconds)[0]:
            os.read(self._signals, _READ)

    def _file(self, name: str) -> str:
        return os.path.join(self._directory, name)


def _become(spec: dict[str, Any], output: int, gate: int, failure: int) -> None:
    """In the child: waits for the gate, then becomes the command. Never returns."""
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
        raise OSError(f"process {pid} ended before it began")
    return identity


def _append(log: LogWriter, data: bytes) -> None:
    try:
        log.append(data, time.time())
    except OSError:
        pass  # the disk is full: output is lost, but training is not


def _tell(problem: str) -> None:
    """For whoever looks for a reason, if the disk of keeper.err has room."""
    try:
        os.write(2, f"{problem}\n".encode())
    except OSError:
        pass


def _answer(word: str) -> None:
    """Tells the waiting service, if it still lives, and lets go of it."""
    try:
        os.write(1, f"{word}\n".encode())
    except OSError:
        pass
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
