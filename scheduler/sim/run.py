"""Results of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedulearn.scheduler.core.model import HostView
from schedulearn.scheduler.sim.workload import TraceJob


@dataclass(frozen=True)
class Held:
    """Period in which a job held GPUs; for plots and for host-hours."""

    job: str
    allocation: Mapping[str, int]
    begin: float
    end: float


@dataclass(frozen=True)
class JobResult:
    """Result of one job. Times are seconds of the trace; `ended_at` is infinite for a job that could never run."""

    job: TraceJob
    started_at: float
    ended_at: float
    gpu_seconds: float
    restarts: int
    stalls: float


@dataclass(frozen=True)
class Run:
    """Results of a simulation: one `JobResult` per job, held GPUs, and decision times."""

    outcomes: tuple[JobResult, ...]
    held: tuple[Held, ...]
    hosts: tuple[HostView, ...]
    decision_seconds: tuple[float, ...]
    desired_hosts: tuple[tuple[float, int], ...]
    """(time, hosts wanted), for policies that say so."""
    on: tuple[tuple[float, float], ...] | None = None
    """(begin, end) of every time for which a host was on; None: all were, all the time."""
