"""Jobs that end when nobody is connected to their ports for a while. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedulearn.scheduler.core.cluster_state import ClusterState, Task
from schedulearn.scheduler.core.states import JobStatus

UnusedSince = Callable[[str], float | None]
"""Job -> since when nobody has been connected to it; None: somebody is."""


def always_used(job_id: str) -> float | None:
    return None


def idle_end(idle_timeout: float, live: Sequence[Task], unused_since: float | None) -> float | None:
    """When a job of these tasks ends if nobody connects to it until then; None: somebody is connected, or it does not
    run, or pauses."""
    starts = [task.started_at for task in live if task.started_at is not None]
    if unused_since is None or len(starts) < len(live) or any(task.paused_at is not None for task in live):
        return None
    return max([unused_since, *starts]) + idle_timeout if starts else None


def idle_ends(state: ClusterState, unused_since: UnusedSince) -> list[float]:
    """When jobs that nobody is connected to end by that."""
    running = (job for job in state.jobs.values() if job.status == JobStatus.RUNNING)
    bounded = {job.id: job.idle_timeout for job in running if job.idle_timeout is not None}
    if not bounded:
        return []
    live: dict[str, list[Task]] = {}
    for task in state.tasks:
        if task.job_id in bounded:
            live.setdefault(task.job_id, []).append(task)
    found = [idle_end(bounded[job], tasks, unused_since(job)) for job, tasks in live.items()]
    return [end for end in found if end is not None]
