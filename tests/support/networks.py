"""A network of their own for tests with a browser."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from functools import cache

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_SET_FLAGS = 0x8914  # SIOCSIFFLAGS
_UP = 1


@cache
def can_have_its_own() -> bool:
    """Only root can, and not in every container."""
    return subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0


@contextmanager
def own_network() -> Iterator[None]:
    """For this thread and what it starts: loopback alone, where root can.

    Each container of other tests brings a network interface with it, and Chromium cuts off its requests whenever one
    comes or goes beside it (ERR_NETWORK_CHANGED).
    """
    if not can_have_its_own():
        yield
        return
    system = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as before:
        _must(system.unshare(_NEW_NETWORK))
        try:
            with socket.socket() as any_socket:
                ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))
            yield
        finally:
            _must(system.setns(before.fileno(), _NEW_NETWORK))


def _must(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"another network: {os.strerror(ctypes.get_errno())}")
