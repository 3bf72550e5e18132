"""Running jobs that end sooner than a restart would take: they are left alone. Pure.

How far a job is may come from the job itself. One that says for long that it ends in a moment is treated like others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from schedulearn.scheduler.core.model import Allocation, JobView

TRUSTED = 2.0
"""For so many times the cost of its restart a job is left alone at most."""


def seconds_left(job: JobView) -> float | None:
    """Until it ends on what it holds; None: not known. Without a profile it is taken to scale perfectly."""
    if job.remaining is None or not job.gpus:
        return None
    speedup = float(job.gpus)
    if job.goodput is not None:
        alone, now = (float(job.goodput(n, k)) for n, k in ((1, 1), (len(job.allocation), job.gpus)))
        speedup = now / alone if alone > 0 and now > 0 else speedup
    return job.remaining / speedup


def restart_costs(job: JobView, wanted: Allocation) -> float:
    """Seconds that the change costs it, by a restart."""
    return job.restart_cost if wanted.keys() == job.allocation.keys() and not job.in_place else job.move_cost


@dataclass
class NearlyDone:
    """Who is left alone, and since when."""

    _since: dict[tuple[str, int], float] = field(default_factory=dict)
    """By job and attempt."""

    def spares(self, attempt: int, job: JobView, wanted: Allocation, now: float) -> bool:
        """Whether a job is left as it is, although the plan has it restart for `wanted`."""
        left, cost = seconds_left(job), restart_costs(job, wanted)
        if left is None or left >= cost:
            return False
        since = self._since.setdefault((job.id, attempt), now)
        return 0 <= now - since < TRUSTED * cost

    def forget(self, live: Iterable[str]) -> None:
        """All jobs but these."""
        known = set(live)
        self._since = {key: since for key, since in self._since.items() if key[0] in known}
