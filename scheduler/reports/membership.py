"""Membership protocol between the service and workers of jobs resized in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from sqlalchemy import update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.core.outcomes.findings import JobChanges
from schedulearn.scheduler.core.outcomes.in_place import members
from schedulearn.scheduler.core.states import JobState, Reason
from schedulearn.scheduler.errors import ConflictError
from schedulearn.scheduler.reports.store import Strict
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.models import Job

PATH = "/api/v1/reports/membership"
MAX_HOLD_S = 30.0

Generation = Annotated[int, Field(ge=0, le=1 << 31)]


class MeetingIn(Strict):
    generation: Generation
    address: str = Field(max_length=64, pattern=r"^[0-9.]+:[0-9]+$", description="rendezvous, as address:port")


class MembershipIn(Strict):
    """Request of `POST /api/v1/reports/membership`."""

    attempt: int = Field(ge=1, le=1 << 31)
    member: int = Field(ge=0, le=1 << 31, description="SCHEDULEARN_MEMBER of the worker")
    leads: bool = Field(description="whether it is the first worker, which reports for all")
    trained: Generation = Field(description="latest generation that has done a step")
    forming: bool = Field(description="whether training is paused for a change of workers")
    meeting: MeetingIn | None = None
    known: Generation = Field(description="generation that the worker knows")
    hold: float = Field(ge=0, le=MAX_HOLD_S, description="maximum seconds to wait for news")


@dataclass(frozen=True)
class Roster:
    """Current members of a job."""

    generation: int
    members: list[int]
    """Members in the order of their training ranks."""
    meeting: str
    """Rendezvous address at which the first worker waits for the others; empty if there is none yet."""

    def has_news_for(self, said: MembershipIn) -> bool:
        """Return whether a worker waits for this.

        The first worker waits for another generation, a new one for the rendezvous address.
        """
        if said.leads:
            return self.generation != said.known
        return bool(self.meeting) and said.member in self.members


def record_report(conn: Connection, job_id: str, said: MembershipIn, now: float) -> bool:
    """Store news that the first worker reports. Return True if there was any.

    Raises NotFoundError, or ConflictError for a worker that no longer belongs to the job.
    """
    job, _ = _find(conn, job_id, said)
    if not said.leads:
        return False
    changes = JobChanges()
    if said.meeting is not None and said.meeting.generation == job.generation and said.meeting.address != job.meeting:
        changes["meeting"] = said.meeting.address
    has_trained = job.trained < said.trained <= job.generation
    if has_trained:
        changes["trained"] = said.trained
    if said.forming != (job.forming_at is not None):
        changes["forming_at"] = now if said.forming else None
    if not changes:
        return False
    if has_trained and job.reason == Reason.RESIZING_IN_PLACE:
        message = "It trains with its new allocation."
        return repository.move_job(conn, job, Reason.CONTAINER_RUNNING, message, now, **changes)
    guarded = update(Job).where(col(Job.id) == job_id, col(Job.version) == job.version)
    return conn.execute(guarded.values(version=job.version + 1, **changes)).rowcount > 0


def roster_for(conn: Connection, job_id: str, said: MembershipIn) -> Roster:
    """Return the current members. Raises the same errors as `record_report`."""
    job, tasks = _find(conn, job_id, said)
    return Roster(job.generation, [task.rank for task in members(tasks)], job.meeting)


def _find(conn: Connection, job_id: str, said: MembershipIn) -> tuple[repository.JobRow, Sequence[Task]]:
    job = repository.get_job(conn, job_id)
    tasks = tasks_of(conn, [job_id], live=True)
    belongs = any(task.rank == said.member and task.attempt == said.attempt for task in tasks)
    if JobState(job.state).terminal or not belongs:
        raise ConflictError(f"worker {said.member} of attempt {said.attempt} no longer belongs to job {job_id}")
    return job, tasks
