"""The difference between what should run on a host and what does, as a list of actions. Pure.

Desired state is rows of the database, observed state comes only from the engine. Every action is idempotent, so the
same difference may be computed, and acted on, any number of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from schedulearn.scheduler.core.planning.shared_data import needs_of
from schedulearn.scheduler.core.task import EngineState, ObservedTask, TaskSpec

_ORPHAN_GRACE_S = 10.0  # between SIGTERM and SIGKILL of a task that the cluster state does not want


@dataclass(frozen=True)
class DesiredTask:
    """A task that has not ended as far as the cluster state says."""

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

    @property
    def needs(self) -> Sequence[str]:
        """What its host must have before it starts: its image, and data."""
        return needs_of(self.spec.image, self.spec.data)


@dataclass(frozen=True)
class LookForImage:
    """Finds out whether an image is there, or data that jobs share, which has a name like an image's."""

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


@dataclass(frozen=True)
class TaskStart:
    """What must be done before a task runs: its checkpoints are brought, then it is started."""

    task_id: str


@dataclass(frozen=True)
class TaskChange:
    """What is done to a task that exists: it is paused, resumed, stopped or removed."""

    task_id: str


@dataclass(frozen=True)
class ImageSearch:
    image: str


@dataclass(frozen=True)
class ImageArrival:
    image: str


Goal = TaskStart | TaskChange | ImageSearch | ImageArrival
"""What an action is for. Actions with one goal are tried again together."""


def goal_of(action: Action) -> Goal:
    match action:
        case StartTask(spec):
            return TaskStart(spec.task_id)
        case FetchCheckpoints(task_id):
            return TaskStart(task_id)
        case StopTask(task_id) | RemoveTask(task_id) | PauseTask(task_id) | ResumeTask(task_id):
            return TaskChange(task_id)
        case LookForImage(image):
            return ImageSearch(image)
        case FetchImage(image):
            return ImageArrival(image)


@dataclass(frozen=True)
class ActionKey:
    """Only one action of each key is under way at a time."""

    kind: type[Action]
    goal: Goal


def action_key(action: Action) -> ActionKey:
    """A task is not paused or resumed while it is being stopped: these three share a key."""
    controls = isinstance(action, (PauseTask, ResumeTask, StopTask))
    return ActionKey(StopTask if controls else type(action), goal_of(action))


def is_fenced(observed: Sequence[ObservedTask], live: Set[str], before: bool) -> bool:
    """Whether a host shows a container alive that the cluster state has given up, none of `live`. From then on
    (`before`) nothing is placed there until all such containers are removed, but those that an engine is stuck with."""
    dead = (EngineState.EXITED, EngineState.LOST)
    given_up = [task for task in observed if task.task_id not in live and not task.stuck]
    return any(before or task.state not in dead for task in given_up)


def diff(
    desired: Mapping[str, DesiredTask],
    observed: Sequence[ObservedTask],
    images: Set[str],
    now: float,
    *,
    share: bool = False,
) -> list[Action]:
    """Actions for one host. `images`: the names of images and data that are known to be there; `desired` holds
    tasks that have not ended in the cluster state.

    A task that the engine shows and the cluster state does not want is stopped, then removed: its end was recorded
    before, or nobody knows it. A task that ran is never started again: what became of it is recorded elsewhere.

    Those that share GPUs by turns never overlap: a task goes on only when nothing else runs on its GPUs,
    whatever the plan says. It starts only when all that are to pause do; and only when nothing else runs there, unless
    the plan lets jobs `share` a GPU: the policy before may have known turns. None pauses for one
    whose image is yet to be looked for.
    """
    states = {task.task_id: task.state for task in observed}
    gpus = _gpu_turns(desired, observed, images, share)
    actions: list[Action] = []
    for task_id, want in sorted(desired.items()):
        action = _next_action(task_id, want, states.get(task_id), gpus, images, now)
        if action is None or (isinstance(action, LookForImage) and action in actions):
            continue  # one look is enough for all tasks that need the image
        actions.append(action)
    for task_id, state in sorted(states.items()):
        if task_id not in desired:
            running = state is EngineState.RUNNING
            actions.append(StopTask(task_id, _ORPHAN_GRACE_S) if running else RemoveTask(task_id))
    return actions


@dataclass(frozen=True)
class _GpuTurns:
    """Which GPUs are used by whom, where jobs share them by turns."""

    awake: Set[str]
    """Ids of tasks that run and do not pause."""
    in_use: set[str]
    """GPUs of tasks that are awake, or are started or resumed now."""
    to_be_freed: Set[str] | None
    """Where several may run on one GPU: those of tasks that are awake and should pause."""
    image_missing: Set[str]
    """GPUs of tasks that should start, and whose image is not known to be there."""


def _gpu_turns(
    desired: Mapping[str, DesiredTask], observed: Sequence[ObservedTask], images: Set[str], share: bool
) -> _GpuTurns:
    running = {task.task_id for task in observed if task.state is EngineState.RUNNING and not task.paused}
    awake = [want for task_id, want in desired.items() if task_id in running]
    blocked = [
        want for want in desired.values()
        if not (want.suspended or want.stop or want.ran) and not set(want.needs) <= images
    ]  # fmt: skip
    return _GpuTurns(
        running & desired.keys(),
        _gpus_of(awake),
        _gpus_of(want for want in awake if want.suspended) if share else None,
        _gpus_of(blocked),
    )


def _gpus_of(tasks: Iterable[DesiredTask]) -> set[str]:
    return {uuid for task in tasks for uuid in task.spec.gpu_uuids}


def _next_action(
    task_id: str, want: DesiredTask, state: EngineState | None, gpus: _GpuTurns, images: Set[str], now: float
) -> Action | None:
    """The one thing to do for a task, if there is any. `state` is None for one that the engine does not show."""
    if want.stop:
        return _end(task_id, want, state)
    if state is EngineState.RUNNING:
        return _take_turn(task_id, want, gpus)
    if not want.ran and state in (None, EngineState.CREATED):
        return _begin(task_id, want, gpus, images, due=now >= want.retry_at)
    return None


def _end(task_id: str, want: DesiredTask, state: EngineState | None) -> Action | None:
    if state is EngineState.RUNNING:
        return StopTask(task_id, want.grace_s)
    return RemoveTask(task_id) if state is EngineState.CREATED else None


def _take_turn(task_id: str, want: DesiredTask, gpus: _GpuTurns) -> Action | None:
    mine = want.spec.gpu_uuids
    awake = task_id in gpus.awake
    if want.suspended and awake and gpus.image_missing.isdisjoint(mine):
        return PauseTask(task_id)
    if not want.suspended and not awake and gpus.in_use.isdisjoint(mine):
        gpus.in_use.update(mine)
        return ResumeTask(task_id)
    return None


def _begin(task_id: str, want: DesiredTask, gpus: _GpuTurns, images: Set[str], *, due: bool) -> Action | None:
    """One of several that would start on a GPU has it until it was seen to run, also while it rests: a start that seems
    to have failed may take effect late."""
    if (lacking := next((need for need in want.needs if need not in images), None)) is not None:
        return LookForImage(lacking) if due else None
    if want.checkpoints_elsewhere:
        return FetchCheckpoints(task_id, want.spec.job_id) if due else None
    busy = gpus.in_use if gpus.to_be_freed is None else gpus.to_be_freed
    if want.hold or want.suspended or not busy.isdisjoint(want.spec.gpu_uuids):
        return None
    gpus.in_use.update(want.spec.gpu_uuids)
    return StartTask(want.spec) if due else None
