"""Builds the stand-in for the NVIDIA driver's library."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "fake_nvml.c"
NAME = "libnvidia-ml.so.1"


def build_library(folder: Path, *options: str, source: Path = SOURCE, name: str = NAME) -> Path:
    """A folder for LD_LIBRARY_PATH. Skips the test where there is no compiler."""
    if shutil.which("gcc") is None:
        pytest.skip("NO C COMPILER, so NVML is NOT tested: install gcc")
    folder.mkdir(parents=True, exist_ok=True)
    words = ["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{name}", *options]
    subprocess.run([*words, "-o", str(folder / name), str(source)], check=True)
    return folder
