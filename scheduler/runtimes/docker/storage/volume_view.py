"""View of a job's volume through a container that has it.

No program on the host is needed. An engine can return the entry at one path, and pack folders as tar archives. It can't
list a folder, so a listing is made from the headers of the archive.
"""

from __future__ import annotations

import base64
import heapq
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.archives import CHUNK, entry_of, reading, to_the_end
from schedulearn.scheduler.runtimes.contract import FileEntry, FileKind
from schedulearn.scheduler.runtimes.docker.api import Engine

# Bits of Go's file modes, with which an engine reports the kind of a path.
_FOLDER, _LINK, _OTHER = 1 << 31, 1 << 27, 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19


class VolumeView:
    """`FolderView` of the folder `seen_at` in a container."""

    def __init__(self, engine: Engine, container: str, seen_at: str) -> None:
        self._engine = engine
        self._container = container
        self._seen_at = seen_at

    @property
    def seen_at(self) -> str:
        return self._seen_at

    def stat(self, path: str) -> FileEntry | None:
        with self._engine.errors("inspect a file"):
            api = self._engine.api
            url = f"{api.base_url}/v{api.api_version}/containers/{self._container}/archive"
            answer = api.request("HEAD", url, params={"path": self._full(path)}, timeout=api.timeout)
            if answer.status_code == 404:
                return None
            if answer.status_code >= 500:  # the engine follows links itself, to report their targets
                raise RuntimeFault(f"{path} can't be read: it is a link to itself, or a chain of too many links")
            answer.raise_for_status()
            return _entry(json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"])))

    def entries(self, path: str, after: str, limit: int) -> list[FileEntry]:
        with self._engine.errors("list files"), self._archive(f"{path}/.") as archive:
            found = (entry for entry in map(_direct, _members(archive)) if entry is not None and entry.name > after)
            first = heapq.nsmallest(limit, found, key=lambda entry: entry.name)
        # A hard link to a file earlier in the archive has no size there.
        return [entry if entry.bytes else self.stat(f"{path}/{entry.name}") or entry for entry in first]

    def read(self, path: str, size: int, offset: int, length: int) -> Iterator[bytes]:
        with self._engine.errors("read a file"), _whole(path), self._archive(path) as archive:
            member = archive.next()
            file = archive.extractfile(member) if member is not None and member.isreg() else None
            if file is None or member is None or member.size != size:
                raise RuntimeFault(f"{path} changed while it was read: try again")
            left = offset + length
            while left:
                data = file.read(min(CHUNK, left))
                if not data:
                    raise RuntimeFault(f"{path} ended too early: try again")
                left -= len(data)
                if wanted := data[max(0, len(data) + left - length) :]:  # the engine can't start at an offset
                    yield wanted

    def pack(self, path: str) -> Iterator[bytes]:
        with self._engine.errors("pack a folder"), _whole(path), self._stream(f"{path}/.") as chunks:
            yield from to_the_end(chunks)

    @contextmanager
    def _stream(self, path: str) -> Iterator[Iterator[bytes]]:
        where = f"/containers/{self._container}/archive"
        with self._engine.stream("GET", where, params={"path": self._full(path)}) as stream:
            yield stream.chunks()

    @contextmanager
    def _archive(self, path: str) -> Iterator[tarfile.TarFile]:
        with self._stream(path) as chunks, reading(chunks) as archive:
            yield archive

    def _full(self, path: str) -> str:
        return f"{self._seen_at}/{path}".rstrip("/")


@contextmanager
def _whole(path: str) -> Iterator[None]:
    """Convert TarError into RuntimeFault. It means that a file changed or the connection broke."""
    try:
        yield
    except tarfile.TarError as error:
        raise RuntimeFault(f"{path} could not be read to its end: try again ({error})") from error


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while (member := archive.next()) is not None:
        archive.members = []  # type: ignore[attr-defined]  # tarfile would keep all of them
        yield member


def _direct(member: tarfile.TarInfo) -> FileEntry | None:
    """Return a direct entry of the packed folder. None for deeper entries and the folder itself."""
    parts = PurePosixPath(member.name).parts
    return entry_of(member, parts[0]) if len(parts) == 1 else None


def _entry(stat: dict[str, Any]) -> FileEntry:
    mode = int(stat["mode"])
    kind = FileKind.FILE
    if mode & _FOLDER:
        kind = FileKind.FOLDER
    elif mode & _LINK:
        kind = FileKind.LINK
    elif mode & _OTHER:
        kind = FileKind.OTHER
    return FileEntry(
        str(stat["name"]),
        kind,
        int(stat["size"]) if kind is FileKind.FILE else 0,
        datetime.fromisoformat(stat["mtime"]).timestamp(),
        str(stat.get("linkTarget") or ""),
    )
