"""Folder as a version of a data set.

A version holds the whole folder; files are named by their content.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from schedulearn.api.client.errors import ClientError
from schedulearn.api.client.transport import Json
from schedulearn.scheduler.code.archive import link_stays_inside, show_bytes
from schedulearn.scheduler.data.store import blob_of

PushProgress = Callable[[str, int, int], None]
"""Called with `reading` or `sending`, the number of bytes done, and their total."""
_READERS = 4


@dataclass
class FolderListing:
    """Files of a folder, by their path in the data set."""

    files: dict[str, Path] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    executable: set[str] = field(default_factory=set)
    folders: list[str] = field(default_factory=list)
    """Empty folders."""
    links: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Paths, each with the reason."""

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())


def list_folder(folder: Path, max_bytes: int, max_files: int) -> FolderListing:
    """List a folder; a single file counts as a folder with only that file.

    Raises ClientError for what can't be read, and above the limits."""
    whole = folder.resolve()
    if whole == Path(whole.anchor) or Path.home().resolve().is_relative_to(whole):
        raise ClientError(f"{whole} is a home folder or has one in it: name the folder of the data")
    found = FolderListing()
    try:
        if folder.is_file():
            _take(folder, folder.name, folder.stat(), found)
        else:
            for path, inner, status in _walk(folder, ""):
                _take(path, inner, status, found)
                count = len(found.files) + len(found.folders) + len(found.links)
                if count > max_files or found.bytes > max_bytes:
                    raise ClientError(
                        f"{folder} holds more than {max_files} files or {show_bytes(max_bytes)}, which is the limit of "
                        "a data set (settings data_files, data_limit): push parts of it, or pack small files together"
                    )
    except OSError as error:
        raise ClientError(f"{error.filename or folder} can't be read: {error.strerror}") from error
    return found


def _walk(folder: Path, inside: str) -> Iterator[tuple[Path, str, os.stat_result]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda each: each.name)
    for entry in entries:
        path, inner = Path(entry.path), f"{inside}{entry.name}"
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode) and os.listdir(path):
            yield from _walk(path, f"{inner}/")
        else:
            yield path, inner, status


def _take(path: Path, inner: str, status: os.stat_result, found: FolderListing) -> None:
    if stat.S_ISREG(status.st_mode):
        found.files[inner], found.sizes[inner] = path, status.st_size
        if status.st_mode & 0o111:
            found.executable.add(inner)
    elif stat.S_ISDIR(status.st_mode):
        found.folders.append(inner)
    elif stat.S_ISLNK(status.st_mode) and link_stays_inside(inner, os.readlink(path)):
        found.links[inner] = os.readlink(path)
    else:
        why = "a link that leads outside" if stat.S_ISLNK(status.st_mode) else "no plain file"
        found.left_out.append(f"{inner} ({why})")


def digests_of(found: FolderListing, on_progress: PushProgress) -> dict[str, str]:
    """Path -> SHA-256 of its content. Raises ClientError for a file that can't be read."""
    done, digests = 0, {}
    with ThreadPoolExecutor(_READERS) as pool:
        for inner, digest in zip(found.files, pool.map(_digest, found.files.values()), strict=True):
            digests[inner] = digest
            done += found.sizes[inner]
            on_progress("reading", done, found.bytes)
    return digests


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return blob_of(file.read)
    except OSError as error:
        raise ClientError(f"{path} can't be read: {error.strerror}") from error


def manifest_json(found: FolderListing, digests: dict[str, str]) -> Json:
    """Return the request body that offers a version."""
    files = [
        {"path": inner, "size": found.sizes[inner], "sha256": digests[inner], "executable": inner in found.executable}
        for inner in found.files
    ]
    return {"files": files, "folders": found.folders, "links": found.links}
