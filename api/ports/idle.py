"""When jobs that nobody is connected to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row

from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.core.outcomes.unused import idle_end
from schedulearn.scheduler.core.states import JobStatus


def idle_ends_of(cluster: Cluster, rows: Sequence[Row[Any]], live: Sequence[Task]) -> Mapping[str, float | None]:
    """By job, of those of `rows` that run and have a bound; None: somebody is connected."""
    return {
        row.id: idle_end(
            row.idle_timeout, [task for task in live if task.job_id == row.id], cluster.terminals.unused_since(row.id)
        )
        for row in rows
        if row.idle_timeout is not None and row.status == JobStatus.RUNNING
    }
