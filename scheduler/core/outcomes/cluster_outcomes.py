"""State changes of tasks and jobs that follow from observations. Pure.

The loop stores the findings, guarded by the versions of the jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schedulearn.scheduler.core.cluster_state import Job, Task, run_seconds
from schedulearn.scheduler.core.gang import MEET_S, NO_MEETING
from schedulearn.scheduler.core.model import gpu_count
from schedulearn.scheduler.core.outcomes import in_place
from schedulearn.scheduler.core.outcomes.conclusions import Result, conclude
from schedulearn.scheduler.core.outcomes.early_failures import explained
from schedulearn.scheduler.core.outcomes.findings import Finding, JobChanges, JobMoved, TaskEnded, TaskStarted
from schedulearn.scheduler.core.outcomes.task_outcomes import Evidence, outcome_of
from schedulearn.scheduler.core.outcomes.unused import idle_end
from schedulearn.scheduler.core.states import JobState, Reason

_NO_MEETING = "its hosts did not connect to each other, see its log"
_LOST_EACH_OTHER = "its workers lost each other, see its log"
_NEVER_MET = (
    "Its workers ended before they had connected. A job that is resized in place needs a script with "
    "schedulearn.worker.torch, see docs/adapt-your-script.md."
)


@dataclass(frozen=True)
class Outcomes:
    findings: Sequence[Finding]
    """Findings in the order in which they must be stored."""
    awaits_gpus: bool
    """Whether a task has failed and its GPUs have not been checked yet."""


def outcomes_of(
    jobs: Mapping[str, Job], tasks: Sequence[Task], ended: Mapping[str, Sequence[Task]], evidence: Evidence
) -> Outcomes:
    """Return the findings of all jobs.

    `tasks` are the live ones. `ended` maps jobs to the tasks of their current attempt that had ended before.
    """
    live: dict[str, list[Task]] = {}
    for task in tasks:
        live.setdefault(task.job_id, []).append(task)
    findings: list[Finding] = []
    awaits_gpus = False
    for job_id, job in jobs.items():
        attempt = _Attempt(job, live.get(job_id, []), ended.get(job_id, ()))
        for task in attempt.live:
            attempt.take(task, evidence)
        findings += [*attempt.findings, *attempt.next_steps(evidence)]
        awaits_gpus = awaits_gpus or attempt.awaits_gpus
    return Outcomes(findings, awaits_gpus)


class _Attempt:
    """Current attempt of a job in one scheduling cycle. Takes each task first, then decides on the job."""

    def __init__(self, job: Job, live: Sequence[Task], ended: Sequence[Task]) -> None:
        self.job = job
        self.live = live
        self.findings: list[Finding] = []
        self.awaits_gpus = False
        self._ended = [task for task in ended if task.outcome != Reason.RESIZED]
        self._in_place = in_place.in_place(live)
        self._new = in_place.newcomers(job, live, self._ended) if self._in_place else []
        self._results = [self._result(task, Reason(task.outcome), task.exit_code, task.error) for task in self._ended]
        self._due = len(live) + len(self._ended)
        """Number of results once all tasks have ended."""
        self._new_ended: list[str] = []
        """Descriptions of how new workers ended before they trained."""
        self._completed = False
        self._running = self._unstarted = 0

    def take(self, task: Task, evidence: Evidence) -> None:
        outcome = outcome_of(task, evidence)
        finding = outcome.finding
        self.awaits_gpus = self.awaits_gpus or outcome.awaits_gpus
        if isinstance(finding, TaskEnded):
            finding = explained(finding, self.job, evidence.said, evidence.real_gpus, evidence.stranger)
            finding = self._of_worker(finding)
            self._completed = self._completed or finding.outcome is Reason.COMPLETED
            if finding.outcome is not Reason.RESIZED:
                self._results.append(self._result(task, finding.outcome, finding.exit_code, finding.error))
        elif isinstance(finding, TaskStarted) or task.running:
            self._running += 1
        if finding is not None:
            self.findings.append(finding)
            return
        self._unstarted += task.wanted

    def next_steps(self, evidence: Evidence) -> list[JobMoved]:
        if self._results and len(self._results) == self._due:
            return [self._concluded(evidence)]
        if (verdict := self._on_workers()) is not None:
            return [self._moved_by(verdict)]
        steps = []
        if self._starts_over(evidence.now):
            steps.append(JobMoved(self.job, Reason(self.job.reason), self.job.message, stop_tasks=True))
        elif self.live and self._running == len(self.live) and self.job.state == JobState.STARTING:
            changes = JobChanges(pull_percent=None, **self._times(JobState.RUNNING, evidence.now))
            return [JobMoved(self.job, Reason.CONTAINER_RUNNING, f"Running on {_places(self.live)}.", changes)]
        elif self._time_is_up(evidence.now):
            message = f"It has run for its max_duration of {self.job.max_duration:g} s."
            return [JobMoved(self.job, Reason.TIME_LIMIT_REACHED, message, stop_tasks=True)]
        elif self._is_unused(evidence):
            message = f"Its ports had no connections for its idle_timeout of {self.job.idle_timeout:g} s."
            return [JobMoved(self.job, Reason.TIME_LIMIT_REACHED, message, stop_tasks=True)]
        late = in_place.overdue(self.job, self.live, evidence.now, evidence.service_started) if self._in_place else None
        return [*steps, self._moved_by(late)] if late is not None else steps

    def _of_worker(self, ended: TaskEnded) -> TaskEnded:
        """Return the end of a task, adjusted if it is one of several: it may leave alone, or only follow the others."""
        if self._in_place and (in_place.leaves_alone(self.job, ended.task) or ended.task in self._new):
            if not ended.task.stop:
                self._new_ended.append(_how_it_ended(ended))
            self._due -= 1
            return replace(ended, outcome=Reason.RESIZED)
        if self._due > 1 and self._in_place and ended.exit_code in _APART:
            return replace(ended, outcome=Reason.LOST, error=_LOST_EACH_OTHER)
        if self._due > 1 and ended.exit_code == NO_MEETING:
            return replace(ended, outcome=Reason.LOST, error=_NO_MEETING)
        return ended

    def _result(self, task: Task, outcome: Reason, exit_code: int | None, error: str) -> Result:
        follows = task.generation > 0 and outcome is Reason.LOST and exit_code in _APART
        return Result(outcome, exit_code, error, follows)

    def _concluded(self, evidence: Evidence) -> JobMoved:
        tasks = [*self.live, *self._ended]
        ran_s = max((run_seconds(task, evidence.now) for task in tasks), default=0.0)
        moved = conclude(self.job, self._results, evidence.now, ran_s, evidence.crash_limit)
        together = self._in_place and self._due > 1
        if moved.reason is Reason.COMPLETED and together and in_place.never_met(self.job, tasks):
            moved = JobMoved(self.job, Reason.COMMAND_FAILED, _NEVER_MET, JobChanges(exit_code=0, pull_percent=None))
        return replace(moved, changes={**moved.changes, **self._times(moved.reason.to_state(), evidence.now)})

    def _times(self, state: JobState, now: float) -> JobChanges:
        """Return when the job started and ended: as its tasks did, but never before its submission or after now."""
        found = [finding for finding in self.findings if isinstance(finding, TaskStarted | TaskEnded)]
        starts = [each.started_at for each in (*found, *self.live, *self._ended) if each.started_at is not None]
        changes, earliest = JobChanges(), self.job.submitted_at
        if starts:
            earliest = self.job.started_at or min(max(min(starts), earliest), now)
            changes["started_at"] = earliest
        if state.terminal:
            ends = [each.finished_at for each in (*found, *self._ended) if not isinstance(each, TaskStarted)]
            known = [end for end in ends if end is not None]
            changes["finished_at"] = min(max(*known, earliest), now) if known and len(known) == len(ends) else now
        return changes

    def _on_workers(self) -> in_place.JobVerdict | None:
        """Return the verdict if new workers ended too soon, or the first worker has finished."""
        if self._new_ended and self.job.state == JobState.RUNNING:
            return in_place.withdrawn(self.job, self._new, " ".join(self._new_ended))
        if self._in_place and self._completed and not self._failures():
            return in_place.finishing(self.job, self._new)
        return None

    def _failures(self) -> bool:
        return any(result.outcome is not Reason.COMPLETED for result in self._results)

    def _starts_over(self, now: float) -> bool:
        """Return whether a gang must restart: a worker is gone, without which the others can't train, or some waited in
        vain for others."""
        if self._failures() and not all(task.stop for task in self.live):
            return True
        return bool(not self._new and self._unstarted and _half_started(self.live, now))

    def _time_is_up(self, now: float) -> bool:
        job = self.job
        if job.state != JobState.RUNNING or job.max_duration is None:
            return False
        spent = job.run_seconds + max(run_seconds(task, now) for task in self.live) if self.live else 0.0
        return spent >= job.max_duration

    def _is_unused(self, evidence: Evidence) -> bool:
        job = self.job
        if job.state != JobState.RUNNING or job.idle_timeout is None:
            return False
        ends = idle_end(job.idle_timeout, self.live, evidence.unused_since(job.id))
        return ends is not None and ends <= evidence.now

    def _moved_by(self, verdict: in_place.JobVerdict) -> JobMoved:
        return JobMoved(
            self.job, verdict.reason, verdict.message, verdict.changes,
            stop_tasks=verdict.stop is None, stop_only=verdict.stop or (),
        )  # fmt: skip


_APART = (NO_MEETING, in_place.ABORTED)
"""Exit codes of workers that lost contact with the others."""


def _how_it_ended(worker: TaskEnded) -> str:
    code = "" if worker.exit_code is None else f" with exit code {worker.exit_code}"
    return f"A new worker ended{code}" + (f": {worker.error}." if worker.error else ".")


def _half_started(live: Sequence[Task], now: float) -> bool:
    """Return whether some of a gang waited in vain for the others. The attempt is then undone and repeated."""
    if any(task.stop for task in live):
        return False
    since = [task.started_at for task in live if task.running and task.started_at is not None]
    return bool(since) and now - min(since) > MEET_S


def _places(tasks: Sequence[Task]) -> str:
    gpus: dict[str, int] = {}
    for task in tasks:
        gpus[task.host_id] = gpus.get(task.host_id, 0) + len(task.gpu_uuids)
    return ", ".join(f"{host} ({gpu_count(count)})" for host, count in gpus.items())
