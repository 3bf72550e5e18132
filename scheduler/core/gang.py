"""Jobs over several hosts: who is first, where they meet, and what each of their containers runs. Pure.

The containers share their host's network. The first of them serves the meeting point, at a port that is leased like a
GPU; worker_images/gang.py is what runs in them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

PORTS = range(29400, 29700)
MEET_S = 90.0
"""So long the containers wait for each other; then the attempt is given up and made anew."""
NO_MEETING = 69
"""Exit code of a container whose gang did not come together (EX_UNAVAILABLE of sysexits.h)."""
LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"[0-9.]+|.*:.*|.*\..*")


@dataclass(frozen=True)
class Place:
    """How a host takes part in a gang."""

    address: str
    """By which the others reach it; empty: not known, so that it can't be the first."""
    interface: str = ""
    """Configured; empty: found out there."""


@dataclass(frozen=True)
class Member:
    """One container of a gang, at its start."""

    node: int
    slots: Sequence[int]
    """Workers of each host, in order."""
    first: Place
    port: int
    interface: str


def place_of(address: str, network: str) -> Place:
    """From a host's address and its setting `network`: ADDRESS, INTERFACE or INTERFACE=ADDRESS."""
    interface, equals, given = network.partition("=")
    if not equals and _ADDRESS.fullmatch(network):
        interface, given = "", network
    try:
        url = urlsplit(address)
        named = url.hostname or "" if url.scheme in ("ssh", "tcp") else ""
    except ValueError:
        named = ""
    return Place(given or named, interface)


def in_order(host_ids: Iterable[str], places: Mapping[str, Place], home: str | None = None) -> list[str]:
    """The hosts of a gang, first one first: one that the others can reach, and of those `home`, where its checkpoints
    are."""
    return sorted(host_ids, key=lambda host_id: (not places[host_id].address, host_id != home, host_id))


def free_port(taken: Collection[int], attempt: int) -> int:
    """A port of the first host. Another one at each attempt: a program of somebody else's may sit on one.
    Raises ValueError if all are taken."""
    for step in range(len(PORTS)):
        port = PORTS[(attempt * 7 + step) % len(PORTS)]
        if port not in taken:
            return port
    raise ValueError("all ports for jobs over several hosts are taken")


def member_argv(source: str, words: Sequence[str]) -> tuple[str, ...]:
    """What a container of a gang runs; `source` is the text of worker_images/gang.py."""
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
