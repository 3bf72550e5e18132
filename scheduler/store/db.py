"""Database with one writer thread, group commit, and readers that never wait.

Every change goes through `write`. Changes that arrive while a commit is being flushed to disk share the next commit.
This allows many durable submissions per second although each flush takes milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import Engine, inspect, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DatabaseError, DataError, DBAPIError, IntegrityError

from schedulearn.scheduler.errors import DatabaseLostError, StoreError, UnwritableError
from schedulearn.scheduler.store import history, models, moved_outputs, windows
from schedulearn.scheduler.store.accounting import capacity, usage
from schedulearn.scheduler.store.columns import read_json, write_json
from schedulearn.scheduler.store.data import tables as data_tables
from schedulearn.scheduler.store.engines import sqlite
from schedulearn.scheduler.store.engines.causes import cause, name_of
from schedulearn.scheduler.store.fixups import clamp_instants
from schedulearn.scheduler.store.people import notices
from schedulearn.scheduler.store.people.visibility import SEES_ONLY, make_views, show_only
from schedulearn.scheduler.store.predictions import lengths, metric_predictions, versions
from schedulearn.scheduler.store.resources import gpu_memory, minutes, private_images, xids

log = logging.getLogger(__name__)

T = TypeVar("T")
Change = Callable[[Connection], Any]
_Queued = tuple[Change, Future[Any], Context]

HEAD = "0074"
"""Newest migration. It is compared at the start, so that Alembic is imported only if a migration is needed."""
BASELINE = "0057"
"""Migration of version 0.1.0, the oldest that can be upgraded."""

TABLES = (
    models, history, moved_outputs, usage, capacity, data_tables, minutes, lengths, versions,
    gpu_memory, metric_predictions, xids, notices, private_images, windows,
)  # fmt: skip
"""Modules of the core with tables, which are registered when a module is imported. Features have more."""
TABLE_COUNT = 45
"""Number of all tables at `HEAD`. A database created without the tables of a feature would lack them forever."""

LEADS_AGAIN_S = 0.2
"""Interval at which a service that may not act checks `leads` again."""

_GROUP = 512  # maximum number of changes that share one commit


_REFUSED = (IntegrityError, DataError)
"""Errors of a single invalid change: the database itself works."""


class Writing(Protocol):
    """Source of the writer's only connection."""

    beat_s: float | None
    """Interval of checks of the connection while nothing is written; None: never."""

    @property
    def leads(self) -> bool: ...
    def begin(self) -> Connection: ...
    def claim(self, connection: Connection) -> None: ...
    def resume(self) -> Connection: ...
    def beat(self, connection: Connection) -> None:
        """Check the connection.

        Raises DatabaseError if the connection is lost, StoreError if files are lost or can't be written."""

    def check_kept(self) -> None:
        """Raise DatabaseLostError if committed data would be lost with this process."""

    def rescue(self) -> str:
        """Save the data that would be lost, and return what to do."""

    def confirm(self, since: float) -> None: ...
    def leave(self, connection: Connection) -> None: ...
    def close(self) -> None: ...


class Database:
    """Database that owns the engine and the writer.

    The callbacks are called from the writer's thread. `after_commit` is called after each commit. `on_deposed` is
    called once another service has taken the database over; this service must end. `on_lost` is called with the reason
    once files of the database are gone. Nothing is written any more then, and this service must end. `make_room` is
    called when the disk is full, and returns True if there is space again.

    Raises StoreError, and InUseError while another service uses the database."""

    def __init__(
        self,
        url: str,
        after_commit: Callable[[], None] = lambda: None,
        on_deposed: Callable[[], None] = lambda: None,
        on_lost: Callable[[str], None] = lambda why: None,
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        self.make_room = make_room
        self.engine = _engine(url)
        self._views = make_views(_engine(url))
        self.after_commit = after_commit
        self._is_file = self.engine.dialect.name == "sqlite"
        self._writing = _writing(self.engine, on_deposed)
        try:
            connection = self._open()
        except BaseException:
            self.engine.dispose()
            raise
        self._queue: queue.SimpleQueue[_Queued | None] = queue.SimpleQueue()
        self._closed = False
        self._on_lost = on_lost
        self._lost: DatabaseLostError | None = None
        self._failed = False
        """True if the last write failed, or there is no connection."""
        self._unwritable: UnwritableError | None = None
        """Error found by the last check of the files."""
        self._writer = threading.Thread(target=self._write_forever, args=(connection,), name=sqlite.WRITER, daemon=True)
        self._writer.start()

    def _open(self) -> Connection:
        """Check, upgrade and claim the database, and return the writer's connection."""
        if self._is_file:
            sqlite.check_whole(self.engine)
        with _can_be_used(self.engine):
            connection = self._writing.begin()
        try:
            migrate(self.engine)
            if self._is_file:
                sqlite.close_to_others(self.engine)
            with _can_be_used(self.engine):
                with self.engine.connect() as mended:
                    clamp_instants(mended)
                self._writing.claim(connection)
            if self._is_file:
                sqlite.take_journal(self.engine)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def leads(self) -> bool:
        """Whether this service may act on its hosts: no other one can be active."""
        return self._writing.leads

    @property
    def trouble(self) -> StoreError | None:
        """Reason why nothing can be written, as of the last try.

        The text has no details, because it is public."""
        if self._lost is None and self._failed:
            return UnwritableError("the last write to the database failed: see the log of the service")
        return self._lost or self._unwritable

    def confirm_lead(self) -> None:
        """Raise StoreError unless this is the only service on the database.

        Sends a request to a database server, and waits for its response. Does nothing for a file."""
        if not self._is_file:
            self.write(lambda conn: None)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection that sees one consistent state of the database.

        It sees no changes written meanwhile, and only the rows that the user of the current request may see
        (`people/visibility.py`). Raises StoreError if the database can't be reached."""
        user = SEES_ONLY.get()
        try:
            connection = (self.engine if user is None else self._views).connect()
        except DBAPIError as error:
            raise StoreError(f"the database can't be reached: {cause(error)}") from error
        with connection:
            try:
                if user is not None:
                    show_only(connection, user)
                yield connection
                connection.rollback()
            except DBAPIError as error:
                if error.connection_invalidated:
                    raise StoreError(f"the connection to the database was lost: {cause(error)}") from error
                raise

    async def aread(self, query: Callable[[Connection], T]) -> T:
        """Return the result of `query`, for coroutines.

        SQLite answers the small queries of the API faster than a thread can be woken. They run in the event loop.
        Queries of a database server run in a thread."""

        def run() -> T:
            with self.read() as connection:
                return query(connection)

        return run() if self._is_file else await asyncio.to_thread(run)

    def submit(self, change: Callable[[Connection], T]) -> Future[T]:
        """Queue `change`, and return a future.

        The future is done once the change is durable on disk, or carries the exception that `change` raised. `change`
        runs as in its own transaction: if it raises, all of it is rolled back. It runs in the context of its caller, so
        that events record the actor (`people/acting.py`).
        """
        future: Future[T] = Future()
        if self._lost is not None:
            raise self._lost
        if self._closed:
            raise StoreError("the database is closed: the service is stopping")
        self._queue.put((change, future, copy_context()))
        return future

    def write(self, change: Callable[[Connection], T]) -> T:
        """Submit a change, and wait for its result."""
        return self.submit(change).result()

    async def awrite(self, change: Callable[[Connection], T]) -> T:
        """Submit a change, and await its result."""
        return await asyncio.wrap_future(self.submit(change))

    def close(self) -> None:
        """Finish the queued changes, then close. Idempotent."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._writer.join()
            self.engine.dispose()
            self._views.dispose()
            self._writing.close()

    def _write_forever(self, connection: Connection | None) -> None:
        going_on, beat_at = True, time.monotonic()
        while going_on:
            group, going_on = self._next_group()
            began = time.monotonic()
            if self._lost is not None:
                _refuse(group, self._lost)
                continue
            connection = connection or self._connected(group)
            if connection is None:
                continue
            done = not group or self._commit(connection, group)
            if done and (not group or began - beat_at > (self._writing.beat_s or math.inf)):
                done, beat_at = self._beat(connection), began
            if done:
                self._writing.confirm(began)
            else:
                # SQLite may have ended the transaction by itself: the state of this connection is unknown.
                connection.invalidate()
                connection.close()
                connection = None
        if connection is not None:
            with suppress(DatabaseError):
                self._writing.leave(connection)
            connection.close()

    def _next_group(self) -> tuple[list[_Queued], bool]:
        """Return the changes to commit together, and False if they are the last ones.

        The group is empty if nothing was queued for `beat_s`."""
        group: list[_Queued] = []
        try:
            item = self._queue.get(timeout=self._writing.beat_s)
            while item is not None:
                if item[1].set_running_or_notify_cancel():
                    group.append(item)
                if len(group) >= _GROUP:
                    break
                item = self._queue.get_nowait()
        except queue.Empty:
            return group, True
        return group, item is not None

    def _connected(self, group: Sequence[_Queued]) -> Connection | None:
        """Return a new connection in place of a lost one.

        While that is impossible, refuse `group` and return None."""
        try:
            return self._writing.resume()
        except (DatabaseError, StoreError) as error:
            self._note(error)
            _refuse(group, error)
            return None

    def _beat(self, connection: Connection) -> bool:
        """Check the database while nothing is written; return False if the connection is lost.

        After a failed write, try to write again."""
        try:
            self._writing.beat(connection)
        except DatabaseLostError as error:
            self._lose(error)
            return True
        except UnwritableError as error:
            if self._unwritable is None:
                log.error("%s", error)
            self._unwritable = error
            return True
        except DatabaseError as error:
            log.warning("the connection to the database was lost: %s", cause(error))
            self._note(error)
            return False
        self._unwritable = None
        return not self._failed or self._commit(connection, [(_try, Future(), copy_context())])

    def _note(self, error: Exception | None) -> None:
        """Record the result of the last write; None: it succeeded."""
        if error is not None and not self._failed:
            log.error("the database can't be written: %s", cause(error))
        elif error is None and self._failed:
            log.warning("the database can be written again")
        self._failed = error is not None

    def _lose(self, error: DatabaseLostError) -> None:
        """Stop acknowledging changes, because they would be lost with this process."""
        self._lost = error
        why = f"{error}. {self._writing.rescue()}"
        log.critical("%s", why)
        self._on_lost(why)

    def _commit(self, connection: Connection, group: list[_Queued]) -> bool:
        """Run and commit a group of changes.

        Returns False if the database failed; then the whole group is rolled back. If the disk is full and `make_room`
        freed space, the group is tried once more."""
        error = self._tried(connection, group)
        if error is not None and "full" in cause(error) and self.make_room():
            error = self._tried(connection, [each for each in group if not each[1].done()])
        if error is not None:
            self._note(error)
            _refuse(group, error)
            return False
        if self._lost is None:
            self._note(None)
            self.after_commit()
        return True

    def _tried(self, connection: Connection, group: list[_Queued]) -> Exception | None:
        done: list[tuple[Future[Any], Any]] = []
        try:
            with connection.begin():
                for change, future, context in group:
                    try:
                        with _savepoint(connection):
                            done.append((future, context.run(change, connection)))
                    except Exception as error:
                        if isinstance(error, DatabaseError) and not isinstance(error, _REFUSED):
                            raise
                        future.set_exception(error)
            self._writing.check_kept()
        except DatabaseLostError as error:
            self._lose(error)
            _refuse(group, error)
            return None
        except Exception as error:
            return error
        for future, result in done:
            future.set_result(result)
        return None


def _try(connection: Connection) -> None:
    """Write a row without changing it."""
    connection.execute(text("UPDATE meta SET value = value WHERE key = 'cluster_id'"))


@contextmanager
def _savepoint(connection: Connection) -> Iterator[None]:
    """Open a savepoint, faster than `begin_nested`.

    The statements of `begin_nested` have another name each time, and are compiled each time."""
    connection.exec_driver_sql("SAVEPOINT change")
    try:
        yield
    except BaseException:
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT change")
        raise
    connection.exec_driver_sql("RELEASE SAVEPOINT change")


def _refuse(group: Sequence[_Queued], error: Exception) -> None:
    fault = StoreError(f"the database could not be written: {cause(error)}")
    fault.__cause__ = error
    for _, future, _ in group:
        if not future.done():
            future.set_exception(fault)


def _engine(url: str) -> Engine:
    options: dict[str, Any] = {
        "json_serializer": write_json,
        "json_deserializer": read_json,
        "hide_parameters": True,  # logged errors contain no values: these may be secrets
    }
    if url.startswith("sqlite"):
        return sqlite.make_engine(url, options)
    try:
        from schedulearn.scheduler.store.engines import postgresql  # an extra, and slow to import
    except ModuleNotFoundError as error:
        raise StoreError("PostgreSQL needs another package: pip install 'schedulearn[postgresql]'") from error
    return postgresql.make_engine(url, options)


def _writing(engine: Engine, on_deposed: Callable[[], None]) -> Writing:
    if engine.dialect.name == "sqlite":
        return sqlite.FileWriting(engine)
    from schedulearn.scheduler.store.engines.turns import LockedWriting

    return LockedWriting(engine, on_deposed)


@contextmanager
def _can_be_used(engine: Engine) -> Iterator[None]:
    try:
        yield
    except DatabaseError as error:
        raise StoreError(f"the database {name_of(engine)} can't be used: {cause(error)}") from error


def sqlite_url(directory: Path) -> str:
    return f"sqlite:///{directory / 'schedulearn.db'}"


def known_cluster_id(url: str) -> str | None:
    """Return the cluster id stored in the database, also while it is in use.

    None: none is stored yet. Raises StoreError."""
    engine = _engine(url)
    try:
        with _can_be_used(engine), engine.connect() as connection:
            if not engine.dialect.has_table(connection, "meta"):
                return None
            return connection.execute(text("SELECT value FROM meta WHERE key = 'cluster_id'")).scalar()
    finally:
        engine.dispose()


def migrate(engine: Engine) -> None:
    """Bring the tables up to date.

    Raises StoreError for a database that can't be used, is newer than this version, or older than 0.1.0. A new database
    is created from the models, which saves the import of Alembic. A test compares the models with the migrations.
    """
    with _can_be_used(engine), engine.connect() as connection:
        found = None
        if engine.dialect.has_table(connection, "alembic_version"):
            found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        elif not inspect(connection).get_table_names():
            _create(connection)
            found = HEAD
    if found == HEAD:
        return
    name = name_of(engine)
    if found is None:
        raise StoreError(f"{name} is not a database of Schedulearn: its tables are different")
    if found > HEAD:
        raise StoreError(
            f"the database {name} belongs to a newer version of Schedulearn (schema {found}): upgrade Schedulearn"
        )
    if found < BASELINE:
        raise StoreError(
            f"the database {name} is older than version 0.1.0 (schema {found}): start Schedulearn 0.1.0 "
            "with it once, then this version"
        )
    with _can_be_used(engine), sqlite.kept_beside(engine, found):
        upgrade(engine)


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Run the migrations up to `revision`."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def _create(connection: Connection) -> None:
    """Create all tables in one transaction: a kill meanwhile leaves the database empty."""
    known = len(models.METADATA.tables)
    if known != TABLE_COUNT:
        raise RuntimeError(f"only {known} of {TABLE_COUNT} tables are loaded: load those of all features")
    models.METADATA.create_all(connection)
    version = "version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)"
    connection.execute(text(f"CREATE TABLE alembic_version ({version})"))
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})
    connection.commit()
