"""Resizing in place: members, allowed changes, and failed changes. Pure.

Each container of such a job is one worker with one GPU. Workers join and leave while the job trains.

A task's `generation` is the generation of the job's workers with which it should begin. It is 0 if the job is not
resized in place in this attempt. Each attempt, and each request to workers to join or leave, raises the job's
`generation`. The job's `trained` is the last generation that was seen to train. See docs/adr/0013.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schedulearn.scheduler.core.cluster_state import Job, Task
from schedulearn.scheduler.core.outcomes.findings import JobChanges
from schedulearn.scheduler.core.states import JobState, Reason

IN_PLACE = "in-place"
RESTART = "restart"
JOIN_S = 300.0
"""Maximum seconds until new workers are ready to train. The existing ones train meanwhile."""
BEGIN_S = 900.0
"""Maximum seconds until all workers of a new attempt are ready. Nothing else trains meanwhile."""
FORM_S = 60.0
"""Maximum seconds for which a change of workers may stop training."""
MAX_FAILED = 3
"""Number of failed joins after which a job is resized only by restart."""
ABORTED = 134
"""Exit code of a worker whose Horovod failed to connect to the others (SIGABRT)."""


@dataclass(frozen=True)
class WorkerChange:
    """Change of a job's workers: `more` new ones on `host`, or the end of those in `leaving`."""

    host: str
    more: int = 0
    leaving: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobVerdict:
    """Verdict on a change of workers: changes of the job, and tasks to stop."""

    reason: Reason
    message: str
    changes: JobChanges = field(default_factory=JobChanges)
    stop: tuple[str, ...] | None = None
    """Tasks to stop; None means all."""


def in_place(tasks: Sequence[Task]) -> bool:
    """Return whether a job with these live tasks can be resized without ending them."""
    return bool(tasks) and all(task.generation > 0 for task in tasks)


def members(tasks: Sequence[Task]) -> list[Task]:
    """Return the live tasks of the job's current generation, in the order of their training ranks."""
    return sorted((task for task in tasks if not task.stop), key=lambda task: task.rank)


def leaves_alone(job: Job, task: Task) -> bool:
    """Return whether this task was told to end while the job continues."""
    return bool(task.generation > 0 and task.stop and job.state == JobState.RUNNING)


def leaving(jobs: Mapping[str, Job], tasks: Sequence[Task]) -> set[str]:
    """Return the ids of the live tasks that end while others of their job continue."""
    staying = {task.job_id for task in tasks if not task.stop}
    return {
        task.id for task in tasks
        if task.job_id in staying and task.job_id in jobs and leaves_alone(jobs[task.job_id], task)
    }  # fmt: skip


def settled(job: Job, tasks: Sequence[Task]) -> bool:
    """Return whether the last change of workers is complete."""
    return bool(job.generation == job.trained and not any(task.stop for task in tasks))


def step_to(job: Job, tasks: Sequence[Task], wanted: Mapping[str, int]) -> WorkerChange | None:
    """Return the change by which `job` with these live `tasks` gets to `wanted`, GPUs by host.

    None means that it needs a restart.
    """
    hosts = {task.host_id for task in tasks}
    if job.resize != IN_PLACE or not in_place(tasks) or len(hosts) != 1 or wanted.keys() != hosts:
        return None
    [(host, count)] = wanted.items()
    now = members(tasks)
    # The last workers leave: the others keep their ranks, and the first one leads.
    return WorkerChange(host, max(0, count - len(now)), tuple(task.id for task in now[count:]))


def newcomers(job: Job, tasks: Sequence[Task], ended: Sequence[Task] = ()) -> list[Task]:
    """Return the `tasks` that have not trained yet, while others of the job do or did. `ended` are ended tasks of this
    attempt."""
    if not any(task.generation <= job.trained for task in [*tasks, *ended]):
        return []  # the first workers of an attempt
    return [task for task in tasks if task.generation > job.trained]


def never_met(job: Job, tasks: Sequence[Task]) -> bool:
    """Return whether the workers of an attempt, `tasks`, have not even tried to rendezvous."""
    return not job.meeting and all(task.generation > job.trained for task in tasks)


def finishing(job: Job, new: Sequence[Task]) -> JobVerdict:
    """Return the verdict when the first worker has finished: workers no longer join or leave."""
    changes = JobChanges(generation=job.generation + 1)
    return JobVerdict(Reason(job.reason), job.message, changes, tuple(task.id for task in new))


def withdrawn(job: Job, new: Sequence[Task], why: str) -> JobVerdict:
    """Return the verdict that gives up the `new` workers. The others continue as before."""
    failed = job.losses + 1
    changes = next_generation(job)
    changes["losses"] = failed
    message = f"{why} It continues with its previous GPUs."
    if failed >= MAX_FAILED:
        changes["resize"] = RESTART
        message += " From now on it is resized by checkpoint and restart."
    return JobVerdict(Reason.RESIZING_IN_PLACE, message, changes, tuple(task.id for task in new))


def next_generation(job: Job) -> JobChanges:
    return JobChanges(generation=job.generation + 1, meeting="", forming_at=None)


def overdue(job: Job, tasks: Sequence[Task], now: float, service_started: float) -> JobVerdict | None:
    """Return the verdict on a change of workers that takes too long; None if nothing is wrong."""
    if job.state != JobState.RUNNING or not in_place(tasks) or all(task.stop for task in tasks):
        return None
    if job.forming_at is not None and now - max(job.forming_at, service_started) > FORM_S:
        return _by_restart(f"Training has been paused for {FORM_S:g} s for a change of its workers.")
    if job.generation == job.trained:
        return None
    new = newcomers(job, tasks)
    began = max((task.created_at for task in new or tasks), default=now)
    waited = now - max(began, service_started)
    if new and waited > JOIN_S and job.forming_at is None:
        return withdrawn(job, new, f"Its new workers were not ready after {JOIN_S:g} s.")
    if len(tasks) > 1 and waited > BEGIN_S and all(task.generation > job.trained for task in tasks):
        return _by_restart(f"Its workers have not connected after {BEGIN_S:g} s.")
    return None


def _by_restart(why: str) -> JobVerdict:
    message = f"{why} It starts again from its checkpoint, and is resized by restart from now on."
    return JobVerdict(Reason.RESIZE_FAILED, message, JobChanges(resize=RESTART, forming_at=None))
