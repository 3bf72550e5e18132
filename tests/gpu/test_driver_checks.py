"""The checks of `make gpu-check` that ask the driver alone, over stand-ins for its two libraries and for nvidia-smi."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.gpu import check_host, nvidia_smi
from gpu_probes.nvml_library import SOURCE, build_library

ROOT = Path(__file__).parents[2]
UUIDS = ("GPU-00000000-0000-0000-0000-000000000000", "GPU-00000000-0000-0000-0000-000000000001")
COLUMNS = "uuid, name, driver_version, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]"
TOPOLOGY = (
    "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \t{link}\t0-1\t0\t\tN/A\n"
    "GPU1\t{link}\t X \t0-1\t0\t\tN/A\n\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing NVLinks\n"
)
NVIDIA_SMI = """#!/bin/sh
if [ "$1" = topo ]; then cat {folder}/topology; else cat {folder}/gpus; fi
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both libraries and nvidia-smi."""
    folder = tmp_path_factory.mktemp("driver")
    build_library(folder)
    build_library(folder, source=SOURCE.with_name("fake_cuda.c"), name="libcuda.so.1")
    rows = [f"{uuid}, Stand-in GPU, 999.1, 10, 1024, 16384, 100.5" for uuid in UUIDS]
    (folder / "gpus").write_text("\n".join([COLUMNS, *rows]) + "\n")
    (folder / "topology").write_text(TOPOLOGY.format(link="NV4"))
    (folder / "nvidia-smi").write_text(NVIDIA_SMI.format(folder=folder))
    (folder / "nvidia-smi").chmod(0o755)
    return folder


def checked(driver: Path, state: Path, name: str, **env: str) -> dict[str, tuple[str, str]]:
    """What one check finds: name -> (result, measured)."""
    state.touch()
    out = state.parent / "out"
    given = {"LD_LIBRARY_PATH": str(driver), "FAKE_NVML_STATE": str(state), "FAKE_NVML_MODULE": "999.1", **env}
    done = subprocess.run(
        [sys.executable, "-m", "bench.gpu", "--only", name, "--out", str(out)], cwd=ROOT, check=False, timeout=120,
        capture_output=True, text=True, env={**os.environ, "PATH": f"{driver}:{os.environ['PATH']}", **given},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    rows = (out / "report.md").read_text().partition("| check |")[2].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]
    return {row[0]: (row[1], row[2]) for row in cells}


def test_errors_of_a_program_are_told_and_the_gpu_stays(driver: Path, tmp_path: Path) -> None:
    found = checked(driver, tmp_path / "state", "xids", FAKE_NVML_GPUS="1")
    assert found == {
        "Xids of a wrong address, GPU 0": ("passed", "CUDA's error 700; Xids 31 x 1, 43 x 1; stays in service"),
        "Xids of a wrong misaligned, GPU 0": ("passed", "CUDA's error 716; Xids 13 x 1, 45 x 1; stays in service"),
    }


def test_an_xid_that_takes_the_gpu_out_of_service_is_a_failure(driver: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("xid 0 79\n")
    found = checked(driver, tmp_path / "state", "xids", FAKE_NVML_GPUS="1")
    assert [result for result, _ in found.values()] == ["failed", "failed"]


def test_each_call_is_timed(driver: Path, tmp_path: Path) -> None:
    found = checked(driver, tmp_path / "state", "latency")
    assert "DeviceGet" in found["calls of NVML, slowest p99 first"][1]
    assert found["a sample of all GPUs, with their health"][1].endswith(" ms, p50/p99")


def test_memory_of_a_killed_process_is_seen_to_go(driver: Path, tmp_path: Path) -> None:
    found = checked(driver, tmp_path / "state", "released")
    result, measured = found["memory after kill -9"]
    assert result == "passed", measured
    assert measured.startswith("8.1 GB: free after ")


def test_a_holder_is_seen_from_wherever_the_probe_runs(driver: Path, tmp_path: Path) -> None:
    found = checked(driver, tmp_path / "state", "lookers")
    assert found["a holder, looked at as it is"][0] == "passed", found
    assert "failed" not in {result for name, (result, _) in found.items() if "nobody" not in name}, found


def test_a_library_of_another_version_is_a_mismatch(driver: Path, tmp_path: Path) -> None:
    found = checked(driver, tmp_path / "state", "mismatch")
    result, measured = found["a driver updated without a reboot"]
    assert (result, "as after an update: reboot" in measured) == ("passed", True)
    # And where the kernel module is not asked for its version, there is nothing to tell.
    found = checked(driver, tmp_path / "state", "mismatch", FAKE_NVML_MODULE="")
    assert found["a driver updated without a reboot"][0] == "failed"


@pytest.mark.parametrize(("link", "result"), [("NV4", "passed"), ("PHB", "failed"), ("SYS", "failed")])
def test_links_are_those_of_nvidia_smi(driver: Path, tmp_path: Path, link: str, result: str) -> None:
    (driver / "topology").write_text(TOPOLOGY.format(link=link))
    found = checked(driver, tmp_path / "state", "places")
    assert found["links between GPUs"][0] == result, found
    assert found["NUMA nodes by sysfs"][0] == "passed", found


def test_the_table_of_topology_is_read_by_its_heading() -> None:
    table = nvidia_smi.parse_topology(TOPOLOGY.format(link="PIX"))
    assert table == {
        "GPU0": {"GPU0": "X", "GPU1": "PIX", "CPU Affinity": "0-1", "NUMA Affinity": "0", "GPU NUMA ID": "N/A"},
        "GPU1": {"GPU0": "PIX", "GPU1": "X", "CPU Affinity": "0-1", "NUMA Affinity": "0", "GPU NUMA ID": "N/A"},
    }


def test_a_host_whose_gpus_are_in_use_is_not_disturbed(driver: Path, tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\ncase $1 in *pid) echo 4711;; *) cat " + f"{driver}/gpus;; esac\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "bench.gpu", "--host", "--out", str(tmp_path)], cwd=ROOT, check=False, timeout=60,
        capture_output=True, text=True, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 2
    assert "processes 4711 compute on the GPUs" in done.stderr


def test_the_ten_checks_of_a_host_say_why_they_were_left_out(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.gpu", "--host", "--out", str(tmp_path)], cwd=ROOT, check=False, timeout=60,
        capture_output=True, text=True, env={**os.environ, "PATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stdout.count("no NVIDIA GPU: there is no program nvidia-smi") == 3 * 10
    assert "NOT CHECKED (10 of 10)" in done.stdout


def test_bandwidth_is_that_of_the_bus() -> None:
    # nccl-tests, PERFORMANCE.md: busbw = algbw * 2 (n - 1) / n for all-reduce.
    assert check_host.bandwidth(10**9, 8, 0.5) == pytest.approx(2e9 * 2 * 7 / 8)
    assert check_host.bandwidth(10**9, 1, 0.5) == 0
