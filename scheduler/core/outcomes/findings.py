"""State changes of tasks and jobs to be stored. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from schedulearn.scheduler.core.cluster_state import Job, Task
from schedulearn.scheduler.core.outcomes.blame import Blame
from schedulearn.scheduler.core.states import Reason


class JobChanges(TypedDict, total=False):
    """Fields of a job that change together with its state."""

    attempt: int
    restarts: int
    retries: int
    losses: int
    hangs: int
    equal_exits: int
    last_exit: int | None
    exit_code: int | None
    started_at: float
    finished_at: float
    """End of a job that ends; if missing, the present time."""
    not_before: float
    pull_percent: float | None
    fetch_hosts: list[str]
    resize: str
    generation: int
    trained: int
    meeting: str
    forming_at: float | None
    target: dict[str, int] | None
    resized_at: float
    resized_from: dict[str, int]


@dataclass(frozen=True)
class TaskStarted:
    task: Task
    started_at: float
    image: str = ""


@dataclass(frozen=True)
class TaskPaused:
    task: Task
    at: float
    by_others: bool = False
    """Whether the pause was not requested by this service."""


@dataclass(frozen=True)
class TaskResumed:
    task: Task
    at: float


@dataclass(frozen=True)
class TaskEnded:
    task: Task
    outcome: Reason
    exit_code: int | None = None
    error: str = ""
    started_at: float | None = None
    finished_at: float | None = None
    image: str = ""
    blame: Blame | None = None
    """Responsible party, if it is not the job."""
    counts_as: str = ""
    """Source of an early failure. Failures with the same source count once for a host or GPU."""


@dataclass(frozen=True)
class JobMoved:
    job: Job
    reason: Reason
    message: str
    changes: JobChanges = field(default_factory=JobChanges)
    stop_tasks: bool = False
    """Whether all live tasks are stopped."""
    stop_only: Sequence[str] = ()
    """Tasks to stop, if not all."""
    stopped_as: Reason | None = None
    """Outcome of the attempt's tasks that failed only because they were told to stop; None if there is none yet."""


Finding = TaskStarted | TaskPaused | TaskResumed | TaskEnded | JobMoved
