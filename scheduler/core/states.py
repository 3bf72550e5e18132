"""States of a job, their reasons, and the allowed transitions (`TRANSITIONS`).

queued ◄─► pulling ──► starting ──► running ──► succeeded | failed
  ▲                        │          │  │
  └────────── lost ────────┴──────────┘  ├──► resizing ──► queued
                                         └──► stopping ──► cancelled | timeout

A queued job skips `pulling` if its image is on the host. Neither state holds a GPU. `TRANSITIONS` is the only authority
on which state can follow which.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from schedulearn.scheduler.errors import IllegalTransitionError


class JobState(StrEnum):
    QUEUED = "queued"
    PULLING = "pulling"
    STARTING = "starting"
    RUNNING = "running"
    RESIZING = "resizing"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"

    @property
    def terminal(self) -> bool:
        return not TRANSITIONS[self]

    @property
    def holds_gpus(self) -> bool:
        """Whether a job in this state has leases."""
        return self in HOLDS_GPUS


class TaskPhase(StrEnum):
    """State of a task in the database. An engine reports a `core.task.EngineState` instead."""

    WANTED = "wanted"
    RUNNING = "running"
    ENDED = "ended"


class HostState(StrEnum):
    ACTIVE = "active"
    CORDONED = "cordoned"


class Parking(StrEnum):
    """Power-down state of a host, set by host scaling and not by an operator."""

    NONE = ""
    EMPTYING = "emptying"
    PARKED = "parked"


_Q, _P, _S, _R, _Z, _X = (
    JobState.QUEUED,
    JobState.PULLING,
    JobState.STARTING,
    JobState.RUNNING,
    JobState.RESIZING,
    JobState.STOPPING,
)
_OK, _BAD, _GONE, _LATE = JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.TIMEOUT

TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    _Q: frozenset({_P, _S, _GONE, _BAD, _LATE}),
    _P: frozenset({_S, _Q, _GONE, _BAD}),
    _S: frozenset({_R, _Q, _X, _OK, _BAD}),
    _R: frozenset({_Z, _Q, _X, _OK, _BAD}),
    _Z: frozenset({_Q, _X, _OK, _BAD}),
    _X: frozenset({_GONE, _LATE, _OK, _BAD}),
    _OK: frozenset(),
    _BAD: frozenset(),
    _GONE: frozenset(),
    _LATE: frozenset(),
}

WAITS = frozenset({_Q, _P})
"""States in which a job holds no GPUs. It starts once the policy gives it GPUs and its image is on the host."""
HOLDS_GPUS = frozenset({_S, _R, _Z, _X})
TERMINAL = frozenset(state for state, after in TRANSITIONS.items() if not after)
UNFINISHED = tuple(state for state in JobState if state not in TERMINAL)


class Reason(StrEnum):
    """Machine-readable reason for a job's state. The job's `message` explains it to people."""

    SUBMITTED = "submitted"
    WAITING_FOR_GPUS = "waiting_for_gpus"
    UNSATISFIABLE = "unsatisfiable_now"
    WAITING_FOR_IMAGE = "waiting_for_image"
    WAITING_FOR_HOST = "waiting_for_host"
    BEHIND_OTHERS = "behind_others"
    OVER_QUOTA = "over_quota"
    FAIR_SHARE = "fair_share"
    GPUS_LENT = "gpus_lent"
    WAITING_FOR_JOBS = "waiting_for_jobs"
    HELD = "held"
    START_AFTER = "start_after"
    MAINTENANCE = "maintenance"
    LOST = "lost"
    HOST_LOST = "host_lost"
    GPU_LOST = "gpu_lost"
    HOST_FAULT = "host_fault"
    EVICTED = "evicted"
    RETRY = "retry"
    RESIZED = "resized"
    PREEMPTED = "preempted"
    PAUSED = "paused"
    IMAGE_PULL = "image_pull"
    IMAGE_GONE = "image_gone"
    PLACED = "placed"
    CONTAINER_RUNNING = "container_running"
    RESIZE_REQUESTED = "resize_requested"
    RESIZE_FAILED = "resize_failed"
    PAUSE_REQUESTED = "pause_requested"
    RESIZING_IN_PLACE = "resizing_in_place"
    HANG_RESTART = "hang_restart"
    HANG_END = "hang_end"
    CANCEL_REQUESTED = "cancel_requested"
    TIME_LIMIT_REACHED = "time_limit_reached"
    PRUNE_REQUESTED = "prune_requested"
    COMPLETED = "completed"
    COMMAND_FAILED = "command_failed"
    IMAGE_UNAVAILABLE = "image_unavailable"
    START_REFUSED = "start_refused"
    TOO_MANY_LOSSES = "too_many_losses"
    CRASH_LOOP = "crash_loop"
    HUNG = "hung"
    CANCELLED = "cancelled"
    PREDECESSOR_FAILED = "predecessor_failed"
    TIME_LIMIT = "time_limit"
    PRUNED = "pruned"

    def to_state(self) -> JobState:
        """Return the state of this reason. Every reason has one, which a test checks."""
        return _STATUS_OF[self]


_STATUS_OF: Mapping[Reason, JobState] = {
    Reason.SUBMITTED: _Q,
    Reason.WAITING_FOR_GPUS: _Q,
    Reason.UNSATISFIABLE: _Q,
    Reason.WAITING_FOR_IMAGE: _Q,
    Reason.WAITING_FOR_HOST: _Q,
    Reason.BEHIND_OTHERS: _Q,
    Reason.OVER_QUOTA: _Q,
    Reason.FAIR_SHARE: _Q,
    Reason.GPUS_LENT: _Q,
    Reason.WAITING_FOR_JOBS: _Q,
    Reason.HELD: _Q,
    Reason.START_AFTER: _Q,
    Reason.MAINTENANCE: _Q,
    Reason.LOST: _Q,
    Reason.HOST_LOST: _Q,
    Reason.GPU_LOST: _Q,
    Reason.HOST_FAULT: _Q,
    Reason.EVICTED: _Z,
    Reason.RETRY: _Q,
    Reason.RESIZED: _Q,
    Reason.PREEMPTED: _Q,
    Reason.PAUSED: _Q,
    Reason.IMAGE_PULL: _P,
    Reason.IMAGE_GONE: _Q,
    Reason.PLACED: _S,
    Reason.CONTAINER_RUNNING: _R,
    Reason.RESIZE_REQUESTED: _Z,
    Reason.RESIZE_FAILED: _Z,
    Reason.PAUSE_REQUESTED: _Z,
    Reason.RESIZING_IN_PLACE: _R,
    Reason.HANG_RESTART: _Z,
    Reason.HANG_END: _X,
    Reason.CANCEL_REQUESTED: _X,
    Reason.TIME_LIMIT_REACHED: _X,
    Reason.PRUNE_REQUESTED: _X,
    Reason.COMPLETED: _OK,
    Reason.COMMAND_FAILED: _BAD,
    Reason.IMAGE_UNAVAILABLE: _BAD,
    Reason.START_REFUSED: _BAD,
    Reason.TOO_MANY_LOSSES: _BAD,
    Reason.CRASH_LOOP: _BAD,
    Reason.HUNG: _BAD,
    Reason.CANCELLED: _GONE,
    Reason.PREDECESSOR_FAILED: _GONE,
    Reason.TIME_LIMIT: _LATE,
    Reason.PRUNED: _GONE,
}


def check_transition(before: JobState, after: JobState) -> None:
    """Raise IllegalTransitionError unless `before -> after` is in TRANSITIONS.

    A job can stay in its state, unless that is terminal: a finished job never gets another reason either.
    """
    if before == after and not before.terminal:
        return
    if after not in TRANSITIONS[before]:
        raise IllegalTransitionError(f"a job can't go from {before} to {after}")
