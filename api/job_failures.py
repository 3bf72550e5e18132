"""Failures of jobs in responses: where, why, and the next step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row
from sqlalchemy.engine import Connection

from schedulearn.api.answers.job import CloneOut, FailureOut, GpuRef
from schedulearn.api.state import Cluster
from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.reports.failure_advice import Failed, advice_for
from schedulearn.scheduler.runtimes.last_error import TAIL_BYTES, shown_lines, telling_line
from schedulearn.scheduler.runtimes.log_masking import hide, parts_of
from schedulearn.scheduler.store.cluster_state import tasks_of

_LINES = 40
"""Last lines of a log that are searched for the cause of a failure."""


def failures_of(
    cluster: Cluster, db: Connection, jobs: Sequence[Row[Any]], index: Mapping[str, int]
) -> dict[str, FailureOut]:
    """Return how the last attempt of each job failed, by job id.

    `index`: GPU -> its index on the host."""
    last: dict[str, list[Task]] = {}
    for task in tasks_of(db, [job.id for job in jobs]):
        others = last.setdefault(task.job_id, [])
        if others and others[0].attempt != task.attempt:
            others.clear()
        others.append(task)
    return {job.id: _failure(cluster, job, last.get(job.id, []), index) for job in jobs}


def _failure(cluster: Cluster, job: Row[Any], attempt: Sequence[Task], index: Mapping[str, int]) -> FailureOut:
    bad = [task for task in attempt if task.exit_code]
    first = min(bad or attempt, key=lambda task: (task.finished_at or math.inf, task.rank), default=None)
    hidden = parts_of(cluster.secrets.env_of(job.id).values()) if job.spec.get("secrets") else ()
    tail = hide(cluster.logs.tail(first.id, TAIL_BYTES), hidden) if first is not None else b""
    lines = shown_lines(tail)
    failed = Failed(
        reason=job.reason,
        message=job.message,
        exit_code=first.exit_code if first is not None else None,
        line=telling_line(lines),
        lines=lines[-_LINES:],
        spec=job.spec,
    )
    advice = advice_for(failed)
    return FailureOut(
        gpus=[gpu for task in attempt for gpu in gpus_of(task, index)],
        exit_code=failed.exit_code,
        line=failed.line,
        kind=advice.kind,
        cause=advice.cause,
        step=advice.step,
        clone=CloneOut.model_validate(advice.clone._asdict()) if advice.clone else None,
    )


def gpus_of(task: Task, index: Mapping[str, int]) -> list[GpuRef]:
    return [GpuRef(uuid=uuid, host=task.host_id, index=index.get(uuid, -1)) for uuid in task.gpu_uuids]
