"""Files of the SDK, which training scripts may import.

The service copies them into each task, so that images don't need them.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from schedulearn.scheduler.errors import StartRefused

PACKAGES = (
    "schedulearn", "schedulearn.metrics", "schedulearn.metrics.model",
    "schedulearn.worker", "schedulearn.worker.batch", "schedulearn.worker.keras", "schedulearn.worker.torch",
)  # fmt: skip
_SERVICE_ONLY = ("schedulearn/policy.py",)


@cache
def sdk_files() -> Mapping[str, bytes]:
    """Return path -> content of the SDK's files, as a separate package `schedulearn`."""
    try:
        files = package_files(PACKAGES)
        # Python imports a module of this name at startup; it starts schedulearn.worker.joining.
        files["sitecustomize.py"] = files.pop("schedulearn/worker/sitecustomize.py")
        return files
    except ModuleNotFoundError as error:
        raise StartRefused(f"the package {error.name} is not installed: reinstall schedulearn") from error


def package_files(packages: Iterable[str]) -> dict[str, bytes]:
    """Return path -> content of the modules of packages, without subpackages.

    Modules that only the service needs are left out. Nothing is imported, because Keras may be missing here. Raises
    ModuleNotFoundError for a package that is not installed."""
    found: dict[str, bytes] = {}
    for package in packages:
        top, *below = package.split(".")
        folder = importlib.resources.files(top).joinpath(*below)
        if not folder.is_dir():
            raise ModuleNotFoundError(f"no package {package}", name=package)
        for entry in folder.iterdir():
            path = f"{package.replace('.', '/')}/{entry.name}"
            if entry.is_file() and path.endswith(".py") and path not in _SERVICE_ONLY:
                found[path] = entry.read_bytes()
    return found


@cache
def sdk_digest() -> str:
    """Return a digest that identifies this version of the files."""
    digest = hashlib.sha256()
    for path, content in sorted(sdk_files().items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def sdk_archive() -> bytes:
    """Return the files as a tar archive, for `put_archive`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, content in sorted(sdk_files().items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def unpack_sdk(below: Path) -> Path:
    """Return a folder below `below` for PYTHONPATH; the first call creates it atomically."""
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
            if not ready.is_dir():  # otherwise another process was faster
                raise
    return ready
