"""Use cases of schedules: create, pause, resume, delete, and run what is due.

A run is stored in the transaction that moves its schedule to the next time. Therefore a killed service loses no run,
and no time has two jobs.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.features.recurring import table
from schedulearn.features.recurring.spec import Overlap, ScheduleSpec, job_of
from schedulearn.features.recurring.table import ScheduleRow
from schedulearn.features.recurring.times import Due, due_at
from schedulearn.scheduler.code.store import CodeStore
from schedulearn.scheduler.control.service import Service
from schedulearn.scheduler.control.submission.inputs import settle_inputs
from schedulearn.scheduler.control.submission.sources import is_settled, settled
from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.errors import IdempotencyError, InvalidError, SchedulearnError, StoreError
from schedulearn.scheduler.specs.cron import MAX_COUNTED, Repetition
from schedulearn.scheduler.specs.job import JobSpec, new_job_id
from schedulearn.scheduler.store.job_rows import insert_jobs, job_row
from schedulearn.scheduler.store.people.tables import AccountTable

log = logging.getLogger(__name__)

A = TypeVar("A")
Answer = Callable[[Connection, ScheduleRow], A]
"""Function that makes the response before the commit."""


class Schedules:
    """Use cases of schedules. `wake` is called when the next time of a schedule may have changed.

    `zone`: time zone of schedules that name none."""

    def __init__(self, service: Service, code: CodeStore, git_hosts: list[str], zone: str) -> None:
        self._service = service
        self._db = service.db
        self._code = code
        self._git_hosts = git_hosts
        self._zone = zone
        self._latest = math.inf
        """Latest time that `run_due` has seen; infinite before its first call."""
        self.wake: Callable[[], None] = lambda: None

    def create(self, spec: ScheduleSpec, user: str, key: str | None, answer: Answer[A]) -> A:
        """Store a schedule. Its job is checked as if it was submitted now.

        Raises InvalidError, ConflictError, and IdempotencyError for a key that was used for another schedule."""
        job = job_of(spec.job, user)  # first: a key of a job that is no text can't be written
        told = f"{user}\n{spec.model_dump_json()}"
        digest = hashlib.sha256(told.encode()).hexdigest()
        if key is not None:  # first: what was stored is returned even if it would be refused now
            with self._db.read() as conn:
                if found := table.by_key(conn, key):
                    return _same(found, digest, key, partial(answer, conn))
        self._service.check_room()
        zone = spec.time_zone or self._zone
        now = self._service.clock()
        first = Repetition(spec.every, zone).next(now)
        if first is None:
            raise InvalidError(f"`{spec.every}` names no time within 50 years: correct it", field="every")
        keys = {**spec.job, "user": user, "data": job.data}
        if not is_settled([job]):
            [job] = settled([job], self._code, self._git_hosts)
            keys |= job.model_dump(mode="json", include={"code", "requirements"}, exclude_none=True)
        self._service.check(job)
        values: dict[str, Any] = {
            "id": new_job_id(), "user": user, "cron": spec.every, "time_zone": zone, "overlap": spec.overlap.value,
            "job": keys, "created_at": now, "next_at": first, "idempotency_key": key, "request_hash": digest,
            "message": "", "runs": 0, "missed": 0,
        }  # fmt: skip

        def change(conn: Connection) -> A:
            if key is not None and (found := table.by_key(conn, key)):
                return _same(found, digest, key, partial(answer, conn))
            if why := why_not(conn, user):
                raise InvalidError(f"it can't run: {why}", field="job.user")
            return answer(conn, table.add(conn, values, now))

        return self._changed(change)

    def pause(self, schedule_id: str, answer: Answer[A]) -> A:
        """Submit no further runs. Repeating it changes nothing. Raises NotFoundError."""

        def change(conn: Connection) -> A:
            row, now = table.get_schedule(conn, schedule_id), self._service.clock()
            if row.paused_at is None:
                _pause(conn, row, "Paused.", now, "paused")
            return answer(conn, table.get_schedule(conn, schedule_id))

        return self._changed(change)

    def resume(self, schedule_id: str, answer: Answer[A]) -> A:
        """Submit runs again, from the next time on. Repeating it changes nothing.

        Raises NotFoundError, and InvalidError if its user may not submit jobs."""

        def change(conn: Connection) -> A:
            row, now = table.get_schedule(conn, schedule_id), self._service.clock()
            if row.paused_at is not None:
                if why := why_not(conn, row.user):
                    raise InvalidError(f"schedule {schedule_id} can't run: {why}")
                next_at = Repetition(row.cron, row.time_zone).next(now)
                table.change(conn, schedule_id, paused_at=None, message="", next_at=next_at)
                table.note(conn, row, "resumed", "Resumed.", now)
            return answer(conn, table.get_schedule(conn, schedule_id))

        return self._changed(change)

    def delete(self, schedule_id: str) -> None:
        """Delete a schedule. Its jobs stay. Raises NotFoundError."""
        self._changed(lambda conn: table.remove(conn, schedule_id, self._service.clock()))

    def _changed(self, change: Callable[[Connection], A]) -> A:
        changed = self._db.write(change)
        self.wake()
        return changed

    def run_due(self) -> float | None:
        """Submit the jobs of all schedules whose time has come. Return the next time of a schedule, if there is one.

        Any call may be the first after a start."""
        now = self._service.clock()
        if now < self._latest:  # set back, or set back while no service ran
            self._db.write(partial(table.correct_times, now=now))
        self._latest = now
        while True:
            with self._db.read() as conn:
                rows = table.due(conn, now)
            for row in rows:
                self._run(row, now)
            if not rows:
                break
        with self._db.read() as conn:
            return table.next_time(conn)

    def _run(self, row: ScheduleRow, now: float) -> None:
        """Submit the job of a schedule, or record why not; move the schedule to its next time."""
        repetition = Repetition(row.cron, row.time_zone)
        due = due_at(repetition, row.next_at, now)
        job, refusal = None, ""
        if due.run_at is not None:
            try:
                job = self._checked(row)
            except StoreError:
                raise  # it is tried again, while the time is recent
            except SchedulearnError as error:
                refusal = error.detail

        def change(conn: Connection) -> bool:
            found = conn.execute(select(table.Schedule).where(col(table.Schedule.id) == row.id)).one_or_none()
            if found is None or found.next_at != row.next_at:
                return False  # it was changed or deleted meanwhile
            return self._advance(conn, found, due, job, refusal, now)

        try:
            submitted = self._db.write(change)
        except StoreError:
            raise
        except SchedulearnError as error:  # a quota, or data that was removed meanwhile
            job, refusal = None, error.detail
            submitted = self._db.write(change)
        if submitted:
            self._service.wake()

    def _checked(self, row: ScheduleRow) -> JobSpec:
        """Return the job of a run, checked with the present rights of its user. Raises SchedulearnError."""
        job = job_of({key: value for key, value in row.job.items() if key != "user"}, row.user)
        self._service.check_room()
        self._service.check(job)
        return job

    def _advance(
        self, conn: Connection, row: ScheduleRow, due: Due, job: JobSpec | None, refusal: str, now: float
    ) -> bool:
        """Return whether a job was stored."""
        repetition = Repetition(row.cron, row.time_zone)
        if due.run_at is None or due.missed:
            message = _missed(due.missed, repetition.shown(row.next_at))
            table.note(conn, row, "missed", message, now, "service_down")
            table.change(conn, row.id, missed=row.missed + due.missed, message=message)
        table.change(conn, row.id, next_at=due.next_at)
        if due.run_at is None:
            return False
        if why := why_not(conn, row.user):
            _pause(conn, row, f"Paused: {why}.", now, "owner")
            return False
        active = table.active_runs(conn, row.id)
        at = repetition.shown(due.run_at)
        why = f"its job is refused: {refusal}" if job is None else _why_no_run(row, active)
        if job is None or why:
            message = f"The run of {at} was missed: {why}."
            table.note(conn, row, "missed", message, now, "refused" if job is None else "overlap")
            table.change(conn, row.id, missed=row.missed + due.missed + 1, message=message)
            return False
        job_id = self._submit(conn, row, job, active, now)
        table.change(conn, row.id, last_at=due.run_at, last_job=job_id, runs=row.runs + 1)
        if not due.missed:
            table.change(conn, row.id, message="")
        return True

    def _submit(self, conn: Connection, row: ScheduleRow, job: JobSpec, active: list[str], now: float) -> str:
        """Store the job of a run, and return its id. Raises QuotaError and InvalidError."""
        quotas = self._service.quotas
        values = job_row(job, now) | {
            "max_duration": quotas.in_force.duration_of(job.user, job.max_duration),
            "schedule": row.id,
        }
        settle_inputs(conn, [values], [job])
        if active:  # without the outputs of that run: the next one only waits for its end
            values["after"] = {"jobs": active[-1:], "when": "any"}
        quotas.check_waiting(conn, {job.user: 1})
        quotas.note_submission({job.user: 1})
        insert_jobs(conn, [(values, job.user)])
        return str(values["id"])


def _missed(count: int, first: str) -> str:
    if count == 1:
        return f"The run of {first} was missed: the service did not run then."
    many = f"At least {count:,}" if count == MAX_COUNTED else f"{count:,}"
    return f"{many} runs from {first} on were missed: the service did not run then."


def why_not(conn: Connection, user: str) -> str:
    """Return why a user may not submit jobs; empty: they may, or have no account, as those named by admins."""
    query = select(AccountTable).where(col(AccountTable.name) == user)
    account = conn.execute(query).one_or_none()
    if account is None:
        return ""
    if account.removed_at is not None:
        return f"the account of its user {user} was removed"
    if account.disabled_by is not None:
        return f"the account of its user {user} is disabled"
    return (
        "" if Role(account.role).includes(Role.USER) else f"its user {user} is {account.role}, and needs the role user"
    )


def _why_no_run(row: ScheduleRow, active: list[str]) -> str:
    """Return why a schedule does not run beside its earlier runs; empty: it runs."""
    if not active:
        return ""
    if row.overlap == Overlap.SKIP:
        return f"the previous run, job {active[-1]}, has not ended"
    return f"job {active[-1]} still waits for the end of the run before it" if len(active) > 1 else ""


def _pause(conn: Connection, row: ScheduleRow, message: str, now: float, code: str) -> None:
    table.change(conn, row.id, paused_at=now, next_at=None, message=message)
    table.note(conn, row, "paused", message, now, code)


def _same(row: ScheduleRow, digest: str, key: str, answer: Callable[[ScheduleRow], A]) -> A:
    if row.request_hash != digest:
        raise IdempotencyError(f"the Idempotency-Key {key!r} was used before for another schedule")
    return answer(row)
