"""Detection and handling of jobs that hang or leave GPUs unused. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, Self

from schedulearn.scheduler.core.cluster_state import Job
from schedulearn.scheduler.core.model import gpu_count
from schedulearn.scheduler.core.outcomes.findings import JobChanges, JobMoved
from schedulearn.scheduler.core.states import JobState, Reason

OnHang = Literal["warn", "restart", "end"]

MAX_RESTARTS = 3
"""Maximum restarts of a job because it hangs. The job itself may be the cause."""
_HANGS = "It may hang."


class HangKind(StrEnum):
    IDLE = "idle"
    """No output, no step and no use of its GPUs."""
    NO_STEPS = "no_steps"
    """Its workers report, but no step. They mostly wait for each other, with their GPUs busy."""
    GPUS_UNUSED = "gpus_unused"
    """It may write output or do steps, but its GPUs are idle."""


@dataclass(frozen=True)
class HangLimits:
    """Limits after which a job counts as hanging. Times are seconds; 0 disables a check."""

    idle_s: float
    gpus_unused_s: float
    steps: float
    """Minimum time without a step, as a multiple of the job's own step time."""
    no_step_s: float
    """Minimum time without a step, so that evaluations and checkpoints are no hangs. Both minimums apply."""

    @property
    def shortest_s(self) -> float:
        """Shortest enabled limit; 0 if all checks are disabled."""
        limits = (self.idle_s, self.gpus_unused_s, self.no_step_s if self.steps else 0.0)
        return min((limit for limit in limits if limit), default=0.0)


@dataclass(frozen=True)
class Signs:
    """Signs of life of a job at one check."""

    job_id: str
    attempt: int
    log_bytes: int
    steps: int
    gpus: int
    busy: bool | None
    """Whether one of the job's GPUs computes now; None if it is not measured."""
    reported_at: float | None = None
    """Time of the workers' last report; None if there is none."""
    trained: bool = False
    """Whether all epochs are done. The job then does no more steps."""


@dataclass(frozen=True)
class Course:
    """History of a job over several checks. Times are on a monotonic clock."""

    last: Signs
    acted_at: float
    """Time of its last observed activity."""
    used_at: float
    """Time at which its GPUs were last used, or not measured."""
    stepped_at: float
    reported_at: float
    """Time at which a new report was last seen."""
    first_steps: int | None = None
    """Number of steps when the first new one was seen, at `first_at`. The step time is measured from there."""
    first_at: float = 0.0

    @classmethod
    def begin(cls, signs: Signs, now: float) -> Self:
        return cls(signs, now, now, now, now)

    @property
    def step_s(self) -> float | None:
        """Mean seconds per step; None if not known yet."""
        if self.first_steps is None or self.last.steps <= self.first_steps:
            return None
        return (self.stepped_at - self.first_at) / (self.last.steps - self.first_steps)

    def after(self, signs: Signs, now: float) -> Course:
        """Return the history after another check."""
        if signs.attempt != self.last.attempt:
            return Course.begin(signs, now)
        stepped = signs.steps != self.last.steps
        found = replace(self, last=signs)
        if stepped:
            found = replace(found, stepped_at=now)
            if self.first_steps is None or signs.steps < self.last.steps:
                found = replace(found, first_steps=signs.steps, first_at=now)
        if signs.reported_at != self.last.reported_at:
            found = replace(found, reported_at=now)
        if signs.busy is not False:
            found = replace(found, used_at=now)
        if stepped or signs.busy or signs.log_bytes != self.last.log_bytes:
            found = replace(found, acted_at=now)
        return found


@dataclass(frozen=True)
class Hang:
    kind: HangKind
    seconds: float
    """Duration of the hang so far."""
    message: str


def follow(courses: Mapping[str, Course], signs: Iterable[Signs], now: float) -> dict[str, Course]:
    """Return the histories after another check, for the jobs in `signs`.

    The history of a job that is left out starts over when it is seen again.
    """
    return {
        each.job_id: courses[each.job_id].after(each, now) if each.job_id in courses else Course.begin(each, now)
        for each in signs
    }


def hang_of(course: Course, limits: HangLimits, now: float) -> Hang | None:
    return _idle(course, limits, now) or _no_steps(course, limits) or _gpus_unused(course, limits, now)


def _idle(course: Course, limits: HangLimits, now: float) -> Hang | None:
    seconds = now - course.acted_at
    if not limits.idle_s or seconds < limits.idle_s:
        return None
    unused = "" if course.last.busy is None else ", and it does not use its GPUs"
    return Hang(
        HangKind.IDLE,
        seconds,
        f"It has shown no activity for {_minutes(limits.idle_s)} or more: no output, no step "
        f"reported{unused}. {_HANGS}",
    )


def _no_steps(course: Course, limits: HangLimits) -> Hang | None:
    """Detect missing steps, up to the last report only: workers that can't reach the service may still train."""
    seconds, step_s = course.reported_at - course.stepped_at, course.step_s
    if not limits.steps or step_s is None or course.last.trained:
        return None
    if seconds < max(limits.steps * step_s, limits.no_step_s):
        return None
    return Hang(
        HangKind.NO_STEPS,
        seconds,
        f"Its workers report, but no step for {_minutes(seconds)} or more; a step of it takes {_brief(step_s)}. "
        f"{_HANGS}",
    )


def _gpus_unused(course: Course, limits: HangLimits, now: float) -> Hang | None:
    seconds = now - course.used_at
    if not limits.gpus_unused_s or seconds < limits.gpus_unused_s:
        return None
    held, unused = gpu_count(course.last.gpus), "it" if course.last.gpus == 1 else "any of them"
    return Hang(
        HangKind.GPUS_UNUSED,
        seconds,
        f"It holds {held} and has not used {unused} for {_minutes(limits.gpus_unused_s)} or more.",
    )


def hang_moves(jobs: Mapping[str, Job], hangs: Mapping[str, Hang], default: OnHang) -> list[JobMoved]:
    """Return the moves that stop hanging jobs, to restart or to end them."""
    moves = []
    for job_id, hang in hangs.items():
        job = jobs.get(job_id)
        if job is not None and job.state is JobState.RUNNING and (move := _move(job, hang, job.on_hang or default)):
            moves.append(move)
    return moves


def _move(job: Job, hang: Hang, how: str) -> JobMoved | None:
    if how == "restart" and job.hangs < MAX_RESTARTS:
        message = f"{hang.message} It is restarted, {job.hangs + 1} of {MAX_RESTARTS} times."
        return JobMoved(job, Reason.HANG_RESTART, message, JobChanges(hangs=job.hangs + 1), stop_tasks=True)
    if how == "restart":
        message = f"{hang.message} It was restarted {MAX_RESTARTS} times for that, and is ended now."
        return JobMoved(job, Reason.HANG_END, message, stop_tasks=True)
    if how == "end":
        return JobMoved(job, Reason.HANG_END, f"{hang.message} Therefore it is ended.", stop_tasks=True)
    return None


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else _brief(seconds)


def _brief(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
