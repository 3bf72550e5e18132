"""NVML through nvidia-ml-py, against a small C stand-in for the driver's library, and against none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schedulearn.metrics import nvml

SOURCE = Path(__file__).parents[1] / "support/fake_nvml.c"
ASK = """
import json, dataclasses
from schedulearn.metrics import nvml
from schedulearn.scheduler.embedded import _gpus
rows, utilization = _gpus("cluster", None)
print(json.dumps({
    "gpus": [dataclasses.asdict(gpu) for gpu in nvml.list_gpus()],
    "rows": rows,
    "utilization": [utilization(row["uuid"]) for row in rows],
    "unknown": utilization("GPU-nowhere"),
    "simulated": _gpus("cluster", 3)[0],
}))
"""


def ask(library: Path | None) -> dict[str, object]:
    env = {**os.environ, **({"LD_LIBRARY_PATH": str(library)} if library else {})}
    done = subprocess.run([sys.executable, "-c", ASK], env=env, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("NO C COMPILER, so NVML is NOT tested: install gcc")
    folder = tmp_path_factory.mktemp("nvml")
    target = folder / "libnvidia-ml.so.1"
    command = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1", "-o", target, SOURCE]
    subprocess.run(command, check=True)
    return folder


def test_gpus_are_found_with_what_the_scheduler_needs_of_them(library: Path) -> None:
    found = ask(library)
    assert found["gpus"] == [
        {
            "uuid": f"GPU-00000000-0000-0000-0000-{index:012}",
            "index": index,
            "type": "Stand-in GPU",
            "memory_bytes": 16 << 30,
        }
        for index in range(2)
    ]
    rows = found["rows"]
    assert isinstance(rows, list)
    assert [(row["ordinal"], row["simulated"]) for row in rows] == [(0, False), (1, False)]
    assert found["utilization"] == [10.0, 20.0]
    assert found["unknown"] is None


def test_asking_for_simulated_gpus_overrides_real_ones(library: Path) -> None:
    simulated = ask(library)["simulated"]
    assert isinstance(simulated, list)
    assert len(simulated) == 3
    assert all(row["simulated"] for row in simulated)


@pytest.mark.skipif(bool(nvml.list_gpus()), reason="this machine has GPUs: what happens without is tested elsewhere")
def test_without_a_driver_there_are_four_simulated_gpus_that_stay_the_same() -> None:
    first, second = ask(None), ask(None)
    assert first["gpus"] == []
    rows = first["rows"]
    assert isinstance(rows, list)
    assert len({row["uuid"] for row in rows}) == 4
    assert rows == second["rows"]


@pytest.mark.skipif(not nvml.list_gpus(), reason="NO NVIDIA GPU here, so real ones are NOT tested")
def test_real_gpus_answer() -> None:
    for gpu in nvml.list_gpus():
        assert gpu.uuid.startswith(("GPU-", "MIG-"))
        assert gpu.memory_bytes > 0
        assert nvml.utilization(gpu.uuid) is None or 0 <= nvml.utilization(gpu.uuid) <= 100  # type: ignore[operator]
