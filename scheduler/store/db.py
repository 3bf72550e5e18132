"""The database: one writer thread that commits in groups, and readers that never wait for it.

Every change goes through `write`. Changes that arrive while a commit is being flushed to disk share the next one, so
that the service takes many durable submissions a second although each flush takes milliseconds.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Engine, create_engine, event, inspect, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.pool import QueuePool

from schedulearn.scheduler.errors import StoreError
from schedulearn.scheduler.private_files import close_path
from schedulearn.scheduler.store import history, models, moved_outputs, sweeps, webhooks
from schedulearn.scheduler.store.accounting import capacity, usage
from schedulearn.scheduler.store.columns import read_json, write_json
from schedulearn.scheduler.store.data import tables as data_tables
from schedulearn.scheduler.store.experiments import lengths, versions
from schedulearn.scheduler.store.mending import mend_instants
from schedulearn.scheduler.store.people.visibility import SEES_ONLY, make_views, show_only
from schedulearn.scheduler.store.resources import gpu_memory, minutes

T = TypeVar("T")
Change = Callable[[Connection], Any]
_Queued = tuple[Change, Future[Any], Context]

HEAD = "0045"
"""The newest migration; compared at start so that Alembic is imported only when there is something to do."""

TABLES = (
    models, history, moved_outputs, sweeps, usage, capacity, webhooks, data_tables, minutes, lengths, versions,
    gpu_memory,
)  # fmt: skip
"""The modules that have tables: those of each are known once it is imported."""

_DAMAGED = ("malformed", "not a database", "corrupt")

_GROUP = 512  # changes that share one commit, at most


class Database:
    """Owns the engine and the writer. `after_commit` is called, from the writer's thread, after each commit."""

    def __init__(self, url: str, after_commit: Callable[[], None] = lambda: None) -> None:
        self.url = url
        self.engine = _engine(url)
        self._views = make_views(_engine(url))
        self.after_commit = after_commit
        _check_whole(self.engine, url)
        migrate(self.engine, url)
        _close_to_others(self.engine)
        _mend(self.engine, url)
        self._queue: queue.SimpleQueue[_Queued | None] = queue.SimpleQueue()
        self._closed = False
        self._writer = threading.Thread(target=self._write_forever, name="store-writer", daemon=True)
        self._writer.start()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that sees one consistent state of the database, whatever is written meanwhile; of it only what
        the user may see whose request is answered (`people/visibility.py`)."""
        user = SEES_ONLY.get()
        with (self.engine if user is None else self._views).connect() as connection:
            if user is not None:
                show_only(connection, user)
            yield connection
            connection.rollback()

    async def aread(self, query: Callable[[Connection], T]) -> T:
        """What `query` reads, for coroutines. SQLite answers the small queries of the API in less time than a thread
        takes to be woken, so they run at once; those of a database server wait in a thread."""

        def run() -> T:
            with self.read() as connection:
                return query(connection)

        return run() if self.url.startswith("sqlite") else await asyncio.to_thread(run)

    def submit(self, change: Callable[[Connection], T]) -> Future[T]:
        """Queues `change`; the future is done once it is durable on disk, or carries what `change` raised.

        `change` runs in a transaction of its own as far as it can tell: if it raises, nothing of it remains. It runs in
        the context of its caller, so that events know for whom it is made (`people/acting.py`).
        """
        future: Future[T] = Future()
        if self._closed:
            raise StoreError("the database is closed: the service is stopping")
        self._queue.put((change, future, copy_context()))
        return future

    def write(self, change: Callable[[Connection], T]) -> T:
        """`submit`, and wait for it."""
        return self.submit(change).result()

    def close(self) -> None:
        """Finishes what is queued, then closes. Idempotent."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._writer.join()
            self.engine.dispose()
            self._views.dispose()

    def _write_forever(self) -> None:
        connection = self.engine.connect()
        while True:
            item = self._queue.get()
            group = []
            while item is not None:
                if item[1].set_running_or_notify_cancel():
                    group.append(item)
                if len(group) >= _GROUP:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            if group and not self._commit(connection, group):
                # SQLite may have ended the transaction by itself: what state this connection is in is anybody's guess.
                connection.invalidate()
                connection.close()
                connection = self.engine.connect()
            if item is None:
                connection.close()
                return

    def _commit(self, connection: Connection, group: list[_Queued]) -> bool:
        """Runs and commits a group; False if the database failed, and then nothing of the group happened."""
        done: list[tuple[Future[Any], Any]] = []
        try:
            with connection.begin():
                for change, future, context in group:
                    try:
                        with _savepoint(connection):
                            done.append((future, context.run(change, connection)))
                    except Exception as error:
                        if isinstance(error, DatabaseError) and not isinstance(error, IntegrityError):
                            raise  # not refused by a constraint: the database itself is in trouble
                        future.set_exception(error)
        except Exception as error:
            fault = StoreError(f"the database could not be written: {_cause(error)}")
            fault.__cause__ = error
            for _, future, _ in group:
                if not future.done():
                    future.set_exception(fault)
            return False
        for future, result in done:
            future.set_result(result)
        self.after_commit()
        return True


@contextmanager
def _savepoint(connection: Connection) -> Iterator[None]:
    """As `begin_nested`, whose statements have another name each time, and are compiled each time."""
    connection.exec_driver_sql("SAVEPOINT change")
    try:
        yield
    except BaseException:
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT change")
        raise
    connection.exec_driver_sql("RELEASE SAVEPOINT change")


def _cause(error: BaseException) -> str:
    """The database's own words for what went wrong first: clearing up after it may have failed as well."""
    while error.__context__ is not None:
        error = error.__context__
    return str(getattr(error, "orig", None) or error)


def _engine(url: str) -> Engine:
    always: dict[str, Any] = {
        "json_serializer": write_json,
        "json_deserializer": read_json,
        "hide_parameters": True,  # errors that are logged name no values: these may be secrets
    }
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True, isolation_level="REPEATABLE READ", **always)
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=4,
        max_overflow=12,
        connect_args={"check_same_thread": False},
        **always,
    )

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
        is_writer = threading.current_thread().name == "store-writer"
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")

    return engine


def _close_to_others(engine: Engine) -> None:
    """A database of an older version, or anywhere but in the data folder, is for our user only, too."""
    file = engine.url.database
    if engine.dialect.name == "sqlite" and file and file != ":memory:":
        for suffix in ("", "-wal", "-shm"):
            close_path(Path(file + suffix))


def sqlite_url(directory: Path) -> str:
    return f"sqlite:///{directory / 'schedulearn.db'}"


def migrate(engine: Engine, url: str) -> None:
    """Brings the tables up to date. Raises StoreError for a database of a newer version, or one that can't be used.

    A new database is made from the models (a test compares them with the migrations), which spares Alembic's import.
    """
    try:
        with engine.connect() as connection:
            found = None
            if engine.dialect.has_table(connection, "alembic_version"):
                found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
            elif not inspect(connection).get_table_names():
                _create(connection)
                found = HEAD
        if found == HEAD:
            return
    except DatabaseError as error:
        raise StoreError(f"the database {url} can't be used: {_cause(error)}") from error
    from alembic.util.exc import CommandError

    try:
        upgrade(engine)
    except CommandError as error:
        raise StoreError(f"the database {url} belongs to a newer version of Schedulearn: {error}") from error
    except DatabaseError as error:
        raise StoreError(f"the database {url} can't be used: {_cause(error)}") from error


def _check_whole(engine: Engine, url: str) -> None:
    """Refuses a damaged database before anything is written to it. Reads each page once."""
    if engine.dialect.name != "sqlite":
        return
    try:
        with engine.connect() as connection:
            found = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
    except DatabaseError as error:
        found = _cause(error)
        if not any(word in found for word in _DAMAGED):
            raise StoreError(f"the database {url} can't be used: {found}") from error
    if found != "ok":
        found = found.splitlines()[-1]
        raise StoreError(
            f"the database {url} can't be used: it is damaged ({found}). Move schedulearn.db, schedulearn.db-wal and "
            "schedulearn.db-shm away, and restore the last backup into the same folder: schedulearn restore FILE "
            "--data FOLDER. Jobs that were sent after that backup are unknown then; their containers are stopped."
        )


def _mend(engine: Engine, url: str) -> None:
    try:
        with engine.connect() as connection:
            mend_instants(connection)
    except DatabaseError as error:
        raise StoreError(f"the database {url} can't be used: {_cause(error)}") from error


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Runs the migrations up to `revision`."""
    from alembic import command

    _migrate(engine, command.upgrade, revision)


def downgrade(engine: Engine, revision: str) -> None:
    """Takes the migrations after `revision` back, with what only they could hold."""
    from alembic import command

    _migrate(engine, command.downgrade, revision)


def _migrate(engine: Engine, run: Callable[[Any, str], None], revision: str) -> None:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        run(config, revision)


def _create(connection: Connection) -> None:
    """All or nothing: a service that is killed in here leaves an empty database."""
    models.METADATA.create_all(connection)
    version = "version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)"
    connection.execute(text(f"CREATE TABLE alembic_version ({version})"))
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})
    connection.commit()
