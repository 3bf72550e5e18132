"""What observations mean for the books: which tasks run or have ended, and what that makes of their jobs. Pure.

The loop hands in rows as it read them and writes down what comes out, guarded by the rows' versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from schedulearn.scheduler.core import in_place as membership
from schedulearn.scheduler.core.gang import MEET_S, NO_MEETING
from schedulearn.scheduler.core.model import gpu_count
from schedulearn.scheduler.core.retries import delay
from schedulearn.scheduler.core.states import JobStatus, Reason
from schedulearn.scheduler.core.task import ObservedTask, TaskState

MAX_LOSSES = 5
"""How often a job whose containers vanish is started again: what kills them may be the job itself."""

PREEMPTED = 75
"""Exit code of a command that saved a checkpoint because it was told to stop: it wants to go on from there. The same as
`schedulearn.worker.PREEMPTED` (EX_TEMPFAIL of sysexits.h)."""

KILLED = 137
"""Exit code of a command, or of an elastic job's launcher for one of its workers, that was ended by SIGKILL."""
_CLOCKS_S = 1.0  # by which a host's clock may differ from ours here
_CLEARING_S = 15.0  # in which an engine that has come back ends what an engine before it left running
_KILLED = (137, 143, 255)  # SIGKILL, SIGTERM, and Docker's word for what ended while no engine ran

LOOK_S = 1.5
"""So long after the end of a task a look at its GPUs must be to tell whether they are to blame."""
LOOK_AT_MOST_S = 5.0
OUT_OF_MEMORY = "it ran out of memory and was killed; its limit is the key `memory`"
MAX_BLIND = 2
"""How often a job that says it can't reach its GPUs is started again: after that it is taken for its way to talk."""
_BLIND = "Its container can't reach its GPUs any more. It starts again in a new one."
_NO_MEETING = "its hosts did not come together, see its log"
_LOST_EACH_OTHER = "its workers lost each other, see its log"
_NEVER_MET = (
    "Its workers ended without having met. A job that is resized in place needs a script with "
    "schedulearn.worker.torch, see docs/adapt-your-script.md."
)

SETTLE_S = 3.0
"""For so long after the service's start, a container that the service of before asked for may still appear."""


@dataclass(frozen=True)
class Observation:
    """What one host showed, at one time."""

    tasks: Sequence[ObservedTask]
    at: float
    maybe_starting: Set[str] = frozenset()
    """Tasks whose start was under way at any time while the engine was asked: their absence means nothing."""
    started: Set[str] = frozenset()
    """Tasks whose start had succeeded before the engine was asked: their absence means that they are gone."""


@dataclass(frozen=True)
class Outage:
    """From the last answer of a host to its next; `since` 0: the service itself was away before."""

    since: float
    until: float
    silent: bool = True
    """False: it answered whenever it was asked, but a connection to it broke: its engine may have been restarted."""


def through_outages(task: ObservedTask, outages: Sequence[Outage]) -> ObservedTask:
    """A task that failed while its host did not answer is taken for lost: an engine that stops, a machine that
    reboots and a network that breaks end what runs in just the way that a failing command does."""
    if task.state is not TaskState.EXITED or not task.exit_code or task.oom_killed or task.finished_at is None:
        return task
    killed = task.exit_code in _KILLED
    for outage in outages:
        late = _CLEARING_S if killed else _CLOCKS_S
        known = (outage.since > 0 and outage.silent) or killed
        if task.started_at is not None and task.started_at > outage.until + _CLOCKS_S:
            continue  # begun by an engine that was there again: nothing to clear
        if known and outage.since - _CLOCKS_S <= task.finished_at <= outage.until + late:
            return replace(task, state=TaskState.LOST, error="it ended while its host did not answer")
    return task


@dataclass(frozen=True)
class Refusal:
    """A start that failed for good."""

    reason: Reason
    message: str


@dataclass(frozen=True)
class TaskStarted:
    task: Any
    started_at: float
    image: str = ""


@dataclass(frozen=True)
class TaskEnded:
    task: Any
    outcome: Reason
    exit_code: int | None = None
    error: str = ""
    started_at: float | None = None
    finished_at: float | None = None
    image: str = ""


@dataclass(frozen=True)
class JobMoved:
    job: Any
    reason: Reason
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    stop_tasks: bool = False
    """All live ones."""
    stop_only: Sequence[str] = ()
    """Or these."""
    stopped_as: Reason | None = None
    """What became of the tasks of its attempt that failed only because they were told to stop; None: nothing yet."""


@dataclass(frozen=True)
class TaskPaused:
    task: Any
    at: float


@dataclass(frozen=True)
class TaskResumed:
    task: Any
    at: float


@dataclass
class GpuTrouble:
    """What is known of unhealthy GPUs, to tell their failures from those of commands."""

    faults: Mapping[str, str] = field(default_factory=dict)
    """GPU -> what is wrong with it."""
    looked_at: Callable[[str], float | None] = lambda host_id: None
    """host id -> when its GPUs were last looked at; None: nobody does."""
    awaited: bool = False
    """A task has failed and its GPUs are yet to be looked at."""


Finding = TaskStarted | TaskPaused | TaskResumed | TaskEnded | JobMoved


def ran_seconds(task: Any, now: float, started_at: float | None = None) -> float:
    """Seconds that a task has run by `now`, pauses left out; 0 for one that did not start. `started_at` if it is not
    in the books yet."""
    started = started_at or task.started_at
    if started is None:
        return 0.0
    until: float = task.paused_at if task.paused_at is not None else now
    return max(0.0, float(until - started - task.paused_seconds))


def outcomes_of(
    jobs: Mapping[str, Any],
    tasks: Sequence[Any],
    ended: Mapping[str, Sequence[Any]],
    observations: Mapping[str, Observation],
    refusals: Mapping[str, Refusal],
    now: float,
    service_started: float,
    gone: Mapping[str, str] | None = None,
    gpus: GpuTrouble | None = None,
) -> list[Finding]:
    """Findings in the order in which they must be written.

    `tasks` are the live ones, `ended` those of a job's present attempt that had ended before, `observations` one a
    host that answered. A host that did not answer changes nothing for its tasks, until it is given up: then it is in
    `gone`, with the reason. `gpus.awaited` is set where a verdict waits for a look at a task's GPUs.
    """
    gpus = gpus or GpuTrouble()
    findings: list[Finding] = []
    by_job: dict[str, list[Any]] = {}
    for task in tasks:
        by_job.setdefault(task.job_id, []).append(task)
    for job_id, job in jobs.items():
        live = by_job.get(job_id, [])
        counted = [task for task in ended.get(job_id, ()) if task.outcome != Reason.RESIZED]
        results: list[tuple[Reason, int | None, str]] = [(Reason(t.outcome), t.exit_code, t.error) for t in counted]
        due = len(live) + len(counted)  # results, once all tasks have ended
        in_place = membership.in_place(live)
        new = membership.newcomers(job, live, counted) if in_place else []
        gone_before: list[str] = []  # why new workers ended before they trained
        done = False
        running = unstarted = 0
        for task in live:
            if gone and task.host_id in gone:
                finding: Finding | None = TaskEnded(task, Reason.HOST_LOST, error=gone[task.host_id])
            else:
                seen = observations.get(task.host_id)
                finding = _look_at(task, seen, refusals.get(task.id), now, service_started)
                finding = _blame(finding, gpus, now)
                if finding is None and job.status == JobStatus.RUNNING and _is_blind(task, seen, job):
                    findings.append(JobMoved(job, Reason.EVICTED, _BLIND, {"losses": job.losses + 1}, stop_tasks=True))
            if isinstance(finding, TaskEnded):
                if in_place and (membership.leaves_alone(job, task) or task in new):
                    if not task.stop:
                        gone_before.append(_how_it_ended(finding))
                    finding = replace(finding, outcome=Reason.RESIZED)
                    due -= 1
                elif in_place and due > 1 and finding.exit_code in (NO_MEETING, membership.ABORTED):
                    finding = replace(finding, outcome=Reason.LOST, error=_LOST_EACH_OTHER)
                elif finding.exit_code == NO_MEETING and due > 1:
                    finding = replace(finding, outcome=Reason.LOST, error=_NO_MEETING)
                done = done or finding.outcome is Reason.COMPLETED
                if finding.outcome is not Reason.RESIZED:
                    results.append((finding.outcome, finding.exit_code, finding.error))
            if isinstance(finding, TaskStarted) or (not isinstance(finding, TaskEnded) and task.state == "running"):
                running += 1
            unstarted += finding is None and task.state == "wanted"
            if finding is not None:
                findings.append(finding)
        moved = None
        verdict = membership.overdue(job, live, now, service_started) if in_place else None
        if results and len(results) == due:
            ran = max((ran_seconds(task, now) for task in [*live, *counted]), default=0.0)
            moved = _conclude(job, _causes(results), now, ran)
            moved = replace(moved, stopped_as=_stopped_as(job, moved.reason))
            if moved.reason is Reason.COMPLETED and in_place and due > 1 and membership.never_met(job, live + counted):
                moved = JobMoved(job, Reason.COMMAND_FAILED, _NEVER_MET, {"exit_code": 0, "pull_percent": None})
        elif gone_before and job.status == JobStatus.RUNNING:
            verdict = membership.withdrawn(job, new, " ".join(gone_before))
        elif in_place and done and _all_completed(results):
            verdict = membership.finishing(job, new)
        elif any(r[0] is not Reason.COMPLETED for r in results) and not all(task.stop for task in live):
            # One of a gang is gone: the others can't train without it.
            findings.append(JobMoved(job, Reason(job.reason), job.message, stop_tasks=True))
        elif not new and unstarted and _half_started(live, now):
            findings.append(JobMoved(job, Reason(job.reason), job.message, stop_tasks=True))
        elif live and running == len(live) and job.status == JobStatus.STARTING:
            moved = JobMoved(
                job,
                Reason.CONTAINER_RUNNING,
                f"Running on {_places(live)}.",
                {"started_at": job.started_at or now, "pull_percent": None},
            )
        elif job.status == JobStatus.RUNNING and job.max_duration is not None:
            spent = job.run_seconds + max(ran_seconds(t, now) for t in live) if live else 0.0
            if spent >= job.max_duration:
                message = f"It has run for its max_duration of {job.max_duration:g} s."
                moved = JobMoved(job, Reason.TIME_LIMIT_REACHED, message, stop_tasks=True)
        if moved is None and verdict is not None:
            moved = JobMoved(
                job, verdict.reason, verdict.message, verdict.fields,
                stop_tasks=verdict.stop is None, stop_only=verdict.stop or (),
            )  # fmt: skip
        if moved is not None:
            findings.append(moved)
    return findings


def _how_it_ended(worker: TaskEnded) -> str:
    code = "" if worker.exit_code is None else f" with exit code {worker.exit_code}"
    return f"A new worker ended{code}" + (f": {worker.error}." if worker.error else ".")


def _all_completed(results: Sequence[tuple[Reason, int | None, str]]) -> bool:
    return all(outcome is Reason.COMPLETED for outcome, _, _ in results)


def _causes(results: Sequence[tuple[Reason, int | None, str]]) -> Sequence[tuple[Reason, int | None, str]]:
    """Without the workers that ended only because another one had."""
    causes = [result for result in results if result[2] != _LOST_EACH_OTHER and result[0] is not Reason.COMPLETED]
    return causes or results


def _blame(finding: Any, gpus: GpuTrouble, now: float) -> Any:
    """A task that failed on an unhealthy GPU did so because of it. One that has just failed, and was not told to stop,
    waits for the next look at its GPUs: a program notices a broken one before we do."""
    if not isinstance(finding, TaskEnded) or finding.outcome is Reason.COMPLETED:
        return finding
    fault = next((gpus.faults[uuid] for uuid in finding.task.gpu_uuids if uuid in gpus.faults), "")
    if fault:
        return replace(finding, outcome=Reason.GPU_LOST, error=fault)
    looked_at = gpus.looked_at(finding.task.host_id)
    if finding.finished_at is not None and looked_at is not None and not finding.task.stop:
        since = now - finding.finished_at
        if looked_at < finding.finished_at + LOOK_S and 0 <= since < LOOK_AT_MOST_S:
            gpus.awaited = True
            return None
    return finding


def _is_blind(task: Any, observation: Observation | None, job: Any) -> bool:
    if observation is None or task.stop or job.losses >= MAX_BLIND:
        return False
    return any(seen.task_id == task.id and seen.blind for seen in observation.tasks)


def _look_at(
    task: Any, observation: Observation | None, refusal: Refusal | None, now: float, service_started: float
) -> TaskStarted | TaskPaused | TaskResumed | TaskEnded | None:
    if observation is None:
        return None
    seen = next((t for t in observation.tasks if t.task_id == task.id), None)
    if seen is not None and seen.state is TaskState.EXITED:
        outcome = Reason.COMPLETED if seen.exit_code == 0 else Reason.COMMAND_FAILED
        error = seen.error or (OUT_OF_MEMORY if seen.oom_killed else "")
        return TaskEnded(task, outcome, seen.exit_code, error, seen.started_at, seen.finished_at, seen.image)
    if seen is not None and seen.state is TaskState.LOST:
        return TaskEnded(task, Reason.LOST, None, seen.error, seen.started_at, seen.finished_at, seen.image)
    if seen is not None and seen.state is TaskState.RUNNING:
        if task.state == "wanted":
            return TaskStarted(task, seen.started_at or now, seen.image)
        if seen.paused and task.paused_at is None:
            return TaskPaused(task, observation.at)
        return TaskResumed(task, observation.at) if task.paused_at is not None and not seen.paused else None
    if refusal is not None:
        return TaskEnded(task, refusal.reason, None, refusal.message)
    if seen is None and (task.state == "running" or task.id in observation.started):
        return TaskEnded(task, Reason.LOST, None, "its container was removed by somebody else")
    if seen is None and task.stop and task.id not in observation.maybe_starting:
        inherited = task.created_at < service_started
        if not inherited or now - service_started > SETTLE_S:
            return TaskEnded(task, Reason.CANCELLED)  # it never ran
    return None


def _half_started(live: Sequence[Any], now: float) -> bool:
    """Some of a gang have waited in vain for the others: it is undone, and tried anew."""
    if any(task.stop for task in live):
        return False
    since = [task.started_at for task in live if task.state == "running" and task.started_at is not None]
    return bool(since) and now - min(since) > MEET_S


def _conclude(job: Any, results: Sequence[tuple[Reason, int | None, str]], now: float, ran_s: float) -> JobMoved:
    """What a job becomes once all tasks of its attempt, which ran for `ran_s`, have ended."""
    code = next((c for _, c, _ in results if c), None)
    if code is None and all(outcome is Reason.COMPLETED for outcome, _, _ in results):
        code = 0
    error = next((e for _, _, e in results if e), "")
    detail = f": {error}" if error else "."
    if job.status == JobStatus.STOPPING:
        late = job.reason == Reason.TIME_LIMIT_REACHED
        reason = Reason.TIME_LIMIT if late else Reason.CANCELLED
        return JobMoved(job, reason, job.message if late else "Cancelled.", {"exit_code": code, "pull_percent": None})
    if code == 0:
        return JobMoved(
            job, Reason.COMPLETED, "The command ended with exit code 0.", {"exit_code": 0, "pull_percent": None}
        )
    outcomes = {outcome for outcome, _, _ in results}
    for refused in (Reason.IMAGE_UNAVAILABLE, Reason.START_REFUSED):
        if refused in outcomes:
            return JobMoved(job, refused, error, {"pull_percent": None})
    again = {"restarts": job.restarts + 1, "pull_percent": None}
    if job.status == JobStatus.RESIZING:
        return JobMoved(job, Reason.RESIZED, "Stopped for its new allocation; starts again with it.", again)
    for lost_part, what in ((Reason.HOST_LOST, "its host is lost"), (Reason.GPU_LOST, "its GPU is unhealthy")):
        if lost_part in outcomes:  # no fault of the job: it does not count against it
            why = next((e for outcome, _, e in results if outcome is lost_part and e), what)
            return JobMoved(job, lost_part, f"{why[:1].upper()}{why[1:]}. It starts again.", again)
    if Reason.IMAGE_GONE in outcomes and job.losses < MAX_LOSSES:
        gone = next(text for outcome, _, text in results if outcome is Reason.IMAGE_GONE)
        return JobMoved(job, Reason.IMAGE_GONE, f"{gone} It is fetched again.", {**again, "losses": job.losses + 1})
    # Who killed a job that can go on from a checkpoint is not asked, unless it was for the memory it took.
    lost = outcomes & {Reason.LOST, Reason.CANCELLED} or (code == KILLED and job.elastic and not error)
    if Reason.COMMAND_FAILED in outcomes and not lost:
        if code == PREEMPTED and job.losses < MAX_LOSSES:
            message = "Its container was told to stop, not by us; it saved a checkpoint and goes on from there."
            return JobMoved(job, Reason.PREEMPTED, message, {**again, "losses": job.losses + 1})
        if job.retries < job.max_restarts:
            message = f"The command ended with exit code {code}{detail} Try {job.retries + 1} of {job.max_restarts}."
            later = {"retries": job.retries + 1, "not_before": now + delay(job.retries, ran_s)}
            return JobMoved(job, Reason.RETRY, message, {**again, **later})
        return JobMoved(
            job,
            Reason.COMMAND_FAILED,
            f"The command ended with exit code {code}{detail}",
            {"exit_code": code, "pull_percent": None},
        )
    losses = job.losses + 1
    what = "It was killed" if code == KILLED else "Its container was lost"
    if losses > MAX_LOSSES:
        message = f"{what}{detail} That was the {losses}th time."
        return JobMoved(job, Reason.TOO_MANY_LOSSES, message, {"losses": losses, "pull_percent": None})
    return JobMoved(job, Reason.LOST, f"{what}{detail} It starts again.", {**again, "losses": losses})


def _stopped_as(job: Any, reason: Reason) -> Reason:
    """What became of tasks that were told to stop, if their job moves on for this reason."""
    match reason:
        case Reason.RESIZED:
            return Reason.EVICTED if job.reason == Reason.EVICTED else Reason.RESIZED
        case Reason.PREEMPTED | Reason.TIME_LIMIT:
            return reason
    return Reason.CANCELLED


def _places(tasks: Sequence[Any]) -> str:
    gpus: dict[str, int] = {}
    for task in tasks:
        gpus[task.host_id] = gpus.get(task.host_id, 0) + len(task.gpu_uuids)
    return ", ".join(f"{host} ({gpu_count(count)})" for host, count in gpus.items())
