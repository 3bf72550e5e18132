"""Whose connection it is: told by the kernel, also for other accounts of this machine."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from schedulearn.api.access import peers
from schedulearn.api.access.peers import End, Peers, end_of, is_made_by

NOBODY = 65534
Ask = Callable[[tuple[str, int], tuple[str, int]], End | None]
IN_A_CONTAINER = ("unshare", "--pid", "--fork", "--kill-child")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@contextmanager
def connected(address: str, uid: int, under: Sequence[str] = ()) -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    """(client, server) of a connection that a process of `uid` has made. `under`: a command that runs it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listener:
        server = listener.getsockname()[:2]
        program = f"exec 3<>/dev/tcp/{server[0]}/{server[1]}; read"
        connecting = subprocess.Popen([*under, "/bin/bash", "-c", program], user=uid, stdin=subprocess.PIPE, cwd="/")
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
        end = ask(client, server)
        assert end is not None
        assert end.uid == uid
        for found in (Peers(lambda: True), Peers(lambda: False)):
            assert found.is_own_account(client, server) == (uid == os.geteuid())


def test_a_connection_that_is_not_there_is_nobodys() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = listener.getsockname()
        assert end_of(("127.0.0.1", 1), server) is None


@needs_root
def test_another_connection_from_the_same_port_is_not_taken_for_the_first() -> None:
    found = Peers(lambda: True)
    with connected("127.0.0.1", os.geteuid()) as (client, server):
        assert found.is_own_account(client, server)
        another = (client[0], client[1])
        assert another is not client
    assert not found.is_own_account(another, server)


@needs_root
def test_a_process_in_a_container_is_not_of_the_account_that_it_has() -> None:
    own = os.geteuid()
    with connected("127.0.0.1", own, IN_A_CONTAINER) as (client, server):
        end = end_of(client, server)
        assert end is not None
        assert end.uid == own
        assert not is_made_by(own, client, server)


_BESIDE_AN_ENDED_CONTAINER = (
    sys.executable,
    "-c",
    """
import ctypes, os, sys
assert not ctypes.CDLL(None).unshare(0x20000000)  # CLONE_NEWPID
first = os.fork() or os._exit(0)
os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)  # it is a zombie now, as until its engine has heard of its end
os.execvp(sys.argv[1], sys.argv[1:])
""",
)


@needs_root
@pytest.mark.parametrize(
    ("beside", "is_known"),
    [
        ((), True),
        ((*IN_A_CONTAINER, "--net"), True),
        (IN_A_CONTAINER, False),
        (_BESIDE_AN_ENDED_CONTAINER, True),
    ],
    ids=["alone", "a container with a network of its own", "a container in its network", "a container that has ended"],
)
def test_one_that_may_not_be_looked_into_is_known_unless_a_container_is_in_its_network(
    beside: tuple[str, ...], is_known: bool
) -> None:
    """Such as sshd, whose end of a forwarded connection has the account of who is logged in."""
    assert _in_a_network_of_its_own(lambda: _hidden_peer_is_known(beside)) == is_known


def _hidden_peer_is_known(beside: Sequence[str]) -> bool:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = os.fork()
        if not peer:
            _become_nobody()
            with socket.create_connection(listener.getsockname()) as connection:
                connection.recv(1)
            os._exit(0)
        accepted, client = listener.accept()
        with (
            accepted,
            subprocess.Popen(
                [*beside, "/bin/sh", "-c", "echo; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as container,
        ):
            assert container.stdout is not None
            container.stdout.readline()
            _become_nobody()
            found = is_made_by(NOBODY, client, listener.getsockname())
            container.communicate()
            return found


def _in_a_network_of_its_own(look: Callable[[], bool]) -> bool:
    """What `look` finds where nothing else of this machine can be in the way."""
    looking = os.fork()
    if not looking:
        try:
            assert not ctypes.CDLL(None).unshare(0x40000000)  # CLONE_NEWNET
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            os._exit(10 + look())
        finally:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(looking, 0)
    assert os.waitstatus_to_exitcode(status) >= 10
    return os.waitstatus_to_exitcode(status) == 11


def _become_nobody() -> None:
    """From then on a process may not be looked into by others, as long as it runs the same program."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
