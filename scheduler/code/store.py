"""Store of code archives, one file each, named by its digest.

A file is complete or absent. The files are the only state; the modification time of a file is its last use. A service
that is killed at any moment leaves only files that begin with a dot, which the next service removes.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from schedulearn.scheduler.code.archive import (
    DIGEST,
    MAX_BYTES,
    MAX_FILES,
    Entry,
    read_entries,
    show_bytes,
    write_archive,
)
from schedulearn.scheduler.disk_room import is_low
from schedulearn.scheduler.errors import InvalidError, NoSpaceError, TooLargeError

_PARTIAL = ".partial-"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_GZIP = b"\x1f\x8b"
_PIECE = 1 << 20
_TAR_ROOM = 2048
"""Maximum overhead in bytes of a file in a tar file: header, long name, padding of the last block."""
_FRESH_S = 3600.0
"""Minimum time an archive stays after it was sent or named. A job that needs it may be stored soon."""


@dataclass(frozen=True)
class StoredCode:
    digest: str
    bytes: int
    used_at: float


class CodeStore:
    """Store of code archives. Thread-safe. `max_bytes` and `max_files` limit one archive."""

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> None:
        """Only one store at a time may use `folder`: partial files are removed."""
        self.folder = folder
        self.max_bytes = max_bytes
        self.max_files = max_files
        self._lock = threading.Lock()  # between the end of a write, a use and a removal
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for partial in folder.glob(f"{_PARTIAL}*"):
            shutil.rmtree(partial) if partial.is_dir() else partial.unlink(missing_ok=True)

    def path(self, digest: str) -> Path:
        """Return the path of an archive, whether or not it exists. Raises InvalidError for an invalid digest."""
        if not re.fullmatch(DIGEST, digest):
            raise InvalidError("a digest must be sha256: and 64 hexadecimal digits", field="digest")
        return self.folder / f"{digest.removeprefix('sha256:')}.tar"

    def find(self, digest: str) -> StoredCode | None:
        try:
            found = self.path(digest).stat()
        except FileNotFoundError:
            return None
        return StoredCode(digest, found.st_size, found.st_mtime)

    def all(self) -> list[StoredCode]:
        """Return all archives by last use, the longest unused first."""
        found = (self.find(f"sha256:{path.stem}") for path in self.folder.glob("*.tar"))
        return sorted((each for each in found if each is not None), key=lambda each: (each.used_at, each.digest))

    def use(self, digest: str) -> bool:
        """Record a use of an archive. False if it is not there."""
        with self._lock:
            try:
                os.utime(self.path(digest))
            except FileNotFoundError:
                return False
        return True

    def read(self, digest: str, path: str, most: int) -> bytes:
        """Return one file of an archive. Raises InvalidError if it is not there, or larger than `most` bytes."""
        try:
            with self.path(digest).open("rb") as archive:
                for entry in read_entries(archive, self.max_files):
                    if entry.path == path and entry.open is not None:
                        if entry.size > most:
                            raise InvalidError(f"{path} is larger than {show_bytes(most)}")
                        return entry.open().read()
        except FileNotFoundError:
            raise InvalidError(f"the code {digest} is not stored here, or no longer: send it again") from None
        raise InvalidError(f"there is no file {path} in the code {digest[:19]}")

    def receive(self) -> Upload:
        """`with store.receive() as upload:`, then `write` and `finish`. Raises NoSpaceError."""
        check_room(self.folder)
        return Upload(self)

    def keep(self, entries: Callable[[], list[Entry]], expected: str | None = None) -> StoredCode:
        """Pack and store the result of `entries`, unless it is stored already.

        `expected` is the sender's digest; raises InvalidError if the archive has a different one."""
        with self.partial() as target:
            written = write_archive(entries(), target, max_bytes=self.max_bytes, max_files=self.max_files)
            if expected not in (None, written.digest):
                raise InvalidError(
                    f"the archive received is {written.digest}, not {expected}: it changed on the way, send it again",
                    field="digest",
                )
            with self._lock:
                path = self.path(written.digest)
                if path.exists():
                    os.utime(path)
                else:
                    self._commit(target, path)
        return StoredCode(written.digest, written.bytes, time.time())

    @contextmanager
    def partial(self) -> Iterator[IO[bytes]]:
        """Open a private temporary file beside the archives. Raises NoSpaceError if the disk is full."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it may have been removed
        with (
            full_disk_told(self.folder),
            tempfile.NamedTemporaryFile(prefix=_PARTIAL, dir=self.folder, delete=False) as file,
        ):
            try:
                yield file.file
            finally:
                Path(file.name).unlink(missing_ok=True)

    def _commit(self, partial: IO[bytes], path: Path) -> None:
        partial.flush()
        os.fsync(partial.fileno())
        os.rename(partial.name, path)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def prune(self, needed: Callable[[], Collection[str]], room: int, now: float) -> list[StoredCode]:
        """Remove the longest unused archives until the rest fits into `room`.

        `room` is in bytes; 0 means no limit. `needed` returns the digests that must stay. It is called while no other
        archive can be used."""
        gone: list[StoredCode] = []
        with self._lock:
            stored = self.all()
            total = sum(each.bytes for each in stored)
            if room <= 0 or total <= room:
                return gone
            keep = needed()
            for each in stored:
                if total > room and each.digest not in keep and now - each.used_at > _FRESH_S:
                    self.path(each.digest).unlink(missing_ok=True)
                    gone.append(each)
                    total -= each.bytes
        return gone


class Upload:
    """Archive that is being sent, as a tar file, optionally compressed by gzip.

    Leaving its context removes the temporary file."""

    def __init__(self, store: CodeStore) -> None:
        self._store = store
        self._open = ExitStack()
        self._most = store.max_bytes + store.max_files * _TAR_ROOM
        self._begin = b""
        self._inflate: zlib._Decompress | None = None
        self._bytes = 0
        self.received = 0

    def __enter__(self) -> Self:
        self._file = self._open.enter_context(self._store.partial())
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def write(self, data: bytes) -> None:
        """Add received bytes. Raises TooLargeError, InvalidError and NoSpaceError."""
        self.received += len(data)
        if self.received > self._most:
            raise self._too_large()
        if len(self._begin) < len(_GZIP):
            self._begin += data
            if len(self._begin) < len(_GZIP):
                return
            data = self._begin
            if data.startswith(_GZIP):
                self._inflate = zlib.decompressobj(wbits=31)
        if self._inflate is None:
            self._store_piece(data)
            return
        while data:
            if self._inflate.eof:
                raise InvalidError("the compressed archive has data after its end")
            try:
                self._store_piece(self._inflate.decompress(data, _PIECE))
            except zlib.error as error:
                raise InvalidError(f"the compressed archive is damaged: {error}") from error
            data = self._inflate.unconsumed_tail or self._inflate.unused_data

    def _store_piece(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > self._most:
            raise self._too_large()
        with full_disk_told(self._store.folder):
            self._file.write(data)

    def _too_large(self) -> TooLargeError:
        most = show_bytes(self._store.max_bytes)
        return TooLargeError(
            f"the archive is larger than {most} (setting code_limit): leave out what the job does not need"
        )

    def finish(self, expected: str | None = None) -> StoredCode:
        """Store the archive. Raises InvalidError if it is incomplete or invalid, or not the `expected` one."""
        if self._inflate is not None and not self._inflate.eof:
            raise InvalidError("the compressed archive is truncated")
        if not self.received:
            raise InvalidError("there is no archive in the request: send a tar file as its body")
        self._file.flush()
        self._file.seek(0)
        return self._store.keep(lambda: read_entries(self._file, self._store.max_files), expected)


def check_room(folder: Path) -> None:
    """Raise NoSpaceError if free disk space is below the low-water mark."""
    if is_low(folder):
        raise NoSpaceError(f"the disk of {folder} is almost full: free disk space there, then try again")


@contextmanager
def full_disk_told(folder: Path) -> Iterator[None]:
    """Convert the errors of a full disk into NoSpaceError."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise NoSpaceError(f"no disk space for the archive in {folder}: {error.strerror}") from error
