"""Data model of policies: their input (`Snapshot`) and their output (`Plan`).

All classes are frozen values: no I/O, no clock, no randomness. The live service and the simulator build the same
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
"""Objective that a job can set for itself, if the policy has several."""
METRICS: tuple[Metric, ...] = get_args(Metric)
Allocation = Mapping[str, int]
"""Host id -> number of GPUs on it; empty if the job holds nothing."""

PRIORITY = 50
"""Default priority of a job, 0 to 100."""
RESTART_S = 20.0
"""Default cost of a restart on other GPUs, in seconds of training time, used until it is measured.

The old container ends, the new one starts, and the script imports its modules and loads its checkpoint again.
`python -m bench sdk` measures it.
"""
IN_PLACE_S = 1.0
"""Default cost of a resize in place, in seconds of training time."""
RESTART_STARTS = 2.0
"""Ratio of the duration of a restart to that of the job's first start.

In a restart, the old processes save and end, and the new ones load. Measured ratios were 1.5 to 2.5.
"""


class Basis(StrEnum):
    """Basis of a predicted run time, most reliable first."""

    PROGRESS = "progress"
    LOG = "log"
    FAMILY = "family"
    GUESS = "guess"

    @property
    def spread(self) -> float:
        """Factor by which the true run time may exceed, or fall below, the predicted one."""
        return {"progress": 1.15, "log": 1.3, "family": 1.5, "guess": 3.0}[self.value]


def gpu_count(number: int) -> str:
    """Return `1 GPU`, `2 GPUs` and so on."""
    return f"{number} GPU{'s' * (number != 1)}"


@dataclass(frozen=True)
class HostView:
    """Host as a policy sees it, limited to what can be scheduled on now."""

    id: str
    gpus: int
    """Number of GPUs that can hold a job now; 0 if the host is drained or unreachable."""
    gpu_type: str = "gpu"
    labels: Mapping[str, str] = field(default_factory=dict)
    open: bool = True
    """False if the host is cordoned: `gpus` counts the GPUs that its jobs still hold, and no other job may start."""
    parked_gpus: int = 0
    """Number of GPUs that become available if the host is powered up again."""
    gpu_jobs: tuple[int, ...] = ()
    """Number of jobs on each of the `gpus` now, for policies that share GPUs. If empty, it is derived from the jobs'
    allocations."""
    gpu_utilization: tuple[float, ...] = ()
    """Measured utilization of each of the `gpus` in per cent, in the same order; empty if unknown."""
    gpu_leaving: tuple[bool, ...] = ()
    """Whether each of the `gpus`, in the same order, is still held by a job that is about to leave it.

    A plan may use such GPUs, but nothing can start on them yet. `gpu_jobs` does not count the leaving jobs. If empty,
    no GPU is being left.
    """
    gpu_memory_left: tuple[int, ...] = ()
    """Predicted free bytes on each of the `gpus`, in the same order, with its jobs at their peak. Empty if unknown,
    or if the policy does not share GPUs."""
    cpu_jobs: int = 0
    """Number of tasks on the machine that use none of the `gpus`. Jobs without GPUs have such tasks."""
    returning_gpus: int = 0
    """Number of GPUs of a host in maintenance, which return to service at its end."""
    part_of: str = ""
    """Id of the machine, if it has GPUs of several types and this view holds one type only. If empty, this view is the
    whole machine."""

    @property
    def machine(self) -> str:
        return self.part_of or self.id

    @property
    def leaving(self) -> int:
        """Number of GPUs that are about to become free."""
        return sum(self.gpu_leaving)


@dataclass(frozen=True)
class JobView:
    """Unfinished job as a policy sees it. Times are in seconds; `submitted_at` is in seconds since the epoch."""

    id: str
    submitted_at: float
    required_gpus: int
    min_gpus: int = 1
    max_gpus: int = 1
    """Already capped to the size that can be tried now (`TRIES` times the largest profiled number)."""
    elastic: bool = False
    preemptible: bool = False
    """Whether jobs of higher priority may stop it, though it is rigid. It then starts again."""
    priority: int = PRIORITY
    weight: float = 1.0
    metric: Metric | None = None
    """Objective of this job, for policies that have several. None selects the policy's own."""
    deadline: float | None = None
    start_after: float | None = None
    """Time before which it was not to start, or was held: until then it did not wait for GPUs."""
    attained_gpu_seconds: float = 0.0
    run_seconds: float = 0.0
    restarts: int = 0
    """Number of restarts and resizes in place, thus how often the job was disturbed."""
    allocation: Allocation = field(default_factory=dict)
    """GPUs that the job holds. While it is stopped and started again for a resize, the GPUs that it will hold."""
    held_seconds: float | None = None
    """Seconds for which the job has run on its allocation; 0 while it starts or is resized, None if unknown."""
    gpu_indices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Host id -> indices of the host's GPUs that the job holds, counted as in `HostView.gpu_jobs`; empty if unknown."""
    remaining: float | None = None
    """Predicted seconds left on one GPU; None if unknown."""
    basis: Basis | None = None
    """Source of `remaining`."""
    expected_left: float | None = None
    """Expected seconds left of a rigid job at its own size, by jobs of that size that have ended. None if no job has
    ended, or the job is elastic. It is weaker evidence than `remaining`."""
    ends_by: float | None = None
    """Time at which the maximum run time of a running job ends it; None if it has none, or the job waits."""
    goodput: GoodputFunction | None = None
    """None if the job is rigid or not profiled yet."""
    profiled_gpus: int | None = None
    """Maximum number of GPUs that `goodput` was measured on; None if unknown."""
    gpu_memory: int | None = None
    """Predicted peak memory of the job on each of its GPUs, in bytes; None if unknown."""
    gpu_type: str | None = None
    """Types that the job's GPUs may have, separated by commas; None allows any. `feasible_hosts` enforces it, so
    policies can ignore it."""
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Host or machine -> why the job can't run there, a sentence without its full stop. Policies can ignore it, like
    `gpu_type`."""
    postponed: Mapping[str, float] = field(default_factory=dict)
    """Those of `unfit` where a maintenance window is in the way -> its end. The job may run there afterwards."""
    wanted_hosts: str = ""
    """Required hosts in words that follow "2 GPUs", such as "on hosts with room=b2"; empty if any will do."""
    exclusive: bool = False
    """Whether it starts only on empty hosts, and no other job starts there while it runs. Policies can ignore it."""
    user: str = ""
    """Owner of the job. Quotas and fair shares are applied on top of policies, so policies can ignore it."""
    resize_seconds: float | None = None
    """Measured cost of a resize, by restart or `in_place`, in seconds of training time; None if unknown."""
    in_place: bool = False
    """Whether the job is resized without a restart as long as it stays on its one host."""
    startup_seconds: float | None = None
    """Seconds from the job's start to its first step; None if unknown."""

    @property
    def restart_cost(self) -> float:
        """Cost in seconds of a resize on the same host: measured if known, else estimated."""
        if self.resize_seconds is not None:
            return self.resize_seconds
        return IN_PLACE_S if self.in_place else self._start_cost

    @property
    def move_cost(self) -> float:
        """Cost in seconds of a move to another host, which always needs a restart."""
        return self._start_cost if self.in_place else self.restart_cost

    @property
    def join_seconds(self) -> float:
        """Seconds for which added GPUs are held before they train. A job resized in place trains on meanwhile."""
        return (self.startup_seconds or 0.0) if self.in_place else 0.0

    @property
    def _start_cost(self) -> float:
        return RESTART_S if self.startup_seconds is None else RESTART_STARTS * self.startup_seconds

    @property
    def order(self) -> tuple[float, int, str]:
        """Sort key by submission time, then id. It does not depend on the order of the snapshot's jobs."""
        return (self.submitted_at, len(self.id), self.id)

    @property
    def by_priority(self) -> tuple[int, tuple[float, int, str]]:
        """Sort key by priority, highest first, then by submission."""
        return -self.priority, self.order

    @property
    def needed_gpus(self) -> int:
        """Minimum number of GPUs with which the job can run."""
        return self.min_gpus if self.elastic else self.required_gpus

    def waited(self, now: float) -> float:
        """Return the seconds for which the job could have run and did not."""
        return max(0.0, now - max(self.submitted_at, self.start_after or 0.0) - self.run_seconds)

    @property
    def gpus(self) -> int:
        """Number of GPUs held now."""
        return sum(self.allocation.values())


@dataclass(frozen=True)
class Snapshot:
    """Complete input of a decision."""

    now: float
    seed: int
    hosts: tuple[HostView, ...]
    jobs: tuple[JobView, ...]
    last_host: str | None = None
    """Host on which the last new job was placed, for round-robin policies; None at first."""
    scales: bool = True
    """Whether `Plan.desired_hosts` is used. If False, a policy need not compute it."""

    def machines(self) -> dict[str, str]:
        """Return host id -> machine that the host is, or is a part of."""
        return {host.id: host.machine for host in self.hosts}

    def held_gpus(self) -> dict[str, frozenset[tuple[str, int]]]:
        """Return job id -> (host id, index) of each GPU that the running job holds.

        A job without known `gpu_indices` is assumed to hold the emptiest GPUs of its host, as placement would choose
        them. The oldest jobs are assigned first.
        """
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
    """Sentence that explains a decision, with a machine-readable `code`."""

    code: str

    def __new__(cls, code: str, sentence: str) -> Explanation:
        why = super().__new__(cls, sentence)
        why.code = code
        return why


@dataclass(frozen=True)
class Plan:
    """Decision for every job of the snapshot. A job that is missing from `allocations` gets nothing."""

    allocations: Mapping[str, Allocation]
    desired_hosts: int | None = None
    parks_idle_only: bool = False
    """Whether only hosts without jobs are powered down, so that no job has to leave its host for it."""
    utility: float | None = None
    """Sum of the jobs' speedups divided by the number of usable GPUs. Hosts are scaled by it. None if the policy has no
    utility."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Job id -> why it waits or was resized, as a sentence with numbers. An `Explanation` also has a code."""
    jobs_per_gpu: int = 1
    """Maximum number of jobs on one GPU under this plan."""
    max_utilization: float = 100.0
    """Utilization in per cent below which a GPU that has a job can be shared."""
    suspended: frozenset[str] = frozenset()
    """Jobs that hold their allocation but are paused.

    Their processes stay in memory (or are yet to be created) and do not run. On a GPU with a paused job, at most one
    other job runs.
    """
    review_at: float | None = None
    """Time of the next call of the policy, even if nothing changes before; None if no call is needed."""

    def preempts(self, job: JobView) -> bool:
        """Return whether a running rigid job stops for another. One that is left out for another reason runs on."""
        why = self.reasons.get(job.id)
        stops = job.preemptible and not self.allocations.get(job.id)
        return stops and isinstance(why, Explanation) and why.code == "preempted"
