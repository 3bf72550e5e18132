"""Next state of a job whose attempt has ended. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from schedulearn.scheduler.core.cluster_state import Job
from schedulearn.scheduler.core.outcomes.findings import JobChanges, JobMoved
from schedulearn.scheduler.core.outcomes.retries import SOON_S, delay, equal_exits
from schedulearn.scheduler.core.states import JobState, Reason

MAX_LOSSES = 5
"""Maximum restarts of a job whose containers vanish. The job itself may be the cause."""
PREEMPTED = 75
"""Exit code of a command that was told to stop, saved a checkpoint, and can continue from there.

Same as `schedulearn.worker.PREEMPTED` (EX_TEMPFAIL of sysexits.h).
"""
KILLED = 137
"""Exit code of a command killed by SIGKILL, or of an elastic job's launcher if a worker was killed by it."""


@dataclass(frozen=True)
class Result:
    """Result of one task."""

    outcome: Reason
    exit_code: int | None = None
    error: str = ""
    follows: bool = False
    """Whether the task ended only because another worker had ended."""


@dataclass(frozen=True)
class _Ending:
    """Combined results of all tasks of an attempt."""

    results: Sequence[Result]
    code: int | None
    """0 if all tasks completed; else the first code that is not 0, if any."""
    now: float
    ran_s: float
    crash_limit: int

    @property
    def outcomes(self) -> set[Reason]:
        return {result.outcome for result in self.results}

    @property
    def error(self) -> str:
        return next((result.error for result in self.results if result.error), "")

    @property
    def detail(self) -> str:
        return f": {self.error}" if self.error else "."

    def error_of(self, outcome: Reason) -> str:
        return next((r.error for r in self.results if r.outcome is outcome and r.error), "")


def conclude(job: Job, results: Sequence[Result], now: float, ran_s: float, crash_limit: int = 0) -> JobMoved:
    """Return the move of a job from the `results` of all tasks of its attempt, which ran for `ran_s`.

    After `crash_limit` equal exits soon after the start, the job is not tried again. 0 means no limit.
    """
    causes = [result for result in results if not result.follows and result.outcome is not Reason.COMPLETED] or results
    code = next((result.exit_code for result in causes if result.exit_code), None)
    if code is None and all(result.outcome is Reason.COMPLETED for result in causes):
        code = 0
    ending = _Ending(causes, code, now, ran_s, crash_limit)
    moved = next(moved for rule in _RULES if (moved := rule(job, ending)) is not None)
    return replace(moved, stopped_as=_stopped_as(job, moved.reason))


_LOST_PARTS = {
    Reason.HOST_LOST: "its host is lost",
    Reason.GPU_LOST: "its GPU is unhealthy",
    Reason.HOST_FAULT: "its host can't run it",
}


def _stopped(job: Job, ending: _Ending) -> JobMoved | None:
    if job.state != JobState.STOPPING:
        return None
    changes = JobChanges(exit_code=ending.code, pull_percent=None)
    if job.reason == Reason.TIME_LIMIT_REACHED:
        return JobMoved(job, Reason.TIME_LIMIT, job.message, changes)
    if job.reason == Reason.PRUNE_REQUESTED:
        return JobMoved(job, Reason.PRUNED, job.message, changes)
    if job.reason == Reason.HANG_END:
        return JobMoved(job, Reason.HUNG, job.message, changes)
    return JobMoved(job, Reason.CANCELLED, "Cancelled.", changes)


def _completed(job: Job, ending: _Ending) -> JobMoved | None:
    if ending.code != 0:
        return None
    changes = JobChanges(exit_code=0, pull_percent=None)
    message = " ".join(filter(None, ("The command ended with exit code 0.", ending.error)))
    return JobMoved(job, Reason.COMPLETED, message, changes)


def _refused(job: Job, ending: _Ending) -> JobMoved | None:
    for refused in (Reason.IMAGE_UNAVAILABLE, Reason.START_REFUSED):
        if refused in ending.outcomes:
            return JobMoved(job, refused, ending.error, JobChanges(pull_percent=None))
    return None


def _resized(job: Job, ending: _Ending) -> JobMoved | None:
    if job.state != JobState.RESIZING:
        return None
    if job.reason == Reason.HANG_RESTART:
        return JobMoved(job, Reason.RETRY, "Stopped because it seemed to hang; starts again.", _again(job))
    if job.reason == Reason.PAUSE_REQUESTED:
        return JobMoved(job, Reason.PAUSED, "Stopped for a pause; it continues from its checkpoint.", _again(job))
    message = "Stopped for its new allocation; starts again with it."
    if not job.target:
        message = "Stopped; it starts again when it is next."
    return JobMoved(job, Reason.RESIZED, message, _again(job))


def _lost_part(job: Job, ending: _Ending) -> JobMoved | None:
    """Return the move of a job that lost its host or GPU. The job is not at fault, and it does not count against it."""
    for part, what in _LOST_PARTS.items():
        if part in ending.outcomes:
            why = ending.error_of(part) or what
            ran = part is Reason.HOST_FAULT and ending.code is not None
            changes = _lost_again(job) if ran else _again(job)
            return JobMoved(job, part, f"{why[:1].upper()}{why[1:]}. It starts again.", changes)
    return None


def _withdrawn(job: Job, ending: _Ending) -> JobMoved | None:
    """Return the move of a job that had to leave before it ran, e.g. because its host is drained. Nothing was lost."""
    if job.state != JobState.STARTING or ending.outcomes != {Reason.CANCELLED}:
        return None
    return JobMoved(job, Reason.WAITING_FOR_GPUS, job.message, _again(job))


def _image_gone(job: Job, ending: _Ending) -> JobMoved | None:
    if Reason.IMAGE_GONE not in ending.outcomes or job.losses >= MAX_LOSSES:
        return None
    message = f"{ending.error_of(Reason.IMAGE_GONE)} It is fetched again."
    return JobMoved(job, Reason.IMAGE_GONE, message, _lost_again(job))


def _failed(job: Job, ending: _Ending) -> JobMoved | None:
    code = ending.code
    # A killed job that can continue from a checkpoint restarts, whoever killed it, unless it ran out of memory.
    lost = ending.outcomes & {Reason.LOST, Reason.CANCELLED} or (code == KILLED and job.elastic and not ending.error)
    if Reason.COMMAND_FAILED not in ending.outcomes or lost:
        return None
    if code == PREEMPTED and job.losses < MAX_LOSSES:
        message = "Its container was stopped from outside; it saved a checkpoint and continues from there."
        return JobMoved(job, Reason.PREEMPTED, message, _lost_again(job))
    message = f"The command ended with exit code {code}{ending.detail}"
    if job.retries < job.max_restarts:
        changes = _again(job)
        changes["last_exit"] = code
        changes["equal_exits"] = crashes = equal_exits(job.equal_exits, job.last_exit, code, ending.ran_s)
        if 0 < ending.crash_limit <= crashes:
            return _crash_loop(job, crashes, code)
        changes["retries"] = job.retries + 1
        changes["not_before"] = ending.now + delay(job.retries, ending.ran_s)
        return JobMoved(job, Reason.RETRY, f"{message} Try {job.retries + 1} of {job.max_restarts}.", changes)
    return JobMoved(job, Reason.COMMAND_FAILED, message, JobChanges(exit_code=code, pull_percent=None))


def _crash_loop(job: Job, crashes: int, code: int | None) -> JobMoved:
    """Return the move of a job that always fails in the same way and would do so forever."""
    message = (
        f"The command ended with exit code {code} {crashes} times in a row, each within {SOON_S:.0f} s of its start: "
        f"it is not retried again. {job.max_restarts - job.retries} more retries stay unused. See its log."
    )
    return JobMoved(job, Reason.CRASH_LOOP, message, JobChanges(exit_code=code, pull_percent=None))


def _lost(job: Job, ending: _Ending) -> JobMoved:
    losses = job.losses + 1
    what = "It was killed" if ending.code == KILLED else "Its container was lost"
    if losses > MAX_LOSSES:
        message = f"{what}{ending.detail} That was the {losses}th time."
        return JobMoved(job, Reason.TOO_MANY_LOSSES, message, JobChanges(losses=losses, pull_percent=None))
    return JobMoved(job, Reason.LOST, f"{what}{ending.detail} It starts again.", _lost_again(job))


_RULES: Sequence[Callable[[Job, _Ending], JobMoved | None]] = (
    _stopped, _completed, _refused, _resized, _lost_part, _withdrawn, _image_gone, _failed, _lost,
)  # fmt: skip
"""Rules in order. The first one that applies decides; the last one always applies."""


def _again(job: Job) -> JobChanges:
    return JobChanges(restarts=job.restarts + 1, pull_percent=None)


def _lost_again(job: Job) -> JobChanges:
    return JobChanges(restarts=job.restarts + 1, pull_percent=None, losses=job.losses + 1)


def _stopped_as(job: Job, reason: Reason) -> Reason:
    """Return the outcome of tasks that were told to stop, if their job moves for this reason."""
    match reason:
        case Reason.RESIZED:
            return Reason.EVICTED if job.reason == Reason.EVICTED else Reason.RESIZED
        case Reason.PREEMPTED | Reason.PAUSED | Reason.TIME_LIMIT | Reason.HUNG | Reason.PRUNED:
            return reason
        case Reason.RETRY if job.reason == Reason.HANG_RESTART:
            return Reason.HUNG
    return Reason.CANCELLED
