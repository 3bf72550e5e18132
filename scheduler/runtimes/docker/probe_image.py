"""Files of the probe's image.

It contains our files and nvidia-ml-py, all pure Python, on a plain Python image.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from schedulearn.scheduler.errors import ImageUnavailable
from schedulearn.scheduler.runtimes.recipes import recipe_path
from schedulearn.scheduler.runtimes.sdk import package_files

NAME = "schedulearn/probe"
PACKAGES = ("schedulearn", "schedulearn.metrics", "schedulearn.metrics.probe")


@cache
def probe_files() -> Mapping[str, bytes]:
    """Return path in the build folder -> content. Raises ImageUnavailable if the package is incomplete."""
    try:
        found = {f"app/{path}": content for path, content in package_files(PACKAGES).items()}
        import pynvml

        found["app/pynvml.py"] = Path(pynvml.__file__).read_bytes()
    except (OSError, ImportError) as error:
        raise ImageUnavailable(f"the probe's files are missing: reinstall schedulearn ({error})") from error
    found["Dockerfile"] = recipe_path("Dockerfile.probe").read_bytes()
    return found


@cache
def probe_version() -> str:
    """Return a digest of the files."""
    digest = hashlib.sha256()
    for path, content in sorted(probe_files().items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def probe_image() -> str:
    return f"{NAME}:{probe_version()}"


def write_probe_files(folder: Path) -> None:
    """Write the probe's files. Any user of the image can read them, however private the service's files are."""
    for path, content in probe_files().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    for made in folder.rglob("*"):
        made.chmod(0o755 if made.is_dir() else 0o644)
