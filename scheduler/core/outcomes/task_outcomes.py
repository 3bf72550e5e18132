"""What an observation means for one task: it runs, pauses, goes on, or has ended, and who is to blame. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.core.outcomes.findings import TaskEnded, TaskPaused, TaskResumed, TaskStarted
from schedulearn.scheduler.core.outcomes.observations import Observation, Refusal
from schedulearn.scheduler.core.outcomes.unused import UnusedSince, always_used
from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.core.task import ObservedTask, TaskState

LOOK_S = 1.5
"""So long after a task was seen to have failed, a look at its GPUs tells whether they are to blame."""
LOOK_AT_MOST_S = 12.0
"""For so long a failed task waits for that look: longer than it takes to notice that NVML hangs."""
UNSURE_S = 45.0
"""As LOOK_AT_MOST_S, for a GPU that does not answer: by then it is known whether it is stuck or gone."""
OUT_OF_MEMORY = "it ran out of memory and was killed; its limit is the key `memory`"
INHERITED_S = 30.0
"""For so long after the service's start a pause may be one that the service of before asked for."""
SETTLE_S = 3.0
"""For so long after the service's start, a container that the service of before asked for may still appear."""

TaskFinding = TaskStarted | TaskPaused | TaskResumed | TaskEnded


class MemorySeen(NamedTuple):
    """Of a task, in bytes, as far as it was looked at."""

    peak: int
    limit: int | None


def highest_memory(noted: int | None, seen: MemorySeen | None) -> int | None:
    """The most memory of a task: as it was noted, or seen since."""
    return max((peak for peak in (noted, seen.peak if seen is not None else None) if peak is not None), default=None)


def nobody_looks(host_id: str, uuid: str) -> float | None:
    return None


def just_now(task_id: str) -> float:
    return 0.0


def nothing_said(task_id: str) -> bytes | None:
    return b""


def nobody_measures(task_id: str) -> MemorySeen | None:
    return None


@dataclass(frozen=True)
class Evidence:
    """What is known, at one time, of what runs."""

    now: float
    service_started: float
    observations: Mapping[str, Observation]
    """By host, of those that answered. One that did not changes nothing for its tasks, until it is given up."""
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """By task."""
    gone: Mapping[str, str] = field(default_factory=dict)
    """Hosts that are given up, with the reason."""
    inherited: Set[str] = frozenset()
    """Tasks of the service of before: containers that it asked for may still appear, for `SETTLE_S`."""
    settled_at: float = 0.0
    """When these have passed, by the monotonic clock: the time of day may be set meanwhile."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """Unhealthy GPUs, and what is wrong with them."""
    crash_limit: int = 0
    """After so many equal exits soon after its start a job is not tried again; 0: it is."""
    last_look_s: Callable[[str, str], float | None] = nobody_looks
    """Host and GPU -> seconds since the last look at it, infinite if it does not answer yet; None: nobody looks."""
    failed_s: Callable[[str], float] = just_now
    """Task that failed -> seconds since that was first seen. No clock of a host counts: it may be wrong."""
    memory_of: Callable[[str], MemorySeen | None] = nobody_measures
    """Task -> the most memory that it was seen with, and what it may have."""
    unused_since: UnusedSince = always_used
    told_to_pause: Set[str] = frozenset()
    """Tasks that this service has paused since it started."""
    said: Callable[[str], bytes | None] = nothing_said
    """Task that has ended -> the end of its output; None: that is still being read."""
    stranger: Callable[[str], str] = lambda uuid: ""
    """GPU -> who holds memory of it without having it from us; empty: nobody."""
    real_gpus: Set[str] = frozenset()
    """Those that are not simulated."""


@dataclass(frozen=True)
class TaskOutcome:
    finding: TaskFinding | None = None
    """None: nothing has changed."""
    awaits_gpus: bool = False
    """It has failed, and its GPUs are yet to be looked at."""


def outcome_of(task: Task, evidence: Evidence) -> TaskOutcome:
    if task.host_id in evidence.gone:
        return TaskOutcome(TaskEnded(task, Reason.HOST_LOST, error=evidence.gone[task.host_id]))
    observation = evidence.observations.get(task.host_id)
    if observation is None:
        return TaskOutcome()
    seen = next((seen for seen in observation.tasks if seen.task_id == task.id), None)
    finding = _unseen(task, observation, evidence) if seen is None else _seen(task, seen, observation, evidence)
    return _blamed(finding, evidence) if isinstance(finding, TaskEnded) else TaskOutcome(finding)


def _seen(task: Task, seen: ObservedTask, observation: Observation, evidence: Evidence) -> TaskFinding | None:
    match seen.state:
        case TaskState.EXITED:
            outcome = Reason.COMPLETED if seen.exit_code == 0 else Reason.COMMAND_FAILED
            error = seen.error or (_out_of_memory(evidence.memory_of(task.id)) if seen.oom_killed else "")
            return TaskEnded(task, outcome, seen.exit_code, error, *_times(task, seen, evidence.now), seen.image)
        case TaskState.LOST:
            return TaskEnded(task, Reason.LOST, None, seen.error, *_times(task, seen, evidence.now), seen.image)
        case TaskState.RUNNING:
            if task.wanted:
                return TaskStarted(task, _within(seen.started_at, task, evidence.now), seen.image)
            if seen.paused and task.paused_at is None:
                return TaskPaused(task, observation.at, _paused_by_others(task, evidence))
            return TaskResumed(task, observation.at) if task.paused_at is not None and not seen.paused else None
        case TaskState.CREATED:
            return _refused(task, evidence)


def _times(task: Task, seen: ObservedTask, now: float) -> tuple[float | None, float | None]:
    """When a task started and ended. Its host has a clock of its own, and each may have been set meanwhile: a task runs
    neither before it was made nor after it was seen, and a start that is stored is right."""
    if seen.started_at is None or seen.finished_at is None:
        return task.started_at or seen.started_at, seen.finished_at
    if task.started_at is not None:
        return task.started_at, max(task.started_at, _within(seen.finished_at, task, now))
    ran = min(max(0.0, seen.finished_at - seen.started_at), max(0.0, now - task.created_at))
    started = min(_within(seen.started_at, task, now), now - ran)
    return started, started + ran


def _within(at: float | None, task: Task, now: float) -> float:
    return now if at is None else min(now, max(at, task.created_at))


def _paused_by_others(task: Task, evidence: Evidence) -> bool:
    """Right after the start it may have been the service of before."""
    settling = task.id in evidence.inherited and evidence.now - evidence.service_started < INHERITED_S
    return task.id not in evidence.told_to_pause and not settling


def _out_of_memory(seen: MemorySeen | None) -> str:
    if seen is None or seen.limit is None:
        return OUT_OF_MEMORY
    return (
        f"it ran out of memory and was killed: its limit is {_size(seen.limit)} (the key `memory`); the most that it "
        f"was seen with is {_size(seen.peak)}, by a look every ten seconds"
    )


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"


def _unseen(task: Task, observation: Observation, evidence: Evidence) -> TaskFinding | None:
    if (refused := _refused(task, evidence)) is not None:
        return refused
    if task.running or task.id in observation.started:
        return TaskEnded(task, Reason.LOST, None, "its container was removed by somebody else")
    settled = task.id not in evidence.inherited or observation.asked_at > evidence.settled_at
    if task.stop and settled and task.id not in observation.maybe_starting:
        return TaskEnded(task, Reason.CANCELLED)  # it never ran
    return None


def _refused(task: Task, evidence: Evidence) -> TaskEnded | None:
    refusal = evidence.refusals.get(task.id)
    if refusal is None:
        return None
    counts_as = refusal.counts_as or task.id
    return TaskEnded(task, refusal.reason, None, refusal.message, blame=refusal.blame, counts_as=counts_as)


def _blamed(ended: TaskEnded, evidence: Evidence) -> TaskOutcome:
    """A task that failed on an unhealthy GPU did so because of it. One that has just failed, and was not told to stop,
    waits for the next look at its GPUs: a program notices a broken one before we do."""
    if ended.outcome is Reason.COMPLETED:
        return TaskOutcome(ended)
    fault = next((evidence.faults[uuid] for uuid in ended.task.gpu_uuids if uuid in evidence.faults), "")
    if fault:
        return TaskOutcome(replace(ended, outcome=Reason.GPU_LOST, error=fault, blame=None))
    if ended.finished_at is None or ended.task.stop or not ended.task.gpu_uuids:
        return TaskOutcome(ended)
    failed_s = evidence.failed_s(ended.task.id)
    looks = [evidence.last_look_s(ended.task.host_id, uuid) for uuid in ended.task.gpu_uuids]
    oldest_s = max((look for look in looks if look is not None), default=-math.inf)
    late = oldest_s > failed_s - LOOK_S
    unread = ended.outcome is Reason.COMMAND_FAILED and evidence.said(ended.task.id) is None
    at_most_s = UNSURE_S if oldest_s == math.inf else LOOK_AT_MOST_S
    return TaskOutcome(awaits_gpus=True) if (late or unread) and failed_s < at_most_s else TaskOutcome(ended)
