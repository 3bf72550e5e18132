"""Files of the database that are removed, replaced or overwritten while the service uses them."""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from clusters import wait_for
from sqlalchemy import event, insert
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from schedulearn.scheduler.errors import DatabaseLostError, StoreError, UnwritableError
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.engines.database_files import DatabaseFiles
from schedulearn.scheduler.store.models import Meta


class Lost:
    """A database whose files come to harm; `told` is what it said then."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "schedulearn.db"
        self.wal = folder / "schedulearn.db-wal"
        self.told: list[str] = []
        self.db = Database(sqlite_url(folder), on_lost=self.told.append)

    def put(self, key: str) -> None:
        self.db.write(lambda conn: conn.execute(insert(Meta).values(key=key, value="v")))

    def stored(self, file: Path | None = None) -> set[str]:
        """Keys that another process finds."""
        with closing(sqlite3.connect(file or self.file)) as connection:
            return {key for (key,) in connection.execute("SELECT key FROM meta")}


@pytest.fixture
def lost(tmp_path: Path) -> Iterator[Lost]:
    made = Lost(tmp_path)
    yield made
    made.db.close()


def remove_log(lost: Lost) -> None:
    lost.wal.unlink()


def remove_database(lost: Lost) -> None:
    lost.file.unlink()


def remove_all(lost: Lost) -> None:
    for each in lost.file.parent.iterdir():
        each.unlink()


def replace_log(lost: Lost) -> None:
    copy = lost.wal.with_name("copy")
    shutil.copy(lost.wal, copy)
    os.replace(copy, lost.wal)


def remove_index(lost: Lost) -> None:
    lost.file.with_name("schedulearn.db-shm").unlink()


@pytest.mark.parametrize("harm", [remove_log, remove_database, remove_all, replace_log, remove_index])
def test_what_was_acknowledged_is_saved_and_nothing_is_acknowledged_any_more(
    lost: Lost, harm: Callable[[Lost], None]
) -> None:
    lost.put("before")
    harm(lost)
    with pytest.raises(StoreError):
        lost.put("after")
    with pytest.raises(DatabaseLostError, match="while the service used it"):
        lost.put("later")
    assert isinstance(lost.db.trouble, DatabaseLostError)
    [told] = lost.told
    assert "Start the service again" in told
    assert "before" in lost.stored()  # with the other connections still open, as when the process is killed
    assert "later" not in lost.stored()
    assert lost.file.stat().st_mode & 0o077 == 0


def test_it_is_noticed_while_nothing_is_written(lost: Lost) -> None:
    lost.put("before")
    remove_log(lost)
    wait_for(lambda: lost.told, seconds=5, what="the loss to be noticed")
    assert "before" in lost.stored()


def test_a_file_that_somebody_put_in_its_place_stays(lost: Lost, tmp_path: Path) -> None:
    lost.put("before")
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    content = other.read_bytes()
    os.replace(other, lost.file)
    with pytest.raises(StoreError):
        lost.put("after")
    assert lost.file.read_bytes() == content
    assert "before" in lost.stored(tmp_path / "schedulearn.db.rescued")
    assert "schedulearn.db.rescued" in lost.told[0]


@pytest.mark.parametrize("content", [b"", b"not a database" * 1000])
def test_a_file_that_was_overwritten_is_never_taken_for_whole(lost: Lost, content: bytes) -> None:
    lost.put("before")
    lost.file.write_bytes(content)
    wait_for(lambda: lost.told, seconds=5, what="the loss to be noticed")
    assert "overwritten" in lost.told[0]
    with pytest.raises(StoreError):
        lost.put("after")
    assert lost.file.read_bytes() == content or "before" in lost.stored()


@pytest.mark.parametrize("length", [0, 100, 9000])
@pytest.mark.parametrize("is_idle", [True, False])
def test_nothing_is_acknowledged_into_a_log_that_was_cut(lost: Lost, length: int, is_idle: bool) -> None:
    """What was in it is gone; what comes later must not be."""
    for number in range(5):
        lost.put(f"key {number}")
    os.truncate(lost.wal, length)
    if is_idle or length > 32:
        wait_for(lambda: lost.told, seconds=5, what="the loss to be noticed")
    with pytest.raises(StoreError):
        lost.put("after")
    assert "schedulearn.db-wal was truncated or overwritten" in str(lost.db.trouble)
    assert lost.told


def test_another_program_that_reads_it_is_no_loss(lost: Lost) -> None:
    for number in range(3):
        lost.put(f"key {number}")
        lost.stored()
        with closing(sqlite3.connect(lost.file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert not lost.told
    assert lost.db.trouble is None


def test_a_write_that_failed_is_told_until_one_succeeds(lost: Lost) -> None:
    full = True

    def commit(_: Connection) -> None:
        if full:
            raise OperationalError("COMMIT", None, Exception("database or disk is full"))

    event.listen(lost.db.engine, "commit", commit)
    with pytest.raises(StoreError, match="full"):
        lost.put("a")
    assert isinstance(lost.db.trouble, UnwritableError)
    assert "full" not in str(lost.db.trouble), "anybody may ask for it"
    full = False
    wait_for(lambda: lost.db.trouble is None, seconds=5, what="a try")  # nobody writes: it tries by itself
    lost.put("a")


def test_a_file_that_became_read_only_is_told_until_it_is_not(lost: Lost, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != lost.wal and real(path, mode))
    wait_for(lambda: isinstance(lost.db.trouble, UnwritableError), seconds=5, what="a look")
    lost.put("a")  # what is open can be written for a while; that makes it no better
    assert lost.db.trouble is not None
    monkeypatch.undo()
    wait_for(lambda: lost.db.trouble is None, seconds=5, what="a look")


def test_a_look_is_cheap(tmp_path: Path) -> None:
    """One comes before each acknowledgement."""
    from time import perf_counter

    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
    files = DatabaseFiles(tmp_path / "a.db")
    began = perf_counter()
    for _ in range(1000):
        files.check()
    assert perf_counter() - began < 0.5
    files.close()


def test_who_connects_anew_makes_no_file_in_place_of_a_removed_one(lost: Lost) -> None:
    lost.put("a")
    remove_all(lost)

    def connect_often() -> None:
        with ExitStack() as held:
            for _ in range(20):  # more than are kept open
                held.enter_context(lost.db.engine.connect())

    with pytest.raises(OperationalError, match="unable to open database file"):
        connect_often()
    assert not lost.file.exists()
