"""Multi-host jobs: order of hosts, rendezvous address, and command of each container. Pure.

The containers share their host's network. The first container serves the rendezvous, at a port that is leased like a
GPU. Each container runs worker_images/gang.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

PORTS = range(29400, 29700)
MEET_S = 90.0
"""Rendezvous timeout of the containers, seconds. After it the attempt is abandoned and a new one starts."""
NO_MEETING = 69
"""Exit code of a container whose rendezvous failed (EX_UNAVAILABLE of sysexits.h)."""
LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"[0-9.]+|.*:.*|.*\..*")


@dataclass(frozen=True)
class GangNetwork:
    """Network settings of a host in a gang."""

    address: str
    """Address at which the other hosts reach it. If empty, it is unknown, and the host can't be the first."""
    interface: str = ""
    """Configured network interface. If empty, the container detects it."""


@dataclass(frozen=True)
class Member:
    """Start parameters of one container of a gang."""

    node: int
    slots: Sequence[int]
    """Number of workers on each host, in order."""
    first: GangNetwork
    port: int
    interface: str


def place_of(address: str, network: str) -> GangNetwork:
    """Return the place of a host by its address and its setting `network`.

    `network` is ADDRESS, INTERFACE or INTERFACE=ADDRESS.
    """
    interface, equals, given = network.partition("=")
    if not equals and _ADDRESS.fullmatch(network):
        interface, given = "", network
    try:
        url = urlsplit(address)
        named = url.hostname or "" if url.scheme in ("ssh", "tcp") else ""
    except ValueError:
        named = ""
    return GangNetwork(given or named, interface)


def in_order(host_ids: Iterable[str], places: Mapping[str, GangNetwork], home: str | None = None) -> list[str]:
    """Return the hosts of a gang in order: reachable ones first, and among them `home`, which has its checkpoints."""
    return sorted(host_ids, key=lambda host_id: (not places[host_id].address, host_id != home, host_id))


def free_port(taken: Collection[int], attempt: int) -> int:
    """Return a free port of the first host. Raises ValueError if all are taken.

    Each attempt gets another port, since an unrelated program may occupy one.
    """
    for step in range(len(PORTS)):
        port = PORTS[(attempt * 7 + step) % len(PORTS)]
        if port not in taken:
            return port
    raise ValueError("all ports for jobs over several hosts are taken")


def member_argv(source: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return the command of a container of a gang; `source` is the text of worker_images/gang.py."""
    return ("python3", "-c", source, *words)


def member_env(launcher: str, member: Member) -> dict[str, str]:
    plan = {
        "launcher": launcher,
        "node": member.node,
        "slots": list(member.slots),
        "address": member.first.address or LOOPBACK,
        "port": member.port,
        "interface": member.interface,
        "timeout_s": MEET_S,
    }
    return {"SCHEDULEARN_GANG": json.dumps(plan)}
