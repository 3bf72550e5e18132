"""Of several services on one database of PostgreSQL one writes."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from clusters import wait_for
from sqlalchemy import insert, text
from sqlalchemy.exc import DatabaseError

from schedulearn.scheduler.errors import InUseError, StoreError, UnwritableError
from schedulearn.scheduler.store import db as store
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.engines import turns
from schedulearn.scheduler.store.engines.turns import LockedWriting
from schedulearn.scheduler.store.models import Meta


@pytest.fixture
def url(postgres: Any) -> Iterator[str]:
    url = postgres.create()
    yield url
    postgres.drop(url)


def put(database: Database, key: str) -> None:
    database.write(lambda db: db.execute(insert(Meta).values(key=key, value="v")))


def is_written(database: Database, key: str) -> bool:
    try:
        put(database, key)
    except StoreError:
        return False
    return True


def cut(postgres: Any, url: str, *, lock_only: bool = False) -> None:
    """Ends the sessions of a database: all, or the one that has the lock."""
    which = "pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')" if lock_only else "TRUE"
    ours = "datname = current_database() AND pid <> pg_backend_pid()"
    postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours} AND {which}", url)


def test_a_second_one_is_refused_until_the_first_one_is_closed(url: str) -> None:
    first = Database(url)
    with pytest.raises(InUseError, match="another Schedulearn uses the database postgresql://"):
        Database(url)
    put(first, "k")
    assert first.leads
    first.close()
    second = Database(url)
    with second.read() as db:
        assert repository.meta(db, "k") == "v"
    second.close()


@pytest.mark.parametrize("lock_only", [True, False])
def test_a_lost_connection_is_made_anew(postgres: Any, url: str, lock_only: bool) -> None:
    deposed: list[int] = []
    database = Database(url, on_deposed=lambda: deposed.append(1))
    cut(postgres, url, lock_only=lock_only)
    wait_for(lambda: is_written(database, "k"), what="a change")
    with database.read() as db:
        assert repository.meta(db, "k") == "v"
    with pytest.raises(InUseError):
        Database(url)
    wait_for(lambda: database.leads)
    assert not deposed
    database.close()


def test_it_goes_on_when_the_server_is_back(postgres: Any, url: str) -> None:
    database = Database(url)
    postgres.stop()
    try:
        with pytest.raises(StoreError, match="could not be written"):
            put(database, "k")
        with pytest.raises(StoreError, match="can't be reached"), database.read():
            pass
        wait_for(lambda: not database.leads, what="the end of its lead")
    finally:
        postgres.start()
    wait_for(lambda: is_written(database, "k"), what="a change")
    wait_for(lambda: database.leads)
    database.close()


def test_whoever_lost_the_database_to_another_one_never_writes_again(postgres: Any, url: str) -> None:
    deposed = threading.Event()
    first = Database(url, on_deposed=deposed.set)
    gate = threading.Event()
    held = first.submit(lambda db: gate.wait(60))  # its writer sees nothing of what happens meanwhile
    wait_for(lambda: postgres.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'", url))
    cut(postgres, url)
    second = Database(url)
    assert not first.leads  # the second one has waited for that
    put(second, "theirs")
    gate.set()
    with pytest.raises(StoreError):
        held.result(60)
    with pytest.raises(StoreError):
        put(first, "ours")
    assert deposed.wait(60)
    with pytest.raises(StoreError, match="taken over this service's database"):
        put(first, "ours")
    assert not first.leads
    first.close()
    with second.read() as db:
        assert repository.meta(db, "ours") is None
        assert repository.meta(db, "theirs") == "v"
    put(second, "again")
    second.close()


@pytest.mark.parametrize("at_work", [True, False])
def test_one_that_hangs_is_replaced_and_what_it_writes_then_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch, at_work: bool
) -> None:
    """Its sessions live on: the system of a process that is stopped answers for it."""
    monkeypatch.setattr(turns, "HANG_S", 1.0)
    monkeypatch.setattr(turns, "LOOK_S", 0.3)
    monkeypatch.setattr(turns, "GRACE_S", 2.5)
    deposed, gate = threading.Event(), threading.Event()
    first = Database(url, on_deposed=deposed.set)
    if at_work:  # it stops in the midst of a change, of which the server has one half
        half = insert(Meta).values(key="half", value="v")
        held = first.submit(lambda db: (db.execute(half), gate.wait(60)))
    else:
        monkeypatch.setattr(LockedWriting, "beat", lambda self, connection: gate.wait(60))
        held = None
    second: list[Database] = []

    def is_second() -> bool:
        try:
            second.append(Database(url))
        except InUseError:
            return False
        return True

    wait_for(is_second, seconds=30, pause=0.2, what="the second one's turn")
    monkeypatch.undo()
    gate.set()
    if held is not None:
        with pytest.raises(StoreError):
            held.result(60)
    for key in ("ours", "ours too"):
        with pytest.raises(StoreError):
            put(first, key)
    with pytest.raises(StoreError):
        first.confirm_lead()
    assert deposed.wait(60)
    first.close()
    with second[0].read() as db:
        assert {repository.meta(db, key) for key in ("half", "ours", "ours too")} == {None}
    put(second[0], "theirs")
    second[0].close()


def test_one_that_is_busy_does_not_hang(postgres: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "HANG_S", 0.5)
    monkeypatch.setattr(turns, "LOOK_S", 0.3)
    first = Database(url)
    slow = first.submit(lambda db: db.execute(text("SELECT pg_sleep(2)")))
    refused = 0
    while not slow.done():
        with pytest.raises(InUseError):
            Database(url)
        refused += 1
    assert refused
    slow.result()
    put(first, "k")
    first.close()


def test_trouble_with_the_server_is_told_until_it_is_over(postgres: Any, url: str) -> None:
    database = Database(url)
    assert database.trouble is None
    postgres.stop()
    try:
        wait_for(lambda: isinstance(database.trouble, UnwritableError), what="the trouble")  # nobody writes
    finally:
        postgres.start()
    wait_for(lambda: database.trouble is None, what="its end")
    database.close()


def test_its_own_session_of_before_is_ended_where_the_server_does_not_know_that_it_is_lost(url: str) -> None:
    engine = store._engine(url)
    writing = LockedWriting(engine, lambda: pytest.fail("no other service has taken it over"))
    before = writing.begin()
    writing.claim(before)

    def resumed() -> Any:
        try:
            return writing.resume()
        except StoreError:
            return None

    again = wait_for(resumed, what="the lock")
    with pytest.raises(DatabaseError):
        before.execute(text("SELECT 1"))
    before.invalidate()
    for connection in (before, again):
        connection.close()
    engine.dispose()
