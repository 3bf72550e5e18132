"""Histogram of how long jobs waited for their first start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate

from schedulearn.scheduler.core.cluster_state import Job
from schedulearn.scheduler.core.outcomes.findings import Finding, JobMoved

BOUNDS_S = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86_400, 3 * 86_400, 7 * 86_400)
"""Upper bounds of the buckets, in seconds."""


class WaitTimes:
    """Counts by policy since the start of the service, as Prometheus expects of a histogram."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def note_starts(self, policy: str, findings: Iterable[Finding], jobs: Mapping[str, Job]) -> None:
        """Count the first starts among stored findings. `jobs`: the unfinished ones, after the findings were stored."""
        for found in findings:
            if isinstance(found, JobMoved) and found.job.started_at is None and "started_at" in found.changes:
                stored = jobs.get(found.job.id)
                if stored is None or stored.started_at is not None:  # else the finding came too late
                    self._add(policy, max(0.0, found.changes["started_at"] - _waits_since(found.job)))

    def by_policy(self) -> dict[str, tuple[list[tuple[str, float]], float]]:
        """Return the cumulative buckets and the sum of each policy."""
        names = [*map(str, BOUNDS_S), "+Inf"]
        return {
            policy: (list(zip(names, map(float, accumulate(counts)), strict=True)), self._sums[policy])
            for policy, counts in [*self._counts.items()]
        }

    def _add(self, policy: str, seconds: float) -> None:
        self._sums[policy] = self._sums.get(policy, 0.0) + seconds
        counts = self._counts.setdefault(policy, [0] * (len(BOUNDS_S) + 1))
        counts[sum(seconds > bound for bound in BOUNDS_S)] += 1


def _waits_since(job: Job) -> float:
    """Return when a job could start: at its submission, its `start_after`, or its release."""
    return max(at for at in (job.submitted_at, job.start_after, job.released_at) if at is not None)
