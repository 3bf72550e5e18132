"""Responses about processors, memory, network and disk of hosts and tasks."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from schedulearn.api.answers.model import AnswerModel
from schedulearn.scheduler.core.task import parse_task_id
from schedulearn.scheduler.telemetry.resources import HostReading, TaskReading


class HostResourcesOut(AnswerModel):
    """What is taken of a host now, by jobs and by all else."""

    cpus: float | None = Field(description="cores that are busy; null at the first look")
    cpus_total: int
    memory_bytes: int = Field(description="in use: what could not be given to a new program at once")
    memory_total: int
    disk_bytes: int = Field(description="in use, on the disk of the service's data, or of its Docker Engine's")
    disk_total: int
    network_in: float | None = Field(
        description="bytes a second of all its cards, like what follows; null: not told, or only once yet"
    )
    network_out: float | None
    disk_read: float | None = Field(description="of all its disks")
    disk_written: float | None

    @classmethod
    def of(cls, reading: HostReading) -> Self:
        found = reading.counters
        cpus, *rates = (None if each is None else round(each, 2) for each in reading.rates)
        network_in, network_out, disk_read, disk_written = rates
        return cls(
            cpus=cpus,
            cpus_total=found.cpus,
            memory_bytes=found.memory_bytes,
            memory_total=found.memory_total,
            disk_bytes=found.disk_bytes,
            disk_total=found.disk_total,
            network_in=network_in,
            network_out=network_out,
            disk_read=disk_read,
            disk_written=disk_written,
        )


class TaskResourcesOut(AnswerModel):
    """What one running container of a job takes now. Null: its engine does not tell, or did so only once yet."""

    task: str
    job: str
    attempt: int
    rank: int
    host: str
    cpus: float | None = Field(description="cores that are busy for it")
    memory_bytes: int
    memory_limit: int | None = Field(description="at which its engine kills it; that of the host where it has none")
    network_in: float | None = Field(description="bytes a second, like what follows")
    network_out: float | None
    disk_read: float | None
    disk_written: float | None

    @classmethod
    def of(cls, task_id: str, reading: TaskReading) -> Self:
        cpus, _, *rates = (None if each is None else round(each, 2) for each in reading.values)
        network_in, network_out, disk_read, disk_written = rates
        job, attempt, rank = parse_task_id(task_id) or ("", 0, 0)
        return cls(
            task=task_id,
            job=job,
            attempt=attempt,
            rank=rank,
            host=reading.host_id,
            cpus=cpus,
            memory_bytes=reading.counters.memory_bytes,
            memory_limit=reading.counters.memory_limit,
            network_in=network_in,
            network_out=network_out,
            disk_read=disk_read,
            disk_written=disk_written,
        )


class ResourceSeries(AnswerModel):
    """What one container, or a host, took over time."""

    name: str = Field(description="id of the task, or of the host")
    host: str
    attempt: int | None = Field(description="null for a host, like `rank`")
    rank: int | None
    cpus_limit: float | None = Field(description="cores that it may use; null: no bound that is known")
    memory_limit: int | None
    memory_peak: int | None = Field(description="the most that it was seen with, of a task")
    disk_limit: int | None
    points: list[list[float | None]] = Field(
        description="[seconds since the epoch, then the `metrics`], oldest first; null: it was not measured"
    )


class ResourcesOut(AnswerModel):
    """At most some 600 points a series: looks where those are still in memory, else averages over minutes or longer."""

    step_s: int = Field(description="what a point stands for; 10: single looks")
    metrics: list[str] = Field(
        description="cpus (cores that are busy), memory_bytes, network_in, network_out, disk_read and "
        "disk_written (bytes a second); of hosts disk_bytes (in use) too"
    )
    series: list[ResourceSeries] = Field(description="of a job its newest containers, at most 64")
