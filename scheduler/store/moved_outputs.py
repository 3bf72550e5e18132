"""Which hosts have outputs of a job: all on which it ran, but for those that it moved from with its outputs."""

from __future__ import annotations

from typing import cast

from sqlalchemy import Column, ForeignKey, String, Table, bindparam, delete, inspect, select
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.store.models import Job, Task


class MovedOutputs(SQLModel, table=True):
    """A host whose outputs of a job are elsewhere, too. Those there are left over once the job runs on elsewhere."""

    __tablename__ = "moved_outputs"

    job_id: str = Field(sa_column=Column(String, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True))
    host_id: str = Field(primary_key=True)


def note_moved(conn: Connection, job_id: str, host_id: str) -> None:
    """The outputs that a job has on this host were brought to where it is about to go on."""
    forget_moved(conn, job_id, host_id)
    conn.execute(_TABLE.insert().values(job_id=job_id, host_id=host_id))


def forget_moved(conn: Connection, job_id: str, host_id: str) -> None:
    """A task of the job runs there: from now on its outputs there count again."""
    conn.execute(_FORGET, {"of_job": job_id, "on_host": host_id})


def hosts_with_outputs(conn: Connection, job_id: str) -> list[str]:
    """Where they may be. The host on which its first task ran last comes first."""
    home = _home(conn, job_id)
    tasks = select(col(Task.host_id)).where(col(Task.job_id) == job_id).distinct()
    hosts = set(conn.execute(tasks).scalars()) - (_moved(conn, job_id) - {home})
    return sorted(hosts, key=lambda host: (host != home, host))


def are_left_over(conn: Connection, job_id: str, host_id: str) -> bool:
    """Whether the outputs there are elsewhere too, where the job went on."""
    return host_id in _moved(conn, job_id) and host_id != _home(conn, job_id)


def _home(conn: Connection, job_id: str) -> str | None:
    return conn.execute(select(col(Job.checkpoint_host)).where(col(Job.id) == job_id)).scalar()


def _moved(conn: Connection, job_id: str) -> set[str]:
    return set(conn.execute(select(_TABLE.c.host_id).where(_TABLE.c.job_id == job_id)).scalars())


_TABLE = cast(Table, inspect(MovedOutputs).local_table)
_FORGET = delete(_TABLE).where(_TABLE.c.job_id == bindparam("of_job"), _TABLE.c.host_id == bindparam("on_host"))
