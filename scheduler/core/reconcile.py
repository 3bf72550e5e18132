"""The difference between what should run on a host and what does, as a list of actions. Pure.

Desired state is rows of the database, observed state comes only from the engine. Every action is idempotent, so the
same difference may be computed, and acted on, any number of times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from schedulearn.scheduler.core.task import ObservedTask, TaskSpec, TaskState


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
    suspended: bool = False
    """It is not its turn: it pauses, or is not started yet."""
    hold: bool = False
    """Not yet: the rest of its gang can't start."""
    checkpoints_elsewhere: bool = False
    """They are on another host, or with the service: it does not start before they were brought here."""


@dataclass(frozen=True)
class LookForImage:
    """Finds out whether an image is there."""

    image: str


@dataclass(frozen=True)
class FetchImage:
    """For a job that waits for it, or because somebody wants it there: tasks get GPUs only where their image is."""

    image: str
    anew: bool = False
    """Also if it is there: its tag may have been moved in its registry."""


@dataclass(frozen=True)
class FetchCheckpoints:
    """Brings a job's checkpoints to the host where this task of its is to start."""

    task_id: str
    job_id: str


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


@dataclass(frozen=True)
class PauseTask:
    task_id: str


@dataclass(frozen=True)
class ResumeTask:
    task_id: str


Action = LookForImage | FetchImage | FetchCheckpoints | StartTask | StopTask | RemoveTask | PauseTask | ResumeTask


def identity_of(action: Action) -> tuple[type[Action], str]:
    """Equal for actions of which only one may be under way: a task is not paused while it is being stopped."""
    controls = isinstance(action, (PauseTask, ResumeTask, StopTask))
    return (StopTask if controls else type(action)), key_of(action)


def key_of(action: Action) -> str:
    """What it is about, among actions of its kind."""
    match action:
        case StartTask(spec):
            return spec.task_id
        case FetchCheckpoints(task_id):
            return task_id
        case LookForImage(image):
            return f"look {image}"
        case FetchImage(image):
            return f"image {image}"
        case StopTask(task_id) | RemoveTask(task_id) | PauseTask(task_id) | ResumeTask(task_id):
            return f"end {task_id}"


def is_fenced(observed: Sequence[ObservedTask], live: Set[str], before: bool) -> bool:
    """Whether a host shows a container alive that the books have given up, none of `live`. From then on (`before`)
    nothing is placed there until all such containers are removed."""
    dead = (TaskState.EXITED, TaskState.LOST)
    return any(task.task_id not in live and (before or task.state not in dead) for task in observed)


def diff(
    desired: Mapping[str, DesiredTask],
    observed: Sequence[ObservedTask],
    images: Set[str],
    now: float,
    orphan_grace_s: float = 10.0,
) -> list[Action]:
    """Actions for one host. `images` are those that are known to be there; `desired` holds tasks that have not ended in
    the books.

    A task that the engine shows and the books don't want is stopped, then removed: it has ended and was recorded, or
    nobody knows it. A task that ran is never started again: what became of it is for the books to record.

    Those that share GPUs by turns never overlap: a task starts only when all that are to pause do, and goes on only
    when nothing else runs on its GPUs, whatever the plan says. None pauses for one whose image is yet to be looked for.
    """
    actions: list[Action] = []
    seen = {task.task_id: task for task in observed}
    awake = {
        task_id: want for task_id, want in desired.items()
        if task_id in seen and seen[task_id].state is TaskState.RUNNING and not seen[task_id].paused
    }  # fmt: skip
    in_use = {uuid for want in awake.values() for uuid in want.spec.gpu_uuids}
    to_be_freed = {uuid for want in awake.values() if want.suspended for uuid in want.spec.gpu_uuids}
    not_ready = {
        uuid for want in desired.values() for uuid in want.spec.gpu_uuids
        if not (want.suspended or want.stop or want.ran) and want.spec.image not in images
    }  # fmt: skip
    for task_id, want in sorted(desired.items()):
        state = seen[task_id].state if task_id in seen else None
        if want.stop:
            if state is TaskState.RUNNING:
                actions.append(StopTask(task_id, want.grace_s))
            elif state is TaskState.CREATED:
                actions.append(RemoveTask(task_id))
        elif state is TaskState.RUNNING:
            if want.suspended and task_id in awake:
                if not_ready.isdisjoint(want.spec.gpu_uuids):
                    actions.append(PauseTask(task_id))
            elif not want.suspended and task_id not in awake and in_use.isdisjoint(want.spec.gpu_uuids):
                actions.append(ResumeTask(task_id))
                in_use.update(want.spec.gpu_uuids)
        elif not want.ran and state in (None, TaskState.CREATED) and now >= want.retry_at:
            if want.spec.image in images:
                if want.checkpoints_elsewhere:
                    actions.append(FetchCheckpoints(task_id, want.spec.job_id))
                elif not want.hold and not want.suspended and to_be_freed.isdisjoint(want.spec.gpu_uuids):
                    actions.append(StartTask(want.spec))
            elif (look := LookForImage(want.spec.image)) not in actions:
                actions.append(look)
    for task_id, task in sorted(seen.items()):
        if task_id not in desired:
            if task.state is TaskState.RUNNING:
                actions.append(StopTask(task_id, orphan_grace_s))
            else:
                actions.append(RemoveTask(task_id))
    return actions
