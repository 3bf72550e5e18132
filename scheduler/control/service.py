"""Use cases: the requests of users and programs. Each is one transaction.

A transaction stores a change together with its event.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass
from typing import cast

from sqlalchemy import insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col
from typing_extensions import TypeVar

from schedulearn.scheduler.background import call_later
from schedulearn.scheduler.control.holding import hold_job, pause_job, release_job
from schedulearn.scheduler.control.submission.inputs import (
    check_there,
    has_inputs,
    pinned,
    settle_inputs,
    versions_named,
)
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.core.states import WAITS, JobState, Reason
from schedulearn.scheduler.errors import (
    ConflictError,
    ContainersRemainError,
    ForbiddenError,
    IdempotencyError,
    InvalidError,
    SchedulearnError,
    StoreError,
)
from schedulearn.scheduler.policies.registry import canonical_name, make_policy, policy_of
from schedulearn.scheduler.specs.env_masking import check_no_mask
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.accounting.usage import delete_job
from schedulearn.scheduler.store.data.versions import check_may_change
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.job_rows import JobValues, job_row, prepare_jobs
from schedulearn.scheduler.store.models import Job, PolicyChoice
from schedulearn.scheduler.store.people.acting import ACTOR
from schedulearn.scheduler.store.people.quota_book import QuotaBook
from schedulearn.scheduler.store.people.run_as import load_run_as, why_none
from schedulearn.scheduler.store.people.visibility import SEES_ONLY
from schedulearn.scheduler.store.repository import JobRow

log = logging.getLogger(__name__)

DEFAULT_POLICY = "goodput"
MAX_AFTER = 50_000
"""Maximum predecessors of all jobs in a batch. Storing each with each job keeps the writer from other changes."""
_RECORD_S = 2.0


@dataclass(frozen=True)
class ChosenPolicy:
    """Policy that a user chose.

    `params`: only those that differ from the policy's defaults. `at`: seconds since the epoch."""

    algorithm: str
    metric: str
    params: Mapping[str, object]
    at: float


JobRows = Sequence[JobValues]
A = TypeVar("A", default=JobRow)
B = TypeVar("B", default=JobRows)
C = TypeVar("C", default=ChosenPolicy)
Answer = Callable[[Connection, JobRow], A]
PolicyAnswer = Callable[[Connection, ChosenPolicy], C]
"""Function that makes the response from the changed row before the commit. If it fails, nothing is changed."""


def _row(_: Connection, row: JobRow) -> JobRow:
    return row


def _rows(rows: JobRows) -> JobRows:
    return rows


def _choice(_: Connection, choice: ChosenPolicy) -> ChosenPolicy:
    return choice


class Service:
    """Use cases of one database. `wake` is called after relevant changes."""

    def __init__(
        self,
        db: Database,
        wake: Callable[[], None] = lambda: None,
        *,
        max_gpus_per_job: int | None = None,
        data_sets: Set[str] = frozenset(),
        writable: Mapping[str, Sequence[str]] | None = None,
        use_code: Callable[[str], bool] = lambda digest: False,
        quotas: QuotaBook | None = None,
        check_secrets: Callable[[str, Mapping[str, str]], None] = lambda user, wanted: None,
        check_recipients: Callable[[str, Sequence[str]], None] = lambda user, recipients: None,
        check_room: Callable[[], None] = lambda: None,
        later: Callable[[float, Callable[[], None]], None] = call_later,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.data_sets = data_sets
        self._writable = writable or {}
        self.quotas = quotas or QuotaBook(db)
        self._use_code = use_code
        self._check_secrets = check_secrets
        self._check_recipients = check_recipients
        self.check_room = check_room
        self._later = later
        self.db = db
        self.wake = wake
        self.clock = clock
        self.max_gpus_per_job = max_gpus_per_job
        self.on_delete: Callable[[Sequence[str]], None] = lambda tasks: None
        """Called with the tasks of each deleted job."""
        self.stop_now: Callable[[Connection, JobRow], bool] = lambda conn, job: False
        """Function that stops a job's containers without recording it; returns False if there are none."""
        self._unrecorded: set[str] = set()
        """Stopped jobs that can't be recorded as cancelled yet."""
        self._policy_lock = threading.Lock()
        self._policy, self.policy_problem = self._load_policy()

    # --- jobs ---

    def submit(
        self,
        specs: Sequence[JobSpec],
        idempotency_key: str | None = None,
        answer: Callable[[JobRows], B] | None = None,
        asked: Sequence[JobSpec] | None = None,
    ) -> Future[B]:
        """Store jobs, all or none, and return a future.

        The future is done once the jobs are durable. Its result is `answer` of their rows, which is called before
        anything is stored. If it fails, nothing is stored.

        The same key with the same jobs returns the jobs of the first request. The same key with other jobs raises
        IdempotencyError. `asked`: the original request, if `specs` differ from it: a branch may name another commit
        now."""
        make = answer or cast("Callable[[JobRows], B]", _rows)
        key = _Key(idempotency_key, asked or specs) if idempotency_key is not None else None
        if key:  # first: what was stored is returned even if it would be refused now
            with self.db.read() as conn:
                if found := key.jobs(conn):
                    return _done(make(found))
        self.check_room()
        self._check_each(specs)
        now = self.clock()
        rows = [job_row(spec, now) for spec in specs]
        for row, spec in zip(rows, specs, strict=True):
            row["max_duration"] = self.quotas.in_force.duration_of(spec.user, spec.max_duration)
        needs_inputs = any(map(has_inputs, specs))
        sent = Counter(spec.user for spec in specs)
        self.quotas.note_submission(sent)
        # Slow steps are done here, not in the only writer thread.
        if needs_inputs:
            with self.db.read() as conn:
                check_predecessors(conn, specs)
                settle_inputs(conn, rows, specs)
        if key:
            key.write_into(rows)
        made, references = make(rows), versions_named(rows)
        insert = prepare_jobs(self.db.engine.dialect, [(row, ACTOR.get()) for row in rows])

        def change(conn: Connection) -> B:
            if key and not key.is_new(conn):
                return make(key.jobs(conn))
            check_there(conn, references)
            self.quotas.check_waiting(conn, sent)
            insert(conn)
            return made

        future = self.db.submit(change)
        future.add_done_callback(lambda _: self.wake())
        return future

    def _check_each(self, specs: Sequence[JobSpec]) -> None:
        for index, spec in enumerate(specs):
            try:
                self.check(spec)
            except InvalidError as error:
                where = error.field if len(specs) == 1 else f"{index}.{error.field}"
                raise InvalidError(error.detail, field=where) from error

    def check(self, spec: JobSpec) -> None:
        """Raise InvalidError or ForbiddenError if the operator does not allow the job.

        Masked values of variables are refused too."""
        check_no_mask(spec)
        self.quotas.check_priority(spec.user, spec.priority)
        self.quotas.check_duration(spec.user, spec.max_duration)
        self._check_secrets(spec.user, spec.secrets)
        self._check_recipients(spec.user, spec.notify)
        if spec.code is not None and (spec.code.digest is None or not self._use_code(spec.code.digest)):
            raise InvalidError(
                f"the code {spec.code.digest} is not stored here, or not any more: send it again (POST /api/v1/code)"
                if spec.code.digest
                else "each run of a sweep has the same code: name it in the sweep's job",
                field="code",
            )
        if spec.after is not None and SEES_ONLY.get() is not None:
            with self.db.read() as conn:  # stored jobs are checked in the transaction, which sees all jobs
                check_predecessors(conn, [spec])
        if spec.data or spec.keep:
            with self.db.read() as conn:
                pinned(conn, spec.data)
                for name in spec.keep:
                    check_may_change(conn, name, spec.user, is_admin=False)
        if isinstance(spec.requirements, str):
            raise InvalidError("requirements of a run must be a list: only the sweep's job may name a file")
        if self.max_gpus_per_job is not None and spec.required_gpus > self.max_gpus_per_job:
            raise InvalidError(
                f"required_gpus is {spec.required_gpus}; the operator allows at most {self.max_gpus_per_job} per job",
                field="required_gpus",
            )
        if unknown := [name for name in spec.mounts if name not in self.data_sets]:
            declared = ", ".join(sorted(self.data_sets)) or "none"
            raise InvalidError(
                f"there is no data set {unknown[0]!r}; the operator declared: {declared} (setting data_sets)",
                field="mounts",
            )
        for name in spec.mounts:
            if spec.user not in self._writable.get(name, [spec.user]):
                raise ForbiddenError(
                    f"only jobs of {', '.join(self._writable[name]) or 'no user'} may use {name}, which is writable "
                    "(setting writable_data_sets): ask the operator",
                    field="mounts",
                )
        if writable := [name for name in spec.mounts if name in self._writable]:
            with self.db.read() as conn:
                if spec.user not in load_run_as(conn, [spec.user]):
                    raise ForbiddenError(
                        f"jobs write {writable[0]} as their user's uid on the hosts, and {why_none(spec.user)}",
                        field="mounts",
                    )

    def cancel(self, job_id: str, answer: Answer[A] | None = None) -> A:
        """Cancel a job that waits, or stop a running job's containers.

        Repeating it changes nothing. Raises ConflictError for a job that ended otherwise."""

        make = answer or cast("Answer[A]", _row)

        def change(conn: Connection) -> A:
            job = repository.get_job(conn, job_id)
            state = JobState(job.state)
            if state.terminal and state is not JobState.CANCELLED:
                raise ConflictError(f"job {job_id} has ended already: {state}")
            cancel_job(conn, job, self.clock())
            return make(conn, repository.get_job(conn, job_id))

        try:
            answered = self.db.write(change)
        except StoreError as error:
            return self._stop_unrecorded(job_id, change, make, error)
        self.wake()
        return answered

    def _stop_unrecorded(self, job_id: str, change: Callable[[Connection], A], make: Answer[A], error: StoreError) -> A:
        """Stop a job that can't be recorded as cancelled yet.

        It is recorded later, for example once the disk has space again. Raises `error` for a job without containers."""
        with self.db.read() as conn:
            job = repository.get_job(conn, job_id)
            if not self.stop_now(conn, job):
                raise error
            answered = make(conn, job)
        log.warning("job %s is stopped, which is not recorded yet: %s", job_id, error)
        if job_id not in self._unrecorded:
            self._unrecorded.add(job_id)
            self._record_later(job_id, change)
        return answered

    def _record_later(self, job_id: str, change: Callable[[Connection], object]) -> None:
        def record() -> None:
            try:
                self.db.write(change)
            except StoreError:
                self._record_later(job_id, change)  # until there is space; a restart of the service forgets it
                return
            except SchedulearnError:
                pass  # it has ended meanwhile
            self._unrecorded.discard(job_id)
            self.wake()

        if not self.db.closed:
            self._later(_RECORD_S, record)

    def delete(self, job_id: str, answer: Answer[A] | None = None, *, shown: Callable[[str], bool]) -> A:
        """Delete a job that has ended, with its rows.

        `on_delete` removes the rest. `shown`: returns whether a host still has a container of the job. Raises
        ConflictError if the job has not ended, and ContainersRemainError if a host still has containers."""
        make = answer or cast("Answer[A]", _row)
        tasks: list[str] = []

        def change(conn: Connection) -> A:
            job = repository.get_job(conn, job_id)
            if not JobState(job.state).terminal:
                raise ConflictError(f"job {job_id} is {job.state}: cancel it, and delete it once it has ended")
            if shown(job_id):
                raise ContainersRemainError(f"a host still shows containers of job {job_id}: try again once it answers")
            answered = make(conn, job)
            tasks.extend(delete_job(conn, job, self.clock()))
            return answered

        answered = self.db.write(change)
        self.on_delete(tasks)
        return answered

    def set_priority(self, job_id: str, priority: int, answer: Answer[A] | None = None) -> A:
        """Set a job's priority, which the next decision uses.

        Raises ConflictError for a job that has ended, and InvalidError for a priority above the quota of its user."""

        make = answer or cast("Answer[A]", _row)

        def change(conn: Connection) -> A:
            job = repository.get_job(conn, job_id)
            if JobState(job.state).terminal:
                raise ConflictError(f"job {job_id} has ended already: {job.state}")
            if priority > job.priority:
                self.quotas.check_priority(job.user, priority)
            conn.execute(
                update(Job).where(col(Job.id) == job_id).values(priority=priority, version=col(Job.version) + 1)
            )
            message = f"Priority {job.priority} -> {priority}."
            repository.add_event(conn, self.clock(), "job.priority", message=message, job_id=job_id)
            return make(conn, repository.get_job(conn, job_id))

        answered = self.db.write(change)
        self.wake()
        return answered

    def hold(self, job_id: str, answer: Answer[A] | None = None) -> A:
        """Keep a waiting job from starting. Raises ConflictError for a job that does not wait."""
        return self._held(job_id, hold_job, answer)

    def pause(self, job_id: str, answer: Answer[A] | None = None) -> A:
        """Stop an elastic job with a checkpoint until it is released; hold one that waits. Raises ConflictError."""
        return self._held(job_id, pause_job, answer)

    def release(self, job_id: str, answer: Answer[A] | None = None) -> A:
        """Let a held or paused job start. Raises ConflictError for a job that has ended."""
        return self._held(job_id, release_job, answer)

    def _held(self, job_id: str, how: Callable[[Connection, JobRow, float], None], answer: Answer[A] | None) -> A:
        make = answer or cast("Answer[A]", _row)

        def change(conn: Connection) -> A:
            how(conn, repository.get_job(conn, job_id), self.clock())
            return make(conn, repository.get_job(conn, job_id))

        answered = self.db.write(change)
        self.wake()
        return answered

    # --- policy ---

    def current_policy(self) -> Policy:
        """The policy in force."""
        return self._policy

    def set_policy(
        self,
        algorithm: str,
        metric: str = "default",
        params: Mapping[str, object] | None = None,
        answer: PolicyAnswer[C] | None = None,
    ) -> C:
        """Store a policy, which makes the next decision.

        Running jobs continue. Raises UnknownPolicyError or InvalidError."""
        make = answer or cast("PolicyAnswer[C]", _choice)
        policy = policy_of(algorithm, metric, params or {})
        with self._policy_lock:

            def change(conn: Connection) -> C:
                choice = ChosenPolicy(canonical_name(algorithm), metric, dict(params or {}), self.clock())
                _store_choice(conn, choice)
                return make(conn, choice)

            answered = self.db.write(change)
            self._policy, self.policy_problem = policy, ""
        self.wake()
        return answered

    def _load_policy(self) -> tuple[Policy, str]:
        """Return the stored policy, or the default and the reason.

        The default replaces a policy that can't be made, for example because its file is gone."""
        with self.db.read() as conn:
            choice = chosen_policy(conn)
        if choice is None:
            return make_policy(DEFAULT_POLICY), ""
        try:
            return policy_of(choice.algorithm, choice.metric, choice.params), ""
        except InvalidError as error:
            return make_policy(DEFAULT_POLICY), f"{error.detail}; {DEFAULT_POLICY} decides instead"


def chosen_policy(conn: Connection) -> ChosenPolicy | None:
    """Return the last choice; None: no policy was ever chosen."""
    row = repository.current_policy(conn)
    return ChosenPolicy(row.algorithm, row.metric, row.params, row.at) if row is not None else None


def _store_choice(conn: Connection, choice: ChosenPolicy) -> None:
    values = {"algorithm": choice.algorithm, "metric": choice.metric, "params": choice.params}
    conn.execute(insert(PolicyChoice).values(at=choice.at, **values))
    message = f"The policy is now {choice.algorithm}, metric {choice.metric}."
    repository.add_event(conn, choice.at, "policy.changed", code=choice.algorithm, message=message, data=values)


def _done(result: B) -> Future[B]:
    future: Future[B] = Future()
    future.set_result(result)
    return future


class _Key:
    """Idempotency key of a request that stores jobs."""

    def __init__(self, key: str, asked: Sequence[JobSpec]) -> None:
        self._key = key
        self._digest = hashlib.sha256(json.dumps([s.model_dump(mode="json") for s in asked]).encode()).hexdigest()
        # A header can't hold a newline, so no user's key looks like a later one.
        self._keys = [f"{key}\n{index}" if index else key for index in range(len(asked))]

    def write_into(self, rows: Sequence[dict[str, object]]) -> None:
        for row, key in zip(rows, self._keys, strict=True):
            row["idempotency_key"] = key
            row["request_hash"] = self._digest

    def is_new(self, conn: Connection) -> bool:
        """Return whether no job has the key of the first job. That is enough after `jobs` found none."""
        return not is_known(conn, self._keys[0])

    def jobs(self, conn: Connection) -> JobRows:
        """Return the jobs stored with this key; none: the key is new.

        Raises IdempotencyError for another request, and if some of the jobs were deleted."""
        rows = conn.execute(select(Job).where(col(Job.idempotency_key).in_(self._keys)))
        found = {row.idempotency_key: dict(row._mapping) for row in rows}
        if any(row["request_hash"] != self._digest for row in found.values()):
            raise IdempotencyError(f"the Idempotency-Key {self._key!r} was used before for another request")
        if found and len(found) < len(self._keys):
            gone = len(self._keys) - len(found)
            raise IdempotencyError(
                f"the Idempotency-Key {self._key!r} was used before, and {gone} of its {len(self._keys)} jobs were "
                "deleted since: send them with another key"
            )
        return [found[key] for key in self._keys] if found else []


def is_known(conn: Connection, idempotency_key: str) -> bool:
    """Return whether a request with this key has stored jobs."""
    return conn.execute(select(col(Job.id)).where(col(Job.idempotency_key) == idempotency_key)).first() is not None


def check_predecessors(conn: Connection, specs: Sequence[JobSpec]) -> None:
    """Raise InvalidError for unknown predecessors, or too many of them."""
    count = sum(len(spec.after.jobs) for spec in specs if spec.after)
    if count > MAX_AFTER:
        raise InvalidError(f"the jobs of a batch name at most {MAX_AFTER:,} others in `after`, not {count:,}: split it")
    named = {job_id for spec in specs if spec.after for job_id in spec.after.jobs}
    known = repository.job_states(conn, named)
    for index, spec in enumerate(specs):
        if unknown := [job_id for job_id in (spec.after.jobs if spec.after else ()) if job_id not in known]:
            where = "after" if len(specs) == 1 else f"{index}.after"
            raise InvalidError(f"there is no job {unknown[0]!r} to wait for: submit it first", field=where)


def cancel_job(conn: Connection, job: JobRow, now: float) -> None:
    """Cancel a job. Does nothing if it has ended or is ending."""
    state = JobState(job.state)
    if state in WAITS:
        repository.move_job(conn, job, Reason.CANCELLED, "Cancelled while it waited.", now, pull_percent=None)
    elif state in (JobState.STARTING, JobState.RUNNING, JobState.RESIZING):
        repository.move_job(conn, job, Reason.CANCEL_REQUESTED, "Cancelled; its containers are stopping.", now)
        repository.stop_tasks(conn, job.id)


def prune_job(conn: Connection, job: JobRow, why: str, now: float) -> bool:
    """Stop a job whose results are not worth its time; return whether it is stopping now.

    Its processes get SIGTERM, and may store a checkpoint. Does nothing unless the job holds GPUs or runs. `why`: its
    message."""
    if JobState(job.state) not in (JobState.STARTING, JobState.RUNNING, JobState.RESIZING):
        return False
    repository.move_job(conn, job, Reason.PRUNE_REQUESTED, why, now)
    repository.stop_tasks(conn, job.id)
    return True
