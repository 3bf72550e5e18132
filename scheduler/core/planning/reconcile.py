"""Difference between desired and observed tasks of a host, as a list of actions. Pure.

The desired state is in the database; the observed state comes only from the engine. Every action is idempotent: the
difference may be computed and acted on any number of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from schedulearn.scheduler.core.needs import Need, needs_of
from schedulearn.scheduler.core.task import EngineState, ObservedTask, TaskSpec

_ORPHAN_GRACE_S = 10.0  # between SIGTERM and SIGKILL of a task that the cluster state does not want


@dataclass(frozen=True)
class DesiredTask:
    """Task that has not ended in the cluster state."""

    spec: TaskSpec

    stop: bool = False
    """True if it must end: cancelled, out of time, or to be resized."""
    ran: bool = False
    """True if it was seen running, or its start succeeded. It is never started again."""
    grace_s: float = 10.0
    retry_at: float = 0.0
    """Time of the next try, after a temporary failure."""
    suspended: bool = False
    """True if another job has its turn on the GPUs: this task is paused, or not started yet."""
    hold: bool = False
    """True while other tasks of its gang can't start."""
    checkpoints_elsewhere: bool = False
    """True until its checkpoints have been brought here from another host or the service."""

    @property
    def needs(self) -> Sequence[Need]:
        """Image and data that its host must have before it starts."""
        return needs_of(self.spec.image, self.spec.data, self.spec.login)


@dataclass(frozen=True)
class CheckNeed:
    """Check whether an image or data is on the host."""

    need: Need


@dataclass(frozen=True)
class FetchNeed:
    """Fetch an image or data that a job waits for, or that was requested for this host."""

    need: Need
    anew: bool = False
    """Fetch an image even if it is there: its tag may have been moved in its registry."""


@dataclass(frozen=True)
class FetchCheckpoints:
    """Bring a job's checkpoints to the host on which its task is to start."""

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


Action = CheckNeed | FetchNeed | FetchCheckpoints | StartTask | StopTask | RemoveTask | PauseTask | ResumeTask


@dataclass(frozen=True)
class TaskStart:
    """Goal that a task runs: its checkpoints are brought, then it is started."""

    task_id: str


@dataclass(frozen=True)
class TaskChange:
    """Goal that an existing task is paused, resumed, stopped or removed."""

    task_id: str


@dataclass(frozen=True)
class NeedCheck:
    need: Need


@dataclass(frozen=True)
class NeedArrival:
    need: Need


Goal = TaskStart | TaskChange | NeedCheck | NeedArrival
"""Goal of an action. Actions with the same goal share their retries."""


def goal_of(action: Action) -> Goal:
    match action:
        case StartTask(spec):
            return TaskStart(spec.task_id)
        case FetchCheckpoints(task_id):
            return TaskStart(task_id)
        case StopTask(task_id) | RemoveTask(task_id) | PauseTask(task_id) | ResumeTask(task_id):
            return TaskChange(task_id)
        case CheckNeed(need):
            return NeedCheck(need)
        case FetchNeed(need):
            return NeedArrival(need)


@dataclass(frozen=True)
class ActionKey:
    """Key of an action. Only one action of each key is under way at a time."""

    kind: type[Action]
    goal: Goal


def action_key(action: Action) -> ActionKey:
    """Return the key of an action. Pause, resume and stop of a task share one key."""
    controls = isinstance(action, (PauseTask, ResumeTask, StopTask))
    return ActionKey(StopTask if controls else type(action), goal_of(action))


def is_fenced(observed: Sequence[ObservedTask], live: Set[str], before: bool) -> bool:
    """Return whether nothing may be placed on a host because of containers that were given up.

    A host is fenced once a container that is none of `live` runs there. It stays fenced (`before`) until all such
    containers are removed, except those that the engine can't remove."""
    dead = (EngineState.EXITED, EngineState.LOST)
    given_up = [task for task in observed if task.task_id not in live and not task.stuck]
    return any(before or task.state not in dead for task in given_up)


def diff(
    desired: Mapping[str, DesiredTask],
    observed: Sequence[ObservedTask],
    there: Set[Need],
    now: float,
    *,
    share: bool = False,
) -> list[Action]:
    """Return the actions for one host.

    `there`: images and data known to be on the host. `desired`: tasks that have not ended in the cluster state.

    A task that only the engine knows is stopped, then removed: its end was recorded before, or it is unknown. A task
    that ran is never started again; its outcome is recorded elsewhere.

    Jobs that take turns on GPUs never overlap. A task is resumed only when nothing else runs on its GPUs. It starts
    only when all tasks that must pause have paused. Unless the plan lets jobs `share` a GPU, nothing else may run there
    at all: an earlier policy may have used turns. No task pauses for one whose image is not checked yet.
    """
    states = {task.task_id: task.state for task in observed}
    gpus = _gpu_turns(desired, observed, there, share)
    actions: list[Action] = []
    for task_id, want in sorted(desired.items()):
        action = _next_action(task_id, want, states.get(task_id), gpus, there, now)
        if action is None or (isinstance(action, CheckNeed) and action in actions):
            continue  # one check is enough for all tasks with this need
        actions.append(action)
    for task_id, state in sorted(states.items()):
        if task_id not in desired:
            running = state is EngineState.RUNNING
            actions.append(StopTask(task_id, _ORPHAN_GRACE_S) if running else RemoveTask(task_id))
    return actions


@dataclass(frozen=True)
class _GpuTurns:
    """Use of GPUs on a host on which jobs may take turns."""

    awake: Set[str]
    """Ids of tasks that run and are not paused."""
    in_use: set[str]
    """GPUs of tasks that are awake, or that this cycle starts or resumes."""
    to_be_freed: Set[str] | None
    """GPUs of awake tasks that must pause; None: jobs do not share GPUs."""
    needs_missing: Set[str]
    """GPUs of tasks that should start, and whose needs are not known to be there."""


def _gpu_turns(
    desired: Mapping[str, DesiredTask], observed: Sequence[ObservedTask], there: Set[Need], share: bool
) -> _GpuTurns:
    running = {task.task_id for task in observed if task.state is EngineState.RUNNING and not task.paused}
    awake = [want for task_id, want in desired.items() if task_id in running]
    blocked = [
        want for want in desired.values()
        if not (want.suspended or want.stop or want.ran) and not set(want.needs) <= there
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
    task_id: str, want: DesiredTask, state: EngineState | None, gpus: _GpuTurns, there: Set[Need], now: float
) -> Action | None:
    """Return the next action for a task, if there is any. `state` is None if the engine does not show the task."""
    if want.stop:
        return _end(task_id, want, state)
    if state is EngineState.RUNNING:
        return _take_turn(task_id, want, gpus)
    if not want.ran and state in (None, EngineState.CREATED):
        return _begin(task_id, want, gpus, there, due=now >= want.retry_at)
    return None


def _end(task_id: str, want: DesiredTask, state: EngineState | None) -> Action | None:
    if state is EngineState.RUNNING:
        return StopTask(task_id, want.grace_s)
    return RemoveTask(task_id) if state is EngineState.CREATED else None


def _take_turn(task_id: str, want: DesiredTask, gpus: _GpuTurns) -> Action | None:
    mine = want.spec.gpu_uuids
    awake = task_id in gpus.awake
    if want.suspended and awake and gpus.needs_missing.isdisjoint(mine):
        return PauseTask(task_id)
    if not want.suspended and not awake and gpus.in_use.isdisjoint(mine):
        gpus.in_use.update(mine)
        return ResumeTask(task_id)
    return None


def _begin(task_id: str, want: DesiredTask, gpus: _GpuTurns, there: Set[Need], *, due: bool) -> Action | None:
    """Return the next step towards the start of a task.

    If several tasks would start on a GPU, the first keeps it until it was seen running, also while its retry waits: a
    start that seems to have failed may take effect late."""
    if (lacking := next((need for need in want.needs if need not in there), None)) is not None:
        return CheckNeed(lacking) if due else None
    if want.checkpoints_elsewhere:
        return FetchCheckpoints(task_id, want.spec.job_id) if due else None
    busy = gpus.in_use if gpus.to_be_freed is None else gpus.to_be_freed
    if want.hold or want.suspended or not busy.isdisjoint(want.spec.gpu_uuids):
        return None
    gpus.in_use.update(want.spec.gpu_uuids)
    return StartTask(want.spec) if due else None
