"""Folders as tar archives: packed, unpacked, and read from a stream."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from schedulearn.scheduler.runtimes.contract import FileEntry, FileKind

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK = 1 << 20
_BLOCK = tarfile.BLOCKSIZE


def pack(folder: Path) -> Iterator[bytes]:
    """Yield a folder as a tar archive; nothing if it does not exist.

    A file that shrinks meanwhile is padded with zeros, which keeps the archive valid. The packed content has checksums
    of its own. Devices, and links that may lead out of the folder, are left out."""
    if not folder.is_dir():
        return
    for path in [folder, *sorted(folder.rglob("*"))]:
        try:
            info = tarfile.TarInfo(os.path.join(".", path.relative_to(folder)))
            found = path.lstat()
            info.mode, info.mtime = found.st_mode & 0o7777, found.st_mtime
            if path.is_symlink():
                info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
                if _stays_inside(path.relative_to(folder), info.linkname):
                    yield _header(info)
                continue
            if path.is_dir():
                info.type = tarfile.DIRTYPE
                yield _header(info)
                continue
            if not path.is_file():
                continue
            with path.open("rb") as file:
                info.size = os.fstat(file.fileno()).st_size
                yield _header(info)
                left = info.size
                while left:
                    data = file.read(min(CHUNK, left)) or bytes(min(CHUNK, left))
                    left -= len(data)
                    yield data
                yield bytes(-info.size % _BLOCK)
        except FileNotFoundError:
            continue  # removed meanwhile
    yield bytes(2 * _BLOCK)


def unpack(archive: Iterable[bytes], folder: Path) -> None:
    """Replace the folder with the content of the archive. A failure leaves no partial folder."""
    incoming = folder.with_name(f".{folder.name}.incoming")
    shutil.rmtree(incoming, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    incoming.mkdir(parents=True)
    try:
        extract(archive, incoming)
        incoming.rename(folder)
    except BaseException:
        shutil.rmtree(incoming, ignore_errors=True)
        raise


def extract(archive: Iterable[bytes], folder: Path) -> list[str]:
    """Extract an archive into a folder; return the names left out.

    Devices, and links that lead out of the folder, are left out. Raises TarError for an archive that is truncated at
    any point."""
    left_out: list[str] = []

    def only_what_stays_inside(member: tarfile.TarInfo, place: str) -> tarfile.TarInfo | None:
        try:
            return tarfile.data_filter(member, place)
        except tarfile.FilterError:
            left_out.append(member.name)
            return None

    chunks = to_the_end(archive)
    with reading(chunks) as tar:
        tar.extractall(folder, filter=only_what_stays_inside)  # noqa: S202  # as strict as "data"
    for _ in chunks:
        pass
    return left_out


def to_the_end(archive: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the archive's bytes unchanged; raise ReadError if its end marker is missing.

    A tar reader would not notice that whole files are missing."""
    tail = b""
    for chunk in archive:
        tail = (tail + chunk)[-2 * _BLOCK :] if len(chunk) < 2 * _BLOCK else chunk[-2 * _BLOCK :]
        yield chunk
    if tail != bytes(2 * _BLOCK):
        raise tarfile.ReadError("the archive ends too early")


@contextmanager
def reading(chunks: Iterator[bytes]) -> Iterator[tarfile.TarFile]:
    """Open a streamed archive, to be read once from front to back."""
    with tarfile.open(fileobj=io.BufferedReader(_Chunks(chunks), CHUNK), mode="r|", bufsize=CHUNK) as tar:
        yield tar


def entry_of(member: tarfile.TarInfo, name: str) -> FileEntry:
    if member.isdir():
        return FileEntry(name, FileKind.FOLDER, 0, float(member.mtime))
    if member.issym():
        return FileEntry(name, FileKind.LINK, 0, float(member.mtime), member.linkname)
    if member.isreg() or member.islnk():
        return FileEntry(name, FileKind.FILE, member.size, float(member.mtime))
    return FileEntry(name, FileKind.OTHER, 0, float(member.mtime))


def _header(info: tarfile.TarInfo) -> bytes:
    return info.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape")


def _stays_inside(link: Path, target: str) -> bool:
    depth = len(link.parts) - 1
    for name in PurePosixPath(target).parts:
        depth += -1 if name == ".." else 1
        if depth < 0 or name == "/":
            return False
    return True


class _Chunks(io.RawIOBase):
    """Readable raw file over an iterable of bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        target = memoryview(buffer)
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        taken = min(len(target), len(self._rest))
        target[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken
