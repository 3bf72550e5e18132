"""Who a process is, and how to signal it and no other: Linux' /proc, pidfds and locks. Standard library only.

A pid says little: it is used again after its process has ended, and after a reboot it means nothing. Together with
the time at which the process started and the boot it started in, it names one process for good.
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
    """One process, never another one: its number, its start in clock ticks since boot, the boot's own id."""

    pid: int
    ticks: int
    boot: str


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def identify(pid: int) -> Identity | None:
    """The identity of a process that runs now; None if there is none, or only its unreaped remains."""
    stat = _stat(pid)
    return Identity(pid, stat.ticks, boot_id()) if stat else None


def is_alive(who: Identity) -> bool:
    return identify(who.pid) == who


def is_stopped(who: Identity) -> bool:
    """Whether the process is suspended by SIGSTOP; it goes on by SIGCONT."""
    stat = _stat(who.pid)
    return stat is not None and stat.ticks == who.ticks and stat.state == b"T"


def open_process(who: Identity) -> int | None:
    """A pidfd, which the caller closes: it becomes readable when the process ends. None if it has ended."""
    try:
        fd = os.pidfd_open(who.pid)
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EINVAL):
            return None
        raise
    # Looked at after the pidfd was opened: if it is the right one now, the pidfd is of the right one.
    if is_alive(who):
        return fd
    os.close(fd)
    return None


def send_signal(who: Identity, number: signal.Signals) -> bool:
    """Signals exactly this process. False if it has ended: whoever has its number now is left alone."""
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
    """SIGKILLs what `find` finds, again and again, until it finds nothing. False if something is left in the end."""
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
"""Of signals, after which whatever still runs is taken to wait for a child."""


def suspend_all(leader: Identity, find: Callable[[], Iterable[Identity]], timeout_s: float) -> bool:
    """SIGSTOPs what `find` finds until all of it is suspended, the leader last: if it is suspended, all are. False if
    something still runs in the end."""
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
    """Lets children go on for a moment whose parent can't be suspended: one that made its child by vfork, as shells do,
    waits in the kernel until the child begins its program, and a suspended child never does."""
    parents = {who.pid for who in awake}
    for who in found:
        stat = _stat(who.pid)
        if stat is not None and stat.parent in parents and send_signal(who, signal.SIGCONT):
            time.sleep(0.005)


def resume_all(leader: Identity, found: Iterable[Identity]) -> None:
    """SIGCONTs all of `found`, the leader last."""
    for who in sorted(found, key=lambda who: who == leader):
        send_signal(who, signal.SIGCONT)


def find_family(leader: Identity | None, mark: bytes) -> list[Identity]:
    """The processes of a task whose keeper has gone: its leader and the leader's session, as long as the leader
    lives; all that have the line `mark` in their environment; and the descendants of all these."""
    boot = boot_id()
    stats = {pid: stat for pid in _pids() if (stat := _stat(pid)) is not None}
    found = {pid for pid in stats if _has_mark(pid, mark)}
    # A session's number belongs to its leader: without the leader's own identity it proves nothing.
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
    """Direct children, unreaped ones included."""
    own = os.getpid()
    try:
        with open(f"/proc/{own}/task/{own}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel without this file
        return [pid for pid in _pids() if (stat := _stat(pid, dead=True)) and stat.parent == own]


def kill_children(reap: Callable[[], bool]) -> None:
    """SIGKILLs everything that descends from this process, which is a subreaper: the children of a killed process
    become ours, so it is enough to kill children until there are none; and an unreaped child's pid is not used again.
    `reap` collects ended ones, and is false if there are none left."""
    while True:
        for pid in children_of_self():
            os.kill(pid, signal.SIGKILL)
        if not reap():
            return
        time.sleep(0.005)


# F_OFD_* locks belong to the open file like those of flock(2), but can be asked after without being taken: an observer
# never makes a starter lose.
_FLOCK = "hhqqi"


def try_lock(path: str | os.PathLike[str]) -> int | None:
    """Takes the lock, and holds it until the returned descriptor is closed or the process ends; None if it is held."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except (BlockingIOError, PermissionError):
        os.close(fd)
        return None
    return fd


def is_locked(path: str | os.PathLike[str]) -> bool:
    """Whether somebody holds the lock, without touching it."""
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
    """Replaces the file as a whole: a reader, and with `durable` a power cut, sees the old or the new one."""
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
    """None when the file is not there, or is no JSON (a power cut may leave such a one)."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def used_seconds(pid: int) -> float:
    """Of processors, since it began; 0 if it has ended."""
    stat = _stat(pid)
    return stat.used / os.sysconf("SC_CLK_TCK") if stat else 0.0


def age(pid: int) -> float:
    """Seconds since it began; 0 if it has ended."""
    stat = _stat(pid)
    return time.clock_gettime(time.CLOCK_BOOTTIME) - stat.ticks / os.sysconf("SC_CLK_TCK") if stat else 0.0


class CpuSeconds(NamedTuple):
    """Of one process."""

    own: float
    of_children: float
    """Of those that have ended and that it waited for, and of theirs."""


def family_tree() -> tuple[dict[int, list[int]], dict[int, CpuSeconds]]:
    """(the children of each process, what each used of processors), of all processes of this machine now."""
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
    # The second field is the program's name in brackets, and may itself hold brackets and spaces.
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
    except OSError:  # gone, or another user's
        return False
