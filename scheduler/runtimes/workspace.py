"""The directory of a command whose job brought its code along."""

from __future__ import annotations

from pathlib import Path

from schedulearn.scheduler.core.task import TaskSpec
from schedulearn.scheduler.errors import StartRefused


def check_code(task: TaskSpec) -> None:
    """Raises StartRefused where the archive that a task needs is gone."""
    if task.code and not Path(task.code).exists():
        raise StartRefused(f"the code of job {task.job_id} is not in the data folder any more: submit it anew")
