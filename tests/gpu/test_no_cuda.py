"""Neither the service nor the probe loads CUDA: NVML alone needs no context, and so holds no memory of a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from clusters import wait_for
from gpu_probes.nvml_library import build_library
from services import Service


def libraries(pid: int | str) -> set[str]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.rpartition("/")[2] for line in lines if ".so" in line}


@pytest.mark.process
def test_the_service_reads_gpus_without_cuda(tmp_path: Path) -> None:
    library = build_library(tmp_path / "library")
    with Service(tmp_path / "data", gpus=None, env={"LD_LIBRARY_PATH": str(library), "FAKE_NVML_GPUS": "1"}) as served:
        wait_for(lambda: [gpu for gpu in served.http.get("/api/v1/gpus").json() if gpu["reading"]], what="a reading")
        loaded = libraries(served.process.pid)
        assert any(name.startswith("libnvidia-ml") for name in loaded), "it reads GPUs by NVML"
        assert not [name for name in loaded if name.startswith(("libcuda", "libcublas", "libnccl", "libtorch"))]


def test_the_probe_imports_nothing_that_could_load_cuda(tmp_path: Path) -> None:
    library = build_library(tmp_path / "library")
    code = (
        "import sys; from schedulearn.metrics.probe.nvml import NvmlReader\n"
        "reader = NvmlReader(); reader.inventory(); reader.sample()\n"
        "modules = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted(modules & {'torch', 'cupy', 'tensorflow', 'numba', 'cuda', 'numpy'}))\n"
        "print(sorted({l.rpartition('/')[2].strip() for l in open('/proc/self/maps') if '.so' in l}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"LD_LIBRARY_PATH": str(library), "FAKE_NVML_GPUS": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    modules, loaded = done.stdout.splitlines()
    assert modules == "[]"
    assert "libnvidia-ml" in loaded
    assert "libcuda" not in loaded
