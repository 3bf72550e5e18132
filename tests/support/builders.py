"""Builders of the values that tests need: everything has a default, name only what the test is about."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from schedulearn.scheduler.domain import HostView, JobView, Snapshot
from schedulearn.scheduler.runtimes.base import ObservedTask, TaskSpec, TaskState


def job(id: str = "a", *, at: float = 0.0, gpus: int = 1, **fields: Any) -> JobView:
    bounds = {"min_gpus": 1, "max_gpus": 64} if fields.get("elastic") else {"min_gpus": gpus, "max_gpus": gpus}
    return JobView(**{"id": id, "submitted_at": at, "required_gpus": gpus, **bounds, **fields})


def host(id: str = "h1", gpus: int = 4, **fields: Any) -> HostView:
    return HostView(id=id, gpus=gpus, **fields)


def snapshot(jobs: list[JobView], hosts: list[HostView] | None = None, **fields: Any) -> Snapshot:
    return Snapshot(**{"now": 1000.0, "seed": 0, "hosts": tuple(hosts or [host()]), "jobs": tuple(jobs), **fields})


def task_spec(id: str = "j", *, attempt: int = 1, gpus: tuple[str, ...] = ("GPU-0",), **fields: Any) -> TaskSpec:
    defaults: dict[str, Any] = {"rank": 0, "image": "img", "argv": ("true",), "simulated_gpus": True}
    return TaskSpec(job_id=id, attempt=attempt, gpu_uuids=gpus, **{**defaults, **fields})


def observed(task_id: str, state: TaskState = TaskState.RUNNING, **fields: Any) -> ObservedTask:
    return ObservedTask(task_id, state, **fields)


def job_row(id: str = "j", status: str = "running", **fields: Any) -> SimpleNamespace:
    defaults: dict[str, Any] = {
        "reason": "container_running", "message": "", "version": 0, "started_at": 1.0, "run_seconds": 0.0,
        "max_duration": None, "restarts": 0, "max_restarts": 0, "losses": 0,
    }  # fmt: skip
    return SimpleNamespace(id=id, status=status, **{**defaults, **fields})


def task_row(job_id: str = "j", rank: int = 0, state: str = "running", **fields: Any) -> SimpleNamespace:
    defaults: dict[str, Any] = {
        "id": f"schedulearn-{job_id}-1-{rank}", "attempt": 1, "host_id": "h1", "gpu_uuids": ["GPU-0"], "stop": False,
        "created_at": 1.0, "started_at": 1.0, "outcome": "", "exit_code": None, "error": "",
    }  # fmt: skip
    return SimpleNamespace(job_id=job_id, rank=rank, state=state, **{**defaults, **fields})


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Clusters as they can be: some hosts drained or closed, jobs waiting or running within what is there."""
    hosts = [
        HostView(
            id=f"h{index}",
            gpus=draw(st.integers(0, 8)),
            open=draw(st.booleans()) or draw(st.booleans()),
            gpu_type=draw(st.sampled_from(["a", "b"])),
        )
        for index in range(draw(st.integers(1, 5)))
    ]
    left = {h.id: h.gpus for h in hosts}
    jobs = []
    for index in range(draw(st.integers(0, 12))):
        elastic = draw(st.booleans())
        required = draw(st.integers(1, 10))
        low = draw(st.integers(1, required)) if elastic else required
        high = draw(st.integers(required, 16)) if elastic else required
        allocation: dict[str, int] = {}
        if draw(st.booleans()):
            wanted = draw(st.integers(low, high))
            place = next((h for h in left if left[h] >= wanted), None)
            if place is not None:
                left[place] -= wanted
                allocation = {place: wanted}
        jobs.append(
            JobView(
                id=f"{draw(st.integers(0, 9))}{index}",
                submitted_at=float(draw(st.integers(0, 5))),
                required_gpus=required,
                min_gpus=low,
                max_gpus=high,
                elastic=elastic,
                priority=draw(st.integers(0, 100)),
                attained_gpu_seconds=float(draw(st.integers(0, 10_000))),
                allocation=allocation,
            )
        )
    last = draw(st.sampled_from([None, "gone", *left]))
    return Snapshot(now=10_000.0, seed=draw(st.integers(0, 9)), hosts=tuple(hosts), jobs=tuple(jobs), last_host=last)
