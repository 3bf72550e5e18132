"""Builders of the values that tests need: everything has a default, name only what the test is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from schedulearn.scheduler.core.cluster_state import ClusterState, Gpu, Host, Job, Task
from schedulearn.scheduler.core.model import HostView, JobView, Snapshot
from schedulearn.scheduler.core.states import HostState, JobState, Parking, TaskPhase
from schedulearn.scheduler.core.task import EngineState, ObservedTask, TaskSpec
from schedulearn.scheduler.reports.store import ReportIn


def job(id: str = "a", *, at: float = 0.0, gpus: int = 1, **fields: Any) -> JobView:
    bounds = {"min_gpus": 1, "max_gpus": 64} if fields.get("elastic") else {"min_gpus": gpus, "max_gpus": gpus}
    return JobView(**{"id": id, "submitted_at": at, "required_gpus": gpus, **bounds, **fields})


def host(id: str = "h1", gpus: int = 4, **fields: Any) -> HostView:
    return HostView(id=id, gpus=gpus, **fields)


def snapshot(jobs: list[JobView], hosts: list[HostView] | None = None, **fields: Any) -> Snapshot:
    return Snapshot(**{"now": 1000.0, "seed": 0, "hosts": tuple(hosts or [host()]), "jobs": tuple(jobs), **fields})


def task_spec(id: str = "j", *, gpus: tuple[str, ...] = ("GPU-0",), **fields: Any) -> TaskSpec:
    defaults: dict[str, Any] = {"rank": 0, "image": "img", "argv": ("true",), "simulated_gpus": True}
    return TaskSpec(job_id=id, attempt=1, gpu_uuids=gpus, **{**defaults, **fields})


def observed(task_id: str, state: EngineState = EngineState.RUNNING, **fields: Any) -> ObservedTask:
    return ObservedTask(task_id, state, **fields)


def job_record(id: str = "j", state: JobState | str = JobState.RUNNING, **fields: Any) -> Job:
    gpus = fields.get("required_gpus", 1)
    defaults: dict[str, Any] = {
        "name": "job", "container_image": "img", "pull": "missing", "launcher": "none", "layer": "",
        "required_gpus": gpus, "min_gpus": gpus, "max_gpus": gpus, "elastic": False, "gpu_type": None,
        "priority": 50, "weight": 1.0, "metric": None, "deadline": None, "max_duration": None, "max_restarts": 0,
        "grace_period": 10.0, "user": "",
        "family": "f", "resize": "restart", "reason": "container_running", "message": "", "version": 0, "attempt": 1,
        "restarts": 0,
        "retries": 0, "losses": 0, "on_hang": None, "hangs": 0, "equal_exits": 0, "last_exit": None,
        "submitted_at": 0.0,
        "started_at": 1.0, "run_seconds": 0.0, "gpu_seconds": 0.0, "pull_percent": None, "not_before": None,
        "fetch_hosts": [], "inputs": {}, "checkpoint_host": None,
        "generation": 0, "trained": 0, "meeting": "", "forming_at": None,
        "target": None, "resized_at": None, "resized_from": None, "after": None,
    }  # fmt: skip
    return Job(**{**defaults, **fields, "id": id, "state": JobState(state)})


def task_record(job_id: str = "j", rank: int = 0, state: TaskPhase | str = TaskPhase.RUNNING, **fields: Any) -> Task:
    attempt = fields.get("attempt", 1)
    defaults: dict[str, Any] = {
        "id": f"schedulearn-{job_id}-{attempt}-{rank}", "attempt": 1, "generation": 0, "host_id": "h1",
        "gpu_uuids": ["GPU-0"], "stop": False, "created_at": 1.0, "started_at": 1.0, "finished_at": None,
        "exit_code": None, "outcome": "", "error": "", "image": "", "paused_at": None, "paused_seconds": 0.0,
        "energy_joules": 0.0,
    }  # fmt: skip
    return Task(**{**defaults, **fields, "job_id": job_id, "rank": rank, "state": TaskPhase(state)})


def host_record(id: str = "h1", **fields: Any) -> Host:
    defaults: dict[str, Any] = {
        "address": "", "network": "", "origin": "embedded", "state": HostState.ACTIVE, "labels": {},
        "drain_until": None, "parking": Parking.NONE, "lost_at": None,
    }  # fmt: skip
    return Host(**{**defaults, **fields, "id": id})


def gpu_record(uuid: str = "GPU-0", host_id: str = "h1", **fields: Any) -> Gpu:
    defaults: dict[str, Any] = {
        "ordinal": 0, "type": "a100", "memory_bytes": 1 << 34, "simulated": True, "fault": "", "occupied": "",
        "island": None, "numa": None,
    }  # fmt: skip
    return Gpu(**{**defaults, **fields, "uuid": uuid, "host_id": host_id})


def cluster_state(**fields: Any) -> ClusterState:
    defaults: dict[str, Any] = {
        "jobs": {}, "starting": {}, "tasks": [], "hosts": [], "gpus": [], "leases": {}, "last_host": None, "ports": {},
        "progress": {}, "ended": {}, "run_as": {},
    }  # fmt: skip
    return ClusterState(**{**defaults, **fields})


def report(gpus: int, **changes: Any) -> ReportIn:
    """What a worker on so many GPUs tells."""
    seen = [
        {"num_nodes": 1, "num_gpus": gpus, "atomic_batch": batch, "passes": 9, "grad_time": 0.02 + 0.001 * batch,
         "iter_time": 0.03 + 0.001 * batch} for batch in (16, 32)
    ]  # fmt: skip
    batch = {"init": 64, "max": 512, "atomic": 32, "accumulation": 0}
    return ReportIn.model_validate(
        {"attempt": 1, "batch": batch, "observations": seen, "noise_scale": 300.0, "progress": {"epoch": 0}, **changes}
    )


@dataclass(frozen=True)
class PowerLaw:
    """A goodput that grows with the number of GPUs to the power of `scaling`, less over several hosts."""

    scaling: float
    host_penalty: float = 1.0
    unit: float = 10.0

    def __call__(self, num_nodes: Any, num_gpus: Any, gpu_type: str | None = None) -> Any:
        nodes, gpus = np.asarray(num_nodes), np.asarray(num_gpus, dtype=float)
        return self.unit * gpus**self.scaling * np.where(nodes > 1, self.host_penalty, 1.0)


goodputs = st.none() | st.builds(
    PowerLaw, st.sampled_from([-0.5, 0.0, 0.5, 0.9, 1.0]), st.sampled_from([0.5, 1.0]), st.sampled_from([0.0, 1.0])
)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Clusters as they can be: some hosts drained or closed, jobs waiting or running within what is there, on one host
    or several; now and then two jobs a GPU, as another policy may have left them."""
    hosts = [
        HostView(
            id=f"h{index}",
            gpus=draw(st.integers(0, 8)),
            open=draw(st.booleans()) or draw(st.booleans()),
            gpu_type=draw(st.sampled_from(["a", "b"])),
        )
        for index in range(draw(st.integers(1, 5)))
    ]
    width = {h.id: h.gpus for h in hosts}
    left = {h.id: h.gpus * draw(st.sampled_from([1, 1, 1, 2])) for h in hosts}
    jobs = []
    for index in range(draw(st.integers(0, 12))):
        elastic = draw(st.booleans())
        required = draw(st.integers(1, 10) | st.integers(1, 3))
        low = draw(st.integers(1, required)) if elastic else required
        high = draw(st.integers(required, 16)) if elastic else required
        allocation: dict[str, int] = {}
        if draw(st.booleans()):
            wanted = draw(st.integers(low, high))
            for name in left:
                gpus = min(wanted - sum(allocation.values()), left[name], width[name])
                if gpus > 0 and (gpus == wanted or draw(st.booleans())):
                    allocation[name] = gpus
            if sum(allocation.values()) < wanted:
                allocation = {}
            for name, gpus in allocation.items():
                left[name] -= gpus
        run_seconds = float(draw(st.integers(0, 5_000))) if allocation else draw(st.sampled_from([0.0, 300.0]))
        jobs.append(
            JobView(
                id=f"{draw(st.integers(0, 9))}{index}",
                submitted_at=float(draw(st.integers(0, 5) | st.integers(0, 10_000))),
                required_gpus=required,
                min_gpus=low,
                max_gpus=high,
                elastic=elastic,
                priority=draw(st.integers(0, 100)),
                deadline=draw(st.none() | st.floats(5_000, 50_000)),
                attained_gpu_seconds=run_seconds * required,
                run_seconds=run_seconds,
                restarts=draw(st.integers(0, 3)),
                remaining=draw(st.none() | st.floats(0, 1e6)),
                goodput=draw(goodputs) if elastic else None,
                allocation=allocation,
            )
        )
    last = draw(st.sampled_from([None, "gone", *left]))
    return Snapshot(now=10_000.0, seed=draw(st.integers(0, 9)), hosts=tuple(hosts), jobs=tuple(jobs), last_host=last)
