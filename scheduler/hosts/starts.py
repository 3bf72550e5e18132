"""Record of the task starts on one host, which observations don't show."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Set

from schedulearn.scheduler.core.outcomes.observations import Refusal


class Starts:
    """Starts that are under way, have succeeded, or can never succeed. By task id, thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._touched: set[str] = set()
        """Tasks whose start was under way at any time since the current observation began."""
        self._unseen: set[str] = set()
        """Tasks whose start was under way at any time since the last completed observation began."""
        self._succeeded: set[str] = set()
        self._begun_at: dict[str, float] = {}
        """Time when the first start of a task began, by the clock of the service."""
        self._refusals: dict[str, Refusal] = {}

    def begin(self, task_id: str, now: float) -> None:
        with self._lock:
            self._begun_at.setdefault(task_id, now)
            self._under_way.add(task_id)
            self._touched.add(task_id)
            self._unseen.add(task_id)

    def succeed(self, task_id: str) -> None:
        with self._lock:
            self._succeeded.add(task_id)

    def end(self, task_id: str) -> None:
        """Record the end of a start, successful or not."""
        with self._lock:
            self._under_way.discard(task_id)

    def is_under_way(self, task_id: str) -> bool:
        return task_id in self._under_way

    def has_succeeded(self, task_id: str) -> bool:
        return task_id in self._succeeded

    def begun_at(self, task_id: str) -> float | None:
        """Return the time when this service first began to start a task; None: never."""
        return self._begun_at.get(task_id)

    def keep_only(self, live: Set[str]) -> None:
        with self._lock:
            self._succeeded &= live
            self._begun_at = {task_id: at for task_id, at in self._begun_at.items() if task_id in live}

    def refuse(self, task_ids: Iterable[str], refusal: Refusal) -> None:
        with self._lock:
            self._refusals.update(dict.fromkeys(task_ids, refusal))

    def take_refusals(self) -> dict[str, Refusal]:
        """Return the refusals since the last call."""
        with self._lock:
            refusals, self._refusals = self._refusals, {}
            return refusals

    def begin_observation(self) -> frozenset[str]:
        """Begin an observation, and return the tasks whose start succeeded before."""
        with self._lock:
            self._touched = set(self._under_way)
            return frozenset(self._succeeded)

    def touched(self) -> frozenset[str]:
        """Return the tasks that the current observation may have missed.

        Their start was under way during the observation."""
        with self._lock:
            return frozenset(self._touched)

    def end_observation(self) -> None:
        with self._lock:
            self._unseen = set(self._touched)

    def unseen(self) -> frozenset[str]:
        """Return the tasks that the last observation may have missed.

        Their start was under way during that observation, or began after it."""
        with self._lock:
            return frozenset(self._unseen)
