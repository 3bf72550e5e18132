"""NVML through nvidia-ml-py, against a small C stand-in for the driver's library, and against none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from gpu_probes.nvml_library import build_library

from schedulearn.metrics.probe import nvml
from schedulearn.metrics.probe.readings import GpuHealth, GpuProcess, GpuReading, Inventory, Sample, from_line

GPU = "GPU-00000000-0000-0000-0000-00000000000"
ROWS = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from schedulearn.metrics.probe import nvml
from schedulearn.scheduler.hosts.embedded import Before, embedded_host
from schedulearn.scheduler.settings import ClusterSettings
folder, kernel_module, known = sys.argv[1:]
nvml.KERNEL_MODULE = kernel_module
for count in (None, 3):
    settings = ClusterSettings(runtime="process", simulate_gpus=count)
    host = embedded_host(Path(folder), "cluster", settings, Before("process", known == "yes"))
    shown = [asdict(gpu) for gpu in host.gpus]
    print(json.dumps({"gpus": shown, "watched": host.probe is not None, "unknown": host.unknown}))
"""
PROBE = """
import sys
from pathlib import Path
from schedulearn.metrics.probe import topology
from schedulearn.metrics.probe.__main__ import main
topology.SYSFS = Path(sys.argv[1])
sys.exit(main(["child", "-", "1"]))
"""
STEPS = """
import json, os, sys
from schedulearn.metrics.probe.nvml import NvmlReader
reader = NvmlReader()
for step in sys.argv[1:]:
    with open(os.environ["FAKE_NVML_STATE"], "w") as file:
        file.write(step)
    found = reader.inventory()
    print(json.dumps([[f"{gpu.index} {gpu.uuid[:3]}{gpu.uuid[-1]}" for gpu in found.gpus], found.problem]))
"""
HEALTHS = """
import json, os, sys
from schedulearn.metrics.probe import nvml
nvml.HEALTH_S = 0.0
reader = nvml.NvmlReader()
reader.inventory()
for step in sys.argv[1:]:
    with open(os.environ["FAKE_NVML_STATE"], "w") as file:
        file.write(step)
    print(json.dumps(reader.sample().gpus[0].health))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


class Probe:
    """The probe's child, which asks NVML, over the stand-in, which does what `state` says."""

    def __init__(self, library: Path | None, folder: Path, **settings: int) -> None:
        self.state = folder / "state"
        env = {**os.environ, "FAKE_NVML_STATE": str(self.state), "SCHEDULEARN_PROBE_VERSION": "v1"}
        env |= {f"FAKE_NVML_{key.upper()}": str(value) for key, value in settings.items()}
        if library is not None:
            env["LD_LIBRARY_PATH"] = str(library)
        command = [sys.executable, "-c", PROBE, str(folder / "sys")]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def read(self) -> Inventory | Sample:
        assert self.process.stdout is not None
        while (line := self.process.stdout.readline()).startswith("?"):
            pass
        return from_line(line)

    def inventory(self) -> Inventory:
        while True:
            if isinstance(found := self.read(), Inventory):
                return found

    def sample(self) -> Sample:
        while True:
            if isinstance(found := self.read(), Sample):
                return found


def embedded(folder: Path, library: Path | None, kernel_module: str = "", known: bool = False, state: str = "") -> Any:
    """What the service takes its own machine for: left to itself, and told to simulate three GPUs."""
    (folder / "state").write_text(state)
    env = {**os.environ, "FAKE_NVML_STATE": str(folder / "state")}
    env |= {"LD_LIBRARY_PATH": str(library)} if library else {}
    words = [sys.executable, "-c", ROWS, str(folder / "data"), kernel_module, "yes" if known else "no"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def inventories(library: Path, folder: Path, *states: str, **settings: int) -> list[tuple[list[str], str]]:
    """What one reader tells, one time after another, while the driver does what `states` say."""
    env = {**os.environ, "FAKE_NVML_STATE": str(folder / "state"), "LD_LIBRARY_PATH": str(library)}
    env |= {f"FAKE_NVML_{key.upper()}": str(value) for key, value in settings.items()}
    done = subprocess.run([sys.executable, "-c", STEPS, *states], env=env, capture_output=True, text=True, check=True)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def healths(library: Path, folder: Path, card: str, states: list[str]) -> list[GpuHealth]:
    env = {**os.environ, "FAKE_NVML_STATE": str(folder / "state"), "LD_LIBRARY_PATH": str(library)}
    words = [sys.executable, "-c", HEALTHS, *states]
    done = subprocess.run(words, env={**env, "FAKE_NVML_CARD": card}, capture_output=True, text=True, check=True)
    return [GpuHealth(*json.loads(line)) for line in done.stdout.splitlines()]


def test_every_value_of_eight_gpus_is_told(library: Path, tmp_path: Path) -> None:
    device = tmp_path / "sys/bus/pci/devices/0000:06:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    with Probe(library, tmp_path, gpus=8) as probe:
        probe.state.write_text(f"process 2 {os.getpid()} 1000\nprocess 2 4194303 2000\necc 3 5\n")
        found, sample = probe.inventory(), probe.sample()
    assert (found.version, found.driver, found.problem) == ("v1", "999.1", "")
    assert [gpu.uuid for gpu in found.gpus] == [f"{GPU}{index}" for index in range(8)]
    assert asdict(found.gpus[5]) == {
        "uuid": f"{GPU}5", "index": 5, "type": "Stand-in GPU", "memory_bytes": 16 << 30, "parent": "", "island": 4,
        "numa": 1, "pci": "00000000:06:00.0", "pcie": "4x16", "compute": "9.0",
        "minor": 5,
    }  # fmt: skip
    kinds = {(link.a, link.b): link.kind for link in found.links}
    assert len(kinds) == 28
    assert (kinds[0, 1], kinds[0, 2], kinds[0, 4]) == ("nvlink", "hostbridge", "system")
    assert {gpu.numa for gpu in found.gpus if gpu.index != 5} == {None}, "NVML itself does not know on x86"
    assert sample.gpus[0] == GpuReading(
        f"{GPU}0", 10.0, float(1 << 30), 40.0, 100.5, 7000.5, 1410.0, 1593.0, 0, (),
        ("power_cap", "hw_thermal"), (), power_limit_w=400.0, slowdown_temperature=91.0,
        health=GpuHealth(
            "none", nvlinks=2, pcie_generation=1, pcie_width=16, max_pcie_generation=4, max_pcie_width=16,
            compute_mode="default", default_limit_w=400.0,
        ),
    )  # fmt: skip
    assert sample.gpus[3].ecc_errors == 5
    ours, gone = sample.gpus[2].processes or ()
    assert (ours.pid, ours.memory_bytes, ours.uid) == (os.getpid(), 1000, os.getuid())
    assert ours.name
    assert gone == GpuProcess(4194303, memory_bytes=2000)


@pytest.mark.slow
def test_a_gpu_that_vanishes_is_told_as_lost_and_the_others_go_on(library: Path, tmp_path: Path) -> None:
    with Probe(library, tmp_path, gpus=3) as probe:
        assert not any(gpu.lost for gpu in probe.sample().gpus)
        probe.state.write_text("xid 1 79\nlost 1\n")
        sample = probe.sample()
        while not sample.gpus[1].lost:
            sample = probe.sample()
        assert [gpu.lost for gpu in sample.gpus] == [False, True, False]
        assert sample.gpus[1].xid == 79
        assert sample.gpus[2].utilization == 30.0
        assert [gpu.uuid for gpu in probe.inventory().gpus] == [f"{GPU}0", f"{GPU}2"]
        assert {gpu.uuid: gpu.lost for gpu in probe.sample().gpus} == {
            f"{GPU}0": False,
            f"{GPU}1": True,
            f"{GPU}2": False,
        }


def test_xid_errors_are_told_with_their_time_and_the_last_one_stays(library: Path, tmp_path: Path) -> None:
    with Probe(library, tmp_path) as probe:
        assert probe.sample().gpus[1].xid is None
        probe.state.write_text("xid 1 31\nxid 1 48\n")
        seen = probe.sample()
        while seen.gpus[1].xid is None:
            seen = probe.sample()
        assert (seen.gpus[0].xid, seen.gpus[1].xid) == (None, 48)
        assert [(xid.code, xid.times) for xid in seen.gpus[1].xids] == [(31, 1), (48, 1)]
        assert seen.gpus[1].xids[1].at == pytest.approx(seen.at, abs=2)
        assert probe.sample().gpus[1].xids == seen.gpus[1].xids


def test_a_burst_of_xids_is_told_whole_each_code_once_and_by_a_lost_gpu_too(library: Path, tmp_path: Path) -> None:
    with Probe(library, tmp_path, gpus=3) as probe:
        probe.sample()
        burst = ["xid 0 79", *["xid 0 45"] * 150, "xid 1 31", "xid 0 79", "lost 0"]
        probe.state.write_text("\n".join(burst))
        seen = probe.sample()
        while not seen.gpus[1].xids:
            seen = probe.sample()
        assert [(xid.code, xid.times) for xid in seen.gpus[0].xids] == [(45, 150), (79, 2)]
        assert seen.gpus[0].lost
        # NVML's answer is an error from now on: other GPUs must not lose their Xids by that.
        probe.inventory()
        probe.state.write_text("\n".join([*burst, "xid 2 48"]))
        while (third := next(gpu for gpu in seen.gpus if gpu.uuid == f"{GPU}2")).xid is None:
            seen = probe.sample()
        assert third.xid == 48


HEALTH = [
    ("recovery 0 0", {}),
    ("recovery 0 1", {"recovery": "GPU reset"}),
    ("recovery 0 2", {"recovery": "reboot of the host"}),
    ("recovery 0 77", {"recovery": "recovery action 77"}),
    ("remap 0 1 0", {"remap_pending": True}),
    ("remap 0 0 1", {"remap_failed": True}),
    ("pcie 0 4 8", {"pcie_generation": 4, "pcie_width": 8}),
    ("mode 0 2", {"compute_mode": "prohibited"}),
    ("mode 0 3", {"compute_mode": "exclusive"}),
    ("fabric 0 1 0", {"fabric": "not started"}),
    ("fabric 0 2 0", {"fabric": "in progress"}),
    ("fabric 0 3 0", {"fabric": "completed"}),
    ("fabric 0 3 999", {"fabric": "error 999"}),
    ("fabric 0 3 0\ndegraded 0", {"fabric": "completed", "fabric_degraded": True}),
    ("nvlink_down 0", {"nvlinks": 0}),
]


def test_what_nvml_says_of_a_gpus_health_is_told(library: Path, tmp_path: Path) -> None:
    """By one reader that looks each time; with `old`, a card that retires pages and whose driver knows no recovery."""
    usual = GpuHealth(
        "none", nvlinks=2, pcie_generation=1, pcie_width=16, max_pcie_generation=4, max_pcie_width=16,
        compute_mode="default", default_limit_w=400.0,
    )  # fmt: skip
    found = healths(library, tmp_path, "datacenter", [state for state, _ in HEALTH])
    assert {state: health for (state, _), health in zip(HEALTH, found, strict=True)} == {
        state: usual._replace(**fields) for state, fields in HEALTH
    }
    old, retired = healths(library, tmp_path, "old", ["remap 0 1 1", "retired 0 1"])
    assert old == usual._replace(recovery="")
    assert retired == old._replace(retired_pending=True)
    [geforce] = healths(library, tmp_path, "geforce", ["retired 0 1\nremap 0 1 1\nfabric 0 1 0\nrecovery 0 1"])
    assert geforce == usual._replace(recovery="", nvlinks=None)


def test_mig_devices_are_gpus_of_a_type_of_their_own_in_place_of_the_gpu(library: Path, tmp_path: Path) -> None:
    with Probe(library, tmp_path, gpus=2, mig=0) as probe:
        found, sample = probe.inventory(), probe.sample()
    assert [(gpu.uuid[:12], gpu.index, gpu.type, gpu.memory_bytes >> 30, gpu.parent) for gpu in found.gpus] == [
        ("MIG-00000001", 0, "Stand-in GPU MIG 1g.5gb", 4, f"{GPU}0"),
        ("MIG-00000002", 1, "Stand-in GPU MIG 1g.5gb", 4, f"{GPU}0"),
        ("GPU-00000000", 2, "Stand-in GPU", 16, ""),
    ]
    first, second, whole = sample.gpus
    assert (first.memory_bytes, second.memory_bytes) == (1 << 30, 2 << 30)
    assert (first.utilization, first.power_w, first.energy_j, first.temperature) == (None, None, None, 40.0)
    assert (first.power_limit_w, whole.power_limit_w) == (None, 400.0)
    assert whole.utilization == 20.0


def test_a_driver_that_lacks_most_functions_still_tells_the_rest(tmp_path: Path) -> None:
    bare = build_library(tmp_path / "bare", "-DBARE")
    with Probe(bare, tmp_path) as probe:
        found, sample = probe.inventory(), probe.sample()
    assert [(gpu.type, gpu.memory_bytes, gpu.island, gpu.numa) for gpu in found.gpus] == [
        ("Stand-in GPU", 16 << 30, None, None)
    ] * 2
    memory = float((1 << 30) + (512 << 20))
    assert sample.gpus[1] == GpuReading(f"{GPU}1", 20.0, memory, health=GpuHealth())


@pytest.mark.slow
def test_a_probe_whose_access_is_taken_away_ends_so_that_a_new_one_is_made(library: Path, tmp_path: Path) -> None:
    with Probe(library, tmp_path) as probe:
        probe.sample()
        probe.state.write_text("blind 0\n")
        assert probe.process.wait(timeout=20) == 1


@pytest.mark.skipif(nvml.has_driver(), reason="this machine has GPUs: what happens without is tested elsewhere")
def test_without_a_driver_a_probe_says_so_and_waits_for_one(tmp_path: Path) -> None:
    with Probe(None, tmp_path) as probe:
        assert "NVML can't be used" in probe.inventory().problem
        assert probe.sample().gpus == ()


def test_real_gpus_are_watched_unless_simulated_ones_are_asked_for(library: Path, tmp_path: Path) -> None:
    found, simulated = embedded(tmp_path, library)
    assert found == {"gpus": [], "watched": True, "unknown": ""}
    assert [gpu["simulated"] for gpu in simulated["gpus"]] == [True] * 3
    assert not simulated["watched"]


@pytest.mark.skipif(nvml.has_driver(), reason="this machine has GPUs: what happens without is tested elsewhere")
def test_without_a_driver_there_are_four_simulated_gpus_that_stay_the_same(tmp_path: Path) -> None:
    first, second = embedded(tmp_path, None), embedded(tmp_path, None)
    assert len({gpu["uuid"] for gpu in first[0]["gpus"] if gpu["simulated"]}) == 4
    assert first == second


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("init 0 18", "version mismatch (the driver's library and its kernel module differ"),
        ("init 0 9", "Driver Not Loaded"),
        ("init 0 999", "Unknown Error"),
        ("count 0 999", "Unknown Error"),
        ("blind 0", "Unknown Error"),
        ("handle 0 999\nhandle 1 999", "GPU 0 can't be queried: Unknown Error"),
        ("count 0 1", ""),
    ],
)
def test_a_driver_that_can_not_be_asked_makes_no_simulated_gpus(
    library: Path, tmp_path: Path, state: str, why: str
) -> None:
    host, asked_for = embedded(tmp_path, library, state=state)
    assert (host["gpus"], host["watched"]) == ([], True)
    assert host["unknown"]
    assert why in host["unknown"]
    assert len(asked_for["gpus"]) == 3


def test_a_damaged_library_is_a_driver_too(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library/libnvidia-ml.so.1").write_bytes(b"half")
    [host, _] = embedded(tmp_path, tmp_path / "library")
    assert (host["gpus"], host["watched"]) == ([], True)
    assert "NVML can't be used" in host["unknown"]


@pytest.mark.skipif(nvml.has_driver(), reason="this machine has GPUs")
@pytest.mark.parametrize(("kernel_module", "known"), [("/proc/version", False), ("", True)])
def test_no_gpus_are_simulated_where_only_the_library_is_missing(
    tmp_path: Path, kernel_module: str, known: bool
) -> None:
    """The kernel has its module, or the service had real GPUs before."""
    [host, _] = embedded(tmp_path, None, kernel_module, known)
    assert (host["gpus"], host["watched"]) == ([], True)
    assert "Library Not Found" in host["unknown"]


def test_nvml_is_initialised_again_after_it_could_not_be_asked(library: Path, tmp_path: Path) -> None:
    before, during, after = inventories(library, tmp_path, "", "count 0 999", "")
    assert before == (["0 GPU0", "1 GPU1"], "")
    assert during[0] == []
    assert "Unknown Error" in during[1]
    assert after == before


def test_a_count_that_is_not_answered_is_a_problem_whatever_the_error(library: Path, tmp_path: Path) -> None:
    """Not initialised, invalid, not supported, no permission, missing in the library, lost, reset required."""
    codes = [1, 2, 3, 4, 6, 13, 15, 16, 999]
    for code, (gpus, problem) in zip(
        codes, inventories(library, tmp_path, *(f"count 0 {code}" for code in codes), gpus=8), strict=True
    ):
        assert (gpus, "NVML can't be used" in problem) == ([], True), code


@pytest.mark.parametrize("state", ["handle 1 999", "handle 1 10", "mig 1 999"])
def test_a_gpu_that_does_not_answer_is_named_and_takes_nothing_from_the_others(
    library: Path, tmp_path: Path, state: str
) -> None:
    before, during, after = inventories(library, tmp_path, "", state, "", gpus=3, mig=1)
    assert before == (["0 GPU0", "1 MIG1", "2 MIG1", "3 GPU2"], "")
    assert during[0] == ["0 GPU0", "2 GPU2"]
    assert during[1].startswith("GPU 1 can't be queried: ")
    assert after == before


def test_a_gpu_of_which_the_driver_says_that_it_is_gone_is_an_answer(library: Path, tmp_path: Path) -> None:
    assert inventories(library, tmp_path, "lost 1", gpus=3) == [(["0 GPU0", "1 GPU2"], "")]


@pytest.mark.skipif(not nvml.find_gpus().gpus, reason="NO NVIDIA GPU here, so real ones are NOT tested")
def test_real_gpus_answer(tmp_path: Path) -> None:
    with Probe(None, tmp_path) as probe:
        found, sample = probe.inventory(), probe.sample()
    assert found.driver
    assert [gpu.uuid for gpu in found.gpus] == [gpu.uuid for gpu in sample.gpus]
    for gpu in found.gpus:
        assert gpu.uuid.startswith(("GPU-", "MIG-"))
        assert gpu.memory_bytes > 0
    for reading in sample.gpus:
        assert not reading.lost
        assert reading.memory_bytes is not None
        assert reading.temperature is not None
        assert reading.processes is not None
        if reading.uuid.startswith("GPU-"):
            assert reading.utilization is not None
            assert reading.power_w is not None
