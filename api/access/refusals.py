"""Record of refused sign-ins, which summarizes floods."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from sqlalchemy.engine import Connection

from schedulearn.scheduler.errors import StoreError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people.acting import ACTOR, ADDRESS

WINDOW_S = 600.0
"""Seconds for which further refusals of one address are only counted."""
MAX_ADDRESSES = 20
"""Maximum addresses with an event of their own in one window."""
OTHERS = "other addresses"


class RefusedSignIns:
    """Writer of one event per address and window, and of a second one with the number of further refusals.

    Anybody may cause refusals, so the number of events must not depend on the number of requests. It is used in the
    event loop only."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._further: Counter[str] = Counter()
        """Refusals after the first one, by address. Empty: no window is open."""

    def note(self, db: Database, address: str) -> None:
        """Record that an invalid token came from an address. It does not wait for the database."""
        opens = not self._further
        if address in self._further or len(self._further) >= MAX_ADDRESSES:
            self._further[address if address in self._further else OTHERS] += 1
            return
        self._further[address] = 0
        self._write(db, address, 1, "A sign-in was refused: the token is invalid or has expired.")
        if opens:
            asyncio.get_running_loop().call_later(WINDOW_S, self.close_window, db)

    def close_window(self, db: Database) -> None:
        """Record how many more there were. Later refusals open a new window."""
        further, self._further = self._further, Counter()
        for address, count in further.items():
            if count:
                times = "sign-in was" if count == 1 else "sign-ins were"
                message = f"{count} more {times} refused in ten minutes: the token is invalid or has expired."
                self._write(db, "" if address == OTHERS else address, count, message)

    def _write(self, db: Database, address: str, count: int, message: str) -> None:
        now, data = self._clock(), {"count": count}

        def change(conn: Connection) -> None:
            repository.add_event(conn, now, "login.refused", code="unauthorized", message=message, data=data)

        acting, coming = ACTOR.set(""), ADDRESS.set(address)
        try:
            db.submit(change)
        except StoreError:
            pass  # the service stops
        finally:
            ADDRESS.reset(coming)
            ACTOR.reset(acting)
