"""What the API answers with. Times are ISO 8601 in UTC; what a request takes is `scheduler.specs.job.JobSpec`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from schedulearn.api.instants import iso
from schedulearn.scheduler.core.instants import late_deadline
from schedulearn.scheduler.core.states import JobStatus
from schedulearn.scheduler.specs.env_masking import masked
from schedulearn.scheduler.store.usage import Service

if TYPE_CHECKING:
    from schedulearn.scheduler.sim.forecast import Eta

RowId = Annotated[int, Field(ge=0, le=(1 << 63) - 1)]
"""An id that the database may have given."""


class Problem(BaseModel):
    """RFC 9457 problem document. `code` is stable and for machines."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    errors: list[dict[str, str]] | None = None
    reference: str | None = Field(default=None, description="of a fault of Schedulearn: its log has the same")


class GpuRef(BaseModel):
    uuid: str
    host: str
    index: int


class EtaOut(BaseModel):
    """When a job that has not ended is expected to start and to end, going by the jobs that there are."""

    start: str | None
    end: str | None
    earliest: str | None = Field(description="bounds of the end, by how well the lengths that it depends on are known")
    latest: str | None
    basis: Literal["progress", "family", "guess"] = Field(
        description="what its length rests on: its own reports, jobs of its family, or nothing but how long it ran"
    )
    not_before: str | None = Field(
        description="where no end is given: up to then there is none; null: it can't run, or awaits_image"
    )
    awaits_image: bool = Field(
        description="its image is being fetched, and nobody knows how long that takes: no times are given"
    )


class TaskOut(BaseModel):
    """One container of one attempt."""

    id: str
    attempt: int
    rank: int
    host: str
    gpu_uuids: list[str]
    state: str
    outcome: str
    exit_code: int | None
    error: str
    image: str = Field(description="what it ran: by digest where it is from a registry, else by id; empty: not known")
    created_at: str
    started_at: str | None
    finished_at: str | None


class JobOut(BaseModel):
    id: str
    name: str
    type: str
    container_image: str
    command: str
    required_gpus: int
    min_gpus: int
    max_gpus: int
    elastic: bool
    resize: str = Field(description="in-place or restart; a job of which the former failed goes on with the latter")
    priority: int
    weight: float
    deadline: str | None
    max_duration: float | None
    max_restarts: int
    grace_period: float
    launcher: str
    batch_size: int | None
    max_batch_size: int | None
    epochs: int | None
    env: dict[str, str] = Field(description="values are masked, but for harmless names such as EPOCHS or NCCL_DEBUG")
    shm_size: int
    cpus: float | None
    memory: int | None = Field(description="bytes; null: as its share of the host's GPUs")
    mounts: dict[str, str] = Field(description="data set -> path in the container")
    labels: dict[str, str]
    user: str
    family: str = Field(description="jobs of one family share what is learned of their speed and length")

    state: JobStatus
    reason: str = Field(description="why it is in this state, for machines")
    message: str = Field(description="the same as a sentence")
    pull_percent: float | None = Field(description="how far the fetch of its image is")
    attempt: int
    restarts: int = Field(description="for whatever reason")
    retries: int = Field(description="after failures of its command, which `max_restarts` bounds")
    exit_code: int | None
    not_before: str | None = Field(description="when it may start again after a failure of its command")
    submitted_at: str
    started_at: str | None
    finished_at: str | None
    run_seconds: float = Field(description="of all attempts, up to now; pauses left out")
    gpu_seconds: float = Field(description="likewise, times the GPUs that it held")
    allocation: dict[str, int] = Field(description="host -> GPUs held now")
    gpus: list[GpuRef] = Field(description="the GPUs held now")
    eta: EtaOut | None = Field(description="null for a job that has ended, and until it was looked at")


class JobDetail(JobOut):
    tasks: list[TaskOut] = Field(description="every container that the job had, oldest first")


class JobPage(BaseModel):
    items: list[JobOut]
    next: str | None = Field(description="give it as `cursor` for the next page; null on the last")
    counts: dict[str, int] = Field(description="jobs in each state, over all pages")


class Batch(BaseModel):
    items: list[JobOut]


class EventOut(BaseModel):
    id: int
    at: str
    kind: str
    job_id: str | None
    host_id: str | None
    code: str
    message: str
    data: dict[str, Any]


class EventPage(BaseModel):
    items: list[EventOut]


class GpuProcessOut(BaseModel):
    pid: int
    name: str
    memory_bytes: int | None = Field(description="of the GPU")
    container: str = Field(description="id of its container; empty: none, or unknown")
    uid: int | None = Field(description="of its user on the host")


class GpuReadingOut(BaseModel):
    """The latest second of a GPU; null: it does not tell."""

    memory_bytes: float | None = Field(description="used")
    temperature: float | None = Field(description="degrees Celsius")
    power_w: float | None
    energy_j: float | None = Field(description="a counter, since the driver was loaded")
    sm_mhz: float | None
    memory_mhz: float | None
    ecc_errors: int | None = Field(description="uncorrected ones since the driver was loaded")
    xid: int | None = Field(description="the last Xid error")
    throttle: list[str] = Field(description="why its clocks are lowered")
    processes: list[GpuProcessOut] | None


class GpuOut(BaseModel):
    uuid: str
    host: str
    index: int
    type: str
    memory_bytes: int
    simulated: bool
    state: Literal["free", "used", "occupied", "unhealthy"] = Field(
        description="occupied: somebody uses it who has it not from here; unhealthy: not given until it is returned"
    )
    fault: str = Field(description="why it is unhealthy")
    occupied_by: str = Field(description="who uses it beside the jobs")
    island: int | None = Field(description="GPUs of a host with the same number reach each other by NVLink")
    numa: int | None
    utilization: float | None = Field(description="per cent; null where it can't be told")
    reading: GpuReadingOut | None = Field(description="null where none came in the last seconds")
    jobs: list[str] = Field(description="ids of the jobs that hold it")


class HostProblemOut(BaseModel):
    code: str
    message: str


class HostOut(BaseModel):
    id: str
    address: str
    runtime: str
    state: str = Field(
        description="active; cordoned: its jobs go on, no others come; draining: they leave as well; emptying and then "
        "parked: off until the policy wants it"
    )
    drain_until: str | None = Field(description="when what still runs there is stopped")
    origin: str = Field(description="embedded, settings or api: who named it")
    reachable: bool
    error: str = Field(description="why it is not reachable")
    lost_at: str | None = Field(description="when it was found not to have answered for `host_grace`; null: it answers")
    version: str = Field(description="of its Docker Engine; empty for local processes")
    cpus: int | None
    memory_bytes: int | None
    problems: list[HostProblemOut] = Field(description="what is missing or odd there, although it can be used")
    network: str = Field(description="how other hosts reach it, where that was configured")
    labels: dict[str, str]
    gpus: list[GpuOut]


class ClusterOut(BaseModel):
    hosts: int
    gpus: int
    gpus_used: int
    gpus_free: int = Field(description="neither held, occupied nor unhealthy, on hosts that are reachable and active")
    gpus_wanted: int = Field(description="required by the jobs in the queue, together")
    jobs: dict[str, int] = Field(description="jobs in each state")
    utility: float | None = Field(description="speedups of all jobs over the GPUs; null: the policy knows none")
    utility_range: list[float] | None = Field(description="within it the number of hosts stays as it is")
    desired_hosts: int | None = Field(description="hosts that should be on; null: the policy in force does not say")


class ParameterOut(BaseModel):
    type: str
    default: Any
    description: str


class PolicyKind(BaseModel):
    name: str
    metrics: list[str]
    description: str
    parameters: dict[str, ParameterOut]


class PolicyOut(BaseModel):
    algorithm: str
    metric: str
    params: dict[str, Any]
    since: str | None
    problem: str = Field(description="why the policy does not decide now; empty if all is well")
    available: list[PolicyKind]


class ChoiceOut(BaseModel):
    at: str
    algorithm: str
    metric: str
    params: dict[str, Any]


class ChangeOut(BaseModel):
    job: str
    name: str
    action: Literal["start", "grow", "shrink", "move", "wait", "pause"]
    before: dict[str, int] = Field(description="host -> GPUs held now")
    after: dict[str, int]
    code: str
    reason: str


class TotalsOut(BaseModel):
    mean_completion: float | None = Field(
        description="seconds from submission to end, over the jobs whose end is foreseen under both policies"
    )
    gpu_hours: float = Field(description="from now on")
    host_hours: float = Field(description="hours from now on for which hosts hold jobs, added up")
    ended: int = Field(description="jobs whose end is foreseen")
    until: str | None = Field(description="up to when it was looked at; null: to the end")
    cut: Literal["", "horizon", "time", "events"] = Field(
        description="why no further: a week is over, the time to compute is, or too much happens until then"
    )


class JobPreview(BaseModel):
    job: str
    name: str
    now: EtaOut | None
    then: EtaOut | None


class PreviewOut(BaseModel):
    """The policy in force (`now`) and the one asked for (`then`), played on from the present state."""

    algorithm: str
    metric: str
    changes: list[ChangeOut] = Field(description="what would happen at once")
    unchanged: int = Field(description="jobs to which nothing would")
    now: TotalsOut
    then: TotalsOut
    jobs: list[JobPreview]


class ReplayHost(BaseModel):
    id: str
    gpus: int
    gpu_type: str


class ReplayOut(BaseModel):
    """A trace, as docs/simulator.md describes it, and the hosts that there are."""

    applications: dict[str, dict[str, Any]]
    jobs: list[dict[str, Any]]
    hosts: list[ReplayHost]


class PolicyIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    algorithm: str = Field(max_length=200)
    metric: str = Field(default="default", max_length=200)
    params: dict[str, Any] = Field(default_factory=dict)


class DrainIn(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    deadline_s: float = Field(default=3600.0, ge=0, le=3.2e7, description="seconds until rigid jobs are stopped too")


class PriorityIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    priority: int = Field(ge=0, le=100)


_AS_THEY_ARE = (
    *("id", "name", "type", "container_image", "command", "required_gpus", "min_gpus", "max_gpus", "elastic", "resize"),
    *(
        "priority",
        "weight",
        "max_duration",
        "max_restarts",
        "grace_period",
        "batch_size",
        "max_batch_size",
        "epochs",
        "launcher",
        "cpus",
        "mounts",
        "labels",
        "user",
        "family",
        "reason",
        "message",
    ),
    *("pull_percent", "attempt", "restarts", "retries", "exit_code", "run_seconds", "gpu_seconds"),
)


_NOTHING = Service()
_PAUSES = {("time_slice", JobStatus.RUNNING), ("time_slice", JobStatus.STARTING)}


def job_view(
    job: Mapping[str, Any],
    gpus: list[dict[str, Any]] | None = None,
    waiting: tuple[str, str] | None = None,
    eta: dict[str, Any] | None = None,
    served: Service = _NOTHING,
    silent: str | None = None,
) -> dict[str, Any]:
    """A job's row as JSON. `waiting`: (code, sentence) of the last decision, for a job that is queued, or that pauses
    on GPUs that it shares. `served`: by its live tasks. `silent`: what is wrong with a job that runs and does not
    report."""
    view = {key: job[key] for key in _AS_THEY_ARE}
    view["run_seconds"] += served.run_seconds
    view["gpu_seconds"] += served.gpu_seconds
    if waiting is not None and (job["status"] == JobStatus.QUEUED or (waiting[0], job["status"]) in _PAUSES):
        view["reason"] = waiting[0]
        view["message"] = f"{waiting[1]} {late_deadline(job['deadline'], job['submitted_at'])}".rstrip()
    elif silent is not None and job["status"] == JobStatus.RUNNING:
        view["message"] = f"{view['message']} {silent}"
    allocation: dict[str, int] = {}
    for gpu in gpus or ():
        allocation[gpu["host"]] = allocation.get(gpu["host"], 0) + 1
    return {
        **view,
        "state": job["status"],
        "env": masked(job["env"]),
        "shm_size": job["shm_bytes"],
        "memory": job["memory_bytes"],
        "deadline": iso(job["deadline"]),
        "not_before": iso(job["not_before"]) if job["status"] == JobStatus.QUEUED else None,
        "submitted_at": iso(job["submitted_at"]),
        "started_at": iso(job["started_at"]),
        "finished_at": iso(job["finished_at"]),
        "allocation": allocation,
        "gpus": gpus or [],
        "eta": eta if job["finished_at"] is None else None,
    }


def eta_view(eta: Eta | None, until: float) -> dict[str, Any] | None:
    """`until`: up to when it was looked for."""
    if eta is None:
        return None
    times = {key: iso(getattr(eta, key)) for key in ("start", "end", "earliest", "latest")}
    cut = eta.end is None and not eta.awaits_image and math.isfinite(until)
    not_before = iso(until) if cut else None
    return {**times, "basis": eta.basis.value, "not_before": not_before, "awaits_image": eta.awaits_image}


def task_view(task: Any) -> dict[str, Any]:
    return {
        "id": task.id,
        "attempt": task.attempt,
        "rank": task.rank,
        "host": task.host_id,
        "gpu_uuids": task.gpu_uuids,
        "state": task.state,
        "outcome": task.outcome,
        "exit_code": task.exit_code,
        "error": task.error,
        "image": task.image,
        "created_at": iso(task.created_at),
        "started_at": iso(task.started_at),
        "finished_at": iso(task.finished_at),
    }


def event_view(event: Any) -> dict[str, Any]:
    return {
        "id": event.id,
        "at": iso(event.at),
        "kind": event.kind,
        "job_id": event.job_id,
        "host_id": event.host_id,
        "code": event.code,
        "message": event.message,
        "data": event.data,
    }
