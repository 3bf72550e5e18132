"""Process identities, signals and file locks by Linux' /proc and pidfds.

Uses the standard library only. A pid alone does not identify a process: it is reused after the process has ended, and
means nothing after a reboot. Together with the process's start time and the boot id it identifies one process for good.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import signal
import struct
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Identity(NamedTuple):
    """Unique identity of a process: pid, start time in clock ticks since boot, boot id."""

    pid: int
    ticks: int
    boot: str


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def identify(pid: int) -> Identity | None:
    """Return the identity of a running process. None if there is none, or only a zombie."""
    stat = _stat(pid)
    return Identity(pid, stat.ticks, boot_id()) if stat else None


def is_alive(who: Identity) -> bool:
    return identify(who.pid) == who


def is_stopped(who: Identity) -> bool:
    """Whether the process is suspended by SIGSTOP; SIGCONT resumes it."""
    stat = _stat(who.pid)
    return stat is not None and stat.ticks == who.ticks and stat.state == b"T"


def open_process(who: Identity) -> int | None:
    """Return a pidfd of the process; None if it has ended.

    It becomes readable when the process ends. The caller closes it."""
    try:
        fd = os.pidfd_open(who.pid)
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EINVAL):
            return None
        raise
    # Checked after the pidfd was opened: if the process is the right one now, the pidfd refers to the right one.
    if is_alive(who):
        return fd
    os.close(fd)
    return None


def send_signal(who: Identity, number: signal.Signals) -> bool:
    """Signal exactly this process. False if it has ended; a process that reuses its pid gets no signal."""
    fd = open_process(who)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def kill_all(find: Callable[[], Iterable[Identity]], timeout_s: float) -> bool:
    """Send SIGKILL to the processes that `find` returns until it returns none.

    Returns False if any is left at the timeout."""
    deadline = time.monotonic() + timeout_s
    while True:
        victims = list(find())
        if not victims:
            return True
        if time.monotonic() > deadline:
            return False
        for victim in victims:
            send_signal(victim, signal.SIGKILL)
        time.sleep(0.01)


_ROUNDS = 20
"""Rounds of signals before a running process is assumed to wait for a child."""


def suspend_all(leader: Identity, find: Callable[[], Iterable[Identity]], timeout_s: float) -> bool:
    """Send SIGSTOP to the processes that `find` returns until all are suspended.

    The leader is suspended last: if it is suspended, all are. Returns False if any still runs at the timeout."""
    deadline = time.monotonic() + timeout_s
    for rounds in itertools.count(1):
        found = list(find())
        awake = [who for who in found if not is_stopped(who)]
        if not awake:
            return True
        if time.monotonic() > deadline:
            return False
        for who in [who for who in awake if who != leader] or awake:
            send_signal(who, signal.SIGSTOP)
        if rounds % _ROUNDS == 0:
            _let_begin(found, awake)
        time.sleep(0.002)
    raise AssertionError("the loop only ends by its deadline")


def _let_begin(found: Iterable[Identity], awake: Iterable[Identity]) -> None:
    """Resume for a moment the children of processes that can't be suspended.

    A process that created its child by vfork, as shells do, waits in the kernel until the child executes its program. A
    suspended child never does."""
    parents = {who.pid for who in awake}
    for who in found:
        stat = _stat(who.pid)
        if stat is not None and stat.parent in parents and send_signal(who, signal.SIGCONT):
            time.sleep(0.005)


def resume_all(leader: Identity, found: Iterable[Identity]) -> None:
    """Send SIGCONT to all of `found`, the leader last."""
    for who in sorted(found, key=lambda who: who == leader):
        send_signal(who, signal.SIGCONT)


def find_family(leader: Identity | None, mark: bytes) -> list[Identity]:
    """Find the processes of a task whose supervisor has ended.

    They are the leader and its session while the leader lives, all processes with the line `mark` in their environment,
    and the descendants of all these."""
    boot = boot_id()
    stats = {pid: stat for pid in _pids() if (stat := _stat(pid)) is not None}
    found = {pid for pid in stats if _has_mark(pid, mark)}
    # A session id is the pid of its leader: without the leader's full identity it proves nothing.
    if leader and leader.boot == boot and (stat := stats.get(leader.pid)) and stat.ticks == leader.ticks:
        found |= {pid for pid, other in stats.items() if pid == leader.pid or other.session == leader.pid}
    while True:
        children = {pid for pid, stat in stats.items() if stat.parent in found} - found
        if not children:
            break
        found |= children
    found.discard(os.getpid())
    return [Identity(pid, stats[pid].ticks, boot) for pid in found]


def children_of_self() -> list[int]:
    """Pids of direct children, including zombies."""
    own = os.getpid()
    try:
        with open(f"/proc/{own}/task/{own}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel without this file
        return [pid for pid in _pids() if (stat := _stat(pid, dead=True)) and stat.parent == own]


def kill_children(reap: Callable[[], bool]) -> None:
    """Send SIGKILL to all descendants of this process, which is a subreaper.

    The children of a killed process become children of this process, so killing children until none is left is enough.
    The pid of a child that was not yet reaped is not reused. `reap` reaps ended children, and returns False if no child
    is left."""
    while True:
        for pid in children_of_self():
            os.kill(pid, signal.SIGKILL)
        if not reap():
            return
        time.sleep(0.005)


# F_OFD_* locks belong to the open file like those of flock(2), but can be queried without being taken: a query never
# makes a process that wants the lock fail.
_FLOCK = "hhqqi"


def try_lock(path: str | os.PathLike[str]) -> int | None:
    """Take the lock and return its descriptor; None if the lock is held.

    The lock is held until the descriptor is closed or the process ends."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except (BlockingIOError, PermissionError):
        os.close(fd)
        return None
    return fd


def is_locked(path: str | os.PathLike[str]) -> bool:
    """Whether the lock is held; does not take it."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        query = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, query)
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    finally:
        os.close(fd)


def write_json(path: str, value: Any, *, durable: bool = True) -> None:
    """Replace the file atomically.

    A reader sees the old or the new content. With `durable` the same holds after a power failure."""
    temporary = f"{path}.{os.getpid()}.{time.monotonic_ns()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(value, file)
            file.flush()
            if durable:
                os.fsync(fd)
        os.rename(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
    if durable:
        directory = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def read_json(path: str) -> Any:
    """Return the parsed file. None if it is missing, or not valid JSON (possible after a power failure)."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def used_seconds(pid: int) -> float:
    """CPU seconds used since the process started; 0 if it has ended."""
    stat = _stat(pid)
    return stat.used / os.sysconf("SC_CLK_TCK") if stat else 0.0


def age(pid: int) -> float:
    """Seconds since the process started; 0 if it has ended."""
    stat = _stat(pid)
    return time.clock_gettime(time.CLOCK_BOOTTIME) - stat.ticks / os.sysconf("SC_CLK_TCK") if stat else 0.0


class CpuSeconds(NamedTuple):
    """CPU seconds of one process."""

    own: float
    of_children: float
    """CPU seconds of descendants that have ended and were waited for."""


def family_tree() -> tuple[dict[int, list[int]], dict[int, CpuSeconds]]:
    """Return (children, CPU seconds) of each process of this machine."""
    tick = os.sysconf("SC_CLK_TCK")
    children: dict[int, list[int]] = {}
    seconds: dict[int, CpuSeconds] = {}
    for pid in _pids():
        if (stat := _stat(pid, dead=True)) is not None:
            children.setdefault(stat.parent, []).append(pid)
            seconds[pid] = CpuSeconds(stat.used / tick, stat.used_by_children / tick)
    return children, seconds


class _Stat(NamedTuple):
    state: bytes
    parent: int
    session: int
    ticks: int
    used: int
    used_by_children: int


def _stat(pid: int, *, dead: bool = False) -> _Stat | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
    except OSError:
        return None
    # The second field is the program's name in parentheses; the name itself may contain parentheses and spaces.
    state, parent, _group, session, *rest = data[data.rindex(b")") + 2 :].split()
    if state in (b"Z", b"X") and not dead:
        return None
    used, by_children = int(rest[7]) + int(rest[8]), int(rest[9]) + int(rest[10])
    return _Stat(state, int(parent), int(session), int(rest[15]), used, by_children)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:  # ended, or owned by another user
        return False
