"""Reproducible archives of code, named by their digest.

The same content always gives the same archive, byte for byte. An archive is an uncompressed tar file with sorted paths,
no owner and one time for all entries. It has only files, folders, and links that stay inside. The service repacks
everything it receives, so that nothing else is ever stored or unpacked.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import IO, Protocol, cast

from schedulearn.scheduler.errors import InvalidError

MAX_BYTES = 200 << 20
"""Default maximum size of one archive; operators can change it."""
MAX_FILES = 50_000
DIGEST = r"sha256:[0-9a-f]{64}"
_LONGEST_PATH, _LONGEST_PART = 1024, 255  # maximum bytes, which every file system supports
_HEADER_ROOM = 1 << 20  # maximum bytes of one header with a long name
_PIECE = 1 << 20
_WHEN = 315_619_200  # 2 January 1980: zip files, and therefore wheels, support no earlier time


class Kind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


class Content(Protocol):
    """Content of a file, to be read once."""

    def read(self, size: int = -1, /) -> bytes: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Entry:
    """One file, folder or symbolic link. `open` returns a file's content."""

    path: str
    kind: Kind
    size: int = 0
    executable: bool = False
    target: str = ""
    open: Callable[[], Content] | None = None


@dataclass(frozen=True)
class WrittenArchive:
    digest: str
    bytes: int


class _Hashing:
    """Writable file that computes the digest of the bytes written to it."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._digest = hashlib.sha256()
        self.bytes = 0

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        self.bytes += len(data)
        return self._target.write(data)

    def tell(self) -> int:
        return self.bytes

    @property
    def digest(self) -> str:
        return f"sha256:{self._digest.hexdigest()}"


def write_archive(
    entries: Iterable[Entry], target: IO[bytes], *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES
) -> WrittenArchive:
    """Write an archive of the entries to `target`.

    Raises InvalidError, which names the entry, for an invalid entry; the content of `target` is then undefined."""
    checked = check_entries(entries, max_bytes, max_files)
    out = _Hashing(target)
    file = cast("IO[bytes]", out)
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8") as tar:
        for entry in checked:
            info = _header(entry)
            if entry.open is None:
                tar.addfile(info)
                continue
            with closing(entry.open()) as source:
                try:
                    tar.addfile(info, cast("IO[bytes]", source))
                except OSError as error:
                    if str(error) != "unexpected end of data":
                        raise
                    raise InvalidError(f"{entry.path} changed while it was read: try again") from error
    return WrittenArchive(out.digest, out.bytes)


def check_entries(entries: Iterable[Entry], max_bytes: int, max_files: int) -> list[Entry]:
    """Return the entries, sorted by path. Raises InvalidError for invalid ones."""
    found: dict[str, Entry] = {}
    size = 0
    for entry in entries:
        _check_path(entry.path)
        if entry.path in found:
            raise InvalidError(f"the archive contains {entry.path} twice")
        if entry.kind is Kind.LINK:
            _check_link(entry)
        found[entry.path] = entry
        size += entry.size
        if len(found) > max_files:
            raise InvalidError(
                f"the archive contains more than {max_files} files and folders: leave out those that "
                "the job does not need"
            )
        if size > max_bytes:
            raise InvalidError(f"the files of the archive are larger than {show_bytes(max_bytes)} in total")
    _check_parents(found)
    return [found[path] for path in sorted(found)]


def _check_path(path: str) -> None:
    try:
        encoded = path.encode()
    except UnicodeEncodeError as error:
        raise InvalidError(f"the name of {path!a} is not UTF-8: rename it or leave it out") from error
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise InvalidError(f"invalid path {path!a}: must be below the archive's folder, without '.' and '..'")
    if len(encoded) > _LONGEST_PATH or any(len(part.encode()) > _LONGEST_PART for part in parts):
        raise InvalidError(f"a path is too long: {path[:80]}...")


def _check_link(entry: Entry) -> None:
    if not link_stays_inside(entry.path, entry.target):
        raise InvalidError(f"{entry.path} is a link that leads out of the archive: {entry.target[:200]!r}")


def link_stays_inside(path: str, target: str) -> bool:
    """Whether the target of a link at `path` is inside the archive's folder.

    `..` is allowed only at the start of `target`: after another link, it could lead anywhere."""
    parts = target.split("/")
    while parts and parts[0] in ("..", "."):
        parts.pop(0)
    if not target or target.startswith("/") or ".." in parts or "\0" in target or len(target) > _LONGEST_PATH:
        return False
    where = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    try:
        target.encode()
    except UnicodeEncodeError:
        return False
    return where != ".." and not where.startswith("../")


def _check_parents(found: Mapping[str, Entry]) -> None:
    for path in found:
        parent = posixpath.dirname(path)
        while parent:
            if parent in found and found[parent].kind is not Kind.FOLDER:
                raise InvalidError(f"{path} is below {parent}, which is a {found[parent].kind}")
            parent = posixpath.dirname(parent)


def _header(entry: Entry) -> tarfile.TarInfo:
    info = tarfile.TarInfo(entry.path)
    info.mtime = _WHEN
    # All users may write, because a container may run as any user. Ownership is decided where it is unpacked.
    info.mode = 0o777 if entry.executable or entry.kind is not Kind.FILE else 0o666
    info.size = entry.size
    match entry.kind:
        case Kind.FOLDER:
            info.type = tarfile.DIRTYPE
        case Kind.LINK:
            info.type, info.linkname = tarfile.SYMTYPE, entry.target
    return info


class _Bounded:
    """File with a limit for each read, so that a header's wrong size can't fill the memory."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _HEADER_ROOM:
            raise InvalidError("the archive has a header of more than 1 MiB")
        return self._source.read(size)

    def seek(self, position: int, whence: int = 0) -> int:
        return self._source.seek(position, whence)

    def tell(self) -> int:
        return self._source.tell()


def read_entries(source: IO[bytes], max_files: int = MAX_FILES) -> list[Entry]:
    """Return the entries of an untrusted tar file, from its current position.

    Raises InvalidError for a truncated or damaged file, and for an entry that is no file, folder or symbolic link."""
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", _Bounded(source)), mode="r:", encoding="utf-8") as tar:
            entries = list(_entries_of(tar, source, max_files))
            _check_end(source, tar.offset)
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidError(f"invalid or truncated tar file: {str(error) or type(error).__name__}") from error
    return entries


def _entries_of(tar: tarfile.TarFile, source: IO[bytes], max_files: int) -> Iterator[Entry]:
    count = 0
    while (info := tar.next()) is not None:
        count += 1
        if count > max_files + 1:  # the top folder itself may be an entry
            raise InvalidError(f"the archive contains more than {max_files} files and folders")
        path = info.name.removeprefix("./").rstrip("/")
        if path in ("", ".") and info.isdir():
            continue
        if info.isreg() and not info.issparse():
            if info.size < 0:
                raise InvalidError(f"{ascii(path)[:200]} has a negative size")
            content = partial(_FileRange, source, info.offset_data, info.size)
            yield Entry(path, Kind.FILE, info.size, bool(info.mode & 0o111), open=content)
        elif info.isdir():
            yield Entry(path, Kind.FOLDER)
        elif info.issym():
            yield Entry(path, Kind.LINK, target=info.linkname)
        else:
            what = "a hard link" if info.islnk() else "a device" if info.isdev() else "not a plain file"
            raise InvalidError(
                f"{ascii(path)[:200]} is {what}: an archive may contain only files, folders and symbolic links"
            )


def _check_end(source: IO[bytes], offset: int) -> None:
    """Raise InvalidError for a truncated tar file, which lacks the blocks of zeros at the end."""
    source.seek(offset)
    if source.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise InvalidError("the archive is truncated, or damaged in the middle")


class _FileRange:
    """Byte range of a file, as a file to be read once."""

    def __init__(self, source: IO[bytes], start: int, size: int) -> None:
        self._source = source
        self._at = start
        self._left = size

    def read(self, size: int = -1) -> bytes:
        self._source.seek(self._at)
        data = self._source.read(self._left if size < 0 else min(size, self._left))
        self._at += len(data)
        self._left -= len(data)
        return data

    def close(self) -> None:
        """Do nothing: the underlying file stays open for other readers."""


def unpack(archive: Path, folder: Path) -> None:
    """Unpack one of our archives into an empty folder. Permissions are limited by this process's umask."""
    with archive.open("rb") as source:
        for entry in check_entries(read_entries(source), 1 << 62, MAX_FILES * 100):
            path = folder / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            match entry.kind:
                case Kind.FOLDER:
                    path.mkdir(exist_ok=True)
                case Kind.LINK:
                    path.symlink_to(entry.target)
                case Kind.FILE:
                    assert entry.open is not None
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                    mode = 0o777 if entry.executable else 0o666
                    with os.fdopen(os.open(path, flags, mode), "wb") as target, closing(entry.open()) as content:
                        while piece := content.read(_PIECE):
                            target.write(piece)


def open_file(path: str) -> Content:
    """Open a file, for `Entry.open`."""
    return open(path, "rb")


def show_bytes(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
