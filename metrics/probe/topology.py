"""Topology of a machine's GPUs and their links, by sysfs and NVML.

Standard library only, and Python 3.8: the probe's container runs this file too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from schedulearn.metrics.probe.readings import MAX_NODES, GpuLink, NumaNode

SYSFS = Path("/sys")
"""Containers see the machine's own."""

Ask = Callable[..., Any]
"""Name of a function of NVML, its arguments -> its answer; None if it has none."""

P2P_NVLINK, P2P_OK = 2, 0  # NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK
_MAX_NVLINKS = 18
_ACTIVE, _TO_SWITCH = 1, 2  # NVML_FEATURE_ENABLED, NVML_NVLINK_DEVICE_TYPE_SWITCH
LEVELS = {0: "internal", 10: "single", 20: "multiple", 30: "hostbridge", 40: "node", 50: "system"}
"""NVML_TOPOLOGY_*: what two GPUs share. `nvidia-smi topo -m` writes PIX, PXB, PHB, NODE and SYS for the last five."""
_BUS_ID = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2}\.[0-7])", re.IGNORECASE)


@dataclass(frozen=True)
class GpuPlace:
    """A whole GPU, as NVML names it."""

    index: int
    handle: object
    pci: str


def numa_node(bus_id: str) -> int | None:
    """Return the NUMA node of a PCI device, by sysfs; None: there is one node only, or the firmware does not tell.

    NVML's own `nvmlDeviceGetNumaNodeId` is for GPUs whose memory is a node itself (Grace), and answers nothing on x86.
    """
    found = _BUS_ID.fullmatch(bus_id)
    if found is None:
        return None
    # NVML writes eight digits of the domain, Linux four, or more where it needs them.
    path = f"bus/pci/devices/{int(found[1], 16):04x}:{found[2].lower()}:{found[3].lower()}/numa_node"
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def numa_nodes() -> tuple[NumaNode, ...]:
    """Return the NUMA nodes of this machine that have processors; none where there is only one node."""
    folder = SYSFS / "devices/system/node"
    try:
        numbers = sorted(int(each.name[4:]) for each in folder.glob("node[0-9]*"))
    except (OSError, ValueError):
        return ()
    nodes = []
    for number in numbers[:MAX_NODES]:
        cpus = _read(f"devices/system/node/node{number}/cpulist").strip()
        memory = re.search(r"MemTotal:\s*(\d+) kB", _read(f"devices/system/node/node{number}/meminfo"))
        if cpus:
            nodes.append(NumaNode(number, cpus, int(memory[1]) * 1024 if memory else 0))
    return tuple(nodes) if len(numbers) > 1 else ()


def links(gpus: Sequence[GpuPlace], ask: Ask) -> list[GpuLink]:
    """Return how each two whole GPUs reach each other, as far as NVML tells."""
    peers = {gpu.index: _nvlink_ends(gpu.handle, ask) for gpu in gpus}
    found = []
    for number, first in enumerate(gpus):
        for second in gpus[number + 1 :]:
            kind = "nvlink" if _nvlinked(first, second, peers, ask) else ""
            kind = kind or LEVELS.get(ask("nvmlDeviceGetTopologyCommonAncestor", first.handle, second.handle), "")
            if kind:
                found.append(GpuLink(first.index, second.index, kind))
    return found


def islands(count: int, found: Sequence[GpuLink]) -> Mapping[int, int]:
    """Return index -> the lowest index that it reaches by NVLink, over others too; without those that reach none."""
    island = list(range(count))
    for link in found:
        if link.kind == "nvlink":
            low, high = sorted((island[link.a], island[link.b]))
            island = [low if number == high else number for number in island]
    return {index: number for index, number in enumerate(island) if island.count(number) > 1}


class _Ends(NamedTuple):
    """Remote ends of the NVLinks of a GPU that are up."""

    gpus: frozenset[str]
    """Bus ids."""
    switch: bool


def _nvlink_ends(handle: object, ask: Ask) -> _Ends | None:
    """Return the ends of the links that are up; None: the driver does not tell where single links end."""
    gpus = set()
    switch = down = False
    for link in range(_MAX_NVLINKS):
        state = ask("nvmlDeviceGetNvLinkState", handle, link)
        if state != _ACTIVE:
            down = down or state is not None
        elif ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) == _TO_SWITCH:
            switch = True
        elif (remote := ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)) is not None:
            gpus.add(_text(remote.busId).lower())
    return _Ends(frozenset(gpus), switch) if gpus or switch or down else None


def _nvlinked(first: GpuPlace, second: GpuPlace, ends: Mapping[int, _Ends | None], ask: Ask) -> bool:
    """Return whether a link between two GPUs is up, or one from each to the switches."""
    one, other = ends[first.index], ends[second.index]
    if one is None or other is None:
        return bool(ask("nvmlDeviceGetP2PStatus", first.handle, second.handle, P2P_NVLINK) == P2P_OK)
    return (one.switch and other.switch) or second.pci.lower() in one.gpus or first.pci.lower() in other.gpus


def _read(path: str) -> str:
    try:
        return (SYSFS / path).read_text()
    except OSError:
        return ""


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
