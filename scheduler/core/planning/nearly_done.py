"""Running jobs that end sooner than a restart would take, and are not resized. Pure.

The remaining work may be reported by the job itself. A job that claims for too long to end soon loses the exemption.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from schedulearn.scheduler.core.model import Allocation, JobView

TRUSTED = 2.0
"""Maximum duration of the exemption, as a multiple of the restart's cost."""


def seconds_left(job: JobView) -> float | None:
    """Return the seconds until it ends on its present GPUs; None: unknown.

    Without a profile, perfect scaling is assumed."""
    if job.remaining is None or not job.gpus:
        return None
    speedup = float(job.gpus)
    if job.goodput is not None:
        alone, now = (float(job.goodput(n, k)) for n, k in ((1, 1), (len(job.allocation), job.gpus)))
        speedup = now / alone if alone > 0 and now > 0 else speedup
    return job.remaining / speedup


def restart_costs(job: JobView, wanted: Allocation) -> float:
    """Return the cost of a change of allocation, in seconds."""
    return job.restart_cost if wanted.keys() == job.allocation.keys() and not job.in_place else job.move_cost


@dataclass
class NearlyDone:
    """Jobs that are exempt from resizing, and since when."""

    _since: dict[tuple[str, int], float] = field(default_factory=dict)
    """(job id, attempt) -> start of the exemption."""

    def spares(self, attempt: int, job: JobView, wanted: Allocation, now: float) -> bool:
        """Return whether a job keeps its allocation, although the plan would restart it for `wanted`."""
        left, cost = seconds_left(job), restart_costs(job, wanted)
        if left is None or left >= cost:
            return False
        since = self._since.setdefault((job.id, attempt), now)
        return 0 <= now - since < TRUSTED * cost

    def forget(self, live: Iterable[str]) -> None:
        """Forget all jobs except these."""
        known = set(live)
        self._since = {key: since for key, since in self._since.items() if key[0] in known}
