"""Tables of the database, with constraints for the invariants.

A GPU slot has at most one lease, and a job at most one live task per rank. Times are seconds since the epoch (UTC). A
change of this file needs a migration (a test compares them).
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

from schedulearn.scheduler.core.states import HostState, JobState, Parking, TaskPhase
from schedulearn.scheduler.store.columns import EnumColumn, InstantColumn, json_column, json_or_none_column
from schedulearn.scheduler.store.people import tables

_STATES = ", ".join(f"'{state.value}'" for state in JobState)


class Meta(SQLModel, table=True):
    """Facts about this database, e.g. `cluster_id`, which identifies the service's containers."""

    key: str = Field(primary_key=True)
    value: str


class Job(SQLModel, table=True):
    """Job as submitted, and its state."""

    __table_args__ = (
        CheckConstraint(f"state IN ({_STATES})", name="job_status"),
        CheckConstraint("required_gpus >= 0 AND min_gpus >= 0 AND max_gpus >= min_gpus", name="job_gpus"),
        CheckConstraint("priority BETWEEN 0 AND 100", name="job_priority"),
        CheckConstraint("(finished_at IS NOT NULL) = (state IN ('succeeded','failed','cancelled','timeout'))",
                        name="job_finished"),
        Index("job_by_state", "state", "submitted_at"),
        Index("job_by_family", "family", "finished_at", sqlite_where=text("attempt > 0"),
              postgresql_where=text("attempt > 0")),
        Index("job_by_time", "submitted_at", "id"),
        Index("job_by_keeping", "keep_state", sqlite_where=text("keep_state = 'pending'"),
              postgresql_where=text("keep_state = 'pending'")),
        Index("job_by_sweep", "sweep", sqlite_where=text("sweep IS NOT NULL"),
              postgresql_where=text("sweep IS NOT NULL")),
        Index("job_by_schedule", "schedule", sqlite_where=text("schedule IS NOT NULL"),
              postgresql_where=text("schedule IS NOT NULL")),
    )  # fmt: skip

    id: str = Field(primary_key=True)
    name: str
    spec: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False, server_default="{}"))
    """Keys that the user set and that have no column (store/job_rows.py)."""
    container_image: str
    pull: str = Field(default="missing", sa_column_kwargs={"server_default": "missing"})
    """`always`: the image is pulled again on each host where the job starts; else `missing`."""
    required_gpus: int
    min_gpus: int
    max_gpus: int
    elastic: bool
    preemptible: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    """Whether jobs of higher priority may stop it, though it is rigid."""
    priority: int
    weight: float
    metric: str | None = None
    """Objective of this job, instead of the policy's."""
    gpu_memory: int | None = Field(default=None, sa_type=BigInteger)
    """Bytes that the job requests of each of its GPUs, if jobs share GPUs."""
    deadline: float | None = Field(sa_type=InstantColumn)
    max_duration: float | None
    max_restarts: int
    launcher: str
    grace_period: float = Field(sa_column=Column(Float, nullable=False, server_default="10"))
    shm_bytes: int = Field(sa_type=BigInteger)
    cpus: float | None = None
    memory_bytes: int | None = Field(default=None, sa_type=BigInteger)
    inputs: dict[str, str] = Field(sa_column=Column(JSON, nullable=False, server_default="{}"))
    """Path in the container -> data there: a version by its digest, or the outputs of a job."""
    keep_state: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """`pending` until the data sets of the key `keep` are published or can't be, then `done`; empty: there are none."""
    layer: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Identifier of the content of the key `requirements`."""
    gpu_type: str | None = None
    """Types that its GPUs may have, separated by commas; None: any."""
    host_constraints: dict[str, Any] | None = Field(default=None, sa_column=json_or_none_column())
    """A `HostConstraints`, from its keys; None: there are none."""
    idle_timeout: float | None = None
    """Seconds without a connection to the job's ports after which it is ended."""
    labels: dict[str, str] = Field(sa_column=json_column())
    user: str
    family: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Jobs of one family share predictions. Empty only for jobs older than the key `family`."""

    state: JobState = Field(sa_column=Column(EnumColumn(JobState), nullable=False))
    reason: str
    message: str = Field(sa_type=Text)
    version: int = 0
    """Incremented by every change. A change decided on another version is dropped."""
    attempt: int = 0
    restarts: int = 0
    retries: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Restarts after failures of the command, which `max_restarts` bounds; `restarts` counts all."""
    losses: int = 0
    on_hang: str | None = None
    """`warn`, `restart` or `end`; None: as in the settings."""
    hangs: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Number of restarts because the job hung."""
    equal_exits: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Number of consecutive times that the command ended with the code `last_exit` soon after its start."""
    last_exit: int | None = None
    exit_code: int | None = None
    submitted_at: float = Field(sa_type=InstantColumn)
    started_at: float | None = Field(default=None, sa_type=InstantColumn)
    finished_at: float | None = Field(default=None, sa_type=InstantColumn)
    run_seconds: float = 0.0
    """Run time of the attempts that have ended."""
    gpu_seconds: float = 0.0
    pull_percent: float | None = None
    not_before: float | None = Field(default=None, sa_type=InstantColumn)
    """Earliest time of the next start after a failure of the command; None, or in the past: at any time."""
    fetch_hosts: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False, server_default="[]"))
    """Hosts that fetch the job's image while it is `pulling`."""
    checkpoint_host: str | None = None
    """Host that has the newest checkpoints: the one on which the job's first task ran last."""
    resize: str = Field(default="restart", sa_column_kwargs={"server_default": "restart"})
    """`in-place`: workers join and leave while the job trains, if that is possible; else `restart`."""
    generation: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Generation of the workers, incremented by each attempt, and by each request to join or leave within one."""
    trained: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Last generation that was observed to train."""
    meeting: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Rendezvous of the workers of this generation, as reported by the first one; empty: not reported yet."""
    forming_at: float | None = Field(default=None, sa_type=InstantColumn)
    """Time since which training is suspended for a change of workers; None: it is not."""
    target: dict[str, int] | None = Field(default=None, sa_column=json_or_none_column())
    """Allocation that the job will hold when it starts again after a resize, as a policy sees it.

    None: the job is not being resized by restart, or gives up all its GPUs."""
    resized_at: float | None = Field(default=None, sa_type=InstantColumn)
    """Time when the last resize was decided."""
    resized_from: dict[str, int] | None = Field(default=None, sa_column=json_or_none_column())
    """Allocation before the last resize; None: the gain and cost of the resize were already reported."""
    start_after: float | None = Field(default=None, sa_type=InstantColumn)
    """Earliest time of the first start; None: at any time."""
    start_delay: float | None = None
    """Seconds from the submission to `start_after`, if the user named a delay; None: the user named a time."""
    held_at: float | None = Field(default=None, sa_type=InstantColumn)
    """Time since which the job is held: it does not start, or is paused. None: it is not held."""
    released_at: float | None = Field(default=None, sa_type=InstantColumn)
    """Time of the last release. None: it was never held."""
    held_by: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Account that held the job."""
    sweep: str | None = None
    """Sweep of which the job is a run; see the table `SweepRun`."""
    schedule: str | None = None
    """Schedule of which the job is a run; see the feature `recurring`."""
    after: dict[str, Any] | None = Field(default=None, sa_column=json_or_none_column())
    """An `After`: the jobs for whose end this job waits."""
    params: dict[str, Any] | None = Field(default=None, sa_column=json_or_none_column())
    """Parameters of that run."""
    idempotency_key: str | None = Field(default=None, unique=True)
    request_hash: str | None = None


class Task(SQLModel, table=True):
    """One container: the desired state that the loop establishes, then its result."""

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
    """Generation of the job's workers with which the task begins; 0: no resize in place in this attempt."""
    host_id: str
    gpu_uuids: list[str] = Field(sa_column=json_column())
    state: TaskPhase = Field(
        default=TaskPhase.WANTED, sa_column=Column(EnumColumn(TaskPhase), nullable=False, default=TaskPhase.WANTED)
    )
    stop: bool = False
    created_at: float = Field(sa_type=InstantColumn)
    started_at: float | None = Field(default=None, sa_type=InstantColumn)
    finished_at: float | None = Field(default=None, sa_type=InstantColumn)
    exit_code: int | None = None
    outcome: str = ""
    """Machine-readable reason of its end, a `Reason`; empty while it lives."""
    error: str = Field(default="", sa_type=Text)
    image: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Digest or id of the image that it ran, if the engine reports it."""
    paused_at: float | None = Field(default=None, sa_type=InstantColumn)
    """Begin of the current pause; None while it is not paused."""
    paused_seconds: float = Field(default=0.0, sa_column_kwargs={"server_default": "0"})
    """Duration of its ended pauses, which count neither as run time nor as service."""
    energy_joules: float = Field(default=0.0, sa_column_kwargs={"server_default": "0"})
    """Energy that its GPUs drew while it ran, if they can measure it."""
    memory_peak: int | None = Field(default=None, sa_type=BigInteger)
    """Maximum memory that was measured, in bytes; None: it was not measured."""


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
    """Rank of the host for policies that use an order of hosts."""
    origin: str = Field(default="embedded", sa_column_kwargs={"server_default": "embedded"})
    """`embedded`, `settings` or `api`: the source that defines the host, and from which it can be removed."""
    engine_id: str | None = None
    """Id of the engine, once known. Unique: two agents on one engine would end each other's containers."""
    simulated_gpus: int | None = None
    """Number of simulated GPUs, instead of those that its probe finds."""
    tls: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Folder with ca.pem, cert.pem and key.pem for a tcp:// address; empty: no TLS."""
    network: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Address or name of the interface by which the other hosts reach it; empty: detected."""
    drain_until: float | None = Field(default=None, sa_type=InstantColumn)
    """Deadline of a drain: jobs that still run there then are stopped. The state is `cordoned` meanwhile."""
    parking: Parking = Field(
        default=Parking.NONE,
        sa_column=Column(EnumColumn(Parking), nullable=False, default=Parking.NONE, server_default=""),
    )
    """`emptying` or `parked`, decided by the policy and not by an operator. The state is `cordoned` meanwhile."""
    lost_at: float | None = Field(default=None, sa_type=InstantColumn)
    """Time when the host was found silent for too long; None: it answers, or has been silent only briefly."""
    driver: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Version of the NVIDIA driver, as last reported by the probe; empty: no GPU was found."""
    topology: str = Field(default="", sa_column=Column(Text, nullable=False, server_default=""))
    """Topology for `core.topology.from_text`, as last reported by the probe."""
    gpu_fault: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Reason why it accepts no more jobs with GPUs; empty: it does. Jobs without GPUs still run there."""
    gpu_failures: list[dict[str, Any]] = Field(
        default_factory=list, sa_column=Column(JSON, nullable=False, server_default="[]")
    )
    """Consecutive early failures of GPU jobs (core.outcomes.early_failures)."""
    window_id: int | None = None
    """Maintenance window that drained it; None: none did."""


class Gpu(SQLModel, table=True):
    uuid: str = Field(primary_key=True)
    host_id: str = Field(sa_column=Column(String, ForeignKey("host.id", ondelete="CASCADE"), nullable=False))
    ordinal: int
    type: str
    memory_bytes: int = Field(sa_type=BigInteger)
    simulated: bool
    present: bool = True
    """False once the host no longer reports it. The row stays for the leases and the history that name it."""
    fault: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Reason why it is unhealthy (Xid, ECC, gone); empty: it is healthy. An operator clears it."""
    fault_kind: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """A `FaultKind`, which determines the effect of the fault and how it ends. Empty: as `leave`."""
    island: int | None = None
    """GPUs of a host with the same number reach each other by NVLink; None: unknown."""
    numa: int | None = None
    occupied: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """User of the GPU outside this service; empty: there is none."""
    cleared_at: float | None = Field(default=None, sa_type=InstantColumn)
    """Xid errors until this time, by the clock of the host, are ignored: the GPU was returned to service."""
    ecc_accepted: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Number of uncorrected errors that are ignored for the same reason."""
    unwatched: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Reason why the driver can't report on the GPU now; empty: it can. Its jobs keep running, no others start."""
    failures: list[dict[str, Any]] = Field(
        default_factory=list, sa_column=Column(JSON, nullable=False, server_default="[]")
    )
    """Same as `Host.gpu_failures`, for this GPU."""
    compute: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Compute capability, as in 9.0; empty: not known."""
    pci: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Bus id, as in 00000000:3B:00.0; empty: not known."""
    cordoned: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    """True if an operator cordoned it: its jobs keep running, no others start."""
    drain_until: float | None = Field(default=None, sa_type=InstantColumn)
    """Deadline of a drain: a job that still has the GPU then is stopped. It is `cordoned` meanwhile."""


class Lease(SQLModel, table=True):
    """Right to use one slot of one GPU.

    The primary key ensures that no slot has two leases."""

    gpu_uuid: str = Field(sa_column=Column(String, ForeignKey("gpu.uuid"), primary_key=True))
    slot: int = Field(primary_key=True)
    task_id: str = Field(sa_column=Column(String, ForeignKey("task.id"), nullable=False, index=True))
    claimed_at: float = Field(sa_type=InstantColumn)


class PortLease(SQLModel, table=True):
    """Port of a host for the rendezvous of a gang.

    The primary key ensures that no port has two leases."""

    __tablename__ = "port_lease"

    host_id: str = Field(primary_key=True)
    port: int = Field(primary_key=True)
    task_id: str = Field(sa_column=Column(String, ForeignKey("task.id"), nullable=False, index=True))


class GpuMinute(SQLModel, table=True):
    """Averages of one GPU over one minute, if measured; kept for some days."""

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
    """Event, numbered in order, stored in the same transaction as its change."""

    __table_args__ = (
        Index("event_by_job", "job_id", "id"),
        Index("event_by_actor", "actor", "id", sqlite_where=text("actor <> ''"), postgresql_where=text("actor <> ''")),
        Index("event_by_about", "about", "id", sqlite_where=text("about <> ''"), postgresql_where=text("about <> ''")),
        {"sqlite_autoincrement": True},
    )

    id: int | None = Field(default=None, primary_key=True)
    at: float = Field(sa_type=InstantColumn)
    kind: str
    job_id: str | None = None
    host_id: str | None = None
    code: str = ""
    message: str = Field(default="", sa_type=Text)
    data: dict[str, Any] = Field(default_factory=dict, sa_column=json_column())
    actor: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Account that requested the change; empty: the service itself acted."""
    address: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Address from which the actor requested the change; empty: unknown."""
    about: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Changed thing that is neither a job nor a host, as `user:ada`."""


class PolicyChoice(SQLModel, table=True):
    """Policies that were in effect, newest last."""

    __tablename__ = "policy"

    id: int | None = Field(default=None, primary_key=True)
    at: float = Field(sa_type=InstantColumn)
    algorithm: str
    metric: str
    params: dict[str, Any] = Field(sa_column=json_column())


class Profile(SQLModel, table=True):
    """Latest report of a job's worker SDK, one row per job."""

    job_id: str = Field(sa_column=Column(String, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True))
    attempt: int
    reported_at: float = Field(sa_type=InstantColumn)
    init_batch: int
    max_batch: int
    min_local: int
    max_local: int | None = None
    accumulate: bool
    atomic_batch: int
    """Current number of samples per GPU in one micro-step."""
    accumulation: int
    why: str = Field(default="", sa_type=Text)
    """Reason for the current batch size."""
    noise_scale: float | None = None
    """Gradient noise scale in samples; None: not known yet."""
    epoch: int = 0
    epochs: int | None = None
    position: int = 0
    """Completed samples of this epoch, of `epoch_samples`."""
    epoch_samples: int = 0
    steps: int = 0
    startup_seconds: float | None = None  # None: not known


class PassMeasurement(SQLModel, table=True):
    """Mean measured micro-steps of a job, by allocation and batch."""

    __tablename__ = "observation"

    job_id: str = Field(sa_column=Column(String, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True))
    gpu_type: str = Field(primary_key=True)
    num_nodes: int = Field(primary_key=True)
    num_gpus: int = Field(primary_key=True)
    atomic_batch: int = Field(primary_key=True)
    passes: int
    """Number of micro-steps in the means, at most `observations.COUNT_CAP`, so that newer ones keep their weight."""
    grad_time: float
    iter_time: float
    at: float = Field(sa_type=InstantColumn)


class Metric(SQLModel, table=True):
    """Values that a job logged under one name, thinned as they grow."""

    job_id: str = Field(sa_column=Column(String, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True))
    name: str = Field(primary_key=True)
    points: list[list[float]] = Field(sa_column=json_column())
    """[step, value, seconds since the epoch] of each value, oldest first."""
    last: float | None = None
    """`last`, `lowest` and `highest` include the values that were thinned out."""
    lowest: float | None = None
    highest: float | None = None
    from_log: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    """Whether it was read from the job's log. Values that the SDK reports replace it."""


class ReadLog(SQLModel, table=True):
    """What was read of a job's log: how far, and the progress that it shows. One row per job, of its last attempt."""

    __tablename__ = "read_log"

    job_id: str = Field(sa_column=Column(String, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True))
    attempt: int
    task_id: str
    bytes_read: int = Field(sa_type=BigInteger)
    reading: dict[str, object] = Field(sa_column=json_column())
    """State of the parser."""
    epoch: int = 0
    epochs: int | None = None
    """None: the progress is unknown."""
    position: int = Field(default=0, sa_type=BigInteger)
    epoch_steps: int = Field(default=0, sa_type=BigInteger)
    fraction: float | None = None
    """Progress from 0 to 1."""
    changed_at: float | None = Field(default=None, sa_type=InstantColumn)
    """Time at which `fraction` was read."""
    first_fraction: float | None = None
    """First progress of this attempt, and its time."""
    first_at: float | None = Field(default=None, sa_type=InstantColumn)


METADATA = tables.AccountTable.metadata
"""Metadata of the tables above, and of those in other imported modules."""
