"""Store of the content of data sets.

It has each file once, named by its digest, and a manifest for each version. A file gets its name only when it is
complete and its digest is verified. A manifest is written once all its files are stored. Partial uploads stay for a
day, so that they can be resumed, even after the service was killed.
"""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from schedulearn.scheduler.code.archive import Kind, read_entries, show_bytes
from schedulearn.scheduler.code.store import check_room, full_disk_told
from schedulearn.scheduler.data.manifest import (
    BLOB,
    MAX_BYTES,
    MAX_FILES,
    Blob,
    Manifest,
    check_digest,
    read_manifest,
)
from schedulearn.scheduler.errors import ConflictError, InvalidError, NoSpaceError, NotFoundError

BATCH_BYTES, BATCH_FILES = 64 << 20, 2000
"""Limits of one request that sends many small files."""
FRESH_S = 86_400.0
"""Minimum time that content without a version stays, because an upload may be resumed."""
_PIECE = 1 << 20
_WHEN = 315_619_200  # as in archives of code


@dataclass(frozen=True)
class MissingBlob:
    """Content that must be sent; `received` bytes of it are stored."""

    name: str
    size: int
    received: int


class DataStore:
    """Store of the content of data sets. Thread-safe.

    `room` limits all content together, and `per_user` the versions of one user, in bytes. 0 means no limit except the
    disk."""

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = MAX_BYTES,
        max_files: int = MAX_FILES,
        room: int = 0,
        per_user: int = 0,
    ) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.max_files = max_files
        self.room = room
        self.per_user = per_user
        self._blobs, self._versions, self._incoming = folder / "blobs", folder / "versions", folder / "incoming"
        self._lock = threading.Lock()  # between the end of an upload, a new version and a removal
        self._open: set[str] = set()
        """Names of the content that is being sent."""
        for each in (self._blobs, self._versions, self._incoming):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)

    # Uploads.

    def missing(self, manifest: Manifest) -> list[MissingBlob]:
        """Return the content of a manifest that is not stored yet.

        The content that is stored stays for a day, whether or not a version names it. Raises NoSpaceError if the
        missing content would not fit into `room`."""
        found = []
        for blob in manifest.blobs:
            if not self._touch(blob):
                found.append(MissingBlob(blob.name, blob.size, self._received(blob.name)))
        needed = sum(each.size for each in found)
        if self.room and needed and self.used() + needed > self.room:
            raise NoSpaceError(
                f"the data needs {show_bytes(needed)} more, which exceeds the quota of {show_bytes(self.room)} "
                "(setting data_store): remove unused versions with `schedulearn data rm`"
            )
        return found

    def append(self, name: str, size: int, offset: int) -> BlobUpload:
        """Return a context manager for sending the content `name` from `offset` on.

        It raises ConflictError if the stored bytes don't end at `offset`, or if another request is sending the
        content."""
        _check_blob(name)
        if not 0 <= size <= self.max_bytes:
            raise InvalidError(
                f"a file may have at most {show_bytes(self.max_bytes)} (setting data_limit)", field="size"
            )
        check_room(self.folder)
        return BlobUpload(self, name, size, offset)

    def put_many(self, source: IO[bytes]) -> int:
        """Store the files of a tar file, each named by its digest; return their number.

        Raises InvalidError for an invalid entry; no file is stored then."""
        check_room(self.folder)
        ready: list[tuple[Path, str]] = []
        with tempfile.TemporaryDirectory(prefix="batch-", dir=self._incoming) as folder, full_disk_told(self.folder):
            for entry in read_entries(source, BATCH_FILES):
                _check_blob(entry.path)
                if entry.open is None:
                    raise InvalidError(f"{entry.path} is not a file")
                path = Path(folder, entry.path)
                with closing(entry.open()) as content, path.open("xb") as target:
                    if _copy(content.read, target) != entry.path:
                        raise InvalidError(
                            f"the content of {entry.path} has a different digest: it changed on the way, send it again"
                        )
                ready.append((path, entry.path))
            os.sync()  # once for all files: flushing each file would take most of the time
            for path, name in ready:
                self._commit(path, name)
        return len(ready)

    def add(self, pieces: Iterator[bytes]) -> Blob:
        """Store content whose digest is not known in advance.

        Raises NoSpaceError, and InvalidError if it is too large."""
        check_room(self.folder)
        size = 0
        digest = hashlib.sha256()
        with full_disk_told(self.folder), tempfile.TemporaryDirectory(prefix="batch-", dir=self._incoming) as folder:
            path = Path(folder, "content")
            with path.open("xb") as target:
                for piece in pieces:
                    size += len(piece)
                    if size > self.max_bytes:
                        raise InvalidError(f"a file may have at most {show_bytes(self.max_bytes)} (setting data_limit)")
                    digest.update(piece)
                    target.write(piece)
                target.flush()
                os.fsync(target.fileno())
            self._commit(path, digest.hexdigest())
        return Blob(digest.hexdigest(), size)

    def keep(self, manifest: Manifest) -> str:
        """Store a version, and return its digest. Raises ConflictError if some of its content is not stored."""
        digest = manifest.digest
        with self._lock, full_disk_told(self.folder):
            lacking = next((blob for blob in manifest.blobs if not self._touch(blob)), None)
            if lacking is not None:
                raise ConflictError(f"the content {lacking.name} is not stored here, or no longer: send it again")
            path = self._version(digest)
            if path.exists():
                os.utime(path)
                return digest
            with tempfile.NamedTemporaryFile(dir=self._incoming, delete=False) as file:
                file.write(manifest.text())
                file.flush()
                os.fsync(file.fileno())
            os.rename(file.name, path)
            _flush_folder(self._versions)
        return digest

    # Reading.

    def manifest(self, digest: str) -> Manifest:
        """Return the manifest of a version. Raises NotFoundError."""
        try:
            return read_manifest(self._version(digest).read_bytes())
        except FileNotFoundError:
            raise NotFoundError(f"the content {digest} is not stored here, or no longer") from None

    def pack(self, manifest: Manifest) -> Iterator[bytes]:
        """Return a version, or a part of it, as a tar archive. Reading it may raise OSError."""
        return _packed(manifest, self._blob)

    def used(self) -> int:
        """Return the bytes of all content, including partial uploads."""
        return sum(entry.stat().st_size for folder in (self._blobs, self._incoming) for entry in _files_below(folder))

    # Removal.

    def collect(self, needed: Callable[[], Collection[str]], now: float) -> int:
        """Remove unused content, and return the number of bytes freed.

        Content is unused if no version in `needed` names it and it was not sent within a day."""
        freed = 0
        with self._lock:
            wanted, named = needed(), set[str]()
            for path in self._versions.iterdir():
                if f"sha256:{path.stem}" in wanted or now - path.stat().st_mtime < FRESH_S:
                    named.update(blob.name for blob in read_manifest(path.read_bytes()).blobs)
                else:
                    path.unlink()
            for entry in _files_below(self._blobs):
                if entry.name not in named:
                    freed += _remove_old(entry, now)
            for entry in _files_below(self._incoming):
                if entry.name not in self._open:
                    freed += _remove_old(entry, now)
        return freed

    # Files.

    def _blob(self, name: str) -> Path:
        return self._blobs / name[:2] / name

    def _version(self, digest: str) -> Path:
        return self._versions / f"{check_digest(digest).removeprefix('sha256:')}.json"

    def _received(self, name: str) -> int:
        try:
            return (self._incoming / name).stat().st_size
        except FileNotFoundError:
            return 0

    def _touch(self, blob: Blob) -> bool:
        """Whether the content is completely stored. If True, it counts as just sent."""
        path = self._blob(blob.name)
        try:
            if path.stat().st_size != blob.size:
                return False
            os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def _commit(self, path: Path, name: str) -> None:
        with self._lock:
            target = self._blob(name)
            target.parent.mkdir(mode=0o700, exist_ok=True)
            os.utime(path)
            os.rename(path, target)


class BlobUpload:
    """Upload of content. Received bytes stay if the upload ends early."""

    def __init__(self, store: DataStore, name: str, size: int, offset: int) -> None:
        self._store = store
        self._name = name
        self._size = size
        self._offset = offset
        self._path = store._incoming / name

    def __enter__(self) -> BlobUpload:
        store = self._store
        with store._lock:
            if self._name in store._open:
                raise ConflictError(f"another request is sending the content {self._name}: try again in a moment")
            if store._received(self._name) != self._offset:
                raise ConflictError(
                    f"{store._received(self._name)} bytes of {self._name} are stored: continue from there"
                )
            store._open.add(self._name)
        try:
            self._file = self._path.open("ab")
        except OSError:
            store._open.discard(self._name)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._store._open.discard(self._name)

    @property
    def received(self) -> int:
        return self._file.tell()

    def write(self, data: bytes) -> None:
        """Add received bytes. Raises InvalidError for more bytes than the content has, and NoSpaceError."""
        if self.received + len(data) > self._size:
            raise InvalidError(f"received more than the {self._size} bytes of {self._name}")
        with full_disk_told(self._store.folder):
            self._file.write(data)
            self._file.flush()

    def finish(self) -> int:
        """Store the content if it is complete; return the number of received bytes.

        If its digest differs, raises InvalidError and deletes all received bytes."""
        if self.received == self._size:
            with full_disk_told(self._store.folder):
                os.fsync(self._file.fileno())
            with self._path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != self._name:
                self._path.unlink(missing_ok=True)
                raise InvalidError(
                    f"the content of {self._name} has a different digest: it changed on the way, send it again"
                )
            self._store._commit(self._path, self._name)
        return self.received


def blob_of(read: Callable[[int], bytes]) -> str:
    """Read content to its end, and return its name."""
    digest = hashlib.sha256()
    while piece := read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


def _copy(read: Callable[[int], bytes], target: IO[bytes]) -> str:
    """Copy content, and return its name."""

    def taken(size: int) -> bytes:
        piece = read(size)
        target.write(piece)
        return piece

    return blob_of(taken)


def _packed(manifest: Manifest, path_of: Callable[[str], Path]) -> Iterator[bytes]:
    for item in manifest.items:
        info = tarfile.TarInfo(f"./{item.path}")
        info.mtime, info.mode, info.size = _WHEN, 0o755 if item.executable else 0o644, item.size
        match item.kind:
            case Kind.FOLDER:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            case Kind.LINK:
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, item.target, 0o777
        yield info.tobuf(tarfile.PAX_FORMAT)
        if item.kind is Kind.FILE:
            with path_of(item.blob).open("rb") as file:
                while piece := file.read(_PIECE):
                    yield piece
            if padding := -item.size % tarfile.BLOCKSIZE:
                yield bytes(padding)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _check_blob(name: str) -> None:
    if not re.fullmatch(BLOB, name):
        raise InvalidError("the name of content must be its SHA-256, 64 hexadecimal digits")


def _files_below(folder: Path) -> Iterator[Path]:
    for path, _, names in os.walk(folder):
        for name in names:
            yield Path(path, name)


def _remove_old(path: Path, now: float) -> int:
    try:
        found = path.stat()
        if now - found.st_mtime < FRESH_S:
            return 0
        path.unlink()
    except FileNotFoundError:
        return 0
    return found.st_size


@contextmanager
def _opened_folder(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def _flush_folder(folder: Path) -> None:
    with _opened_folder(folder) as fd:
        os.fsync(fd)
