"""The nouns of scheduling: what a policy sees (`Snapshot`) and what it answers (`Plan`).

Frozen values only: no I/O, no clock, no randomness. The live service and the simulator build the same
snapshots, so a policy cannot tell which of the two it runs in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from schedulearn.metrics.model.goodput import GoodputFunction

Metric = Literal["default", "speed", "cost"]
"""What a job of its own may be decided by, where the policy has several metrics."""
METRICS: tuple[Metric, ...] = get_args(Metric)
Allocation = Mapping[str, int]
"""host id -> number of GPUs there; an empty mapping means that the job holds nothing."""

RESTART_S = 20.0
"""What a restart on other GPUs costs in training time where nothing was measured: the old container ends, the new one
starts, and the script imports and loads its checkpoint again. `python -m bench sdk` measures it."""
IN_PLACE_S = 1.0
"""The same for a job that is resized in place."""
RESTART_STARTS = 2.0
"""A restart takes so many times as long as the job's first start did: the old processes save and end, and the new ones
load. Measured were 1.5 to 2.5."""


class Basis(StrEnum):
    """What a predicted length rests on, the most trustworthy first."""

    PROGRESS = "progress"
    FAMILY = "family"
    GUESS = "guess"

    @property
    def spread(self) -> float:
        """The true length is expected within this factor of the predicted one, either way."""
        return {"progress": 1.15, "family": 1.5, "guess": 3.0}[self.value]


def gpu_count(number: int) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{number} GPU{'s' * (number != 1)}"


@dataclass(frozen=True)
class HostView:
    """A host as a policy sees it: only what may be scheduled on now."""

    id: str
    gpus: int
    """GPUs that may hold a job now; 0 on a host that is drained or unreachable."""
    gpu_type: str = "gpu"
    labels: Mapping[str, str] = field(default_factory=dict)
    open: bool = True
    """False on a cordoned host: `gpus` counts what its jobs still hold, and no other job may go there."""
    parked_gpus: int = 0
    """GPUs that could be had by switching the host on again."""
    gpu_jobs: tuple[int, ...] = ()
    """Jobs on each of the `gpus` now, for policies that share GPUs; empty: derived from the jobs' allocations."""
    gpu_utilization: tuple[float, ...] = ()
    """Measured utilisation of each of the `gpus` in per cent, in the same order; empty: unknown."""
    gpu_leaving: tuple[bool, ...] = ()
    """Which of the `gpus`, in the same order, are still held by a job that is about to leave them: they may be planned
    with, and nothing can start on them yet. `gpu_jobs` does not count those jobs. Empty: none."""
    gpu_memory_left: tuple[int, ...] = ()
    """Bytes that the jobs on each of the `gpus`, in the same order, are predicted to leave free at their peak; empty:
    not known, or the policy lets no jobs share."""
    part_of: str = ""
    """The machine whose GPUs of one type these are, where it has several types; empty: this is the whole machine."""

    @property
    def machine(self) -> str:
        return self.part_of or self.id

    @property
    def leaving(self) -> int:
        """GPUs that are about to be free."""
        return sum(self.gpu_leaving)


@dataclass(frozen=True)
class JobView:
    """A job that is not finished, as a policy sees it. Times are in seconds, `submitted_at` since the epoch."""

    id: str
    submitted_at: float
    required_gpus: int
    min_gpus: int = 1
    max_gpus: int = 1
    """Already capped to what may be tried now (`TRIES` times the largest profiled count)."""
    elastic: bool = False
    priority: int = 50
    weight: float = 1.0
    metric: Metric | None = None
    """In place of the policy's for this job, with policies that have several; None: the policy's."""
    deadline: float | None = None
    attained_gpu_seconds: float = 0.0
    run_seconds: float = 0.0
    restarts: int = 0
    """With resizes in place: how often it was disturbed."""
    allocation: Allocation = field(default_factory=dict)
    """What it holds; while it is stopped and started again for a resize, what it will hold."""
    held_seconds: float | None = None
    """How long it has run on its allocation: 0 while it starts or is resized. None: not known."""
    gpu_indices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """host id -> which of the host's GPUs the job holds, counted as in `HostView.gpu_jobs`; empty: not known."""
    remaining: float | None = None
    """Predicted seconds left on one GPU; None if unknown."""
    basis: Basis | None = None
    """What `remaining` rests on."""
    goodput: GoodputFunction | None = None
    """None: a rigid job, or one that is not profiled yet."""
    profiled_gpus: int | None = None
    """The most GPUs that `goodput` was measured on; None if unknown."""
    gpu_memory: int | None = None
    """Bytes that it is predicted to take of each of its GPUs at its peak; None if unknown."""
    gpu_type: str | None = None
    """That all of its GPUs must have; None: any. What is laid over policies sees to it: they need not look at it."""
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Machine -> why its image can't run on the GPUs there. As with `gpu_type`, policies need not look at it."""
    user: str = ""
    """Whose it is. Quotas and fair shares are laid over policies: they need not look at it."""
    resize_seconds: float | None = None
    """What it costs in training time to be resized, as measured; None if unknown. By a restart, or `in_place`."""
    in_place: bool = False
    """Whether it is resized without a restart as long as it stays on its one host."""
    startup_seconds: float | None = None
    """How long it took from its start to its first step; None if unknown."""

    @property
    def restart_cost(self) -> float:
        """What it costs to be resized where it is: as measured, else what is to be expected."""
        if self.resize_seconds is not None:
            return self.resize_seconds
        return IN_PLACE_S if self.in_place else self._start_cost

    @property
    def move_cost(self) -> float:
        """What it costs to leave its host: a restart in any case."""
        return self._start_cost if self.in_place else self.restart_cost

    @property
    def join_seconds(self) -> float:
        """How long GPUs that it grows by in place are held before they train: it goes on while their workers start."""
        return (self.startup_seconds or 0.0) if self.in_place else 0.0

    @property
    def _start_cost(self) -> float:
        return RESTART_S if self.startup_seconds is None else RESTART_STARTS * self.startup_seconds

    @property
    def order(self) -> tuple[float, int, str]:
        """Submission order, with ties broken by id: the same for every permutation of a snapshot's jobs."""
        return (self.submitted_at, len(self.id), self.id)

    @property
    def gpus(self) -> int:
        """GPUs held now."""
        return sum(self.allocation.values())


@dataclass(frozen=True)
class Snapshot:
    """Everything that a decision may depend on."""

    now: float
    seed: int
    hosts: tuple[HostView, ...]
    jobs: tuple[JobView, ...]
    last_host: str | None = None
    """Where the last new job was placed, for policies that take turns; None at first."""
    scales: bool = True
    """Whether anybody heeds how many hosts a plan wants; else a policy need not work that out."""

    def machines(self) -> dict[str, str]:
        """host id -> the machine that it is, or is a part of."""
        return {host.id: host.machine for host in self.hosts}

    def held_gpus(self) -> dict[str, frozenset[tuple[str, int]]]:
        """job id -> the (host id, index) of each GPU that a running job holds. Where its `gpu_indices` are not known,
        it is taken to hold the emptiest GPUs of its host, as placement would have chosen them, oldest jobs first."""
        width = {host.id: host.gpus for host in self.hosts}
        jobs_on = {host.id: [0] * host.gpus for host in self.hosts}
        held: dict[str, frozenset[tuple[str, int]]] = {}
        for known in (True, False):
            for job in sorted(self.jobs, key=lambda job: job.order):
                if not job.allocation or bool(job.gpu_indices) != known:
                    continue
                mine = set()
                for host_id, gpus in job.allocation.items():
                    counts = jobs_on.get(host_id, [])
                    emptiest = sorted(range(len(counts)), key=lambda i: (counts[i], i))[:gpus]
                    for index in job.gpu_indices.get(host_id, ()) if known else emptiest:
                        if index < width.get(host_id, 0):
                            counts[index] += 1
                            mine.add((host_id, index))
                held[job.id] = frozenset(mine)
        return held


class Explanation(str):
    """A sentence that explains a decision, with a machine-readable `code` beside it."""

    code: str

    def __new__(cls, code: str, sentence: str) -> Explanation:
        why = super().__new__(cls, sentence)
        why.code = code
        return why


@dataclass(frozen=True)
class Plan:
    """A decision for every job of the snapshot. A job that is missing from `allocations` gets nothing."""

    allocations: Mapping[str, Allocation]
    desired_hosts: int | None = None
    parks_idle_only: bool = False
    """No job has to leave its host so that fewer are on: only hosts without jobs are parked."""
    utility: float | None = None
    """Sum of the jobs' speedups over the GPUs that may be used: by it hosts are scaled. None: the policy knows none."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """job id -> why it waits or why it was resized, as a sentence with numbers (an `Explanation` has a code too)."""
    jobs_per_gpu: int = 1
    """How many jobs may share one GPU under this plan."""
    max_utilization: float = 100.0
    """A GPU that has a job already is shared only below this utilisation, in per cent."""
    suspended: frozenset[str] = frozenset()
    """Jobs that hold their allocation, but pause: they have a process in memory (or are yet to get one) and do not run
    now. On a GPU where one pauses, at most one other job runs."""
    review_at: float | None = None
    """The policy should be asked again at this time, whatever happens until then; None: no need."""
