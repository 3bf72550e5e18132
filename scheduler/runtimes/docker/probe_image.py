"""What the probe's container is made of: files of ours and nvidia-ml-py, all pure Python, on a plain Python image."""

from __future__ import annotations

import hashlib
import importlib.resources
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from schedulearn.scheduler.errors import ImageUnavailable
from schedulearn.scheduler.runtimes.recipes import recipe_path

NAME = "schedulearn/probe"
_OURS = ("__init__.py", "gpu_processes.py", "nvml.py", "probe.py", "readings.py")


@cache
def probe_files() -> Mapping[str, bytes]:
    """Path in the build's folder -> content. Raises ImageUnavailable where the package is incomplete."""
    try:
        found = {
            f"app/schedulearn/metrics/{name}": (importlib.resources.files("schedulearn.metrics") / name).read_bytes()
            for name in _OURS
        }
        import pynvml

        found["app/pynvml.py"] = Path(pynvml.__file__).read_bytes()
        found["app/schedulearn/__init__.py"] = (importlib.resources.files("schedulearn") / "__init__.py").read_bytes()
    except (OSError, ImportError) as error:
        raise ImageUnavailable(f"the probe's files are missing: reinstall schedulearn ({error})") from error
    found["Dockerfile"] = recipe_path("Dockerfile.probe").read_bytes()
    return found


@cache
def probe_version() -> str:
    """Changes with any of the files."""
    digest = hashlib.sha256()
    for path, content in sorted(probe_files().items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def probe_image() -> str:
    return f"{NAME}:{probe_version()}"


def write_probe_files(folder: Path) -> None:
    """Readable for whatever user the image has, however private the service's own files are."""
    for path, content in probe_files().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    for made in folder.rglob("*"):
        made.chmod(0o755 if made.is_dir() else 0o644)
