"""Where the checks run: the GPU, the driver, the versions, and the scripts that they start."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.gpu import nvidia_smi
from bench.gpu.report import Skipped

ROOT = Path(__file__).parents[2]
TRAIN = ROOT / "bench/gpu/train.py"
JOB = {"SCHEDULEARN_JOB_ID": "gpu-check", "SCHEDULEARN_REPORT_INTERVAL": "3600"}
PATIENCE_S = 900


@dataclass(frozen=True)
class Machine:
    gpu: Mapping[str, str] | None
    """What nvidia-smi says of the first GPU; None: there is none."""
    why_not: str
    device: str
    """Where training runs: cuda, or cpu to try the checks themselves."""

    def needs_gpu(self) -> Mapping[str, str]:
        if self.gpu is None:
            raise Skipped(f"no NVIDIA GPU: {self.why_not}")
        return self.gpu

    def needs_training(self) -> None:
        if find_spec("torch") is None:
            raise Skipped(f"{sys.executable} has no PyTorch: set PYTHON to one that has")
        if self.device == "cuda":
            self.needs_gpu()
            import torch

            if not torch.cuda.is_available():
                raise Skipped(f"PyTorch {torch.__version__} can't use the GPU: it needs a build with CUDA")


def look(device: str) -> Machine:
    try:
        gpus = nvidia_smi.ask()
        return Machine(gpus[0] if gpus else None, "nvidia-smi shows none", device)
    except FileNotFoundError:
        return Machine(None, "there is no program nvidia-smi, which comes with the driver", device)
    except (OSError, subprocess.SubprocessError) as error:
        return Machine(None, f"nvidia-smi can't be asked ({error})", device)


def facts(machine: Machine, command: str) -> dict[str, str]:
    gpu = machine.gpu or {}
    versions = [f"{name} {_version(name)}" for name in ("torch", "horovod", "nvidia-ml-py", "numpy")]
    return {
        "command": f"`{command}`",
        "GPU": gpu.get("name", "none"),
        "driver": gpu.get("driver_version", "none"),
        "CUDA of PyTorch": _cuda(),
        "versions": ", ".join([f"Python {platform.python_version()}", *versions]),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.platform()}",
        "commit": _output("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD") or "unknown",
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


def _cuda() -> str:
    if find_spec("torch") is None:
        return "no PyTorch"
    import torch

    return str(torch.version.cuda or "none: a build without CUDA")


def _output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def paths() -> dict[str, str]:
    """The environment of a Python that imports from here."""
    found = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": found}


def run(command: Sequence[str], timeout: float = 300.0, **env: str) -> subprocess.CompletedProcess[str]:
    """A command to its end, whatever that is, with what a Python needs that imports from here."""
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, env={**paths(), **env})


@contextmanager
def started(*arguments: object, **env: str) -> Iterator[subprocess.Popen[str]]:
    """train.py with these arguments."""
    with running(TRAIN, *arguments, **env) as process:
        yield process


@contextmanager
def running(script: Path, *arguments: object, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A script with these arguments; killed at the end if it still runs."""
    command = [sys.executable, str(script), *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, env={**paths(), **env}, **pipes) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def begun(process: subprocess.Popen[str]) -> None:
    """Waits for the first step of a script; warnings may come before. Raises RuntimeError if it ends without one."""
    assert process.stdout is not None
    said = ""
    for said in process.stdout:
        if said.startswith("step "):
            return
    raise RuntimeError(
        f"{Path(process.args[1]).name} ended before its first step: {said.strip()[-200:] or 'it said nothing'}"
    )


def trained(*arguments: object, code: int = 0, **env: str) -> tuple[dict[str, Any], str]:
    """What a run of train.py found, and all that it printed. Raises RuntimeError unless it ends with `code`."""
    with started(*arguments, **env) as process:
        output, _ = process.communicate(timeout=PATIENCE_S)
    if process.returncode != code:
        raise RuntimeError(f"train.py {' '.join(map(str, arguments))} ended with {process.returncode}: {output[-200:]}")
    return found_in(output), output


def found_in(output: str) -> dict[str, Any]:
    line = next((line for line in output.splitlines() if line.startswith("found {")), "found {}")
    found = json.loads(line.partition(" ")[2])
    assert isinstance(found, dict)
    return found
