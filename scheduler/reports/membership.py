"""What the workers of a job that is resized in place tell the service, and hear from it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import Row, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.core.in_place import members
from schedulearn.scheduler.core.states import JobStatus, Reason
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
    address: str = Field(
        max_length=64, pattern=r"^[0-9.]+:[0-9]+$", description="where the first worker waits for the others"
    )


class MembershipIn(Strict):
    """What `POST /api/v1/reports/membership` takes."""

    attempt: int = Field(ge=1, le=1 << 31)
    member: int = Field(ge=0, le=1 << 31, description="SCHEDULEARN_MEMBER of the worker that asks")
    leads: bool = Field(description="it is the first one, which speaks for all")
    trained: Generation = Field(description="the last generation that has done a step")
    forming: bool = Field(description="training stands still for a change of workers")
    meeting: MeetingIn | None = None
    known: Generation = Field(description="the generation that it knows of")
    hold: float = Field(ge=0, le=MAX_HOLD_S, description="seconds that the answer may wait for news")


def record_report(db: Connection, job_id: str, said: MembershipIn, now: float) -> bool:
    """Writes down what is new in what the first worker says; True if that was anything. Raises NotFoundError, or
    ConflictError for a worker that does not belong to the job any more."""
    job, _ = _find(db, job_id, said)
    if not said.leads:
        return False
    fields: dict[str, Any] = {}
    if said.meeting is not None and said.meeting.generation == job.generation and said.meeting.address != job.meeting:
        fields["meeting"] = said.meeting.address
    if job.trained < said.trained <= job.generation:
        fields["trained"] = said.trained
    if said.forming != (job.forming_at is not None):
        fields["forming_at"] = now if said.forming else None
    if not fields:
        return False
    if "trained" in fields and job.reason == Reason.RESIZING_IN_PLACE:
        message = "It trains with its new allocation."
        return repository.move_job(db, job, Reason.CONTAINER_RUNNING, message, now, **fields)
    guarded = update(Job).where(col(Job.id) == job_id, col(Job.version) == job.version)
    return db.execute(guarded.values(version=job.version + 1, **fields)).rowcount > 0


def roster_for(db: Connection, job_id: str, said: MembershipIn) -> tuple[dict[str, Any], bool]:
    """Who belongs to the job now, and whether that is what the worker waits for."""
    job, tasks = _find(db, job_id, said)
    found = [task.rank for task in members(tasks)]
    news = job.generation != said.known if said.leads else bool(job.meeting and said.member in found)
    return {"generation": job.generation, "members": found, "meeting": job.meeting}, news


def _find(db: Connection, job_id: str, said: MembershipIn) -> tuple[Row[Any], list[Task]]:
    job = repository.get_job(db, job_id)
    tasks = tasks_of(db, [job_id], live=True)
    mine = any(task.rank == said.member and task.attempt == said.attempt for task in tasks)
    if JobStatus(job.status).terminal or not mine:
        raise ConflictError(f"job {job_id} has no place for worker {said.member} of attempt {said.attempt} any more")
    return job, tasks
