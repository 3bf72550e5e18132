"""Responses about jobs, their containers, and their expected start and end."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from schedulearn.api.answers.model import AnswerModel, At, unchecked
from schedulearn.api.instants import iso
from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.core.instants import bounded, late_deadline, shown
from schedulearn.scheduler.core.model import Explanation
from schedulearn.scheduler.core.named_jobs import named_jobs
from schedulearn.scheduler.core.outcomes.lateness import Late, late
from schedulearn.scheduler.core.people import Actor
from schedulearn.scheduler.core.planning.start_times import held, why_not_yet
from schedulearn.scheduler.core.states import JobState, Reason
from schedulearn.scheduler.reports.failure_advice import FailureKind
from schedulearn.scheduler.reports.hangs import FoundHang
from schedulearn.scheduler.specs.env_masking import masked, without_secrets
from schedulearn.scheduler.specs.job import AfterSpec, JobFields, without_bounds
from schedulearn.scheduler.store.accounting.usage import ReceivedService
from schedulearn.scheduler.store.job_list import ShownProgress
from schedulearn.scheduler.store.job_rows import with_keys
from schedulearn.scheduler.store.people.visibility import told

if TYPE_CHECKING:
    from schedulearn.scheduler.sim.forecast import Eta

_PAUSES = {("time_slice", JobState.RUNNING), ("time_slice", JobState.STARTING)}


class GpuRef(AnswerModel):
    uuid: str
    host: str
    index: int


class EtaOut(AnswerModel):
    """Expected start and end of an unfinished job.

    The forecast considers the existing jobs."""

    start: At | None
    end: At | None
    earliest: At | None = Field(description="bounds of the end, by the uncertainty of the run times that it depends on")
    latest: At | None
    basis: Literal["progress", "log", "family", "guess"] = Field(
        description="basis of its run time: progress: its own reports; log: the progress in its log; family: jobs of "
        "its family; guess: only its run time so far"
    )
    not_before: At | None = Field(
        description="if there is no end: it does not end before this time; null: awaits_image, or it can't run with "
        "this cluster and these quotas"
    )
    awaits_image: bool = Field(description="its image is being fetched and the duration is unknown: no times are given")

    @classmethod
    def of(cls, eta: Eta, until: float) -> Self:
        """Return the model of a forecast. `until`: end of the time that was simulated."""
        cut = eta.end is None and not (eta.awaits_image or eta.beyond_quota) and math.isfinite(until)
        return unchecked(
            cls,
            {
                "start": iso(eta.start),
                "end": iso(eta.end),
                "earliest": iso(eta.earliest),
                "latest": iso(eta.latest),
                "basis": eta.basis.value,
                "not_before": shown(until) if cut else None,
                "awaits_image": eta.awaits_image,
            },
        )


class TaskOut(AnswerModel):
    """Container of an attempt of a job."""

    id: str
    attempt: int
    rank: int
    host: str = Field(validation_alias="host_id")
    gpu_uuids: list[str]
    state: str
    outcome: str
    exit_code: int | None
    error: str
    image: str = Field(description="image that it ran: digest if from a registry, else ID; empty: unknown")
    created_at: At
    started_at: At | None
    finished_at: At | None
    memory_peak: int | None = Field(
        description="maximum memory in bytes, from readings every 10 seconds; null: not measured"
    )


def _instant(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(bounded(seconds), UTC)


def _shown(instant: datetime | None) -> str | None:
    return None if instant is None else shown(instant.timestamp())


UNSERVED = ReceivedService()


class CloneOut(AnswerModel):
    """Clone that avoids a failure."""

    label: str = Field(description="what it changes, e.g. Clone with half the batch (16)")
    changes: dict[str, Any] = Field(description="keys of the job with their new values")


class FailureOut(AnswerModel):
    """Details of a job's failure."""

    gpus: list[GpuRef] = Field(description="GPUs of its last attempt")
    exit_code: int | None = Field(description="exit code of the container that failed first; null: unknown")
    line: str = Field(description="the most informative line of its log about the failure; empty: no output")
    kind: FailureKind = Field(description="class of the failure")
    cause: str = Field(description="cause as a phrase, equal for equal failures")
    step: str = Field(description="next step as a sentence; empty: unknown")
    clone: CloneOut | None = Field(description="a clone that may avoid the failure; null: none is known")


class HangOut(AnswerModel):
    """Hang of a running job, or unused GPUs."""

    kind: Literal["idle", "no_steps", "gpus_unused"] = Field(
        description="idle: no output, no steps and no use of its GPUs; no_steps: its workers report, but no steps; "
        "gpus_unused: its GPUs are idle"
    )
    since: At
    message: str

    @classmethod
    def of(cls, hang: FoundHang) -> Self:
        return unchecked(cls, {"kind": hang.kind.value, "since": shown(hang.since), "message": hang.message})


class JobNow(NamedTuple):
    """Current status of a job, in addition to its row."""

    gpus: Sequence[GpuRef] = ()
    hosts: Sequence[str] = ()
    """Hosts where it runs, also without GPUs."""
    waiting: Explanation | None = None
    """Reason from the last decision, for a job that is queued, or that pauses on shared GPUs."""
    eta: EtaOut | None = None
    expected_end: float | None = None
    """None: it can't be predicted, or only guessed."""
    served: ReceivedService = UNSERVED
    """Run time and GPU time of its live tasks."""
    silent: str | None = None
    """Problem of a running job that does not report."""
    hang: FoundHang | None = None
    progress: ShownProgress | None = None
    failure: FailureOut | None = None
    idle_ends_at: float | None = None
    names: Mapping[str, str] = MappingProxyType({})
    """Names by ID, of the jobs in messages that the user may see."""


_NOTHING = JobNow()


def seen_by(actor: Actor, job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the columns and keys of a job. Secrets in its commands are hidden from users who may not change it."""
    job = with_keys(job)
    return job if actor.may_change(job["user"]) else without_secrets(job)


class CodeOut(AnswerModel):
    """Code of a job and its origin.

    It can be given as the `code` of another job."""

    digest: str
    git: str | None
    ref: str | None
    commit: str | None
    dirty: bool | None

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> Self | None:
        return None if job["code"] is None else cls(**job["code"])


class JobOut(JobFields):
    """Job: the keys from its user, and its state."""

    model_config = ConfigDict(ser_json_inf_nan="null")

    id: str
    min_gpus: int
    max_gpus: int
    grace_period: float
    deadline: Annotated[datetime | None, PlainSerializer(_shown, return_type=str | None)]
    start_after: Annotated[datetime | None, PlainSerializer(_shown, return_type=str | None)] = Field(
        description="earliest start; null: at any time"
    )
    held_at: At | None = Field(description="time since which it is held or paused; null: it may run")
    held_by: str = Field(description="account that held it; empty: not held, or by the service's own account")
    code: CodeOut | None  # type: ignore[assignment]  # with its digest, always
    requirements: list[str] | None = Field(description="Python packages installed on top of its image, one per line")
    env: dict[str, str] = Field(description="values are masked, except for harmless names such as EPOCHS or NCCL_DEBUG")
    family: str = Field(description="jobs of a family share predictions of speed and run time")

    state: JobState
    reason: str = Field(description="reason for its state, for programs")
    message: str = Field(description="reason for its state, as a sentence")
    names: dict[str, str] = Field(description="job ID -> name, for other jobs in `message`")
    sweep: str | None = Field(description="ID of its sweep")
    schedule: str | None = Field(description="ID of the schedule of which it is a run")
    params: dict[str, bool | int | float | str] | None = Field(description="parameters of its run in the sweep")
    pull_percent: float | None = Field(description="progress of the fetch of its image, percent")
    attempt: int
    restarts: int = Field(description="number of restarts, for any reason")
    retries: int = Field(description="retries after failures of its command, limited by `max_restarts`")
    exit_code: int | None
    not_before: At | None = Field(description="time from which it may be retried after a failure of its command")
    submitted_at: At
    started_at: At | None
    finished_at: At | None
    run_seconds: float = Field(description="seconds of all attempts so far, without pauses")
    gpu_seconds: float = Field(description="GPU-seconds of all attempts so far, without pauses")
    allocation: dict[str, int] = Field(description="host -> number of GPUs held now; 0 for a job without GPUs")
    gpus: list[GpuRef] = Field(description="GPUs held now")
    eta: EtaOut | None = Field(description="null: the job has ended, or has no prediction yet")
    late: Literal["no", "expected", "yes"] | None = Field(
        description="whether it misses its `deadline`. no: it ended in time, or is expected to; expected: it is "
        "expected to end late; yes: it had not succeeded by the deadline; null: no deadline, unknown, or cancelled "
        "before"
    )
    progress: float | None = Field(description="progress from 0 to 1; null: unknown")
    progress_from: Literal["reports", "log"] | None = Field(
        description="source of `progress`: its workers' reports, or its log, which the service reads; null: unknown"
    )
    failure: FailureOut | None = Field(description="failure of a job that failed or reached its time limit")
    hang: HangOut | None = Field(description="hang of a running job, or unused GPUs")
    idle_ends_at: At | None = Field(
        description="time at which `idle_timeout` ends the job if no one connects until then; null: never"
    )

    @classmethod
    def of(cls, job: Mapping[str, Any], now: JobNow = _NOTHING, **more: object) -> Self:
        """Return the model of a job. `job`: its columns and keys (`with_keys`); `more`: fields of a subclass."""
        allocation = dict.fromkeys(now.hosts, 0)
        for gpu in now.gpus:
            allocation[gpu.host] = allocation.get(gpu.host, 0) + 1
        state, message = JobState(job["state"]), job["message"]
        stands = {"reason": job["reason"], "message": message}
        is_held = job["held_at"] is not None and not state.terminal
        not_yet = why_not_yet(job["held_at"], job["held_by"], job["start_after"], time.time())
        waiting = not_yet if not_yet is not None and state == JobState.QUEUED else now.waiting
        if waiting is not None and (state == JobState.QUEUED or (waiting.code, state) in _PAUSES):
            passed = late_deadline(job["deadline"], job["submitted_at"])
            stands = {"reason": waiting.code, "message": f"{waiting} {passed}".rstrip()}
        elif is_held and state != JobState.STOPPING and job["reason"] != Reason.PAUSE_REQUESTED:
            stands["message"] += f" {held(job['held_at'], job['held_by'])}"
        expected_end = None if is_held else now.expected_end
        kept = late(job["deadline"], state, job["finished_at"], expected_end, time.time())
        if kept == Late.EXPECTED:
            stands["message"] += f" It is expected to end at {iso(expected_end)}, after its deadline."
        stands["message"] = told(stands["message"], now.names)
        hang = now.hang if state == JobState.RUNNING else None
        if state == JobState.RUNNING and (trouble := hang.message if hang else now.silent):
            stands["message"] += f" {trouble}"
        return unchecked(
            cls,
            {
                **{key: job[key] for key in _AS_STORED},
                **stands,
                "state": state,
                "env": masked(job["env"]),
                "deadline": _instant(job["deadline"]),
                "start_after": _instant(job["start_after"]),
                "held_at": iso(job["held_at"]) if is_held else None,
                "held_by": job["held_by"] if is_held else "",
                "after": unchecked(AfterSpec, job["after"]) if job["after"] is not None else None,
                "code": CodeOut.of(job),
                "not_before": iso(job["not_before"]) if state == JobState.QUEUED else None,
                "submitted_at": shown(job["submitted_at"]),
                "started_at": iso(job["started_at"]),
                "finished_at": iso(job["finished_at"]),
                "run_seconds": job["run_seconds"] + now.served.run_seconds,
                "gpu_seconds": job["gpu_seconds"] + now.served.gpu_seconds,
                "allocation": allocation,
                "gpus": list(now.gpus),
                "eta": now.eta if job["finished_at"] is None and not is_held else None,
                "late": kept.value if kept is not None else None,
                "names": {
                    each: now.names[each]
                    for each in (named_jobs(stands["message"]) if now.names else ())
                    if each in now.names
                },
                "progress": now.progress.fraction if now.progress is not None else None,
                "progress_from": _source(now.progress),
                "failure": now.failure,
                "hang": HangOut.of(hang) if hang is not None else None,
                "idle_ends_at": iso(now.idle_ends_at),
                **more,
            },
        )


def _source(progress: ShownProgress | None) -> str | None:
    if progress is None:
        return None
    return "log" if progress.from_log else "reports"


without_bounds(JobOut)
_STORED_OTHERWISE = {"code", "env", "deadline", "after", "start_after"}
_AS_STORED = (
    "id",
    *(name for name in JobFields.model_fields if name not in _STORED_OTHERWISE),
    *("sweep", "schedule", "params", "pull_percent", "attempt", "restarts", "retries", "exit_code"),
)


class JobDetail(JobOut):
    tasks: list[TaskOut] = Field(description="all containers of the job, oldest first")
    removed: bool = Field(
        description="whether it has ended, its containers are gone, and events name the files that were lost with them"
    )
    energy_kwh: float | None = Field(
        description="energy of its GPUs as far as they measure it; null: none measures it, such as MIG devices and "
        "simulated GPUs"
    )
    cost: float | None = Field(
        description="cost of its GPUs so far, by the setting gpu_prices; null: a price is missing"
    )
    currency: str = Field(description="currency of `cost`: the setting currency")
    run_pages: list[str] = Field(
        description="pages of its run in W&B, MLflow, Comet, Neptune or ClearML, from the addresses in its log"
    )
    interruptions: int = Field(description="number of ended attempts after which the job was started again")
    repeated_seconds: float = Field(
        description="run time of these attempts, which a rigid job repeats unless its script continues; 0 if elastic"
    )


class OriginalKeys(BaseModel):
    """Names that the original Schedulearn has for what a job has here."""

    status: JobState = Field(description="the same as state")
    created_at: At = Field(description="the same as submitted_at")
    completed_at: At | None = Field(description="the same as finished_at")
    container_name: str = Field(description="newest container of the first worker; empty: none")
    trained_at: str = Field(description="host of that container; empty: none")

    @classmethod
    def beside(cls, job: JobOut, tasks: Sequence[Task] = ()) -> Self:
        """Return the response with these names added. `tasks`: those of the job."""
        newest = max(tasks, key=lambda task: (task.attempt, -task.rank), default=None)
        names = {
            "status": job.state,
            "created_at": job.submitted_at,
            "completed_at": job.finished_at,
            "container_name": newest.id if newest else "",
            "trained_at": newest.host_id if newest else "",
        }
        return unchecked(cls, {**job.__dict__, **names})


class OriginalJob(JobOut, OriginalKeys):
    """Job as the original routes show it."""


class OriginalJobDetail(JobDetail, OriginalKeys):
    """Job with its containers, as the original route shows it."""


class JobPage(AnswerModel):
    items: list[JobOut]
    next: str | None = Field(description="value of `cursor` for the next page; null on the last")
    counts: dict[str, int] = Field(
        description="jobs in each state, over all pages; they match all filters except `state`"
    )


class DeletedJob(AnswerModel):
    id: str
    name: str


class Batch(AnswerModel):
    items: list[JobOut]
