"""Check of the pushed code that a task needs."""

from __future__ import annotations

from pathlib import Path

from schedulearn.scheduler.core.task import TaskSpec
from schedulearn.scheduler.errors import StartRefused


def check_code(task: TaskSpec) -> None:
    """Raise StartRefused if the code archive of a task is gone."""
    if task.code and not Path(task.code).exists():
        raise StartRefused(f"the code of job {task.job_id} is no longer in the data folder: submit the job again")
