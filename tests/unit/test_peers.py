"""Whose connection it is: told by the kernel, also for other accounts of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from schedulearn.api.access import peers
from schedulearn.api.access.peers import Peers, uid_of

NOBODY = 65534
Ask = Callable[[tuple[str, int], tuple[str, int]], int | None]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@contextmanager
def connected(address: str, uid: int) -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    """(client, server) of a connection that a process of `uid` has made."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listener:
        server = listener.getsockname()[:2]
        program = f"exec 3<>/dev/tcp/{server[0]}/{server[1]}; read"
        connecting = subprocess.Popen(["/bin/bash", "-c", program], user=uid, stdin=subprocess.PIPE, cwd="/")
        try:
            accepted, client = listener.accept()
            with accepted:
                yield client[:2], server
        finally:
            connecting.communicate(timeout=20)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("ask", [peers._ask_kernel, peers._look_in_proc])
@pytest.mark.parametrize("uid", [os.geteuid(), pytest.param(NOBODY, marks=needs_root)])
def test_it_is_the_account_of_the_process_that_connects(address: str, ask: Ask, uid: int) -> None:
    with connected(address, uid) as (client, server):
        assert ask(client, server) == uid
        assert Peers().is_own_account(client, server) == (uid == os.geteuid())


def test_a_connection_that_is_not_there_is_nobodys() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = listener.getsockname()
        assert uid_of(("127.0.0.1", 1), server) is None


@needs_root
def test_another_connection_from_the_same_port_is_not_taken_for_the_first() -> None:
    found = Peers()
    with connected("127.0.0.1", os.geteuid()) as (client, server):
        assert found.is_own_account(client, server)
        another = (client[0], client[1])
        assert another is not client
    assert not found.is_own_account(another, server)
