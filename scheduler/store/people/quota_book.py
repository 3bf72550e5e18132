"""The quotas in force: in memory for each submission, with what was used for each decision."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeVar

from sqlalchemy.engine import Connection

from schedulearn.scheduler.core.planning.quotas import EVERYBODY, NO_QUOTA, WEEK_S, Quota, Quotas
from schedulearn.scheduler.errors import QuotaError
from schedulearn.scheduler.store.accounting.usage import usage
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people import quotas as store

T = TypeVar("T")

_FRESH_S = 30.0
"""What was used is summed up again after so long: it is a week of history."""
_MINUTE_S = 60.0
_HALF_LIFE_S = WEEK_S
_REMEMBERED_S = 4 * _HALF_LIFE_S


class QuotaBook:
    """`fair_share`: whether plans share the cluster fairly between users."""

    def __init__(self, db: Database, *, fair_share: bool = False, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._fair_share = fair_share
        self._clock = clock
        self._lock = threading.Lock()
        self._sent: dict[str, deque[float]] = {}
        """When each user with a bound has submitted jobs, within the last minute."""
        self._summed_at = -_FRESH_S
        self._used: Mapping[str, float] = {}
        self._decayed: Mapping[str, float] = {}
        with db.read() as conn:
            self._by_user = store.load_quotas(conn)

    def of(self, user: str) -> Quota:
        return self._by_user.get(user) or self._by_user.get(EVERYBODY, NO_QUOTA)

    def change(self, change: Callable[[Connection], T]) -> T:
        """A change of quotas: in force once it is durable."""
        changed = self._db.write(change)
        with self._db.read() as conn:
            self._by_user = store.load_quotas(conn)
        return changed

    def now(self) -> Quotas:
        """For a decision. Sums up what was used only if somebody's bound depends on it."""
        by_user = self._by_user
        if not self._fair_share and all(quota.gpu_hours is None for quota in by_user.values()):
            return Quotas(by_user)
        if self._clock() - self._summed_at >= _FRESH_S:
            self._sum_up(self._clock())
        return Quotas(by_user, self._used, self._decayed if self._fair_share else None)

    def _sum_up(self, now: float) -> None:
        with self._db.read() as conn:
            self._used = used_hours(conn, now)
            self._decayed = decayed_hours(conn, now) if self._fair_share else {}
        self._summed_at = now

    def note_submission(self, user: str, jobs: int) -> None:
        """Counts jobs that are about to be stored. Raises QuotaError if they are too many for this minute."""
        most = self.of(user).submissions
        if most is None:
            return
        now = self._clock()
        with self._lock:
            sent = self._sent.setdefault(user, deque())
            while sent and sent[0] <= now - _MINUTE_S:
                sent.popleft()
            if len(sent) + jobs > most:
                soon = sent[0] + _MINUTE_S - now if sent else _MINUTE_S
                raise QuotaError(f"{user} may submit {most} jobs a minute", retry_after=soon)
            sent.extend([now] * jobs)

    def check_waiting(self, conn: Connection, user: str, jobs: int) -> None:
        """Raises QuotaError if with these jobs too many of the user's would wait."""
        most = self.of(user).waiting
        if most is not None and (now := store.count_waiting(conn, user)) + jobs > most:
            detail = f"{user} may have {most} jobs waiting, and has {now}"
            raise QuotaError(f"{detail}: submit {jobs} more once some have started", retry_after=_MINUTE_S)


def used_hours(conn: Connection, now: float) -> dict[str, float]:
    """GPU-hours of each user within seven days."""
    return {row.user: row.gpu_hours for row in usage(conn, now - WEEK_S, now, now)}


def decayed_hours(conn: Connection, now: float) -> dict[str, float]:
    """GPU-hours of each user, half as much for each week that they are old, by the day."""
    found: dict[str, float] = {}
    for age in range(int(_REMEMBERED_S // 86_400)):
        until = now - age * 86_400
        for row in usage(conn, until - 86_400, until, now):
            found[row.user] = found.get(row.user, 0.0) + row.gpu_hours * 0.5 ** (age * 86_400 / _HALF_LIFE_S)
    return found
