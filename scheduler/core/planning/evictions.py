"""Jobs that must leave their hosts or GPUs, regardless of the policy. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedulearn.scheduler.core.cluster_state import ClusterState, Gpu, Job, Task, run_seconds
from schedulearn.scheduler.core.outcomes.gpu_health import jobs_leave
from schedulearn.scheduler.core.outcomes.task_outcomes import SETTLE_S
from schedulearn.scheduler.core.planning.start_times import held
from schedulearn.scheduler.core.planning.windows import maintenance, next_window_times
from schedulearn.scheduler.core.states import JobState, Parking, Reason

_MOVABLE = (JobState.STARTING, JobState.RUNNING)


@dataclass(frozen=True)
class Eviction:
    job: Job
    why: str
    reason: Reason = Reason.EVICTED
    """Reason of a running job. A job that does not run yet waits again."""


def evictions(state: ClusterState, now: float) -> list[Eviction]:
    """Return the evictions that are due.

    Jobs leave GPUs with a fault that requires it, and hosts and GPUs that are drained. Running rigid jobs leave at the
    deadline of the drain; others leave at once, since they lose nothing. Running elastic jobs also leave a host that
    is to be powered down, and leave their GPUs if they are held."""
    drained = {host.id: host.drain_until for host in state.hosts if host.drain_until is not None}
    whys = _why_drained(state, now)
    emptying = {host.id for host in state.hosts if host.parking is Parking.EMPTYING}
    faults = {gpu.uuid: gpu for gpu in state.gpus if gpu.fault and jobs_leave(gpu.fault_kind)}
    draining = {gpu.uuid: gpu for gpu in state.gpus if gpu.drain_until is not None}
    found: dict[str, Eviction] = {}
    for task in state.tasks:
        job = state.jobs.get(task.job_id)
        if job is None or task.stop or job.state not in _MOVABLE:
            continue
        at_once = job.elastic or job.state == JobState.STARTING
        faulty = next((faults[uuid] for uuid in task.gpu_uuids if uuid in faults), None)
        if faulty is not None:
            why = f"GPU {faulty.ordinal} of {task.host_id} is unhealthy ({faulty.fault}). It moves elsewhere."
            found[job.id] = Eviction(job, why)
        elif task.host_id in drained and (at_once or now >= drained[task.host_id]):
            found.setdefault(job.id, Eviction(job, f"{whys[task.host_id]} It moves elsewhere."))
        elif (gpu := _drained(task, draining, now, at_once=at_once)) is not None:
            why = f"GPU {gpu.ordinal} of {task.host_id} is being drained. It moves elsewhere."
            found.setdefault(job.id, Eviction(job, why))
        elif task.host_id in emptying and job.elastic and job.state == JobState.RUNNING:
            found.setdefault(job.id, Eviction(job, f"{task.host_id} is being parked. It moves elsewhere."))
    return list({**found, **_pauses(state)}.values())


def _why_drained(state: ClusterState, now: float) -> dict[str, str]:
    """Return host -> why it is drained, as a sentence."""
    windows = {window.id: window for window in state.windows}
    return {
        host.id: maintenance(windows[host.window_id], host.id, now)
        if host.window_id in windows
        else f"{host.id} is being drained."
        for host in state.hosts
        if host.drain_until is not None
    }


def _pauses(state: ClusterState) -> dict[str, Eviction]:
    """Return the evictions of jobs that run and are to be paused.

    One that is starting is stopped once it runs: before, its end could not be told from a failure."""
    found = {}
    for job in state.jobs.values():
        if job.held_at is not None and job.elastic and job.state == JobState.RUNNING:
            why = f"{held(job.held_at, job.held_by)} It saves a checkpoint and gives its GPUs back."
            found[job.id] = Eviction(job, why, Reason.PAUSE_REQUESTED)
    return found


def _drained(task: Task, draining: Mapping[str, Gpu], now: float, *, at_once: bool) -> Gpu | None:
    """Return a GPU that a task must leave now."""
    mine = [draining[uuid] for uuid in task.gpu_uuids if uuid in draining]
    return next((gpu for gpu in mine if at_once or (gpu.drain_until or 0.0) <= now), None)


def faults_of(gpus: Sequence[Gpu]) -> dict[str, str]:
    """Return GPU -> its fault, as a sentence without its full stop. Healthy GPUs are left out."""
    return {gpu.uuid: f"GPU {gpu.ordinal} of {gpu.host_id} is unhealthy ({gpu.fault})" for gpu in gpus if gpu.fault}


def next_deadlines(state: ClusterState, now: float) -> list[float]:
    """Return the seconds until each future deadline of a drain, and each step of a maintenance window."""
    ends = [*(host.drain_until for host in state.hosts), *(gpu.drain_until for gpu in state.gpus)]
    drains = [end - now for end in ends if end is not None and end > now]
    return drains + next_window_times(state.windows, now)


def time_left(state: ClusterState, now: float) -> list[float]:
    """Return the seconds until events that wake nobody: a max_duration, or the settling of an inherited task."""
    settling = [SETTLE_S] if any(task.stop and task.wanted for task in state.tasks) else []
    return settling + [
        max(0.05, job.max_duration - job.run_seconds - run_seconds(task, now))
        for task in state.tasks
        if (job := state.jobs.get(task.job_id)) is not None and job.max_duration is not None and task.paused_at is None
    ]
