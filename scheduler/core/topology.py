"""How the GPUs of a host reach each other, and where they are among its processors and memory. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from schedulearn.metrics.probe.readings import Inventory, NumaNode

KINDS = ("nvlink", "internal", "single", "multiple", "hostbridge", "node", "system")
"""From the closest to the farthest, as `GpuLink.kind`."""
NVLINK, NODE, SYSTEM = KINDS.index("nvlink"), KINDS.index("node"), KINDS.index("system")


@dataclass(frozen=True)
class Topology:
    """What a host's probe told of its machine last."""

    links: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """GPU -> GPU -> place of their link in `KINDS`."""
    nodes: Mapping[int, NumaNode] = field(default_factory=dict)
    """NUMA nodes by number; none where there is only one."""


def to_text(inventory: Inventory) -> str:
    """Return what `from_text` reads, as a host's row keeps it."""
    uuids = {gpu.index: gpu.uuid for gpu in inventory.gpus}
    links = [[link.a, link.b, KINDS.index(link.kind)] for link in inventory.links if link.kind in KINDS]
    if not links and not inventory.nodes:
        return ""
    return json.dumps({"gpus": uuids, "links": links, "nodes": inventory.nodes}, separators=(",", ":"))


@lru_cache(maxsize=2048)
def from_text(text: str) -> Topology:
    """Return the topology of a host by its row; empty: nothing is known."""
    if not text:
        return Topology()
    found = json.loads(text)
    links: dict[str, dict[str, int]] = {}
    for a, b, rank in found["links"]:
        one, other = found["gpus"].get(str(a)), found["gpus"].get(str(b))
        if one and other:
            links.setdefault(one, {})[other] = links.setdefault(other, {})[one] = rank
    return Topology(links, {node.id: node for node in map(NumaNode._make, found["nodes"])})
