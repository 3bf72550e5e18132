"""How often a job's workers may ask: in bursts, but not for long. One job must not delay all others."""

from __future__ import annotations

from collections.abc import Callable


class RateLimit:
    """So many a second for each job, and `burst` of them at once. Not for several threads."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._spent: dict[str, tuple[float, float]] = {}
        """Job -> how much of its burst it had used, and when. One that has all of it again is forgotten."""

    def wait_s(self, job_id: str) -> float:
        """0 where the job may ask now, which counts; else in how many seconds it may."""
        now = self._clock()
        spent, at = self._spent.get(job_id, (0.0, now))
        spent = max(0.0, spent - (now - at) * self._per_second)
        if spent + 1 > self._burst:
            return (spent + 1 - self._burst) / self._per_second
        if job_id not in self._spent:
            self._forget(now)
        self._spent[job_id] = (spent + 1, now)
        return 0.0

    def _forget(self, now: float) -> None:
        idle = [job for job, (spent, at) in self._spent.items() if spent <= (now - at) * self._per_second]
        for job in idle:
            del self._spent[job]
