"""Events as receivers outside the service get them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.instants import shown
from schedulearn.scheduler.store.models import Job

BACKOFF_S = (2.0, 10.0, 30.0, 120.0, 600.0, 1800.0, 3600.0)
"""Seconds to wait after each failed try to tell a receiver of an event. One last try follows."""
EventRow = Row[Any]


@dataclass(frozen=True)
class ToldJob:
    """Job of an event as a receiver gets it."""

    id: str
    name: str
    user: str
    labels: Mapping[str, str]
    state: str
    reason: str
    exit_code: int | None
    required_gpus: int


@dataclass(frozen=True)
class ToldEvent:
    """An event as a receiver gets it."""

    id: int
    kind: str
    at: float
    code: str
    message: str
    data: Mapping[str, object]
    job: ToldJob | None = None
    host: str | None = None

    def payload(self) -> Mapping[str, object]:
        """Return the content of a delivery; docs/webhooks.md describes it."""
        about = self.job.name if self.job is not None else self.host
        return {
            "event": self.kind,
            "id": self.id,
            "at": shown(self.at),
            "code": self.code,
            "message": self.message,
            "text": f"Schedulearn: {about}: {self.message}" if about else f"Schedulearn: {self.message}",
            "job": self.job,
            "host": self.host,
            "data": self.data,
        }


def told_event(conn: Connection, event: EventRow) -> ToldEvent:
    job = _job_of(conn, event.job_id) if event.job_id is not None else None
    return ToldEvent(event.id, event.kind, event.at, event.code, event.message, event.data, job, event.host_id)


def _job_of(conn: Connection, job_id: str) -> ToldJob | None:
    query = select(
        col(Job.id), col(Job.name), col(Job.user), col(Job.labels), col(Job.state), col(Job.reason),
        col(Job.exit_code), col(Job.required_gpus),
    )  # fmt: skip
    row = conn.execute(query.where(col(Job.id) == job_id)).one_or_none()
    if row is None:
        return None
    return ToldJob(
        id=row.id,
        name=row.name,
        user=row.user,
        labels=row.labels,
        state=row.state,
        reason=row.reason,
        exit_code=row.exit_code,
        required_gpus=row.required_gpus,
    )


def refusal(status: int) -> str:
    """Return why a receiver with this HTTP status did not accept an event."""
    if 300 <= status < 400:
        return f"it answered {status}: redirections are not followed, give the address that it leads to"
    return f"it answered {status}"
