"""Current quotas in memory, and the usage for each decision."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from sqlalchemy.engine import Connection

from schedulearn.scheduler.background import MACHINE, Timing
from schedulearn.scheduler.core.model import PRIORITY
from schedulearn.scheduler.core.planning.quotas import WEEK_S, Bounds, Quota, QuotaHolder, Quotas
from schedulearn.scheduler.errors import InvalidError, QuotaError
from schedulearn.scheduler.store.accounting.usage import usage
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people import quotas as store
from schedulearn.scheduler.store.people.groups import load_groups

T = TypeVar("T")

_FRESH_S = 30.0
"""Minimum interval between summations of usage, each over at least a week of history."""
_MINUTE_S = 60.0
_HALF_LIFE_S = WEEK_S
_REMEMBERED_S = 4 * _HALF_LIFE_S


class QuotaBook:
    """Quotas in effect, and checks against them.

    `fair_share`: whether plans share the cluster fairly between users."""

    def __init__(self, db: Database, *, fair_share: bool = False, timing: Timing = MACHINE) -> None:
        self._db = db
        self._fair_share = fair_share
        self._clock = timing.clock
        self._monotonic = timing.monotonic
        self._lock = threading.Lock()
        self._sent: dict[QuotaHolder, deque[float]] = {}
        """Times of the submissions of each user and group with a bound, within the last minute."""
        self._summed_at = float("-inf")
        self._used: Mapping[str, float] = {}
        self._decayed: Mapping[str, float] = {}
        self._set = self._load()

    def _load(self) -> Quotas:
        with self._db.read() as conn:
            groups = load_groups(conn)
            return Quotas(
                store.load_quotas(conn),
                by_group=groups.bounds,
                group_of=groups.group_of,
                guarantee_of=groups.guarantees,
            )

    @property
    def in_force(self) -> Quotas:
        """Quotas in effect, without usage."""
        return self._set

    def of(self, user: str) -> Quota:
        return self._set.of(user)

    def change(self, change: Callable[[Connection], T]) -> T:
        """Change quotas or groups; the change takes effect once it is durable."""
        changed = self._db.write(change)
        self._set = self._load()
        return changed

    def now(self) -> Quotas:
        """Return the quotas with usage, for a decision.

        Usage is summed up only if a bound or the fair share depends on it."""
        quotas = self._set
        if not self._fair_share and all(bounds.gpu_hours is None for bounds in quotas.all_bounds):
            return quotas
        if self._monotonic() - self._summed_at >= _FRESH_S:
            self._sum_up(self._clock())
        return replace(quotas, used_hours=self._used, decayed_hours=self._decayed if self._fair_share else None)

    def _sum_up(self, now: float) -> None:
        with self._db.read() as conn:
            self._used = used_hours(conn, now)
            self._decayed = decayed_hours(conn, now) if self._fair_share else {}
        self._summed_at = self._monotonic()

    def note_submission(self, by_user: Mapping[str, int]) -> None:
        """Count jobs that are about to be stored, all or none.

        Raises QuotaError if they exceed the submissions per minute of a user or a group."""
        bounds = self._bounds(by_user, lambda bounds: bounds.submissions)
        if not bounds:
            return
        with self._lock:
            now = self._check_submissions(bounds)
            for holder, jobs, _ in bounds:
                self._sent[holder].extend([now] * jobs)

    def check_submissions(self, by_user: Mapping[str, int]) -> None:
        """The same without counting them, before they are read. Raises QuotaError."""
        bounds = self._bounds(by_user, lambda bounds: bounds.submissions)
        if bounds:
            with self._lock:
                self._check_submissions(bounds)

    def _check_submissions(self, bounds: Iterable[tuple[QuotaHolder, int, int]]) -> float:
        """The time of the check."""
        now = self._monotonic()
        for holder, jobs, most in bounds:
            sent = self._sent.setdefault(holder, deque())
            while sent and sent[0] <= now - _MINUTE_S:
                sent.popleft()
            if len(sent) + jobs > most:
                soon = sent[0] + _MINUTE_S - now if sent else _MINUTE_S
                raise QuotaError(f"{holder} may submit at most {most} jobs per minute", retry_after=soon)
        return now

    def check_waiting(self, conn: Connection, by_user: Mapping[str, int]) -> None:
        """Raise QuotaError if these jobs exceed the waiting jobs of a user or a group."""
        for holder, jobs, most in self._bounds(by_user, lambda bounds: bounds.waiting):
            if (now := store.count_waiting(conn, holder)) + jobs > most:
                detail = f"{holder} may have at most {most} waiting jobs, and has {now}"
                raise QuotaError(f"{detail}: submit {jobs} more after some have started", retry_after=_MINUTE_S)

    def check_priority(self, user: str, priority: int) -> None:
        """Raise InvalidError if a user's jobs may not have that priority.

        The default is accepted in any case, since most jobs do not set it; decisions use what the quota allows."""
        most = self._set.priority_of(user)
        if most is not None and priority > max(most, PRIORITY):
            whose = user or "jobs without a user"
            raise InvalidError(f"priority is {priority}; {whose} may have {most} at most by quota", field="priority")

    def check_duration(self, user: str, stated: float | None) -> None:
        """Raise InvalidError if a user's jobs may not run for that long. Jobs that state nothing are bounded."""
        most = self._set.max_duration_of(user)
        if stated is not None and most is not None and stated > most:
            whose = user or "jobs without a user"
            raise InvalidError(
                f"max_duration is {stated:g}; {whose} may have {most:g} seconds at most by quota", field="max_duration"
            )

    def _bounds(
        self, by_user: Mapping[str, int], bound: Callable[[Bounds], int | None]
    ) -> list[tuple[QuotaHolder, int, int]]:
        """Return the bounded users and groups, with their number of jobs and maximum."""
        quotas = self._set
        found = [(holder, jobs, bound(quotas.bounds_of(holder))) for holder, jobs in quotas.by_holder(by_user).items()]
        return [(holder, jobs, most) for holder, jobs, most in found if most is not None]


def used_hours(conn: Connection, now: float) -> dict[str, float]:
    """Return the GPU-hours of each user within seven days."""
    return {row.user: row.gpu_hours for row in usage(conn, now - WEEK_S, now, now)}


def decayed_hours(conn: Connection, now: float) -> dict[str, float]:
    """Return decayed GPU-hours of each user, with a half-life of a week.

    The decay is by whole days."""
    found: dict[str, float] = {}
    for age in range(int(_REMEMBERED_S // 86_400)):
        until = now - age * 86_400
        for row in usage(conn, until - 86_400, until, now):
            found[row.user] = found.get(row.user, 0.0) + row.gpu_hours * 0.5 ** (age * 86_400 / _HALF_LIFE_S)
    return found
