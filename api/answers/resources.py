"""Responses about processors, memory, network and disk of hosts and tasks."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from schedulearn.api.answers.model import AnswerModel
from schedulearn.scheduler.core.task import parse_task_id
from schedulearn.scheduler.telemetry.resources import HostReading, TaskReading


class HostResourcesOut(AnswerModel):
    """Current load of a host, by jobs and everything else."""

    cpus: float | None = Field(description="number of busy cores; null before the second reading")
    cpus_total: int
    memory_bytes: int = Field(description="used bytes: those not available to new programs")
    memory_total: int
    disk_bytes: int = Field(description="used bytes on the disk of the service's data, or of the Docker Engine's data")
    disk_total: int
    network_in: float | None = Field(
        description="bytes per second of all network interfaces; null: unknown, or only one reading so far. The "
        "following rates are null likewise"
    )
    network_out: float | None
    disk_read: float | None = Field(description="bytes per second of all disks")
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
    """Current load of a running container of a job.

    Values are null if the engine does not report them, or only once so far."""

    task: str
    job: str
    attempt: int
    rank: int
    host: str
    cpus: float | None = Field(description="number of cores that it keeps busy")
    memory_bytes: int
    memory_limit: int | None = Field(
        description="bytes above which the engine kills it; without a limit, the memory of the host"
    )
    network_in: float | None = Field(description="bytes per second, as the following rates")
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
    """Load of a container or host over time."""

    name: str = Field(description="ID of the task or host")
    host: str
    attempt: int | None = Field(description="null for a host, as `rank`")
    rank: int | None
    cpus_limit: float | None = Field(description="maximum cores; null: no limit known")
    memory_limit: int | None
    memory_peak: int | None = Field(description="maximum observed bytes of a task")
    disk_limit: int | None
    points: list[list[float | None]] = Field(
        description="[seconds since the epoch, then the `metrics`], oldest first; null: not measured"
    )


class ResourcesOut(AnswerModel):
    """About 600 points per series at most.

    Points are single readings while these are in memory, else averages over minutes or longer."""

    step_s: int = Field(description="seconds between points; 10: single readings")
    metrics: list[str] = Field(
        description="cpus (busy cores), memory_bytes, network_in, network_out, disk_read and disk_written (bytes per "
        "second); for hosts also disk_bytes (used)"
    )
    series: list[ResourceSeries] = Field(description="for a job, its newest containers, at most 64")
