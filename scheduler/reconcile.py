"""The difference between what should run on a host and what does, as a list of actions. Pure.

Desired state is rows of the database, observed state comes only from the engine. Every action is idempotent, so the
same difference may be computed, and acted on, any number of times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from schedulearn.scheduler.runtimes.base import ObservedTask, TaskSpec, TaskState


@dataclass(frozen=True)
class DesiredTask:
    """A task that has not ended in the books."""

    spec: TaskSpec
    stop: bool = False
    """It should end: cancelled, out of time, or to be resized."""
    ran: bool = False
    """It was seen running, or its start succeeded: whatever became of it, it is never started again."""
    grace_s: float = 10.0
    retry_at: float = 0.0
    """Not before this time: an earlier try failed for a passing cause."""


@dataclass(frozen=True)
class FetchImage:
    image: str


@dataclass(frozen=True)
class StartTask:
    spec: TaskSpec


@dataclass(frozen=True)
class StopTask:
    task_id: str
    grace_s: float


@dataclass(frozen=True)
class RemoveTask:
    task_id: str


Action = FetchImage | StartTask | StopTask | RemoveTask


def diff(
    desired: Mapping[str, DesiredTask],
    observed: Sequence[ObservedTask],
    images: Set[str],
    now: float,
    orphan_grace_s: float = 10.0,
) -> list[Action]:
    """Actions for one host. `images` are those that are there; `desired` holds tasks that have not ended in the books.

    A task that the engine shows and the books don't want is stopped, then removed: it has ended and was recorded, or
    nobody knows it. A task that ran is never started again: what became of it is for the books to record.
    """
    actions: list[Action] = []
    seen = {task.task_id: task for task in observed}
    for task_id, want in sorted(desired.items()):
        state = seen[task_id].state if task_id in seen else None
        if want.stop:
            if state is TaskState.RUNNING:
                actions.append(StopTask(task_id, want.grace_s))
            elif state is TaskState.CREATED:
                actions.append(RemoveTask(task_id))
        elif not want.ran and state in (None, TaskState.CREATED) and now >= want.retry_at:
            if want.spec.image in images:
                actions.append(StartTask(want.spec))
            elif (fetch := FetchImage(want.spec.image)) not in actions:
                actions.append(fetch)
    for task_id, task in sorted(seen.items()):
        if task_id not in desired:
            if task.state is TaskState.RUNNING:
                actions.append(StopTask(task_id, orphan_grace_s))
            else:
                actions.append(RemoveTask(task_id))
    return actions
