"""What the scheduler knows of everything that is not finished: records of jobs, tasks, hosts and GPUs. Pure.

The store makes them from its rows, in the order of their fields (`store/cluster_state.py`). They are tuples, since a
turn reads ten thousand of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from typing_extensions import TypedDict

from schedulearn.scheduler.core.model import Metric
from schedulearn.scheduler.core.states import HostState, JobStatus, Parking, TaskStatus
from schedulearn.scheduler.core.task import GIB, RunAs


class Job(NamedTuple):
    """One job, without the keys that only its start needs. Times are seconds since the epoch."""

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
    """That all of its GPUs must have; None: any."""
    priority: int
    weight: float
    metric: Metric | None
    """In place of the policy's; None: as the policy says."""
    deadline: float | None
    max_duration: float | None
    max_restarts: int
    grace_period: float
    user: str
    family: str
    resize: str
    status: JobStatus
    reason: str
    message: str
    version: int
    attempt: int
    restarts: int
    retries: int
    losses: int
    on_hang: str | None
    """What is done when it hangs; None: as the settings say."""
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
    """Path in the container -> key of data that jobs share."""
    checkpoint_host: str | None
    generation: int
    trained: int
    meeting: str
    forming_at: float | None
    target: Mapping[str, int] | None
    resized_at: float | None
    resized_from: Mapping[str, int] | None
    after: After | None
    idle_timeout: float | None = None
    gpu_memory: int | None = None
    """Bytes that it asks for of each of its GPUs."""
    cpus: float | None = None
    """Processors that it may use at most; None: no bound."""
    memory_bytes: int | None = None
    """None: its share of the host's memory."""
    shm_bytes: int = GIB


class After(TypedDict):
    """Which jobs end before one may start, and how."""

    jobs: list[str]
    when: Literal["ok", "any"]
    """`ok`: each must succeed; `any`: whatever becomes of them."""


class EarlyFailure(TypedDict):
    """A job that failed at its start, or soon after it, for the fault of its host or GPU."""

    who: str
    """Failures of one count once: what one person or one start tells is no proof against a host."""
    why: str
    at: float


class Task(NamedTuple):
    """One container of a job: as it should be, and what became of it."""

    id: str
    job_id: str
    attempt: int
    rank: int
    generation: int
    host_id: str
    gpu_uuids: Sequence[str]
    state: TaskStatus
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
        """It was not seen running yet."""
        return self.state is TaskStatus.WANTED

    @property
    def running(self) -> bool:
        return self.state is TaskStatus.RUNNING


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
    """For `topology.from_text`."""
    gpu_fault: str = ""
    """Why it takes no more jobs with GPUs; empty: it does."""
    gpu_failures: Sequence[EarlyFailure] = ()
    """In a row, oldest first."""

    @property
    def active(self) -> bool:
        """It takes jobs: nobody has closed it."""
        return self.state is HostState.ACTIVE


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
    """Why it can't be asked now; empty: it can."""
    cordoned: bool = False
    """An operator closed it: its jobs go on, no others start."""
    drain_until: float | None = None
    """When a job that still has it is stopped; None: it is not drained."""
    failures: Sequence[EarlyFailure] = ()
    """In a row, oldest first."""
    fault_kind: str = ""
    """What follows from `fault`, see `outcomes.gpu_health.FaultKind`."""

    @property
    def is_usable(self) -> bool:
        """Whether a job may start on it, as far as the GPU goes."""
        return not (self.fault or self.occupied or self.unwatched or self.cordoned)


class JobProgress(NamedTuple):
    """How far a job says that its training is."""

    job_id: str
    epoch: int
    epochs: int | None
    position: int
    epoch_samples: int


Leases = Mapping[str, Mapping[int, str]]
"""GPU -> slot -> id of the task that holds it."""


@dataclass(frozen=True)
class ClusterState:
    """Everything that is not finished, as of one moment."""

    jobs: Mapping[str, Job]
    starting: Mapping[str, Mapping[str, object]]
    """By job, of those with tasks that are yet to start: the keys that only its start needs."""
    run_as: Mapping[str, RunAs]
    """By user, of those jobs: as whom their tasks may write folders of the hosts."""
    tasks: Sequence[Task]
    """Those that have not ended."""
    hosts: Sequence[Host]
    """In the order in which they are served."""
    gpus: Sequence[Gpu]
    """Those that are present."""
    leases: Leases
    last_host: str | None
    """Where the first task of a job was placed last."""
    ports: Mapping[str, int]
    """Task id -> port of the gang that it is the first of."""
    progress: Mapping[str, JobProgress]
    """By job, of those that have said how far they are."""
    ended: Mapping[str, JobStatus]
    """How those jobs ended that others were to wait for."""


class Timed(Protocol):
    """What has run since some time, with pauses; times are seconds since the epoch."""

    @property
    def started_at(self) -> float | None: ...
    @property
    def paused_at(self) -> float | None: ...
    @property
    def paused_seconds(self) -> float: ...


def run_seconds(task: Timed, now: float, started_at: float | None = None) -> float:
    """Seconds that a task has run by `now`, pauses left out; 0 if it did not start. `started_at`: when, if that is not
    stored yet."""
    started = started_at or task.started_at
    if started is None:
        return 0.0
    until = task.paused_at if task.paused_at is not None else now
    return max(0.0, until - started - task.paused_seconds)
