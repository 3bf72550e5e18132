"""Topology of a host: links between GPUs, and their NUMA nodes. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from schedulearn.metrics.probe.readings import Inventory, NumaNode

KINDS = ("nvlink", "internal", "single", "multiple", "hostbridge", "node", "system")
"""Values of `GpuLink.kind`, from the closest to the farthest."""
NVLINK, NODE, SYSTEM = KINDS.index("nvlink"), KINDS.index("node"), KINDS.index("system")


@dataclass(frozen=True)
class Topology:
    """Topology of a machine as its probe last reported it."""

    links: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """GPU -> GPU -> index of their link in `KINDS`."""
    nodes: Mapping[int, NumaNode] = field(default_factory=dict)
    """NUMA nodes by number; empty if there is only one."""
    minors: Mapping[str, int] = field(default_factory=dict)
    """GPU -> number of its device file. MIG devices are left out, since they need further files."""

    def device_files(self, gpus: Collection[str]) -> tuple[str, ...]:
        """Return the device files of a container with these GPUs; empty unless each is known."""
        if not gpus or not self.minors.keys() >= set(gpus):
            return ()
        return (*(f"/dev/nvidia{self.minors[gpu]}" for gpu in gpus), "/dev/nvidiactl", "/dev/nvidia-uvm")


class Binding(NamedTuple):
    """Processors and memory nodes of a task, in Linux list format; empty means any."""

    cpus: str = ""
    memory_nodes: str = ""


UNBOUND = Binding()


def binding(
    nodes: Mapping[int, NumaNode], numa: Collection[int | None], cpus: float | None, memory_bytes: int | None
) -> Binding:
    """Return the binding to the NUMA node that all GPUs of a task share. `numa` is the node of each GPU.

    A task that may use more processors than the node has is not bound. Its memory is bound only if its limit fits.
    """
    [only] = set(numa) if len(set(numa)) == 1 else [None]
    node = None if only is None else nodes.get(only)
    if node is None or (cpus is not None and cpus > count_cpus(node.cpus)):
        return UNBOUND
    fits = memory_bytes is not None and memory_bytes <= node.memory_bytes
    return Binding(node.cpus, str(node.id) if fits else "")


def count_cpus(cpus: str) -> int:
    """Return the number of processors in a list such as `0-31,64-95`."""
    bounds = [part.split("-") for part in cpus.split(",") if part]
    return sum(int(each[-1]) - int(each[0]) + 1 for each in bounds)


def to_text(inventory: Inventory) -> str:
    """Return the text for `from_text`, as stored in a host's row."""
    uuids = {gpu.index: gpu.uuid for gpu in inventory.gpus}
    links = [[link.a, link.b, KINDS.index(link.kind)] for link in inventory.links if link.kind in KINDS]
    minors = {gpu.uuid: gpu.minor for gpu in inventory.gpus if gpu.minor is not None}
    if not (links or inventory.nodes or minors):
        return ""
    found = {"gpus": uuids, "links": links, "nodes": inventory.nodes, "minors": minors}
    return json.dumps(found, separators=(",", ":"))


@lru_cache(maxsize=2048)
def from_text(text: str) -> Topology:
    """Return the topology stored in a host's row; an empty text means that nothing is known."""
    if not text:
        return Topology()
    found = json.loads(text)
    links: dict[str, dict[str, int]] = {}
    for a, b, rank in found["links"]:
        one, other = found["gpus"].get(str(a)), found["gpus"].get(str(b))
        if one and other:
            links.setdefault(one, {})[other] = links.setdefault(other, {})[one] = rank
    nodes = {node.id: node for node in map(NumaNode._make, found["nodes"])}
    return Topology(links, nodes, found.get("minors", {}))
