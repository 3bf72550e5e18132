"""Idle timeout of jobs without connections to their ports. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.core.states import JobState

UnusedSince = Callable[[str], float | None]
"""Job -> time since which nobody has been connected to it; None if somebody is."""


class HasIdleTimeout(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def idle_timeout(self) -> float | None: ...


def always_used(job_id: str) -> float | None:
    return None


def idle_end(idle_timeout: float, live: Sequence[Task], unused_since: float | None) -> float | None:
    """Return when a job of these tasks ends if nobody connects to it.

    Return None if somebody is connected, or the job does not run or is paused.
    """
    starts = [task.started_at for task in live if task.started_at is not None]
    if unused_since is None or len(starts) < len(live) or any(task.paused_at is not None for task in live):
        return None
    return max([unused_since, *starts]) + idle_timeout if starts else None


def idle_ends(
    jobs: Iterable[HasIdleTimeout], tasks: Iterable[Task], unused_since: UnusedSince
) -> dict[str, float | None]:
    """Return job id -> `idle_end`, for running jobs with an idle timeout.

    `tasks` must have all live tasks of these jobs. Other tasks are ignored.
    """
    running = (job for job in jobs if job.state == JobState.RUNNING)
    bounds = {job.id: job.idle_timeout for job in running if job.idle_timeout is not None}
    live: dict[str, list[Task]] = {job: [] for job in bounds}
    for task in tasks if live else ():
        if task.job_id in live:
            live[task.job_id].append(task)
    return {job: idle_end(bounds[job], mine, unused_since(job)) for job, mine in live.items()}
