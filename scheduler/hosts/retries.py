"""Backoff for actions that failed on a host for a temporary cause."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from schedulearn.scheduler.background import MACHINE, Timing, delay_after
from schedulearn.scheduler.core.planning.reconcile import Goal

BACKOFF_S = (1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class Trouble:
    """Temporary failure of the last try; `why` is empty if there was none."""

    tries: int = 0
    not_before: float = 0.0
    """Time of the next try, by the clock as it is set now; 0: at once."""
    why: str = ""


@dataclass(frozen=True)
class _Put:
    tries: int
    until: float
    """Time of the next try, by the monotonic clock."""
    why: str


class Retries:
    """Counts the failed tries of each goal."""

    def __init__(self, timing: Timing = MACHINE) -> None:
        self._timing = timing
        self._lock = threading.Lock()
        self._troubles: dict[Goal, _Put] = {}

    def trouble(self, goal: Goal) -> Trouble:
        if (put := self._troubles.get(goal)) is None:
            return Trouble()
        left_s = put.until - self._timing.monotonic()
        return Trouble(put.tries, self._timing.clock() + left_s if left_s > 0 else 0.0, put.why)

    def put_off(self, goal: Goal, why: str, others: Iterable[Goal] = ()) -> float:
        """Count one more failed try, also for `others`, which waited for it.

        Returns the seconds until the next try."""
        with self._lock:
            tries = self.trouble(goal).tries + 1
            delay = delay_after(tries, BACKOFF_S)
            put = _Put(tries, self._timing.monotonic() + delay, why)
            self._troubles.update(dict.fromkeys((goal, *others), put))
        return delay

    def forget(self, goal: Goal) -> None:
        """Forget a goal that was reached, or that is not wanted any more."""
        with self._lock:
            self._troubles.pop(goal, None)
