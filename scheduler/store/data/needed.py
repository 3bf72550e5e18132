"""Jobs whose outputs are still needed."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.needs import job_of_key
from schedulearn.scheduler.store.models import Job


def needed_outputs(conn: Connection) -> set[str]:
    """Return the ids of jobs whose outputs must not be deleted.

    The outputs are still to be stored as data sets, or are inputs of unfinished jobs."""
    pending = conn.execute(select(col(Job.id)).where(col(Job.keep_state) == "pending")).scalars()
    later = select(col(Job.inputs)).where(col(Job.finished_at).is_(None), col(Job.after).is_not(None))
    keys = [key for inputs in conn.execute(later).scalars() for key in inputs.values()]
    return {*pending, *(job_id for key in keys if (job_id := job_of_key(key)) is not None)}
