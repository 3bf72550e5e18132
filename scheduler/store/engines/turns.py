"""Of several services on one database of PostgreSQL one writes and schedules; the others wait for it.

The right to write is a lock of the session by which the writer writes. Whoever loses that session loses the lock with
it, and so no transaction of theirs can be committed any more: there is no moment in which two write. What a service
does beside writing, to containers, rests on `leads`, which ends before another service may begin.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable

from sqlalchemy import Engine, text
from sqlalchemy.engine import Connection

from schedulearn.scheduler.errors import InUseError, StoreError
from schedulearn.scheduler.store.engines.causes import name_of

log = logging.getLogger(__name__)

KEY = 0x5C4EDB1EA2
"""Of the lock. Each database has locks of its own."""
BEAT_S = 0.5
LEAD_S = 2.0
"""So long after its session was last seen alive a service may act."""
GRACE_S = 3.0
"""So long a service waits after one that did not say that it stopped: longer than that one may act."""
HANG_S = 10.0
"""Seconds without a word by the session of a service, after which that service counts as hanging."""
LOOK_S = 1.5
"""Between two looks at a session that seems to hang: the server's clock may have been set. Several beats."""

_TRY = text("SELECT pg_try_advisory_lock(:key)")
_SESSION = text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
_HOLDER = """
    FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND pg_locks.database = (
        SELECT oid FROM pg_database WHERE datname = current_database()
    ) AND (classid::bigint << 32) + objid::bigint = :key AND objsubid = 1
"""
_WHO = text(f"SELECT client_addr, backend_start {_HOLDER}")
_SILENT = text(f"""SELECT pid, backend_start, state_change {_HOLDER}
    AND (state <> 'active' OR wait_event_type = 'Client')
    AND clock_timestamp() - state_change > make_interval(secs => :seconds)
""")
_END = text(f"SELECT pg_terminate_backend(pid) {_HOLDER} AND pid = :pid AND backend_start = :since")
_WRITER = text("SELECT value FROM meta WHERE key = 'writer'")
_FORGET = text("DELETE FROM meta WHERE key = 'writer'")
_SIGN = text("INSERT INTO meta (key, value) VALUES ('writer', :name)")


class LockedWriting:
    """`on_deposed` is called, from the writer's thread, when another service has taken over: nothing may be done then
    but to end."""

    beat_s: float | None = BEAT_S

    def __init__(
        self, engine: Engine, on_deposed: Callable[[], None], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._on_deposed = on_deposed
        self._monotonic = monotonic
        self._name = uuid.uuid4().hex
        self._seen_at = monotonic()
        self._session: dict[str, object] = {}
        self._deposed = False

    @property
    def leads(self) -> bool:
        """Whether no other service can be at work."""
        return self._monotonic() - self._seen_at < LEAD_S

    def begin(self) -> Connection:
        """The session by which to write. Raises InUseError while another service has the lock."""
        connection = self._engine.connect()
        if not self._take(connection) and not self._replace(connection):
            found = connection.execute(_WHO, {"key": KEY}).first()
            connection.close()
            where = "" if found is None or found.client_addr is None else f" at {found.client_addr}"
            raise InUseError(f"another Schedulearn{where} uses the database {name_of(self._engine)}")
        return connection

    def claim(self, connection: Connection) -> None:
        """Signs the database as ours, once the tables are there. One that was not signed off belonged to a service that
        was killed, or is cut off and may not know yet."""
        last = connection.execute(_WRITER).scalar()
        self._sign(connection)
        if last is not None:
            time.sleep(GRACE_S)
        self.confirm(self._monotonic())

    def resume(self) -> Connection:
        """A new session, after the last one was lost. Raises StoreError while there can be none."""
        if self._deposed:
            raise StoreError("another service has taken this one's database over")
        connection = self._engine.connect()
        try:
            locked = self._take(connection, **self._session)
            if connection.execute(_WRITER).scalar() != self._name:
                self._deposed = True
                self._on_deposed()
                raise StoreError("another service has taken this one's database over")
            if not locked:
                raise StoreError("the session of before still has the lock of the database")
            connection.commit()
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        log.warning("the database is back")
        return connection

    def beat(self, connection: Connection) -> None:
        connection.execute(text("SELECT 1"))
        connection.commit()

    def check_kept(self) -> None:
        """The server answers for what it committed."""

    def rescue(self) -> str:
        return ""

    def close(self) -> None:
        pass

    def confirm(self, since: float) -> None:
        """The session was alive at a time after `since`."""
        self._seen_at = since

    def leave(self, connection: Connection) -> None:
        """The next service need not wait."""
        connection.execute(_FORGET)
        connection.commit()

    def _replace(self, connection: Connection) -> bool:
        """Take the lock from a service that hangs: stopped, or on a machine that is frozen. The end of its session is
        its fence: the server commits nothing more of it, whenever it wakes up."""
        hangs = self._silent(connection)
        if hangs is None:
            return False
        time.sleep(LOOK_S)
        if self._silent(connection) != hangs:
            return False
        log.warning("the service that holds the database has been silent for %g s: its session is ended", HANG_S)
        for _ in range(20):
            if self._take(connection, **hangs):
                return True
            time.sleep(0.1)
        return False

    def _silent(self, connection: Connection) -> dict[str, object] | None:
        """Return the session that has the lock, if it has said nothing for `HANG_S`."""
        found = connection.execute(_SILENT, {"key": KEY, "seconds": HANG_S}).mappings().first()
        connection.commit()
        return None if found is None else dict(found)

    def _take(self, connection: Connection, **before: object) -> bool:
        """`before`: our session of before, of whose end the server may not know yet."""
        taken = bool(connection.execute(_TRY, {"key": KEY}).scalar())
        if taken:
            self._session = dict(connection.execute(_SESSION).mappings().one())
        elif before:
            connection.execute(_END, {"key": KEY, "pid": before["pid"], "since": before["backend_start"]})
        connection.commit()
        return taken

    def _sign(self, connection: Connection) -> None:
        connection.execute(_FORGET)
        connection.execute(_SIGN, {"name": self._name})
        connection.commit()
