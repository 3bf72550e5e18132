"""Which GPUs a job gets on five kinds of machines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from matrices import each

from schedulearn.metrics.probe.readings import GpuInfo, GpuLink, Inventory, NumaNode
from schedulearn.scheduler.core import topology
from schedulearn.scheduler.core.planning.placement import _FARNESS, GpuState, _distance, closest, place

SOCKETS_OF_4 = (0, 0, 0, 0, 1, 1, 1, 1)
PAIRS = ({0, 1}, {2, 3}, {4, 5}, {6, 7})


def machine(numa: Sequence[int | None], levels: Mapping[str, Sequence[set[int]]], mig: bool = False) -> list[GpuState]:
    """GPUs as they come out of a host's row. `levels`: kind of link -> groups within which it is the closest one, the
    closest kind first; all others are `system`."""
    links = []
    for a, b in combinations(range(len(numa)), 2):
        kinds = [kind for kind, groups in levels.items() if any({a, b} <= group for group in groups)]
        links.append(GpuLink(a, b, kinds[0] if kinds else "system"))
    gpus = tuple(GpuInfo(f"GPU-{index}", index, "", 1, numa=node) for index, node in enumerate(numa))
    found = topology.from_text(topology.to_text(Inventory(gpus=gpus, links=() if mig else tuple(links))))
    return [GpuState(g.uuid, "h", g.index, numa=g.numa, links=found.links.get(g.uuid, {})) for g in gpus]


MACHINES = {
    # `nvidia-smi topo -m`: NV12 between all, two sockets
    "8 x A100 HGX": machine(SOCKETS_OF_4, {"nvlink": [set(range(8))]}),
    # PIX below each of two switches a socket, NODE beyond them, SYS across
    "2 x 4 PCIe": machine(SOCKETS_OF_4, {"single": PAIRS, "node": [{0, 1, 2, 3}, {4, 5, 6, 7}]}),
    # A6000 with bridges between 0-1 and 2-3, and none between the others
    "NVLink pairs": machine(SOCKETS_OF_4, {"nvlink": PAIRS[:2], "node": [{0, 1, 2, 3}, {4, 5, 6, 7}]}),
    # one EPYC: each card at a host bridge of its own, no NUMA node told
    "4090 box": machine((None,) * 8, {"hostbridge": [set(range(8))]}),
    # 14 MIG devices of two A100, which reach each other by nothing
    "MIG": machine((0,) * 7 + (1,) * 7, {}, mig=True),
}
GIVEN = [
    # machine, busy GPUs, GPUs wanted, which it gets
    ("8 x A100 HGX", (), 1, (0,)),
    ("8 x A100 HGX", (0, 1, 2), 2, (4, 5)),
    ("8 x A100 HGX", (0, 1, 2), 1, (3,)),
    ("8 x A100 HGX", (0,), 4, (4, 5, 6, 7)),
    ("8 x A100 HGX", (1, 2), 3, (4, 5, 6)),
    ("8 x A100 HGX", (3,), 3, (0, 1, 2)),
    ("8 x A100 HGX", (), 5, (0, 1, 2, 3, 4)),
    ("2 x 4 PCIe", (0, 1, 2), 2, (4, 5)),
    ("2 x 4 PCIe", (0, 1, 2), 1, (3,)),
    ("2 x 4 PCIe", (0, 2), 2, (4, 5)),
    ("2 x 4 PCIe", (0, 2, 4, 6), 2, (1, 3)),
    ("2 x 4 PCIe", (4,), 1, (5,)),
    ("2 x 4 PCIe", (4,), 2, (6, 7)),
    ("2 x 4 PCIe", (4, 5), 4, (0, 1, 2, 3)),
    ("NVLink pairs", (), 1, (4,)),
    ("NVLink pairs", (4, 5, 6, 7), 2, (0, 1)),
    ("NVLink pairs", (), 2, (0, 1)),
    ("NVLink pairs", (0,), 2, (2, 3)),
    ("NVLink pairs", (0,), 1, (1,)),
    ("NVLink pairs", (0, 2), 2, (1, 3)),
    ("NVLink pairs", (0, 3, 4, 5, 6), 2, (1, 2)),
    ("NVLink pairs", (), 4, (0, 1, 2, 3)),
    ("4090 box", (), 1, (0,)),
    ("4090 box", (0, 1, 2), 2, (3, 4)),
    ("4090 box", (), 8, tuple(range(8))),
    ("MIG", (0, 1, 2), 1, (3,)),
    ("MIG", (), 1, (0,)),
]


@each(GIVEN, "name", "busy", "wanted", "gets")
def test_a_job_gets_gpus_that_are_close_and_leaves_others_close(
    name: str, busy: tuple[int, ...], wanted: int, gets: tuple[int, ...]
) -> None:
    gpus = [gpu for gpu in MACHINES[name] if gpu.index not in busy]
    [claims] = place([("j", {"h": wanted})], gpus)["j"].values()
    assert [claim.gpu_uuid for claim in claims] == [f"GPU-{index}" for index in gets]


def test_the_page_of_faults_shows_rows_of_this_table() -> None:
    page = (Path(__file__).parents[3] / "docs/faults.md").read_text().partition("## Topologies")[2]
    rows = re.findall(r"^\| ([^|:,]+)[^|]* \| ([\d, ]+|none) \| (\d) \| ([\d, ]+) \|", page, re.MULTILINE)
    assert {name for name, *_ in rows} == set(MACHINES)
    for name, busy, wanted, gets in rows:
        numbers = [tuple(map(int, re.findall(r"\d+", words))) for words in (busy, gets)]
        assert (name, numbers[0], int(wanted), numbers[1]) in GIVEN, name


@given(st.sampled_from(sorted(MACHINES)), st.sets(st.integers(0, 7), min_size=1), st.data())
def test_no_other_choice_is_closer(name: str, free: set[int], data: st.DataObject) -> None:
    gpus = [gpu for gpu in MACHINES[name] if gpu.index in free]
    count = data.draw(st.integers(1, len(gpus)))

    def apart(chosen: Sequence[GpuState]) -> int:
        return sum(_FARNESS[_distance(a, b)] for a, b in combinations(chosen, 2))

    assert apart(closest(gpus, count)) == min(apart(each) for each in combinations(gpus, count))


def test_jobs_that_share_gpus_stay_close_to_what_they_have() -> None:
    """GPUs 0 and 4 are free, the others hold one job each: the third is close to one of the two."""
    gpus = [
        GpuState(
            gpu.uuid, "h", gpu.index, frozenset(() if gpu.index in (4, 6) else {0}), numa=gpu.numa, links=gpu.links
        )
        for gpu in MACHINES["2 x 4 PCIe"]
    ]
    [claims] = place([("j", {"h": 4})], gpus, jobs_per_gpu=2)["j"].values()
    assert [claim.gpu_uuid for claim in claims] == ["GPU-4", "GPU-5", "GPU-6", "GPU-7"]


def test_a_row_tells_what_the_probe_told_and_nothing_where_it_told_nothing() -> None:
    assert topology.to_text(Inventory(gpus=(GpuInfo("GPU-a", 0, "", 1),))) == ""
    assert topology.from_text("") == topology.Topology()
    found = topology.from_text(
        topology.to_text(
            Inventory(
                gpus=(GpuInfo("GPU-a", 0, "", 1), GpuInfo("GPU-b", 3, "", 1)),
                links=(GpuLink(0, 3, "multiple"), GpuLink(0, 9, "node"), GpuLink(0, 3, "by a newer driver")),
                nodes=(NumaNode(1, "0-3", 5),),
            )
        )
    )
    assert found.links == {"GPU-a": {"GPU-b": 3}, "GPU-b": {"GPU-a": 3}}
    assert found.nodes == {1: NumaNode(1, "0-3", 5)}


NODES = {0: NumaNode(0, "0-31,64-95", 256 << 30), 1: NumaNode(1, "32-63,96-127", 256 << 30), 2: NumaNode(2, "128-159")}
BOUND: list[tuple[list[int | None], float | None, int | None, tuple[str, str]]] = [
    # node of each GPU, processors that it may use, its limit of memory, what it is bound to
    ([1, 1], None, 100 << 30, ("32-63,96-127", "1")),
    ([1, 1], 64, 256 << 30, ("32-63,96-127", "1")),
    ([1, 1], 65, 1 << 30, ("", "")),
    ([0], None, 300 << 30, ("0-31,64-95", "")),
    ([0], None, None, ("0-31,64-95", "")),
    ([2], None, 1 << 30, ("128-159", "")),
    ([0, 1], None, 1 << 30, ("", "")),
    ([0, None], None, 1 << 30, ("", "")),
    ([None], None, 1 << 30, ("", "")),
    ([7], None, 1 << 30, ("", "")),
    ([], None, 1 << 30, ("", "")),
]


@each(BOUND, "numa", "cpus", "memory", "bound")
def test_a_task_is_bound_to_the_one_node_of_its_gpus_if_it_fits_there(
    numa: list[int | None], cpus: float | None, memory: int | None, bound: tuple[str, str]
) -> None:
    assert topology.binding(NODES, numa, cpus, memory) == bound


def test_a_container_keeps_the_files_of_its_own_gpus_where_all_are_known() -> None:
    """Numbers of device files are not indices; MIG devices have others."""
    told = Inventory(gpus=(GpuInfo("GPU-a", 0, "", 1, minor=3), GpuInfo("MIG-b", 1, "", 1)))
    found = topology.from_text(topology.to_text(told))
    assert found.device_files(["GPU-a"]) == ("/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm")
    assert found.device_files(["GPU-a", "MIG-b"]) == found.device_files(["MIG-b"]) == found.device_files([]) == ()


def test_processors_are_counted() -> None:
    assert [topology.count_cpus(each) for each in ("0-31,64-95", "5", "", "0,2,4-5")] == [64, 1, 0, 4]
