"""Jobs that are resized in place: each of their containers is one worker, with one GPU, and they come and go while the
job trains. Who belongs to one, what may change, and when that has gone wrong. Pure.

A task's `generation` is that of the job's workers with which it was to begin; 0: its job is not resized in place in
this attempt. The job's `generation` is raised by each attempt, and each time that workers are asked to come or go; its
`trained` is the last one that was seen to train. See docs/adr/0013.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schedulearn.scheduler.core.cluster_state import Job, Task
from schedulearn.scheduler.core.outcomes.findings import JobChanges
from schedulearn.scheduler.core.states import JobStatus, Reason

IN_PLACE = "in-place"
RESTART = "restart"
JOIN_S = 300.0
"""So long new workers may take until they are ready to train; those that are there train meanwhile."""
BEGIN_S = 900.0
"""So long all workers of a new attempt may take, since nothing else can go on."""
FORM_S = 60.0
"""So long training may stand still for a change of workers."""
MAX_FAILED = 3
"""So often workers may fail to come before a job is resized by restart for the rest of its life."""
ABORTED = 134
"""Exit code of a worker whose Horovod could not meet the others (SIGABRT)."""


@dataclass(frozen=True)
class WorkerChange:
    """What becomes of a job's workers: so many `more` on `host`, or those of `leaving` end."""

    host: str
    more: int = 0
    leaving: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobVerdict:
    """A change of workers that goes wrong: what changes of the job, and which of its tasks are stopped."""

    reason: Reason
    message: str
    changes: JobChanges = field(default_factory=JobChanges)
    stop: tuple[str, ...] | None = None
    """None: all."""


def in_place(tasks: Sequence[Task]) -> bool:
    """Whether a job with these live tasks can be resized without ending them."""
    return bool(tasks) and all(task.generation > 0 for task in tasks)


def members(tasks: Sequence[Task]) -> list[Task]:
    """The live tasks that belong to the job's present generation, in the order of their ranks in training."""
    return sorted((task for task in tasks if not task.stop), key=lambda task: task.rank)


def leaves_alone(job: Job, task: Task) -> bool:
    """Whether the end of this task was asked for while the job runs on."""
    return bool(task.generation > 0 and task.stop and job.status == JobStatus.RUNNING)


def leaving(jobs: Mapping[str, Job], tasks: Sequence[Task]) -> set[str]:
    """Ids of the live tasks that end while the others of their job go on."""
    staying = {task.job_id for task in tasks if not task.stop}
    return {
        task.id for task in tasks
        if task.job_id in staying and task.job_id in jobs and leaves_alone(jobs[task.job_id], task)
    }  # fmt: skip


def settled(job: Job, tasks: Sequence[Task]) -> bool:
    """Whether the last change of the workers is over."""
    return bool(job.generation == job.trained and not any(task.stop for task in tasks))


def step_to(job: Job, tasks: Sequence[Task], wanted: Mapping[str, int]) -> WorkerChange | None:
    """How `job` with these live `tasks` gets to `wanted`, GPUs by host; None: only by a restart."""
    hosts = {task.host_id for task in tasks}
    if job.resize != IN_PLACE or not in_place(tasks) or len(hosts) != 1 or wanted.keys() != hosts:
        return None
    [(host, count)] = wanted.items()
    now = members(tasks)
    # The last ones go: those that stay keep their ranks, and the first one leads.
    return WorkerChange(host, max(0, count - len(now)), tuple(task.id for task in now[count:]))


def newcomers(job: Job, tasks: Sequence[Task], ended: Sequence[Task] = ()) -> list[Task]:
    """Those of `tasks` that have not trained yet while others of the job do, or did: `ended` in this attempt."""
    if not any(task.generation <= job.trained for task in [*tasks, *ended]):
        return []  # the first ones of an attempt
    return [task for task in tasks if task.generation > job.trained]


def never_met(job: Job, tasks: Sequence[Task]) -> bool:
    """Whether the workers of an attempt, `tasks`, have not even tried to come together."""
    return not job.meeting and all(task.generation > job.trained for task in tasks)


def finishing(job: Job, new: Sequence[Task]) -> JobVerdict:
    """The first of its workers has done its work: nobody comes or goes any more."""
    changes = JobChanges(generation=job.generation + 1)
    return JobVerdict(Reason(job.reason), job.message, changes, tuple(task.id for task in new))


def withdrawn(job: Job, new: Sequence[Task], why: str) -> JobVerdict:
    """The `new` workers are given up; the others go on as they were."""
    failed = job.losses + 1
    changes = next_generation(job)
    changes["losses"] = failed
    message = f"{why} It goes on with the GPUs that it had."
    if failed >= MAX_FAILED:
        changes["resize"] = RESTART
        message += " From now on it is resized by checkpoint and restart."
    return JobVerdict(Reason.RESIZING_IN_PLACE, message, changes, tuple(task.id for task in new))


def next_generation(job: Job) -> JobChanges:
    return JobChanges(generation=job.generation + 1, meeting="", forming_at=None)


def overdue(job: Job, tasks: Sequence[Task], now: float, service_started: float) -> JobVerdict | None:
    """The verdict on a change of workers that takes too long; None: nothing is wrong."""
    if job.status != JobStatus.RUNNING or not in_place(tasks) or all(task.stop for task in tasks):
        return None
    if job.forming_at is not None and now - max(job.forming_at, service_started) > FORM_S:
        return _by_restart(f"Training has stood still for {FORM_S:g} s at a change of its workers.")
    if job.generation == job.trained:
        return None
    new = newcomers(job, tasks)
    began = max((task.created_at for task in new or tasks), default=now)
    waited = now - max(began, service_started)
    if new and waited > JOIN_S and job.forming_at is None:
        return withdrawn(job, new, f"Its new workers were not ready after {JOIN_S:g} s.")
    if len(tasks) > 1 and waited > BEGIN_S and all(task.generation > job.trained for task in tasks):
        return _by_restart(f"Its workers have not met after {BEGIN_S:g} s.")
    return None


def _by_restart(why: str) -> JobVerdict:
    message = f"{why} It starts again from its checkpoint, and is resized by restart from now on."
    return JobVerdict(Reason.RESIZE_FAILED, message, JobChanges(resize=RESTART, forming_at=None))
