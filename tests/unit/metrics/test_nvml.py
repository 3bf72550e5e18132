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
from schedulearn.metrics.probe.readings import GpuProcess, GpuReading, Inventory, Sample, from_line

GPU = "GPU-00000000-0000-0000-0000-00000000000"
ROWS = """
import json, sys
from dataclasses import asdict
from schedulearn.scheduler.hosts.embedded import _gpus
print(json.dumps([[asdict(gpu) for gpu in _gpus("cluster", count)[0]] for count in (None, 3)]))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


class Probe:
    """The probe as its container runs it, over the stand-in, which does what `state` says."""

    def __init__(self, library: Path | None, folder: Path, **settings: int) -> None:
        self.state = folder / "state"
        env = {**os.environ, "FAKE_NVML_STATE": str(self.state), "SCHEDULEARN_PROBE_VERSION": "v1"}
        env |= {f"FAKE_NVML_{key.upper()}": str(value) for key, value in settings.items()}
        if library is not None:
            env["LD_LIBRARY_PATH"] = str(library)
        command = [sys.executable, "-m", "schedulearn.metrics.probe"]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def read(self) -> Inventory | Sample:
        assert self.process.stdout is not None
        return from_line(self.process.stdout.readline())

    def inventory(self) -> Inventory:
        while True:
            if isinstance(found := self.read(), Inventory):
                return found

    def sample(self) -> Sample:
        while True:
            if isinstance(found := self.read(), Sample):
                return found


def rows(library: Path | None) -> Any:
    env = {**os.environ, **({"LD_LIBRARY_PATH": str(library)} if library else {})}
    done = subprocess.run([sys.executable, "-c", ROWS], env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_every_value_of_eight_gpus_is_told(library: Path, tmp_path: Path) -> None:
    with Probe(library, tmp_path, gpus=8) as probe:
        probe.state.write_text(f"process 2 {os.getpid()} 1000\nprocess 2 4194303 2000\necc 3 5\n")
        found, sample = probe.inventory(), probe.sample()
    assert (found.version, found.driver, found.problem) == ("v1", "999.1", "")
    assert [gpu.uuid for gpu in found.gpus] == [f"{GPU}{index}" for index in range(8)]
    assert asdict(found.gpus[5]) == {
        "uuid": f"{GPU}5", "index": 5, "type": "Stand-in GPU", "memory_bytes": 16 << 30, "parent": "", "island": 4,
        "numa": 1, "pci": "00000000:06:00.0", "pcie": "4x16",
    }  # fmt: skip
    kinds = {(link.a, link.b): link.kind for link in found.links}
    assert len(kinds) == 28
    assert (kinds[0, 1], kinds[0, 2], kinds[0, 4]) == ("nvlink", "hostbridge", "system")
    assert sample.gpus[0] == GpuReading(
        f"{GPU}0", 10.0, float(1 << 30), 40.0, 100.5, 7000.5, 1410.0, 1593.0, 0, None, None,
        ("power_cap", "hw_thermal"), (), power_limit_w=400.0, slowdown_temperature=91.0,
    )  # fmt: skip
    assert sample.gpus[3].ecc_errors == 5
    ours, gone = sample.gpus[2].processes or ()
    assert (ours.pid, ours.memory_bytes, ours.uid) == (os.getpid(), 1000, os.getuid())
    assert ours.name
    assert gone == GpuProcess(4194303, memory_bytes=2000)


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
        assert seen.gpus[1].xid_at == pytest.approx(seen.at, abs=2)
        assert probe.sample().gpus[1] == seen.gpus[1]


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
    assert sample.gpus[1] == GpuReading(f"{GPU}1", 20.0, float((1 << 30) + (512 << 20)))


def test_a_probe_whose_access_is_taken_away_ends_so_that_a_new_one_is_made(library: Path, tmp_path: Path) -> None:
    with Probe(library, tmp_path) as probe:
        probe.sample()
        probe.state.write_text("blind 0\n")
        assert probe.process.wait(timeout=20) == 1


@pytest.mark.skipif(bool(nvml.list_gpus()), reason="this machine has GPUs: what happens without is tested elsewhere")
def test_without_a_driver_a_probe_says_so_and_waits_for_one(tmp_path: Path) -> None:
    with Probe(None, tmp_path) as probe:
        assert "NVML can't be used" in probe.inventory().problem
        assert probe.sample().gpus == ()


def test_the_schedulers_rows_come_from_nvml_unless_simulated_gpus_are_asked_for(library: Path) -> None:
    found, simulated = rows(library)
    assert [(row["uuid"], row["ordinal"], row["simulated"]) for row in found] == [
        (f"{GPU}0", 0, False), (f"{GPU}1", 1, False)
    ]  # fmt: skip
    assert len(simulated) == 3
    assert all(row["simulated"] for row in simulated)


@pytest.mark.skipif(bool(nvml.list_gpus()), reason="this machine has GPUs: what happens without is tested elsewhere")
def test_without_a_driver_there_are_four_simulated_gpus_that_stay_the_same() -> None:
    first, second = rows(None), rows(None)
    assert len({row["uuid"] for row in first[0]}) == 4
    assert first == second


@pytest.mark.skipif(not nvml.list_gpus(), reason="NO NVIDIA GPU here, so real ones are NOT tested")
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
