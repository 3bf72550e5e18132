"""The network of tests with a browser."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from networks import can_have_its_own, own_network


def test_only_loopback_is_there_and_afterwards_all_is_as_before() -> None:
    if not can_have_its_own():
        pytest.skip("only root can have another network")
    which = Path("/proc/thread-self/ns/net").readlink
    before = which()
    with own_network():
        assert which() != before
        assert socket.if_nameindex() == [(1, "lo")]
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname()).close()
    assert which() == before
