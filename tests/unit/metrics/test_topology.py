"""Where GPUs are: NUMA nodes by sysfs, links by NVML's own answers, over recorded forms of both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from matrices import each

from schedulearn.metrics.probe import topology
from schedulearn.metrics.probe.readings import GpuLink, NumaNode
from schedulearn.metrics.probe.topology import GpuPlace

LEVEL_OF = {name: code for code, name in topology.LEVELS.items()}


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(topology, "SYSFS", tmp_path)
    return tmp_path


def write(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


def test_a_gpus_numa_node_is_the_one_of_its_pci_device(sysfs: Path) -> None:
    write(sysfs, "bus/pci/devices/0000:3b:00.0/numa_node", "1\n")
    write(sysfs, "bus/pci/devices/10000:01:00.0/numa_node", "0\n")
    write(sysfs, "bus/pci/devices/0000:01:00.0/numa_node", "-1\n")
    told = ["00000000:3B:00.0", "0000:3b:00.0", "00010000:01:00.0"]
    assert [topology.numa_node(each) for each in told] == [1, 1, 0]
    untold = ["00000000:01:00.0", "00000000:02:00.0", "", "x/../y"]
    assert [topology.numa_node(each) for each in untold] == [None] * 4


def test_nodes_are_told_with_their_processors_and_memory_unless_there_is_one(sysfs: Path) -> None:
    assert topology.numa_nodes() == ()
    node = "devices/system/node/node"
    write(sysfs, f"{node}0/cpulist", "0-31,64-95\n")
    write(sysfs, f"{node}0/meminfo", "Node 0 MemTotal:       263953400 kB\nNode 0 MemFree: 5 kB\n")
    assert topology.numa_nodes() == ()
    write(sysfs, f"{node}1/cpulist", "32-63\n")  # all of its slots for memory are empty
    write(sysfs, f"{node}2/cpulist", "\n")  # memory alone
    write(sysfs, f"{node}2/meminfo", "Node 2 MemTotal: 1024 kB\n")
    assert topology.numa_nodes() == (NumaNode(0, "0-31,64-95", 263953400 * 1024), NumaNode(1, "32-63"))


class Driver:
    """NVML of one machine. `ends`: index -> where each of its links that are up ends, an index or `switch`."""

    def __init__(self, levels: Mapping[tuple[int, int], str], ends: Mapping[int, list[Any]], p2p: bool = False) -> None:
        self.levels, self.ends, self.p2p = levels, ends, p2p

    def __call__(self, name: str, handle: Any, *arguments: Any) -> Any:
        [first, *_] = arguments
        links = self.ends.get(handle, [])
        match name:
            case "nvmlDeviceGetTopologyCommonAncestor":
                return LEVEL_OF[self.levels.get((handle, first), "system")]
            case "nvmlDeviceGetP2PStatus":
                return 0 if self.p2p else 5
            case _ if first >= len(links):
                return None
            case "nvmlDeviceGetNvLinkState":
                return int(links[first] is not None)
            case "nvmlDeviceGetNvLinkRemoteDeviceType":
                return 2 if links[first] == "switch" else 0
            case "nvmlDeviceGetNvLinkRemotePciInfo" if isinstance(links[first], int):
                return SimpleNamespace(busId=bus(links[first]).encode())
        return None


def bus(index: int) -> str:
    return f"00000000:{index + 10:02X}:00.0"


UP = "told nothing of its end"
MACHINES = {
    "switches join all": (3, Driver({}, dict.fromkeys(range(3), ["switch"] * 12)), "nvlink nvlink nvlink"),
    "a bridge joins two": (3, Driver({(0, 1): "node", (0, 2): "single"}, {0: [1], 1: [0]}), "nvlink single system"),
    "only one side tells": (2, Driver({}, {0: [None], 1: [None, 0]}), "nvlink"),
    "a link is down": (2, Driver({(0, 1): "multiple"}, {0: [None], 1: [None]}), "multiple"),
    "no links": (2, Driver({(0, 1): "hostbridge"}, {}), "hostbridge"),
    "a guest that sees no ends": (2, Driver({}, {0: [UP], 1: [UP]}, p2p=True), "nvlink"),
    "a board of two": (2, Driver({(0, 1): "internal"}, {}), "internal"),
}


@each(MACHINES, "machine")
def test_links_are_what_the_driver_says_of_them(machine: str) -> None:
    count, driver, wanted = MACHINES[machine]
    found = topology.links([GpuPlace(index, index, bus(index)) for index in range(count)], driver)
    assert [link.kind for link in found] == wanted.split()


def test_an_island_goes_over_others() -> None:
    found = [GpuLink(0, 1, "nvlink"), GpuLink(1, 3, "nvlink"), GpuLink(0, 2, "single")]
    assert topology.islands(4, found) == {0: 0, 1: 0, 3: 0}
