"""Rows of jobs: conversion of a job's keys to its row and back, and insertion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy.engine import Connection, Dialect

from schedulearn.scheduler.core.instants import late_deadline
from schedulearn.scheduler.core.planning.start_times import why_not_yet
from schedulearn.scheduler.core.states import JobState, Reason
from schedulearn.scheduler.specs.code import CodeSpec
from schedulearn.scheduler.specs.job import JobFields, JobSpec, new_job_id
from schedulearn.scheduler.store.columns import prepare_rows
from schedulearn.scheduler.store.models import Event, Job
from schedulearn.scheduler.store.people.acting import ACTOR, ADDRESS

JobValues = Mapping[str, object]
"""Column -> value, of a new job."""

_NAMED_OTHERWISE = {"shm_size": "shm_bytes", "memory": "memory_bytes"}
_COLUMNS = {name: _NAMED_OTHERWISE.get(name, name) for name in JobFields.model_fields}
_DEFAULTS = {
    name: field.get_default(call_default_factory=True)
    for name, field in JobFields.model_fields.items()
    if _COLUMNS[name] not in Job.model_fields
}
"""Key -> default, of the keys without a column: they are in the column `spec`, unless they have their default."""


def job_row(spec: JobSpec, now: float) -> dict[str, Any]:
    """Return the columns of a new job."""
    keys = spec.model_dump(exclude={"deadline", "start_after"})
    document = {name: value for name, default in _DEFAULTS.items() if (value := keys.pop(name)) != default}
    deadline = spec.deadline.timestamp() if spec.deadline else None
    delay, start_after = start_of(spec, now)
    return {
        **{_COLUMNS[name]: value for name, value in keys.items()},
        "spec": document,
        "deadline": deadline,
        "layer": spec.layer,
        "host_constraints": spec.host_constraints,
        "id": new_job_id(),
        "state": JobState.QUEUED.value,
        "reason": Reason.SUBMITTED.value,
        "message": " ".join(
            filter(None, ("Submitted.", late_deadline(deadline, now), why_not_yet(None, "", start_after, now)))
        ),
        "submitted_at": now,
        "version": 0,
        "attempt": 0,
        "restarts": 0,
        "retries": 0,
        "losses": 0,
        "hangs": 0,
        "equal_exits": 0,
        "last_exit": None,
        "exit_code": None,
        "started_at": None,
        "finished_at": None,
        "pull_percent": None,
        "not_before": None,
        "fetch_hosts": [],
        "inputs": {},
        "keep_state": "pending" if spec.keep else "",
        "run_seconds": 0.0,
        "gpu_seconds": 0.0,
        "generation": 0,
        "trained": 0,
        "meeting": "",
        "forming_at": None,
        "start_after": start_after,
        "start_delay": delay,
        "held_at": now if spec.hold else None,
        "released_at": None,
        "held_by": (ACTOR.get() or spec.user) if spec.hold else "",
        "sweep": None,
        "schedule": None,
        "params": None,
        "idempotency_key": None,
        "request_hash": None,
    }


def start_of(spec: JobSpec, now: float) -> tuple[float | None, float | None]:
    """Return the delay that the job names, and its earliest start. None: it names none."""
    if spec.start_after is None:
        return None, None
    if isinstance(spec.start_after, timedelta):
        delay = spec.start_after.total_seconds()
        return delay, now + delay
    return None, spec.start_after.timestamp()


def prepare_jobs(dialect: Dialect, jobs: Sequence[tuple[JobValues, str]]) -> Callable[[Connection], None]:
    """Return a function that inserts jobs, each with its first event.

    Call this before the change is queued, to spare the writer the work. `jobs`: each with the name of its sender."""
    address = ADDRESS.get()
    submitted = [
        {"kind": "job.queued", "code": Reason.SUBMITTED.value, "data": {}, "job_id": job["id"],
         "at": job["submitted_at"], "message": job["message"], "actor": actor, "address": address, "about": ""}
        for job, actor in jobs
    ]  # fmt: skip
    of_jobs = prepare_rows(dialect, Job, [job for job, _ in jobs])
    of_events = prepare_rows(dialect, Event, submitted)

    def insert(conn: Connection) -> None:
        of_jobs(conn)
        of_events(conn)

    return insert


def insert_jobs(conn: Connection, jobs: Sequence[tuple[JobValues, str]]) -> None:
    """Insert jobs, each with its first event and the name of its sender."""
    prepare_jobs(conn.dialect, jobs)(conn)


def with_keys(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a job, and each key of `JobFields` by its name.

    `deadline` and `start_after` are in seconds since the epoch."""
    keys = {name: row[column] for name, column in _NAMED_OTHERWISE.items()}
    return {**row, **keys, **_DEFAULTS, **row["spec"]}


def keys_of(document: Mapping[str, Any]) -> JobFields:
    """Return the keys of the column `spec`, without validation.

    An older version may have accepted other values. Keys that have columns are missing."""
    keys = JobFields.model_construct(**document)
    if (code := document.get("code")) is not None:
        keys.code = CodeSpec.model_construct(**code)
    return keys
