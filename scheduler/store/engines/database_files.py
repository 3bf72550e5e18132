"""Files of an SQLite database, watched while they are open.

A file that is removed or replaced stays open. SQLite keeps writing to it, and all of that is lost with the process.
Therefore each commit is acknowledged only after a check that the files are in place. If they are not, the open database
is copied to a new file.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

from schedulearn.scheduler.errors import DatabaseLostError, UnwritableError
from schedulearn.scheduler.private_files import close_path

_MAGIC = b"SQLite format 3\0"
_LOG_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_LOG_HEAD, _FRAME_HEAD = 32, 24
_INDEX_HEAD = struct.Struct("=14xHI")
"""Head of the log's index: the page size (1 means 65,536), and the number of frames in the log."""

_Identity = tuple[int, int]


class DatabaseFiles:
    """Database file, write-ahead log and the log's index.

    Their identities are recorded at creation. Close it after all connections."""

    def __init__(self, file: Path) -> None:
        self._file = file.resolve()
        self._wal = Path(f"{self._file}-wal")
        # The last connection that closes removes the log. This one stays open, so only another program can remove it.
        self._open = sqlite3.connect(self._file, check_same_thread=False, isolation_level=None)
        self._open.execute("PRAGMA journal_mode = WAL").fetchall()
        self._open.execute("SELECT count(*) FROM sqlite_master").fetchall()
        self._descriptor = os.open(self._file, os.O_RDONLY)
        index = Path(f"{self._file}-shm")
        self._log, self._index = (os.open(path, os.O_RDONLY) for path in (self._wal, index))
        self._identities = {path: _identity(path) for path in (self._file, self._wal, index)}

    def close(self) -> None:
        self._open.close()
        os.close(self._log)
        os.close(self._index)
        os.close(self._descriptor)  # not earlier: closing it releases SQLite's locks on this file

    def check(self) -> None:
        """Raise DatabaseLostError if another process would not find what was committed."""
        for path, identity in self._identities.items():
            found = _identity(path)
            if found != identity:
                what = "replaced" if found is not None else "removed"
                raise DatabaseLostError(f"{path.name} was {what} while the service used it")
        if os.pread(self._descriptor, len(_MAGIC), 0) != _MAGIC:
            raise DatabaseLostError(f"{self._file.name} was overwritten while the service used it")
        if self._lacks_frames() and self._lacks_frames():  # twice: another program may just be restarting the log
            raise DatabaseLostError(f"{self._wal.name} was truncated or overwritten while the service used it")

    def _lacks_frames(self) -> bool:
        """Return whether the log is shorter than its index says, or has no head.

        Another process would find nothing in such a log."""
        size, head = os.fstat(self._log).st_size, os.pread(self._log, len(_LOG_MAGIC[0]), 0)
        page, frames = _INDEX_HEAD.unpack(os.pread(self._index, _INDEX_HEAD.size, 0))
        needed = _LOG_HEAD + frames * (_FRAME_HEAD + (page if page > 1 else 1 << 16))
        return frames > 0 and (size < needed or head not in _LOG_MAGIC)

    def check_writable(self) -> None:
        """Raise UnwritableError for a file that became read-only or immutable.

        SQLite can still write open files of that kind for a while."""
        for path in (self._file, self._wal):
            if not os.access(path, os.W_OK):
                raise UnwritableError(f"{path.name} can't be written: it is read-only or immutable")

    def rescue(self) -> str:
        """Copy the open database to a new file, and return what to do.

        The new file takes the place of the lost one, unless another file is there."""
        copy = self._file.with_name(f"{self._file.name}.rescued")
        try:
            copy.unlink(missing_ok=True)
            with closing(sqlite3.connect(copy)) as target:
                self._open.backup(target)
                [found] = target.execute("PRAGMA quick_check(1)").fetchone()
            close_path(copy)
            if found != "ok":
                copy.unlink()
                return (
                    f"The open database is damaged ({found}): restore the last backup, see `schedulearn restore "
                    "--help`."
                )
            if _identity(self._file) in (None, self._identities[self._file]):
                for suffix in ("-wal", "-shm"):
                    Path(f"{self._file}{suffix}").unlink(missing_ok=True)
                os.replace(copy, self._file)
                _flush(self._file.parent)
                return "Nothing was lost: a new file of this name has all stored data. Start the service again."
        except (sqlite3.Error, OSError) as error:
            return (
                f"The open database can't be copied ({error}): restore the last backup, see `schedulearn restore "
                "--help`."
            )
        return (
            f"All stored data is in {copy}. {self._file} is a different file now: keep one of the two under that "
            f"name, remove {self._wal.name} and {self._file.name}-shm, and start the service again."
        )


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
