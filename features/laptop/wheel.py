"""Wheel of the client, packed from the installed package.

It works from a checkout and from an installed wheel: nothing is built. The page, the recipes of images and bytecode
are left out. Names, order and times are fixed, so the same code gives the same wheel.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from threading import Lock

import schedulearn
from schedulearn.scheduler.errors import NotFoundError

_KINDS = (".py", ".typed", ".json", ".mako")
"""Endings of the files that go in. In a checkout, a folder may hold others."""
_LEFT_OUT = ("api/static", "worker_images")
_MAX_FILES, _MAX_BYTES = 5_000, 64 << 20
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip file can state
_WHEEL = "Wheel-Version: 1.0\nGenerator: schedulearn\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@dataclass(frozen=True)
class Wheel:
    """Wheel in memory, with its file name."""

    name: str
    version: str
    content: bytes
    sha256: str


class WheelCache:
    """The wheel of this process, packed at the first request and only once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: Wheel | NotFoundError | None = None

    def wheel(self) -> Wheel:
        """Return the wheel. Raises NotFoundError where the package can't be packed."""
        with self._lock:
            if self._found is None:
                try:
                    self._found = pack()
                except NotFoundError as error:
                    self._found = error
        if isinstance(self._found, NotFoundError):
            raise NotFoundError(str(self._found))
        return self._found


def pack() -> Wheel:
    """Pack the package that runs. Raises NotFoundError where it was not installed by pip, or is too large."""
    found, metadata = _installed()
    info = f"schedulearn-{found.version}.dist-info"
    files = {f"schedulearn/{name}": path.read_bytes() for name, path in _bounded(Path(schedulearn.__path__[0]))}
    files[f"{info}/METADATA"] = metadata.encode()
    files[f"{info}/entry_points.txt"] = (found.read_text("entry_points.txt") or "").encode()
    files[f"{info}/WHEEL"] = _WHEEL.encode()
    lines = [f"{name},{_record_hash(content)},{len(content)}\n" for name, content in sorted(files.items())]
    files[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)
    content = packed.getvalue()
    name = f"schedulearn-{found.version}-py3-none-any.whl"
    return Wheel(name, found.version, content, hashlib.sha256(content).hexdigest())


def _installed() -> tuple[Distribution, str]:
    """Return the installed distribution and its metadata. A checkout may also hold the remains of a build."""
    for found in distributions(name="schedulearn"):
        if metadata := found.read_text("METADATA"):
            return found, metadata
    raise NotFoundError("this service was not installed by pip, so it has no wheel to offer: use make setup")


def _bounded(root: Path) -> Iterator[tuple[str, Path]]:
    size = 0
    for count, (name, path) in enumerate(_files(root)):
        size += path.stat().st_size
        if count >= _MAX_FILES or size > _MAX_BYTES:
            raise NotFoundError(f"{root} holds more than a package does, so this service has no wheel to offer")
        yield name, path


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of the package by name. In a checkout its folders are links."""
    for folder, folders, names in os.walk(root, followlinks=True):
        inside = Path(folder).relative_to(root)
        folders[:] = sorted(
            each for each in folders if each != "__pycache__" and (inside / each).as_posix() not in _LEFT_OUT
        )
        for name in sorted(names):
            if name.endswith(_KINDS):
                yield (inside / name).as_posix(), Path(folder, name)


def _record_hash(content: bytes) -> str:
    return "sha256=" + urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
