"""Responses about the processes in a job's container."""

from __future__ import annotations

from schedulearn.api.answers.model import AnswerModel
from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.runtimes.terminals.contract import TaskLoad


class ProcessOut(AnswerModel):
    pid: int
    """Process ID on the host."""
    user: str
    cpu_percent: float
    """Percent of one processor, averaged since the process began."""
    memory_bytes: int
    seconds: float
    """Seconds since the process began."""
    command: str


class ProcessesOut(AnswerModel):
    """Processes of one container of a job, with their load."""

    rank: int
    host: str
    cpu_percent: float
    """Percent of one processor, for all processes together."""
    memory_bytes: int
    memory_limit: int | None
    processes: list[ProcessOut]
    """At most 500 processes, the busiest first."""

    @classmethod
    def of(cls, task: Task, load: TaskLoad) -> ProcessesOut:
        return cls(
            rank=task.rank,
            host=task.host_id,
            cpu_percent=load.cpu_percent,
            memory_bytes=load.memory_bytes,
            memory_limit=load.memory_limit,
            processes=[ProcessOut(**vars(each)) for each in load.processes],
        )
