"""Rate limit of requests by a job's workers.

Short bursts are allowed. One job must not delay all others.
"""

from __future__ import annotations

from collections.abc import Callable


class RateLimit:
    """Limit of `per_second` requests per job, with `burst` at once. Not thread-safe."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._spent: dict[str, tuple[float, float]] = {}
        """Job -> used part of its burst, and when. A job whose burst is fully restored is forgotten."""

    def wait_s(self, job_id: str) -> float:
        """Return 0 and count the request if the job may send it now; else return the seconds until it may."""
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
