"""Use cases: everything that a person or a program may ask for. Each is one transaction: a change and its event."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col
from typing_extensions import TypeVar

from schedulearn.scheduler.core.instants import late_deadline
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.core.states import WAITS, JobStatus, Reason
from schedulearn.scheduler.errors import ConflictError, IdempotencyError, InvalidError
from schedulearn.scheduler.policies.registry import canonical_name, make_policy, policy_of
from schedulearn.scheduler.specs.env_masking import check_no_mask
from schedulearn.scheduler.specs.job import JobSpec, new_job_id
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Event, Job, PolicyChoice

DEFAULT_POLICY = "fifo"

JobRows = Sequence[Mapping[str, Any]]
A = TypeVar("A", default=Row[Any])
B = TypeVar("B", default=JobRows)
Answer = Callable[[Connection, Row[Any]], A]
"""What the caller gets, made of the changed row before the change is committed: if it fails, nothing has changed."""

_GATHER_S = 0.002
"""So long a submission waits for company while there is much of it: a flush of the disk costs about as much."""


def _row(_: Connection, row: Any) -> Any:
    return row


def _rows(rows: Any) -> Any:
    return rows


@dataclass(frozen=True)
class _Submission:
    """Jobs on their way to the disk, and what their sender gets once they are there."""

    rows: list[dict[str, Any]]
    answer: Any
    stored: Future[Any] = field(default_factory=Future)


class Service:
    """The use cases over one database. `wake` is called after whatever the loop should react to."""

    def __init__(
        self,
        db: Database,
        wake: Callable[[], None] = lambda: None,
        *,
        max_gpus_per_job: int | None = None,
        data_sets: Set[str] = frozenset(),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.data_sets = data_sets
        self.db = db
        self.wake = wake
        self.clock = clock
        self.max_gpus_per_job = max_gpus_per_job
        self._pending: list[_Submission] = []
        self._pending_lock = threading.Lock()
        self._busy = False  # the last statement stored several submissions
        self._policy_lock = threading.Lock()
        self._policy, self.policy_problem = self._load_policy()

    # --- jobs ---

    def submit(
        self, specs: Sequence[JobSpec], idempotency_key: str | None = None, answer: Callable[[JobRows], B] = _rows
    ) -> Future[B]:
        """Stores jobs, all or none; done once they are durable, with the `answer` to their rows. That is made before
        anything is stored: if it fails, nothing is. The same key with the same jobs gives the jobs of the first time,
        with other jobs IdempotencyError."""
        for index, spec in enumerate(specs):
            try:
                self._check(spec)
            except InvalidError as error:
                where = error.field if len(specs) == 1 else f"{index}.{error.field}"
                raise InvalidError(error.detail, field=where) from error
        now = self.clock()
        rows = [_job_row(spec, now) for spec in specs]
        if idempotency_key is None:
            return self._enqueue(_Submission(rows, answer(rows)))
        digest = hashlib.sha256(json.dumps([s.model_dump(mode="json") for s in specs]).encode()).hexdigest()
        for index, row in enumerate(rows):
            row["idempotency_key"] = _nth_key(idempotency_key, index)
            row["request_hash"] = digest

        def change(db: Connection) -> B:
            found = self._submitted_before(db, idempotency_key, digest, len(rows))
            if not found:
                _insert_jobs(db, rows)
            return answer(found or rows)

        future = self.db.submit(change)
        future.add_done_callback(lambda _: self.wake())
        return future

    def _check(self, spec: JobSpec) -> None:
        """Raises InvalidError for what the operator does not give, and for what is no value."""
        check_no_mask(spec.env)
        if self.max_gpus_per_job is not None and spec.required_gpus > self.max_gpus_per_job:
            raise InvalidError(
                f"required_gpus is {spec.required_gpus}; the operator allows at most {self.max_gpus_per_job} a job",
                field="required_gpus",
            )
        if unknown := [name for name in spec.mounts if name not in self.data_sets]:
            declared = ", ".join(sorted(self.data_sets)) or "none"
            raise InvalidError(
                f"there is no data set {unknown[0]!r}; the operator declared: {declared} (setting data_sets)",
                field="mounts",
            )

    def _enqueue(self, submission: _Submission) -> Future[Any]:
        """Submissions that come while the disk is busy with others are stored by one statement, not one each."""
        with self._pending_lock:
            self._pending.append(submission)
            alone = len(self._pending) == 1
        if alone:
            taken: list[_Submission] = []

            def take() -> None:
                with self._pending_lock:
                    taken.extend(self._pending)
                    self._pending.clear()

            def change(db: Connection) -> None:
                if self._busy:
                    time.sleep(_GATHER_S)
                take()
                self._busy = len(taken) > 1
                _insert_jobs(db, [row for each in taken for row in each.rows])

            def answer(stored: Future[None]) -> None:
                error = stored.exception()
                if error and not taken:  # not even begun: the database is locked, say
                    take()
                for each in taken:
                    each.stored.set_exception(error) if error else each.stored.set_result(each.answer)
                self.wake()

            self.db.submit(change).add_done_callback(answer)
        return submission.stored

    def _submitted_before(self, db: Connection, key: str, digest: str, count: int) -> JobRows:
        keys = [_nth_key(key, index) for index in range(count)]
        rows = db.execute(select(Job).where(col(Job.idempotency_key).in_(keys)))
        found = {row.idempotency_key: row._mapping for row in rows}
        if any(row["request_hash"] != digest for row in found.values()):
            raise IdempotencyError(f"the Idempotency-Key {key!r} was used before for another request")
        return [dict(found[k]) for k in keys] if found else []

    def cancel(self, job_id: str, answer: Answer[A] = _row) -> A:
        """Ends a job: at once if it waits, else by stopping its containers. A second call changes nothing; a job that
        ended otherwise is a ConflictError."""

        def change(db: Connection) -> A:
            job = repository.get_job(db, job_id)
            status, now = JobStatus(job.status), self.clock()
            if status in WAITS:
                repository.move_job(db, job, Reason.CANCELLED, "Cancelled while it waited.", now, pull_percent=None)
            elif status in (JobStatus.STARTING, JobStatus.RUNNING, JobStatus.RESIZING):
                repository.move_job(db, job, Reason.CANCEL_REQUESTED, "Cancelled; its containers are stopping.", now)
                repository.stop_tasks(db, job_id)
            elif status.terminal and status is not JobStatus.CANCELLED:
                raise ConflictError(f"job {job_id} has ended already: {status}")
            return answer(db, repository.get_job(db, job_id))

        answered = self.db.write(change)
        self.wake()
        return answered

    def set_priority(self, job_id: str, priority: int, answer: Answer[A] = _row) -> A:
        """Takes effect at the next decision. Raises ConflictError for a job that has ended."""

        def change(db: Connection) -> A:
            job = repository.get_job(db, job_id)
            if JobStatus(job.status).terminal:
                raise ConflictError(f"job {job_id} has ended already: {job.status}")
            db.execute(update(Job).where(col(Job.id) == job_id).values(priority=priority, version=col(Job.version) + 1))
            message = f"Priority {job.priority} -> {priority}."
            repository.add_event(db, self.clock(), "job.priority", message=message, job_id=job_id)
            return answer(db, repository.get_job(db, job_id))

        answered = self.db.write(change)
        self.wake()
        return answered

    # --- policy ---

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._policy

    def set_policy(
        self,
        algorithm: str,
        metric: str = "default",
        params: Mapping[str, Any] | None = None,
        answer: Answer[A] = _row,
    ) -> A:
        """Stored, and in force at the next decision; running jobs run on. Raises UnknownPolicyError or InvalidError."""
        policy = policy_of(algorithm, metric, params or {})
        values = {"algorithm": canonical_name(algorithm), "metric": metric, "params": dict(params or {})}
        with self._policy_lock:

            def change(db: Connection) -> A:
                now = self.clock()
                db.execute(insert(PolicyChoice).values(at=now, **values))
                sentence = f"The policy is now {values['algorithm']}, metric {metric}."
                repository.add_event(
                    db, now, "policy.changed", code=str(values["algorithm"]), message=sentence, data=values
                )
                row = repository.current_policy(db)
                assert row is not None
                return answer(db, row)

            answered = self.db.write(change)
            self._policy, self.policy_problem = policy, ""
        self.wake()
        return answered

    def _load_policy(self) -> tuple[Policy, str]:
        """The stored policy; the default, and why, if it can't be made any more (its file is gone, say)."""
        with self.db.read() as db:
            row = repository.current_policy(db)
        if row is None:
            return make_policy(DEFAULT_POLICY), ""
        try:
            return policy_of(row.algorithm, row.metric, row.params), ""
        except InvalidError as error:
            return make_policy(DEFAULT_POLICY), f"{error.detail}; {DEFAULT_POLICY} decides instead"


def _nth_key(key: str, index: int) -> str:
    return f"{key}\n{index}" if index else key  # a header can't hold a newline, so no user's key looks like this


def _insert_jobs(db: Connection, rows: list[dict[str, Any]]) -> None:
    db.execute(insert(Job), rows)
    submitted = [
        {"kind": "job.queued", "code": Reason.SUBMITTED.value, "data": {}, "job_id": row["id"],
         "at": row["submitted_at"], "message": row["message"]}
        for row in rows
    ]  # fmt: skip
    db.execute(insert(Event), submitted)


def _job_row(spec: JobSpec, now: float) -> dict[str, Any]:
    row = spec.model_dump(exclude={"shm_size", "memory", "deadline"})
    deadline = spec.deadline.timestamp() if spec.deadline else None
    return {
        **row,
        "shm_bytes": spec.shm_size,
        "memory_bytes": spec.memory,
        "deadline": deadline,
        "id": new_job_id(),
        "status": JobStatus.QUEUED.value,
        "reason": Reason.SUBMITTED.value,
        "message": f"Submitted. {late_deadline(deadline, now)}".strip(),
        "submitted_at": now,
        "version": 0,
        "attempt": 0,
        "restarts": 0,
        "retries": 0,
        "losses": 0,
        "exit_code": None,
        "started_at": None,
        "finished_at": None,
        "pull_percent": None,
        "not_before": None,
        "fetch_hosts": [],
        "run_seconds": 0.0,
        "gpu_seconds": 0.0,
        "generation": 0,
        "trained": 0,
        "meeting": "",
        "forming_at": None,
        "idempotency_key": None,
        "request_hash": None,
    }
