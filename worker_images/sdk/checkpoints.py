"""Atomic checkpoint files.

A checkpoint is complete or absent, even if a process is killed while it writes one.

step-000000000123.data      what the framework wrote
step-000000000123.shards/   what each worker wrote itself, if the model is spread over the workers
step-000000000123.json      lengths and checksums; written last, when the data are safely on disk

Each file is written under a temporary name, flushed, and renamed. The newest two checkpoints are kept: if one can't be
read, the previous one can.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from typing import Any, BinaryIO, Callable, Iterator

KEPT = 2
_MANIFEST = re.compile(r"step-(\d{12})\.json")


class Checkpoints:
    """Checkpoints of one job.

    Only this job uses the folder, and one process writes at a time."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(folder, exist_ok=True)

    def save(self, step: int, write: Callable[[BinaryIO], None]) -> None:
        """Make what `write` writes the newest checkpoint.

        Raises OSError, and leaves the earlier checkpoints as they were."""
        name = f"step-{step:012d}"
        shards = _digests(self.shards(step))
        digest = self._put(name + ".data", write)
        manifest = json.dumps({"step": step, **digest, "shards": shards}).encode()
        self._put(name + ".json", lambda file: _write_all(file, manifest))
        self._clean()

    def newest_first(self) -> Iterator[tuple[int, str]]:
        """Yield (step, path of the data) of each complete checkpoint."""
        for step, name in sorted(self._manifests(), reverse=True):
            path = os.path.join(self._folder, name[: -len(".json")] + ".data")
            try:
                with open(os.path.join(self._folder, name), "rb") as file:
                    manifest = json.loads(file.read())
                whole = _digest(path) == {"bytes": manifest["bytes"], "sha256": manifest["sha256"]}
                if whole and _digests(self.shards(step)) == manifest.get("shards", {}):
                    yield step, path
            except (OSError, ValueError, KeyError, TypeError):
                continue  # damaged or lost: the previous one may be complete

    def shards(self, step: int) -> str:
        """Return the folder of what the workers write themselves."""
        return os.path.join(self._folder, f"step-{step:012d}.shards")

    def clear_shards(self, step: int) -> None:
        """Remove what killed workers left there."""
        shutil.rmtree(self.shards(step), ignore_errors=True)

    def _manifests(self) -> list[tuple[int, str]]:
        found = [(match, name) for name in os.listdir(self._folder) for match in [_MANIFEST.fullmatch(name)] if match]
        return [(int(match[1]), name) for match, name in found]

    def _put(self, name: str, write: Callable[[BinaryIO], None]) -> dict[str, Any]:
        path = os.path.join(self._folder, name)
        partial = path + ".partial"
        with open(partial, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        digest = _digest(partial)
        os.replace(partial, path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name too
        finally:
            os.close(folder)
        return digest

    def _clean(self) -> None:
        """Remove all but the newest checkpoints, and what a killed writer left."""
        kept = {name[: -len(".json")] for _, name in sorted(self._manifests())[-KEPT:]}
        for name in sorted(os.listdir(self._folder), reverse=True):  # the manifest before its data
            if name.startswith("step-") and name.partition(".")[0] not in kept:
                path = os.path.join(self._folder, name)
                if os.path.isdir(path):
                    shutil.rmtree(path, ignore_errors=True)
                    continue
                try:
                    os.remove(path)
                except OSError:
                    pass


def _write_all(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def _digests(folder: str) -> dict[str, Any]:
    """Return the digest of each file of a folder; nothing if there is none."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return {name: _digest(os.path.join(folder, name)) for name in names}


def _digest(path: str) -> dict[str, Any]:
    total, checksum = 0, hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            data = file.read(1 << 20)
            if not data:
                return {"bytes": total, "sha256": checksum.hexdigest()}
            total += len(data)
            checksum.update(data)
