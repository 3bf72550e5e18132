"""Identity of the process at the other end of a local connection.

The kernel knows it, and can't be lied to. The account is not enough: a container with the network of this machine
reaches its loopback addresses, and a process in it may have any uid. Therefore a process outside of all containers must
hold the connection.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

log = logging.getLogger(__name__)

Address = tuple[str, int]

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST = 1
_ANY = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")  # of netlink: length, type, flags, sequence, port
_END_AT = _HEADER.size + 64  # behind `inet_diag_msg`: four bytes, the addresses, three numbers
_TABLES = {socket.AF_INET: "net/tcp", socket.AF_INET6: "net/tcp6"}  # of a process, below its folder in /proc
_PROC = Path("/proc")
_ALL_PROCESSES = "pid:[4026531836]"  # the kernel's initial PID namespace: every process has a number in it
_NUMBERS, _UIDS = (re.compile(rb"^%s:(.*)$" % name, re.MULTILINE) for name in (b"NSpid", b"Uid"))
_REMEMBERED = 4096  # connections


class End(NamedTuple):
    """One end of a connection."""

    uid: int
    """The account that made it."""
    inode: int
    """Inode of its socket."""


class Peers:
    """Cache of each connection's peer.

    The server gives all requests of one connection the same tuple as `client`."""

    def __init__(self, containers_reach_us: Callable[[], bool]) -> None:
        """`containers_reach_us`: a container may have the network of this machine, now or from now on.

        Otherwise the account is enough, and no process is searched for."""
        self._containers_reach_us = containers_reach_us
        self._known: OrderedDict[int, tuple[Address, bool]] = OrderedDict()
        self._own = os.geteuid()

    def knows(self, client: Address) -> bool:
        """Return whether that connection has been checked."""
        known = self._known.get(id(client))
        return known is not None and known[0] is client

    def is_own_account(self, client: Address, server: Address) -> bool:
        """Return whether a process of this service's account, outside of containers, made the connection.

        The first call for a connection may take milliseconds."""
        key = id(client)  # of an object that is kept, so that no other can have it
        known = self._known.get(key)
        if known is None or known[0] is not client:
            known = self._known[key] = (client, self._is_own(client, server))
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known[1]

    def _is_own(self, client: Address, server: Address) -> bool:
        if self._containers_reach_us():
            return is_made_by(self._own, client, server)
        end = end_of(client, server)
        return end is not None and end.uid == self._own


def is_made_by(uid: int, client: Address, server: Address) -> bool:
    """Return whether a process of that account, outside of containers, is at `client`.

    False if that can't be determined."""
    end = end_of(client, server)
    if end is None or end.uid != uid:
        return False
    try:
        is_held = _is_held_beside_us(end)
        if is_held is None:  # it may be unreadable, such as sshd: then no container may be in reach
            return not _a_container_sees(client, server) and end_of(client, server) == end
    except (OSError, ValueError) as error:
        log.warning("clients can't be identified by their connections: %s", error)
        return False
    return is_held


def end_of(client: Address, server: Address) -> End | None:
    """Return the end at `client` of its connection to `server`, both on this machine.

    None if it can't be determined: then the peer is not trusted."""
    try:
        return _ask_kernel(client, server)
    except (OSError, ValueError, struct.error) as error:
        log.debug("netlink does not tell who connects (%s); looking in /proc", error)
    try:
        return _look_in_proc(client, server)
    except (OSError, ValueError) as error:
        log.warning("clients can't be identified by their connections: %s", error)
        return None


def _ask_kernel(client: Address, server: Address) -> End | None:
    """Find the end by sock_diag(7): it finds one connection at once, among any number."""
    family = _family(client)
    wanted = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, _ANY)
    wanted += struct.pack(">HH", client[1], server[1])
    wanted += b"".join(socket.inet_pton(family, address).ljust(16, b"\0") for address in (client[0], server[0]))
    wanted += struct.pack("=III", 0, _ANY, _ANY)  # any interface, no cookie
    header = _HEADER.pack(_HEADER.size + len(wanted), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0)
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as netlink:
        netlink.settimeout(1.0)
        netlink.send(header + wanted)
        answer = netlink.recv(8192)
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        (errno,) = struct.unpack_from("=i", answer, _HEADER.size)
        raise OSError(-errno, os.strerror(-errno))
    end = End(*struct.unpack_from("=II", answer, _END_AT))
    return end if end.inode else None  # without an inode it is closed already, and belongs to nobody


def _look_in_proc(client: Address, server: Address, process: str = "self") -> End | None:
    """Find the end without netlink, as `process` sees it in its network."""
    family = _family(client)
    ends = [_as_in_proc(family, address) for address in (client, server)]
    for line in (_PROC / process / _TABLES[family]).read_text().splitlines()[1:]:
        _, local, remote, _, _, _, _, uid, _, inode, *_ = line.split()
        if [local, remote] == ends:
            return End(int(uid), int(inode)) if inode != "0" else None
    return None


def _is_held_beside_us(end: End) -> bool | None:
    """Return whether a process outside of containers holds that end.

    None: no such process is known, but some of the same account can't be read."""
    link, hidden = f"socket:[{end.inode}]", False
    for number in _processes():
        try:
            with _opened(number, _PROC) as folder:  # a handle: another process may get the number meanwhile
                status = _read("status", folder)
                if len(_numbers(status)) != 1 or end.uid not in _uids(status):
                    continue
                try:
                    with _opened("fd", folder) as files:
                        if any(_leads_to(link, name, files) for name in os.listdir(files)):
                            return True
                except PermissionError:
                    hidden = True
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    return None if hidden else False


def _a_container_sees(client: Address, server: Address) -> bool:
    """Return whether a container is in the network of that connection, or may be.

    A container's first process has the number 1 in it, and lives as long as any other process of the container."""
    processes = _processes()
    if os.readlink(_PROC / "self/ns/pid") != _ALL_PROCESSES or "1" not in processes:
        return True
    for number in processes:
        try:
            with _opened(number, _PROC) as folder:
                numbers = _numbers(_read("status", folder))
            if len(numbers) > 1 and numbers[-1] == b"1" and _look_in_proc(client, server, number) is not None:
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended, and with it all of its container
    return False


def _leads_to(link: str, name: str, folder: int) -> bool:
    try:
        return os.readlink(name, dir_fd=folder) == link
    except FileNotFoundError:
        return False  # it was closed meanwhile


def _processes() -> list[str]:
    """Return all process numbers, newest first: often one of the newest connects."""
    return sorted(filter(str.isdecimal, os.listdir(_PROC)), key=int, reverse=True)


def _numbers(status: bytes) -> list[bytes]:
    """Return a process's number in our PID namespace, and in each one below ours that it is in."""
    return _field(_NUMBERS, status)


def _uids(status: bytes) -> list[int]:
    return [int(each) for each in _field(_UIDS, status)]


def _field(pattern: re.Pattern[bytes], status: bytes) -> list[bytes]:
    found = pattern.search(status)
    if found is None:
        raise ValueError(f"the kernel does not tell {pattern.pattern!r} of a process")
    return found[1].split()


def _read(name: str, folder: int) -> bytes:
    handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    with open(handle, "rb", buffering=0) as file:
        return file.read()


@contextmanager
def _opened(name: str, folder: Path | int) -> Iterator[int]:
    """Open a folder, for as long as it is read."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    handle = os.open(folder / name, flags) if isinstance(folder, Path) else os.open(name, flags, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def _as_in_proc(family: socket.AddressFamily, address: Address) -> str:
    packed = socket.inet_pton(family, address[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"
