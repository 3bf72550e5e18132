"""The tables. What must never happen is made impossible here: a GPU slot has one lease, a job one live task a rank.

Times are seconds since the epoch (UTC). A change of this file needs a migration beside it (a test compares them).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    String,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlmodel import Field, SQLModel

from schedulearn.scheduler.core.states import HostState, JobStatus, Parking, TaskStatus
from schedulearn.scheduler.store.columns import EnumColumn, InstantColumn, json_column, json_or_none_column
from schedulearn.scheduler.store.people import tables

_STATES = ", ".join(f"'{state.value}'" for state in JobStatus)


class Meta(SQLModel, table=True):
    """Facts about this database, e.g. `cluster_id`, by which engines tell our containers from others'."""

    key: str = Field(primary_key=True)
    value: str


class Job(SQLModel, table=True):
    """What was asked for, and how it stands."""

    __table_args__ = (
        CheckConstraint(f"status IN ({_STATES})", name="job_status"),
        CheckConstraint("required_gpus >= 0 AND min_gpus >= 0 AND max_gpus >= min_gpus", name="job_gpus"),
        CheckConstraint("priority BETWEEN 0 AND 100", name="job_priority"),
        CheckConstraint("(finished_at IS NOT NULL) = (status IN ('succeeded','failed','cancelled','timeout'))",
                        name="job_finished"),
        Index("job_by_status", "status", "submitted_at"),
        Index("job_by_family", "family", "finished_at", sqlite_where=text("attempt > 0"),
              postgresql_where=text("attempt > 0")),
        Index("job_by_time", "submitted_at", "id"),
        Index("job_by_keeping", "keep_state", sqlite_where=text("keep_state = 'pending'"),
              postgresql_where=text("keep_state = 'pending'")),
        Index("job_by_sweep", "sweep", sqlite_where=text("sweep IS NOT NULL"),
              postgresql_where=text("sweep IS NOT NULL")),
    )  # fmt: skip

    id: str = Field(primary_key=True)
    name: str
    spec: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False, server_default="{}"))
    """Keys that its user gave and no column has (store/job_rows.py)."""
    container_image: str
    pull: str = Field(default="missing", sa_column_kwargs={"server_default": "missing"})
    """`always`: its image is pulled again on each host where it starts; else `missing`."""
    required_gpus: int
    min_gpus: int
    max_gpus: int
    elastic: bool
    priority: int
    weight: float
    metric: str | None = None
    """In place of the policy's, for this job."""
    gpu_memory: int | None = Field(default=None, sa_type=BigInteger)
    """Bytes of each of its GPUs that it asks for, where jobs share GPUs."""
    deadline: float | None = Field(sa_type=InstantColumn)
    max_duration: float | None
    max_restarts: int
    launcher: str
    grace_period: float = Field(sa_column=Column(Float, nullable=False, server_default="10"))
    shm_bytes: int = Field(sa_type=BigInteger)
    cpus: float | None = None
    memory_bytes: int | None = Field(default=None, sa_type=BigInteger)
    inputs: dict[str, str] = Field(sa_column=Column(JSON, nullable=False, server_default="{}"))
    """Path in the container -> what its hosts have there: a version by its digest, or the outputs of a job."""
    keep_state: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """`pending` until the data sets of the key `keep` are made or can't be, then `done`; empty: there are none."""
    layer: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Names the content of the key `requirements`."""
    gpu_type: str | None = None
    """That all of its GPUs have; None: any."""
    idle_timeout: float | None = None
    """Seconds without a connection to its ports after which it is ended."""
    labels: dict[str, str] = Field(sa_column=json_column())
    user: str
    family: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Jobs of one family share what is learned; empty only for jobs of before there were families."""

    status: JobStatus = Field(sa_column=Column(EnumColumn(JobStatus), nullable=False))
    reason: str
    message: str = Field(sa_type=Text)
    version: int = 0
    """Raised by every change; a change that was decided on another version is dropped."""
    attempt: int = 0
    restarts: int = 0
    retries: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Restarts after failures of the command, which `max_restarts` bounds; `restarts` counts all."""
    losses: int = 0
    on_hang: str | None = None
    """`warn`, `restart` or `end`; None: as the settings say. `hangs`: restarts because it hung."""
    hangs: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    equal_exits: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """How often in a row its command ended with the code `last_exit` soon after its start."""
    last_exit: int | None = None
    exit_code: int | None = None
    submitted_at: float = Field(sa_type=InstantColumn)
    started_at: float | None = Field(default=None, sa_type=InstantColumn)
    finished_at: float | None = Field(default=None, sa_type=InstantColumn)
    run_seconds: float = 0.0
    """Of the attempts that have ended."""
    gpu_seconds: float = 0.0
    pull_percent: float | None = None
    not_before: float | None = Field(default=None, sa_type=InstantColumn)
    """When it may start again after a failure of its command; None, or in the past: at any time."""
    fetch_hosts: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False, server_default="[]"))
    """While it is pulling: the hosts that fetch its image for it."""
    checkpoint_host: str | None = None
    """Where its newest checkpoints are: the host on which its first task ran last."""
    resize: str = Field(default="restart", sa_column_kwargs={"server_default": "restart"})
    """`in-place`: its workers come and go while it trains, where that works; else `restart`."""
    generation: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Of its workers: raised by each attempt, and each time that some are asked to come or go in one."""
    trained: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """The last generation that was seen to train."""
    meeting: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Where the workers of this generation meet, as their first one says; empty: it has not yet."""
    forming_at: float | None = Field(default=None, sa_type=InstantColumn)
    """Since when training stands still for a change of workers; None: it does not."""
    target: dict[str, int] | None = Field(default=None, sa_column=json_or_none_column())
    """What it will hold when it starts again after a resize, as a policy sees it; None: it is not being resized by
    restart, or gives all up."""
    resized_at: float | None = Field(default=None, sa_type=InstantColumn)
    """When its last resize was decided."""
    resized_from: dict[str, int] | None = Field(default=None, sa_column=json_or_none_column())
    """What it held before that; None: it was told already what the resize gained and cost."""
    sweep: str | None = None
    """The sweep that it is a run of, which has the table `SweepRun`."""
    after: dict[str, Any] | None = Field(default=None, sa_column=json_or_none_column())
    """An `After`: it waits for the end of these jobs."""
    params: dict[str, Any] | None = Field(default=None, sa_column=json_or_none_column())
    """What that run tries."""
    idempotency_key: str | None = Field(default=None, unique=True)
    request_hash: str | None = None


class Task(SQLModel, table=True):
    """One container: the desired state that the loop makes true, then what became of it."""

    __table_args__ = (
        UniqueConstraint("job_id", "attempt", "rank"),
        Index("task_one_live_a_rank", "job_id", "rank", unique=True, sqlite_where=text("state != 'ended'"),
              postgresql_where=text("state != 'ended'")),
        Index("task_by_state", "state"),
        Index("task_by_end", "finished_at"),
        CheckConstraint("state IN ('wanted', 'running', 'ended')", name="task_state"),
    )  # fmt: skip

    seq: int | None = Field(default=None, primary_key=True)
    id: str = Field(unique=True)
    job_id: str = Field(sa_column=Column(String, ForeignKey("job.id", ondelete="CASCADE"), nullable=False))
    attempt: int
    rank: int
    generation: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Of the job's workers, with which it was to begin; 0: its job is not resized in place in this attempt."""
    host_id: str
    gpu_uuids: list[str] = Field(sa_column=json_column())
    state: TaskStatus = Field(
        default=TaskStatus.WANTED, sa_column=Column(EnumColumn(TaskStatus), nullable=False, default=TaskStatus.WANTED)
    )
    stop: bool = False
    created_at: float = Field(sa_type=InstantColumn)
    started_at: float | None = Field(default=None, sa_type=InstantColumn)
    finished_at: float | None = Field(default=None, sa_type=InstantColumn)
    exit_code: int | None = None
    outcome: str = ""
    """Why it ended, for machines: a `Reason`; empty while it lives."""
    error: str = Field(default="", sa_type=Text)
    image: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """What it ran, by digest or id, where its engine tells."""
    paused_at: float | None = Field(default=None, sa_type=InstantColumn)
    """Since when it pauses; None while it does not."""
    paused_seconds: float = Field(default=0.0, sa_column_kwargs={"server_default": "0"})
    """Of its pauses that have ended: they count neither as run time nor as service."""
    energy_joules: float = Field(default=0.0, sa_column_kwargs={"server_default": "0"})
    """What its GPUs drew while it ran, where they can measure it."""
    memory_peak: int | None = Field(default=None, sa_type=BigInteger)
    """Bytes, the most that it was seen with; None: it was not measured."""


class Host(SQLModel, table=True):
    __table_args__ = (
        CheckConstraint("state IN ('active', 'cordoned')", name="host_state"),
        Index("host_by_engine", "engine_id", unique=True),
    )

    id: str = Field(primary_key=True)
    address: str
    runtime: str
    state: HostState = Field(
        default=HostState.ACTIVE, sa_column=Column(EnumColumn(HostState), nullable=False, default=HostState.ACTIVE)
    )
    labels: dict[str, str] = Field(sa_column=json_column())
    position: int
    """Hosts are served in this order by policies that go by order."""
    origin: str = Field(default="embedded", sa_column_kwargs={"server_default": "embedded"})
    """`embedded`, `settings` or `api`: who names it, and so who may remove it."""
    engine_id: str | None = None
    """The engine's own identity, once known. Unique: two agents on one engine would end each other's containers."""
    simulated_gpus: int | None = None
    """So many pretended GPUs instead of those that its probe finds."""
    tls: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Folder with ca.pem, cert.pem and key.pem for a tcp:// address; empty: no TLS."""
    network: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Address or name of the interface by which the other hosts reach it; empty: found out."""
    drain_until: float | None = Field(default=None, sa_type=InstantColumn)
    """It is being drained: what still runs there then is stopped. Its state is `cordoned` meanwhile."""
    parking: Parking = Field(
        default=Parking.NONE,
        sa_column=Column(EnumColumn(Parking), nullable=False, default=Parking.NONE, server_default=""),
    )
    """`emptying` or `parked`, by the policy's wish and not an operator's. Its state is `cordoned` meanwhile."""
    lost_at: float | None = Field(default=None, sa_type=InstantColumn)
    """When it was found to be silent for too long; None: it answers, or is silent since a moment only."""
    driver: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """The version of NVIDIA's, as the probe last told it; empty: no GPU was found."""
    topology: str = Field(default="", sa_column=Column(Text, nullable=False, server_default=""))
    """What `core.topology.from_text` reads, as the probe last told it."""
    gpu_fault: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Why it takes no more jobs with GPUs; empty: it does. Jobs without GPUs go on."""
    gpu_failures: list[dict[str, Any]] = Field(
        default_factory=list, sa_column=Column(JSON, nullable=False, server_default="[]")
    )
    """Early failures of GPU jobs in a row (core.outcomes.early_failures)."""


class Gpu(SQLModel, table=True):
    uuid: str = Field(primary_key=True)
    host_id: str = Field(sa_column=Column(String, ForeignKey("host.id", ondelete="CASCADE"), nullable=False))
    ordinal: int
    type: str
    memory_bytes: int = Field(sa_type=BigInteger)
    simulated: bool
    present: bool = True
    """False once the host no longer shows it; kept for the leases and the history that name it."""
    fault: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Why it is unhealthy (Xid, ECC, gone); empty: it is not. An operator clears it."""
    fault_kind: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """A `FaultKind`: what follows from the fault, and what ends it. Empty: as `leave`."""
    island: int | None = None
    """GPUs of a host with the same number reach each other by NVLink; None: unknown."""
    numa: int | None = None
    occupied: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Who computes on it without having it from us; empty: nobody."""
    cleared_at: float | None = Field(default=None, sa_type=InstantColumn)
    """Xid errors up to then are forgiven, by the clock of its host: an operator returned it."""
    ecc_accepted: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """So many uncorrected errors are forgiven likewise."""
    unwatched: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Why it can't be asked now, its driver being at fault; empty: it can. Its jobs go on, no others start."""
    failures: list[dict[str, Any]] = Field(
        default_factory=list, sa_column=Column(JSON, nullable=False, server_default="[]")
    )
    """As `Host.gpu_failures`, of this GPU."""
    compute: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Compute capability, as in 9.0; empty: not known."""
    pci: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Bus id, as in 00000000:3B:00.0; empty: not known."""
    cordoned: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    """An operator closed it: its jobs go on, no others start."""
    drain_until: float | None = Field(default=None, sa_type=InstantColumn)
    """It is being drained: a job that still has it then is stopped. It is `cordoned` meanwhile."""


class Lease(SQLModel, table=True):
    """The right to use one slot of one GPU. The primary key is the invariant: no slot has two."""

    gpu_uuid: str = Field(sa_column=Column(String, ForeignKey("gpu.uuid"), primary_key=True))
    slot: int = Field(primary_key=True)
    task_id: str = Field(sa_column=Column(String, ForeignKey("task.id"), nullable=False, index=True))
    claimed_at: float = Field(sa_type=InstantColumn)


class PortLease(SQLModel, table=True):
    """A port of a host that a gang meets at. Like `Lease`: the primary key is the invariant."""

    __tablename__ = "port_lease"

    host_id: str = Field(primary_key=True)
    port: int = Field(primary_key=True)
    task_id: str = Field(sa_column=Column(String, ForeignKey("task.id"), nullable=False, index=True))


class GpuMinute(SQLModel, table=True):
    """Averages of one GPU over one minute, as far as it measures; kept for some days."""

    __tablename__ = "gpu_minute"
    __table_args__ = ({"sqlite_with_rowid": False},)

    gpu_uuid: str = Field(primary_key=True)
    minute: int = Field(primary_key=True)
    """Minutes since the epoch."""
    utilization: float | None = None
    memory_bytes: float | None = None
    temperature: float | None = None
    power_w: float | None = None


class Event(SQLModel, table=True):
    """What happened, in order. Each stands in the same transaction as the change that it tells of."""

    __table_args__ = (Index("event_by_job", "job_id", "id"), {"sqlite_autoincrement": True})

    id: int | None = Field(default=None, primary_key=True)
    at: float = Field(sa_type=InstantColumn)
    kind: str
    job_id: str | None = None
    host_id: str | None = None
    code: str = ""
    message: str = Field(default="", sa_type=Text)
    data: dict[str, Any] = Field(default_factory=dict, sa_column=json_column())
    actor: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Who asked for it; empty: the service itself acted."""


class PolicyChoice(SQLModel, table=True):
    """The policies that were in force, newest last."""

    __tablename__ = "policy"

    id: int | None = Field(default=None, primary_key=True)
    at: float = Field(sa_type=InstantColumn)
    algorithm: str
    metric: str
    params: dict[str, Any] = Field(sa_column=json_column())


class Profile(SQLModel, table=True):
    """What a job last reported of itself. One row a job, written by its worker SDK's reports."""

    job_id: str = Field(sa_column=Column(String, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True))
    attempt: int
    reported_at: float = Field(sa_type=InstantColumn)
    init_batch: int
    max_batch: int
    min_local: int
    max_local: int | None = None
    accumulate: bool
    atomic_batch: int
    """Samples a GPU in one pass, now."""
    accumulation: int
    why: str = Field(default="", sa_type=Text)
    """Why the batch is what it is."""
    noise_scale: float | None = None
    """Samples; None: not known yet."""
    epoch: int = 0
    epochs: int | None = None
    position: int = 0
    """Samples of this epoch that are done, of `epoch_samples`."""
    epoch_samples: int = 0
    steps: int = 0
    startup_seconds: float | None = None  # None: not known


class PassMeasurement(SQLModel, table=True):
    """Measured passes of a job, together for each kind of allocation and batch."""

    __tablename__ = "observation"

    job_id: str = Field(sa_column=Column(String, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True))
    gpu_type: str = Field(primary_key=True)
    num_nodes: int = Field(primary_key=True)
    num_gpus: int = Field(primary_key=True)
    atomic_batch: int = Field(primary_key=True)
    passes: int
    """Passes that the means stand for, at most `observations.COUNT_CAP`: newer ones keep weight."""
    grad_time: float
    iter_time: float
    at: float = Field(sa_type=InstantColumn)


class Metric(SQLModel, table=True):
    """What a job logged under one name, thinned as it grows."""

    job_id: str = Field(sa_column=Column(String, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True))
    name: str = Field(primary_key=True)
    points: list[list[float]] = Field(sa_column=json_column())
    """[step, value, seconds since the epoch] of each, oldest first."""
    last: float | None = None
    """This and the next two: of all values, also of those that were thinned out."""
    lowest: float | None = None
    highest: float | None = None


METADATA = tables.Account.metadata
"""All of the tables above, and those of other modules that were imported."""
