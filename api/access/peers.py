"""Whose process is at the other end of a connection from this machine. The kernel knows, and can't be lied to."""

from __future__ import annotations

import logging
import os
import socket
import struct
from collections import OrderedDict
from pathlib import Path

log = logging.getLogger(__name__)

Address = tuple[str, int]

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST = 1
_ANY = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")  # of netlink: length, type, flags, sequence, port
_UID_AT = _HEADER.size + 64  # behind `inet_diag_msg`: four bytes, the addresses, three numbers
_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
_REMEMBERED = 4096  # connections


class Peers:
    """Remembers each connection's peer: the server gives all requests of one connection the same tuple as `client`."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Address, int | None]] = OrderedDict()
        self._own = os.geteuid()

    def is_own_account(self, client: Address, server: Address) -> bool:
        """Whether the connection was made by a process of the account that runs this service."""
        key = id(client)  # of an object that we hold on to, so that no other can have it
        known = self._known.get(key)
        if known is None or known[0] is not client:
            known = self._known[key] = (client, uid_of(client, server))
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known[1] == self._own


def uid_of(client: Address, server: Address) -> int | None:
    """The account that holds the other end of the connection from `client` to `server`, both on this machine; None if
    it can't be told: then it is nobody whom we trust."""
    try:
        return _ask_kernel(client, server)
    except (OSError, ValueError, struct.error) as error:
        log.debug("netlink does not tell who connects (%s); looking in /proc", error)
    try:
        return _look_in_proc(client, server)
    except (OSError, ValueError) as error:
        log.warning("nobody can be known by their connection: %s", error)
        return None


def _ask_kernel(client: Address, server: Address) -> int | None:
    """By sock_diag(7): it finds one connection at once, however many there are."""
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
    uid, inode = struct.unpack_from("=II", answer, _UID_AT)
    return int(uid) if inode else None  # without an inode it is closed already, and belongs to nobody


def _look_in_proc(client: Address, server: Address) -> int | None:
    """The same where netlink is not to be had."""
    family = _family(client)
    ends = [_as_in_proc(family, address) for address in (client, server)]
    for line in _TABLES[family].read_text().splitlines()[1:]:
        _, local, remote, _, _, _, _, uid, _, inode, *_ = line.split()
        if [local, remote] == ends:
            return int(uid) if inode != "0" else None
    return None


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def _as_in_proc(family: socket.AddressFamily, address: Address) -> str:
    packed = socket.inet_pton(family, address[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"
