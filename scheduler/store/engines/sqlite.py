"""SQLite database in a file, which one process writes."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import QueuePool

from schedulearn.scheduler.disk_room import is_low
from schedulearn.scheduler.errors import StoreError
from schedulearn.scheduler.private_files import close_path
from schedulearn.scheduler.store.engines.causes import cause, name_of
from schedulearn.scheduler.store.engines.database_files import DatabaseFiles

WRITER = "store-writer"
"""Name of the writer thread."""

_DAMAGED = ("malformed", "not a database", "corrupt")


def make_engine(url: str, options: Mapping[str, Any]) -> Engine:
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=4,
        max_overflow=12,
        connect_args={"check_same_thread": False},
        **options,
    )
    is_made = False

    @event.listens_for(engine, "do_connect")
    def _connect(
        _dialect: object, _record: object, given: list[str], options: dict[str, Any]
    ) -> sqlite3.Connection | None:
        """Let only the first connection create the file.

        A later connection would create an empty file in place of one that was removed."""
        nonlocal is_made
        if not is_made or ":memory:" in given[0]:
            is_made = True
            return None
        again: sqlite3.Connection = sqlite3.connect(
            f"{Path(given[0]).absolute().as_uri()}?mode=rw", uri=True, **options
        )
        return again

    @event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not guessed by the driver
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout = 5000")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")  # a commit that was acknowledged survives a power loss
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        is_writer = threading.current_thread().name == WRITER
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")

    return engine


@contextmanager
def kept_beside(engine: Engine, version: str) -> Iterator[None]:
    """Keep a copy beside the database until the block succeeds. Raises StoreError."""
    file = engine.url.database
    if engine.dialect.name != "sqlite" or not file:
        yield
        return
    # An existing copy is from an upgrade that failed or was killed: the database may be partly upgraded since.
    copy = next(_copies(Path(file)), Path(f"{file}.{version}"))
    part = Path(f"{copy}.part")
    try:
        if not copy.exists():
            part.unlink(missing_ok=True)
            with closing(sqlite3.connect(file)) as connection:
                connection.execute("VACUUM INTO ?", (str(part),))
            close_path(part)
            part.rename(copy)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise StoreError(f"the database can't be copied to {copy} before it is upgraded: {error}") from error
    try:
        yield
    except Exception as error:
        raise StoreError(
            f"the database could not be upgraded: {error}. {copy} is a copy from before the upgrade"
        ) from error
    copy.unlink()


def _copies(file: Path) -> Iterator[Path]:
    """Return the copies of a database, the oldest version first."""
    return iter(sorted(file.parent.glob(f"{file.name}.[0-9][0-9][0-9][0-9]")))


def check_whole(engine: Engine) -> None:
    """Raise StoreError for a damaged database, before anything is written to it.

    Reads each page once."""
    try:
        with engine.connect() as connection:
            found = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
    except DatabaseError as error:
        found = cause(error)
        if not any(word in found for word in _DAMAGED):
            raise StoreError(f"the database {name_of(engine)} can't be used: {found}") from error
    if found != "ok":
        found = found.splitlines()[-1]
        raise StoreError(
            f"the database {name_of(engine)} can't be used: it is damaged ({found}). Move schedulearn.db, "
            "schedulearn.db-wal and schedulearn.db-shm away, and restore the last backup into the same folder: "
            "schedulearn restore FILE --data FOLDER. Jobs submitted after that backup are lost, and their containers "
            "are stopped."
        )


def close_to_others(engine: Engine) -> None:
    """Make the files accessible to the service's user only.

    This includes databases of an older version, and those outside the data folder."""
    file = engine.url.database
    if file and file != ":memory:":
        for suffix in ("", "-wal", "-shm"):
            close_path(Path(file + suffix))


_JOURNAL_BYTES = 8 << 20
"""Space of the write-ahead log, reserved at the start. It does not grow again.

This much can be written when the disk is full."""


def take_journal(engine: Engine) -> None:
    """Reserve the space of the write-ahead log, unless the disk is nearly full.

    SQLite ignores bytes behind the end of the log."""
    file = engine.url.database
    if not file or is_low(Path(file).parent):
        return
    with suppress(OSError), open(f"{file}-wal", "r+b") as journal:
        os.posix_fallocate(journal.fileno(), 0, _JOURNAL_BYTES)


class FileWriting:
    """Writing to a file: file locks, held by `cluster.py`, exclude other services."""

    beat_s: float | None = 1.0
    leads = True

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._files: DatabaseFiles | None = None

    def begin(self) -> Connection:
        return self._engine.connect()

    def claim(self, connection: Connection) -> None:
        file = self._engine.url.database
        if file and file != ":memory:":
            self._files = DatabaseFiles(Path(file))

    def resume(self) -> Connection:
        return self._engine.connect()

    def beat(self, connection: Connection) -> None:
        if self._files is not None:
            self._files.check()
            self._files.check_writable()

    def check_kept(self) -> None:
        if self._files is not None:
            self._files.check()

    def rescue(self) -> str:
        return self._files.rescue() if self._files is not None else ""

    def confirm(self, since: float) -> None:
        pass

    def leave(self, connection: Connection) -> None:
        pass

    def close(self) -> None:
        if self._files is not None:
            self._files.close()
