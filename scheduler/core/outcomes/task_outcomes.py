"""State change of one task, derived from an observation. Pure."""

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
from schedulearn.scheduler.core.task import EngineState, ObservedTask

LOOK_S = 1.5
"""Minimum seconds from a failure to a check of the task's GPUs that shows whether they are the cause."""
LOOK_AT_MOST_S = 12.0
"""Maximum seconds that a failed task waits for that check. It takes less to notice that NVML hangs."""
UNSURE_S = 45.0
"""LOOK_AT_MOST_S for a GPU that does not answer. By then it is known whether it is stuck or gone."""
OUT_OF_MEMORY = "it ran out of memory and was killed; its limit is the key `memory`"
INHERITED_S = 30.0
"""Seconds after the service's start in which a pause may be one that its predecessor requested."""
SETTLE_S = 3.0
"""Seconds after the service's start in which a container that its predecessor requested may still appear."""

TaskFinding = TaskStarted | TaskPaused | TaskResumed | TaskEnded


class MemorySeen(NamedTuple):
    """Observed memory use of a task, in bytes."""

    peak: int
    limit: int | None


def highest_memory(noted: int | None, seen: MemorySeen | None) -> int | None:
    """Return the maximum memory of a task, of the stored and the observed value."""
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
    """Everything known about running tasks at one time."""

    now: float
    service_started: float
    observations: Mapping[str, Observation]
    """Host -> observation, for hosts that answered. Tasks of others stay unchanged until their host is given up."""
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """Task -> refused start."""
    gone: Mapping[str, str] = field(default_factory=dict)
    """Host that is given up -> reason."""
    inherited: Set[str] = frozenset()
    """Tasks of the previous instance of the service. Their containers may still appear for `SETTLE_S`."""
    settled_at: float = 0.0
    """End of `SETTLE_S` on the monotonic clock, since the time of day may be set meanwhile."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """Unhealthy GPU -> its fault."""
    crash_limit: int = 0
    """Number of equal exits soon after its start after which a job is not retried; 0 means no limit."""
    last_look_s: Callable[[str, str], float | None] = nobody_looks
    """Host and GPU -> seconds since its last check, infinite if it does not answer yet; None if it is not checked."""
    failed_s: Callable[[str], float] = just_now
    """Failed task -> seconds since the failure was first seen. Clocks of hosts may be wrong, so they are not used."""
    memory_of: Callable[[str], MemorySeen | None] = nobody_measures
    """Task -> its observed maximum memory and its limit."""
    unused_since: UnusedSince = always_used
    told_to_pause: Set[str] = frozenset()
    """Tasks that this service has paused since it started."""
    said: Callable[[str], bytes | None] = nothing_said
    """Ended task -> end of its output; None while that is still being read."""
    stranger: Callable[[str], str] = lambda uuid: ""
    """GPU -> foreign holder of its memory; empty if there is none."""
    real_gpus: Set[str] = frozenset()
    """GPUs that are not simulated."""


@dataclass(frozen=True)
class TaskOutcome:
    finding: TaskFinding | None = None
    """None if nothing has changed."""
    awaits_gpus: bool = False
    """Whether the task has failed and its GPUs have not been checked yet."""


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
        case EngineState.EXITED:
            outcome = Reason.COMPLETED if seen.exit_code == 0 else Reason.COMMAND_FAILED
            error = seen.error or (_out_of_memory(evidence.memory_of(task.id)) if seen.oom_killed else "")
            return TaskEnded(task, outcome, seen.exit_code, error, *_times(task, seen, evidence.now), seen.image)
        case EngineState.LOST:
            return TaskEnded(task, Reason.LOST, None, seen.error, *_times(task, seen, evidence.now), seen.image)
        case EngineState.RUNNING:
            if task.wanted:
                return TaskStarted(task, _within(seen.started_at, task, evidence.now), seen.image)
            if seen.paused and task.paused_at is None:
                return TaskPaused(task, observation.at, _paused_by_others(task, evidence))
            return TaskResumed(task, observation.at) if task.paused_at is not None and not seen.paused else None
        case EngineState.CREATED:
            return _refused(task, evidence)


def _times(task: Task, seen: ObservedTask, now: float) -> tuple[float | None, float | None]:
    """Return when a task started and ended.

    The host has its own clock, and either clock may have been set meanwhile. A task runs neither before it was created
    nor after it was seen, and a stored start is correct.
    """
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
    """Return whether others paused the task. Soon after the start, it may have been the previous instance."""
    settling = task.id in evidence.inherited and evidence.now - evidence.service_started < INHERITED_S
    return task.id not in evidence.told_to_pause and not settling


def _out_of_memory(seen: MemorySeen | None) -> str:
    if seen is None or seen.limit is None:
        return OUT_OF_MEMORY
    return (
        f"it ran out of memory and was killed: its limit is {_size(seen.limit)} (the key `memory`); its highest "
        f"observed use is {_size(seen.peak)}, read every ten seconds"
    )


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"


def _unseen(task: Task, observation: Observation, evidence: Evidence) -> TaskFinding | None:
    if (refused := _refused(task, evidence)) is not None:
        return refused
    if task.running or task.id in observation.started:
        return TaskEnded(task, Reason.LOST, None, "its container was removed from outside")
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
    """Attribute a failure to an unhealthy GPU of the task, if it has one.

    A task that has just failed, and was not told to stop, waits for the next check of its GPUs. A program notices a
    broken GPU before the service does.
    """
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
