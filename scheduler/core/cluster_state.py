"""Records of unfinished jobs and tasks, and of hosts and GPUs. Pure.

The store makes them from its rows, in the order of their fields (`store/cluster_state.py`). They are tuples, since a
scheduling cycle reads ten thousand of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from typing_extensions import TypedDict

from schedulearn.scheduler.core.model import Metric
from schedulearn.scheduler.core.states import HostState, JobState, Parking, TaskPhase
from schedulearn.scheduler.core.task import GIB, RunAs


class Job(NamedTuple):
    """Job without the keys that only its start needs. Times are seconds since the epoch."""

    id: str
    name: str
    container_image: str
    pull: str
    launcher: str
    layer: str
    required_gpus: int
    min_gpus: int
    max_gpus: int
    elastic: bool
    gpu_type: str | None
    """Types that the job's GPUs may have, separated by commas; None allows any."""
    priority: int
    weight: float
    metric: Metric | None
    """Objective of this job; None selects the policy's."""
    deadline: float | None
    max_duration: float | None
    max_restarts: int
    grace_period: float
    user: str
    family: str
    resize: str
    state: JobState
    reason: str
    message: str
    version: int
    attempt: int
    restarts: int
    retries: int
    losses: int
    on_hang: str | None
    """Action when the job hangs; None uses the settings' default."""
    hangs: int
    equal_exits: int
    last_exit: int | None
    submitted_at: float
    started_at: float | None
    run_seconds: float
    gpu_seconds: float
    pull_percent: float | None
    not_before: float | None
    fetch_hosts: Sequence[str]
    inputs: Mapping[str, str]
    """Path in the container -> key of shared data."""
    checkpoint_host: str | None
    generation: int
    trained: int
    meeting: str
    forming_at: float | None
    target: Mapping[str, int] | None
    resized_at: float | None
    resized_from: Mapping[str, int] | None
    after: After | None
    preemptible: bool = False
    """Whether jobs of higher priority may stop it, though it is rigid."""
    idle_timeout: float | None = None
    gpu_memory: int | None = None
    """Bytes requested on each of the job's GPUs."""
    cpus: float | None = None
    """Maximum number of processors; None means no limit."""
    memory_bytes: int | None = None
    """Memory limit; None means the job's share of the host's memory."""
    shm_bytes: int = GIB
    start_after: float | None = None
    held_at: float | None = None
    """Time since which the job may not run; None: it may."""
    released_at: float | None = None
    """Time of the last release; None: it was never held."""
    held_by: str = ""
    """Account that held it."""
    host_constraints: HostConstraints | None = None
    """Constraints on its hosts, beside `gpu_type`; None: any host will do."""


class After(TypedDict):
    """Jobs that must end before a job may start, and how they must end."""

    jobs: list[str]
    when: Literal["ok", "any"]
    """`ok`: each must succeed; `any`: each must end, with any result."""


class HostConstraints(TypedDict, total=False):
    """Constraints of a job on its hosts. A missing key is no constraint."""

    hosts: list[str]
    """Names, and labels as `key=value`. A host must have one of the names, and one value of each key."""
    exclude_hosts: list[str]
    """Names and labels of hosts where the job does not run."""
    gpu_memory_min: int
    """Minimum bytes of each GPU."""
    exclusive: bool
    """Whether it runs only on hosts where no other job runs."""


class EarlyFailure(TypedDict):
    """Failure of a job at or soon after its start, caused by its host or GPU."""

    who: str
    """Source of the failure. Failures of one source count once: one person or start does not prove a host faulty."""
    why: str
    at: float


class Task(NamedTuple):
    """One container of a job: desired state and outcome."""

    id: str
    job_id: str
    attempt: int
    rank: int
    generation: int
    host_id: str
    gpu_uuids: Sequence[str]
    state: TaskPhase
    stop: bool
    created_at: float
    started_at: float | None
    finished_at: float | None
    exit_code: int | None
    outcome: str
    error: str
    image: str
    paused_at: float | None
    paused_seconds: float
    energy_joules: float
    memory_peak: int | None = None

    @property
    def wanted(self) -> bool:
        """Whether the task has not been seen running yet."""
        return self.state is TaskPhase.WANTED

    @property
    def running(self) -> bool:
        return self.state is TaskPhase.RUNNING


class Host(NamedTuple):
    id: str
    address: str
    network: str
    origin: str
    state: HostState
    labels: Mapping[str, str]
    drain_until: float | None
    parking: Parking
    lost_at: float | None
    topology: str = ""
    """Input of `topology.from_text`."""
    gpu_fault: str = ""
    """Why the host takes no more GPU jobs; empty if it does."""
    gpu_failures: Sequence[EarlyFailure] = ()
    """Consecutive early failures, oldest first."""
    window_id: int | None = None
    """Maintenance window that drained it; None: none did. An operator's own drain has none."""

    @property
    def active(self) -> bool:
        """Whether the host takes jobs, thus is not cordoned."""
        return self.state is HostState.ACTIVE


class MaintenanceWindow(NamedTuple):
    """Maintenance window: its next or present occurrence. Times are seconds since the epoch."""

    id: int
    hosts: Sequence[str]
    """Empty: all hosts."""
    starts_at: float
    ends_at: float
    reason: str
    cron: str
    """Cron expression of its starts; empty: it takes place once."""
    time_zone: str
    stops_rigid_s: float
    """Seconds after its start at which rigid jobs are stopped too."""
    told: Sequence[str]
    """Running jobs that know of this occurrence."""
    longest_gap: float = math.inf
    """Maximum seconds from the end of an occurrence to the start of the next; infinite: it takes place once."""

    def covers(self, host_id: str) -> bool:
        return not self.hosts or host_id in self.hosts


class Gpu(NamedTuple):
    uuid: str
    host_id: str
    ordinal: int
    type: str
    memory_bytes: int
    simulated: bool
    fault: str
    occupied: str
    island: int | None
    numa: int | None
    unwatched: str = ""
    """Why the GPU can't be monitored now; empty if it can."""
    cordoned: bool = False
    """Whether an operator cordoned the GPU: its jobs continue, and no others start."""
    drain_until: float | None = None
    """Time at which jobs that still hold the GPU are stopped; None if it is not drained."""
    failures: Sequence[EarlyFailure] = ()
    """Consecutive early failures, oldest first."""
    fault_kind: str = ""
    """Kind of `fault`, which determines its consequences. See `outcomes.gpu_health.FaultKind`."""

    @property
    def is_usable(self) -> bool:
        """Whether the state of the GPU itself allows a job to start on it."""
        return not (self.fault or self.occupied or self.unwatched or self.cordoned)


class JobProgress(NamedTuple):
    """Training progress that a job reported."""

    job_id: str
    epoch: int
    epochs: int | None
    position: int
    epoch_samples: int


class ProgressInLog(NamedTuple):
    """Training progress that was read from the log of a job's attempt. Fractions are from 0 to 1."""

    job_id: str
    attempt: int
    fraction: float
    changed_at: float
    """Time at which the script wrote it, in seconds since the epoch."""
    first_fraction: float
    """First progress of the attempt, and its time."""
    first_at: float


Leases = Mapping[str, Mapping[int, str]]
"""GPU -> slot -> id of the task that holds the slot."""


@dataclass(frozen=True)
class ClusterState:
    """Unfinished jobs and tasks, with all hosts and GPUs, at one moment."""

    jobs: Mapping[str, Job]
    starting: Mapping[str, Mapping[str, object]]
    """Job id -> keys that only its start needs, for jobs with tasks that have not started."""
    run_as: Mapping[str, RunAs]
    """User -> account that tasks use to write to folders of the hosts, for the users of the jobs in `starting`."""
    tasks: Sequence[Task]
    """Tasks that have not ended."""
    hosts: Sequence[Host]
    """Hosts in the order in which they are served."""
    gpus: Sequence[Gpu]
    """GPUs that are present."""
    leases: Leases
    last_host: str | None
    """Host of the most recently placed first task of a job."""
    ports: Mapping[str, int]
    """Id of a gang's first task -> port of the gang."""
    progress: Mapping[str, JobProgress]
    """Job id -> progress, for jobs that reported it."""
    ended: Mapping[str, JobState]
    """Job id -> final state, for jobs that other jobs waited for."""
    in_logs: Mapping[str, ProgressInLog] = field(default_factory=dict)
    """Job id -> progress, for jobs whose log shows it."""
    windows: Sequence[MaintenanceWindow] = ()
    """Maintenance windows that are not over."""


class Timed(Protocol):
    """Protocol of records with a start time and pauses. Times are seconds since the epoch."""

    @property
    def started_at(self) -> float | None: ...
    @property
    def paused_at(self) -> float | None: ...
    @property
    def paused_seconds(self) -> float: ...


def run_seconds(task: Timed, now: float, started_at: float | None = None) -> float:
    """Return the seconds that a task has run by `now`, without pauses; 0 if it did not start.

    `started_at` is the start time, if the task's record does not have it yet.
    """
    started = started_at or task.started_at
    if started is None:
        return 0.0
    until = task.paused_at if task.paused_at is not None else now
    return max(0.0, until - started - task.paused_seconds)
