"""Hosts that have outputs of a job.

These are all hosts on which it ran, except those from which it moved away together with its outputs.
"""

from __future__ import annotations

from typing import cast

from sqlalchemy import Column, ForeignKey, String, Table, bindparam, delete, inspect, select
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.store.models import Job, Task


class MovedOutputs(SQLModel, table=True):
    """Host whose outputs of a job were copied to another host.

    The outputs on this host are obsolete once the job runs on another host."""

    __tablename__ = "moved_outputs"

    job_id: str = Field(sa_column=Column(String, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True))
    host_id: str = Field(primary_key=True)


def note_moved(conn: Connection, job_id: str, host_id: str) -> None:
    """Record that a job's outputs on this host were brought to its next host."""
    forget_moved(conn, job_id, host_id)
    conn.execute(_TABLE.insert().values(job_id=job_id, host_id=host_id))


def forget_moved(conn: Connection, job_id: str, host_id: str) -> None:
    """Record that a task of the job runs there: its outputs there are valid again."""
    conn.execute(_FORGET, {"of_job": job_id, "on_host": host_id})


def hosts_with_outputs(conn: Connection, job_id: str) -> list[str]:
    """Return the hosts that may have outputs of a job.

    The host on which its first task ran last comes first."""
    home = _home(conn, job_id)
    tasks = select(col(Task.host_id)).where(col(Task.job_id) == job_id).distinct()
    hosts = set(conn.execute(tasks).scalars()) - (_moved(conn, job_id) - {home})
    return sorted(hosts, key=lambda host: (host != home, host))


def are_left_over(conn: Connection, job_id: str, host_id: str) -> bool:
    """Return whether a host's outputs are obsolete: the job took them to another host."""
    return host_id in _moved(conn, job_id) and host_id != _home(conn, job_id)


def _home(conn: Connection, job_id: str) -> str | None:
    return conn.execute(select(col(Job.checkpoint_host)).where(col(Job.id) == job_id)).scalar()


def _moved(conn: Connection, job_id: str) -> set[str]:
    return set(conn.execute(select(_TABLE.c.host_id).where(_TABLE.c.job_id == job_id)).scalars())


_TABLE = cast(Table, inspect(MovedOutputs).local_table)
_FORGET = delete(_TABLE).where(_TABLE.c.job_id == bindparam("of_job"), _TABLE.c.host_id == bindparam("on_host"))
