"""Expected run times of rigid jobs, from ended jobs that had as many GPUs.

This is for jobs that report no progress, and whose family is unknown. It is a distribution of run times, given how long
a job has run already. Pure.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

REMEMBERED = 200
"""Latest ended jobs of each user and number of GPUs. With 30 to 50, mean completion times on Philly's traces were up to
1.6 times as long."""
ENOUGH = 5
"""Minimum number of ended jobs that are better evidence than those of other users or sizes."""


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

    def __init__(self, ended: Iterable[RunTime] = ()) -> None:
        """`ended`: the oldest first."""
        self._latest: dict[tuple[str | None, int], tuple[float, ...]] = {}  # user (None: all), GPUs -> run times
        self._samples: dict[tuple[str | None, int], _Sample] = {}
        for each in ended:
            self.add(each)

    def add(self, ended: RunTime) -> None:
        """Remember an ended job. One that never ran is left out."""
        if ended.seconds <= 0 or ended.gpus < 1:
            return
        for key in {(ended.user, ended.gpus), (None, ended.gpus)}:
            self._latest[key] = (*self._latest.get(key, ()), ended.seconds)[-REMEMBERED:]
            self._samples.pop(key, None)

    def left(self, user: str, gpus: int, elapsed: float) -> float | None:
        """Return the expected seconds that a job runs on after `elapsed` seconds; None if no job has ended.

        It is the geometric mean of longer run times of the user's jobs with as many GPUs, else of all users' jobs, else
        of the nearest number of GPUs. A job that has outlived all of them is expected to run as long again.
        """
        if not self._latest:
            return None
        total = self._sample(user, gpus).beyond(elapsed)
        return elapsed if total is None else total - elapsed

    def _sample(self, user: str, gpus: int) -> _Sample:
        for key in ((user, gpus), (None, gpus)):
            if len(self._latest.get(key, ())) >= ENOUGH:
                break
        else:
            sizes = [size for of, size in list(self._latest) if of is None]
            key = (None, min(sizes, key=lambda size: (abs(math.log(size / gpus)), size)))
        if key not in self._samples:
            self._samples[key] = _Sample.of(self._latest[key])
        return self._samples[key]
