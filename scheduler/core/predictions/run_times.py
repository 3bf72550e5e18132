"""Expected run times of rigid jobs, from ended jobs that had as many GPUs.

This is for jobs that report no progress, and whose family is unknown. It is a distribution of run times, given how long
a job has run already. Pure.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

REMEMBERED = 200
"""Latest ended jobs of each user and number of GPUs. With 30 to 50, mean completion times on Philly's traces were up to
1.6 times as long."""
MAX_KEYS = 10_000
"""Maximum pairs of a user and a number of GPUs."""
ENOUGH = 5
"""Minimum number of ended jobs of a user and a number of GPUs that count as evidence."""


class RunTime(NamedTuple):
    """An ended job."""

    user: str
    gpus: int
    seconds: float


class _Sample(NamedTuple):
    seconds: tuple[float, ...]
    """Ascending."""
    logs: tuple[float, ...]
    """Sums of the logarithms of the last 0, 1, 2, ... of `seconds`."""

    @classmethod
    def of(cls, seconds: Iterable[float]) -> _Sample:
        ascending = tuple(sorted(seconds))
        return cls(ascending, tuple(accumulate((math.log(each) for each in reversed(ascending)), initial=0.0)))

    def beyond(self, elapsed: float) -> float | None:
        """Return the geometric mean of the run times that are longer than `elapsed` seconds; None if there are none."""
        longer = len(self.seconds) - bisect_right(self.seconds, elapsed)
        return math.exp(self.logs[longer] / longer) if longer else None


class RunTimes:
    """Run times of the latest ended jobs, by user and number of GPUs.

    `add` and `left` may run in different threads.
    """

    def __init__(self, ended: Iterable[RunTime] = (), *, shared: bool = True) -> None:
        """`ended`: the oldest first. `shared`: whether jobs of other users count as well."""
        self._shared = shared
        self._lock = threading.Lock()
        self._latest: dict[tuple[str, int], tuple[float, ...]] = {}  # user, GPUs -> run times
        self._of_all: dict[int, tuple[float, ...]] = {}  # GPUs -> run times of all users
        self._samples: dict[tuple[float, ...], _Sample] = {}
        for each in ended:
            self.add(each)

    def add(self, ended: RunTime) -> None:
        """Remember an ended job. One that never ran is left out."""
        if ended.seconds <= 0 or ended.gpus < 1:
            return
        key = ended.user, ended.gpus
        with self._lock:
            self._latest[key] = (*self._latest.pop(key, ()), ended.seconds)[-REMEMBERED:]
            while len(self._latest) > MAX_KEYS:
                del self._latest[next(iter(self._latest))]  # that of whom no job has ended for longest
            if self._shared:
                self._of_all[ended.gpus] = (*self._of_all.get(ended.gpus, ()), ended.seconds)[-REMEMBERED:]
            self._samples.clear()

    def left(self, user: str, gpus: int, elapsed: float, at_most: float | None = None) -> float | None:
        """Return the expected seconds that a job runs on after `elapsed` seconds, at most `at_most`.

        None: too few jobs have ended, and there is no `at_most`; or the job has no GPUs.

        It is the geometric mean of longer run times of the user's jobs with as many GPUs, else of all users' jobs, else
        of the nearest number of GPUs. A job that has outlived all of them is expected to run as long again.
        """
        if gpus < 1:
            return None
        expected = self._left(user, gpus, elapsed)
        return min((each for each in (expected, at_most) if each is not None), default=None)

    def _left(self, user: str, gpus: int, elapsed: float) -> float | None:
        with self._lock:
            ran = self._evidence(user, gpus)
            if ran is None:
                return None
            if (sample := self._samples.get(ran)) is None:
                sample = self._samples[ran] = _Sample.of(ran)
        total = sample.beyond(elapsed)
        return elapsed if total is None else total - elapsed

    def _evidence(self, user: str, gpus: int) -> tuple[float, ...] | None:
        """Return the best run times of which there are enough."""
        for ran in (self._latest.get((user, gpus), ()), self._of_all.get(gpus, ())):
            if len(ran) >= ENOUGH:
                return ran
        sizes = [size for size, ran in self._of_all.items() if len(ran) >= ENOUGH]
        nearest = min(sizes, key=lambda size: (abs(math.log(size / gpus)), size), default=None)
        return None if nearest is None else self._of_all[nearest]
