"""What running tasks take now, and what tasks and hosts took over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy import Row
from sqlalchemy.engine import Connection

from schedulearn.api.answers.resources import ResourceSeries, ResourcesOut, TaskResourcesOut
from schedulearn.api.state import Cluster, cluster_of
from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.core.outcomes.task_outcomes import highest_memory
from schedulearn.scheduler.core.task import parse_task_id
from schedulearn.scheduler.store.people.visibility import visible_jobs
from schedulearn.scheduler.store.resources import minutes as store
from schedulearn.scheduler.telemetry.resources import EVERY_S, KEPT_S, TaskReading

router = APIRouter(prefix="/api/v1", tags=["telemetry"])
MAX_SERIES = 64

Points = list[list[float | None]]


@router.get("/resources")
def running_tasks(request: Request) -> list[TaskResourcesOut]:
    """Return the current load of each running container.

    Readings are taken every 10 seconds."""
    cluster = cluster_of(request)
    return [
        TaskResourcesOut.of(task_id, reading)
        for host_id in sorted(cluster.agents)
        for task_id, reading in visible_tasks(cluster, host_id).items()
    ]


def visible_tasks(cluster: Cluster, host_id: str) -> dict[str, TaskReading]:
    """What the running containers of a host take: of jobs that whoever asks may see."""
    found = cluster.resources.tasks_of(host_id)
    jobs = {task_id: parsed[0] for task_id in found if (parsed := parse_task_id(task_id)) is not None}
    with cluster.db.read() as db:
        shown = set(visible_jobs(db, set(jobs.values())))
    return {task_id: reading for task_id, reading in found.items() if jobs.get(task_id) in shown}


def of_host(cluster: Cluster, host_id: str, begin: float, end: float, now: float) -> ResourcesOut:
    """What was taken of a host."""
    step, points = 0, cluster.resources.host_points(host_id, begin, end) if _is_recent(begin, now) else []
    shown: Points = [list(point) for point in points]
    if not shown:
        with cluster.db.read() as db:
            step, shown = _averages(db, store.host_minutes, host_id, store.HOST_METRICS, begin, end)
    reading = cluster.resources.host(host_id)
    total = reading.counters if reading is not None else None
    series = ResourceSeries(
        name=host_id,
        host=host_id,
        attempt=None,
        rank=None,
        cpus_limit=total.cpus if total is not None else None,
        memory_limit=total.memory_total if total is not None else None,
        memory_peak=None,
        disk_limit=total.disk_total if total is not None else None,
        points=shown,
    )
    return ResourcesOut(step_s=step or int(EVERY_S), metrics=list(store.HOST_METRICS), series=[series])


def of_tasks(
    cluster: Cluster,
    tasks: Sequence[Task],
    bounds: tuple[float | None, int | None],
    begin: float,
    end: float,
    now: float,
) -> ResourcesOut:
    """What a job's tasks took. `bounds`: of processors and memory, of each of them."""
    newest = list(tasks)[-MAX_SERIES:]
    step = 0
    found: dict[str, Points] = {}
    if _is_recent(begin, now):
        found = {
            task.id: [list(each) for each in cluster.resources.task_points(task.id, begin, end)] for task in newest
        }
    if not any(found.values()):
        with cluster.db.read() as db:
            for task in newest:
                step, found[task.id] = _averages(db, store.task_minutes, task.id, store.TASK_METRICS, begin, end)
    series = [_series(cluster, task, bounds, found.get(task.id, [])) for task in newest]
    return ResourcesOut(step_s=step or int(EVERY_S), metrics=list(store.TASK_METRICS), series=series)


def _series(cluster: Cluster, task: Task, bounds: tuple[float | None, int | None], points: Points) -> ResourceSeries:
    reading = cluster.resources.task(task.id)
    cpus, memory = bounds
    return ResourceSeries(
        name=task.id,
        host=task.host_id,
        attempt=task.attempt,
        rank=task.rank,
        cpus_limit=cpus,
        memory_limit=reading.counters.memory_limit if memory is None and reading is not None else memory,
        memory_peak=highest_memory(task.memory_peak, cluster.resources.memory(task.id)),
        disk_limit=None,
        points=points,
    )


def _is_recent(begin: float, now: float) -> bool:
    """Whether all of it is in memory."""
    return begin >= now - KEPT_S - 60


def _averages(
    db: Connection,
    minutes: Callable[[Connection, str, int, int], tuple[int, list[Row[Any]]]],
    name: str,
    metrics: Sequence[str],
    begin: float,
    end: float,
) -> tuple[int, Points]:
    step, rows = minutes(db, name, int(begin // 60), int(-(-end // 60)))
    return 60 * step, [[row.minute * 60.0, *(getattr(row, metric) for metric in metrics)] for row in rows]
