"""Exclusive writing by one of several services on one PostgreSQL database.

One service writes and schedules; the others wait for it. The right to write is a lock of the writer's session. A
service that loses the session loses the lock with it, and can't commit any further transaction. Therefore two services
never write at the same time. Actions outside the database, on containers, require `leads`, which ends before another
service may begin.
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
"""Key of the lock. Each database has its own locks."""
BEAT_S = 0.5
LEAD_S = 2.0
"""Time for which a service may act after its session was last known to be alive."""
GRACE_S = 3.0
"""Wait after a predecessor that did not sign off. Longer than `LEAD_S`, for which that one may act."""
HANG_S = 10.0
"""Seconds of silence of a session after which its service counts as hanging."""
LOOK_S = 1.5
"""Interval between two checks of a session that seems to hang, because the server's clock may have been set.

It is several beats long."""

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
    """Writing by the session that holds the lock.

    `on_deposed` is called from the writer's thread when another service has taken over. This service must end then."""

    beat_s: float | None = BEAT_S

    def __init__(self, engine: Engine, on_deposed: Callable[[], None]) -> None:
        self._engine = engine
        self._on_deposed = on_deposed
        self._name = uuid.uuid4().hex
        self._seen_at = time.monotonic()
        self._session: dict[str, object] = {}
        self._deposed = False

    @property
    def leads(self) -> bool:
        """Whether no other service can be at work."""
        return time.monotonic() - self._seen_at < LEAD_S

    def begin(self) -> Connection:
        """Return the session for writing. Raises InUseError while another service has the lock."""
        connection = self._engine.connect()
        if not self._take(connection) and not self._replace(connection):
            found = connection.execute(_WHO, {"key": KEY}).first()
            connection.close()
            where = "" if found is None or found.client_addr is None else f" at {found.client_addr}"
            raise InUseError(f"another Schedulearn{where} uses the database {name_of(self._engine)}")
        return connection

    def claim(self, connection: Connection) -> None:
        """Sign the database as this service's, once the tables exist.

        If the predecessor did not sign off, wait `GRACE_S`: it was killed, or is cut off and may not know yet."""
        last = connection.execute(_WRITER).scalar()
        self._sign(connection)
        if last is not None:
            time.sleep(GRACE_S)
        self.confirm(time.monotonic())

    def resume(self) -> Connection:
        """Return a new session after a loss. Raises StoreError while that is impossible."""
        if self._deposed:
            raise StoreError("another service has taken over this service's database")
        connection = self._engine.connect()
        try:
            locked = self._take(connection, **self._session)
            if connection.execute(_WRITER).scalar() != self._name:
                self._deposed = True
                self._on_deposed()
                raise StoreError("another service has taken over this service's database")
            if not locked:
                raise StoreError("the previous session still holds the database lock")
            connection.commit()
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        log.warning("the database is available again")
        return connection

    def beat(self, connection: Connection) -> None:
        connection.execute(text("SELECT 1"))
        connection.commit()

    def check_kept(self) -> None:
        """Do nothing: the server keeps committed data."""

    def rescue(self) -> str:
        return ""

    def close(self) -> None:
        pass

    def confirm(self, since: float) -> None:
        """Record that the session was alive at a time after `since`."""
        self._seen_at = since

    def leave(self, connection: Connection) -> None:
        """Sign off, so that the next service need not wait."""
        connection.execute(_FORGET)
        connection.commit()

    def _replace(self, connection: Connection) -> bool:
        """Take the lock from a service that hangs: stopped, or on a frozen machine.

        Its session is terminated, which fences it off: the server commits nothing more of it, even if it wakes up."""
        hangs = self._silent(connection)
        if hangs is None:
            return False
        time.sleep(LOOK_S)
        if self._silent(connection) != hangs:
            return False
        log.warning("the service that holds the database lock has been silent for %g s: ending its session", HANG_S)
        for _ in range(20):
            if self._take(connection, **hangs):
                return True
            time.sleep(0.1)
        return False

    def _silent(self, connection: Connection) -> dict[str, object] | None:
        """Return the session that has the lock, if it was silent for `HANG_S`."""
        found = connection.execute(_SILENT, {"key": KEY, "seconds": HANG_S}).mappings().first()
        connection.commit()
        return None if found is None else dict(found)

    def _take(self, connection: Connection, **before: object) -> bool:
        """Try to take the lock, and return whether that succeeded.

        `before`: a session to terminate if the lock is taken. It is this service's former session, of whose end the
        server may not know yet, or one that hangs."""
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
