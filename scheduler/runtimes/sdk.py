"""What a training script may import of ours, as files: the service brings it into each task, so images need none."""

from __future__ import annotations

import hashlib
import importlib.resources
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from schedulearn.scheduler.errors import StartRefused

PACKAGES = ("schedulearn", "schedulearn.metrics", "schedulearn.worker")
_SERVICE_ONLY = ("policy.py", "metrics/nvml.py", "metrics/probe.py", "metrics/readings.py", "metrics/gpu_processes.py")


@cache
def sdk_files() -> Mapping[str, bytes]:
    """Path -> content of each file, as a package `schedulearn` of its own."""
    found: dict[str, bytes] = {}
    for package in PACKAGES:
        folder = package.replace("schedulearn", "", 1).replace(".", "/").strip("/")
        try:
            entries = list(importlib.resources.files(package).iterdir())
        except ModuleNotFoundError as error:
            raise StartRefused(f"the package {package} is not installed: reinstall schedulearn") from error
        for entry in entries:
            path = f"{folder}/{entry.name}".lstrip("/")
            if entry.is_file() and path.endswith(".py") and path not in _SERVICE_ONLY:
                found[f"schedulearn/{path}"] = entry.read_bytes()
    return found


@cache
def sdk_digest() -> str:
    """Names this version of the files."""
    digest = hashlib.sha256()
    for path, content in sorted(sdk_files().items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def sdk_archive() -> bytes:
    """The files as a tar archive, for `put_archive`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, content in sorted(sdk_files().items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def unpack_sdk(below: Path) -> Path:
    """A folder for PYTHONPATH below `below`; made at the first call, complete or not at all."""
    ready = below / sdk_digest()
    if not ready.is_dir():
        below.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=below))
        for path, content in sdk_files().items():
            (partial / path).parent.mkdir(parents=True, exist_ok=True)
            (partial / path).write_bytes(content)
        partial.chmod(0o755)
        try:
            os.rename(partial, ready)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            if not ready.is_dir():  # else another process was faster
                raise
    return ready
