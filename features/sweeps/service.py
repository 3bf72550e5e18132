"""Use cases of sweeps, and the advance of each sweep.

The runs of a sweep are rows from the beginning. A run gets its job in the transaction that stores the job. At most
`max_parallel` of the sweep's jobs wait or run. Therefore a killed service loses no run, and no run has two jobs.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from functools import partial
from itertools import accumulate
from typing import NamedTuple, cast

from sqlalchemy.engine import Connection
from typing_extensions import TypeVar

from schedulearn.features.sweeps import table as store
from schedulearn.features.sweeps.spec import Params, Prune, SweepSpec, extremes_of, job_of, runs_of
from schedulearn.features.sweeps.steps import (
    ChangeState,
    StartRuns,
    SweepProgress,
    SweepReason,
    SweepState,
    SweepStep,
    next_step,
)
from schedulearn.features.sweeps.table import RunRow, SweepRow
from schedulearn.scheduler.code.store import CodeStore
from schedulearn.scheduler.control.service import cancel_job, check_predecessors
from schedulearn.scheduler.control.submission.inputs import pinned, settle_inputs
from schedulearn.scheduler.control.submission.sources import is_settled, settled
from schedulearn.scheduler.core.instants import shown
from schedulearn.scheduler.core.planning.quotas import NO_QUOTAS, Quotas
from schedulearn.scheduler.errors import ConflictError, IdempotencyError, InvalidError
from schedulearn.scheduler.specs.job import JobSpec, new_job_id
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.job_rows import insert_jobs, job_row
from schedulearn.scheduler.store.people.quotas import room_to_wait

log = logging.getLogger(__name__)

_RUNS, _TEXT = 500, 128 << 10
"""Maximum number of runs that start in one transaction, and maximum characters of their jobs."""

A = TypeVar("A", default=SweepRow)
Answer = Callable[[Connection, SweepRow], A]
"""Function that makes the response from the changed row before the commit."""


def _row(_: Connection, row: SweepRow) -> SweepRow:
    return row


class Sweeps:
    """Use cases of sweeps.

    `check` raises InvalidError for a job that the operator does not allow."""

    def __init__(
        self,
        db: Database,
        wake: Callable[[], None],
        check: Callable[[JobSpec], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._db = db
        self._wake = wake
        self._check = check
        self._clock = clock

    def start(
        self,
        spec: SweepSpec,
        idempotency_key: str | None = None,
        answer: Answer[A] | None = None,
        asked: SweepSpec | None = None,
        design: dict[str, object] | None = None,
        is_open: bool = False,
    ) -> A:
        """Store a sweep. Its first runs start in the next scheduling cycle.

        The job of each run is checked first. Raises InvalidError, and IdempotencyError for a key that was used for
        another sweep.

        `asked`: the original request, if `spec` differs from it: a branch may name another commit now. `design`:
        properties of an experiment or search, stored with the sweep. `is_open`: a search adds further runs."""
        runs = list(runs_of(spec))
        for number, params in enumerate(runs, 1):
            try:
                self._check(job_of(spec.name, spec.job, number, params))
            except InvalidError as error:
                raise InvalidError(_located(error.detail, number), field=error.field) from error
        for params in extremes_of(spec):
            self._check(job_of(spec.name, spec.job, len(runs) + 1, params))
        is_open = is_open or (spec.is_adaptive and len(runs) < spec.size)
        given, first = spec.model_dump(mode="json", exclude_none=True), job_of(spec.name, spec.job, 1, runs[0])
        told = (asked or spec).model_dump_json(exclude_none=True) + (json.dumps(design) if design and is_open else "")
        digest = hashlib.sha256(told.encode()).hexdigest()
        make, now = answer or cast("Answer[A]", _row), self._clock()
        if isinstance(first.start_after, timedelta) and "start_after" in given["job"]:
            given["job"]["start_after"] = shown(now + first.start_after.total_seconds())  # from the sweep's submission
        values = {
            "id": new_job_id(), "name": spec.name, "user": first.user, "spec": given, "runs": len(runs),
            "max_parallel": spec.max_parallel, "max_failures": spec.max_failures, "state": SweepState.RUNNING,
            "reason": SweepReason.STARTED, "created_at": now,
            "message": _beginning(spec, len(runs)), "search": spec.search,
            "prune": spec.prune.method if isinstance(spec.prune, Prune) else None,
            "idempotency_key": idempotency_key, "request_hash": digest, "design": design, "open": is_open,
        }  # fmt: skip
        add_runs = store.prepare_runs(self._db.engine.dialect, str(values["id"]), runs)

        def change(conn: Connection) -> A:
            found = store.sweep_by_key(conn, idempotency_key) if idempotency_key is not None else None
            if found is None:
                check_predecessors(conn, [first])
                if first.data:  # all runs use the same versions, even if new ones are pushed
                    values["spec"] = {**given, "job": {**given["job"], "data": pinned(conn, first.data)}}
                store.add_sweep(conn, values)
                add_runs(conn)
                found = store.get_sweep(conn, str(values["id"]))
                store.add_sweep_event(conn, found.id, found.state, found.reason, found.message, now)
            elif found.request_hash != digest:
                raise IdempotencyError(f"the Idempotency-Key {idempotency_key!r} was used before for another sweep")
            return make(conn, found)

        return self._changed(change)

    def cancel(self, sweep_id: str, answer: Answer[A] | None = None) -> A:
        """Cancel a sweep: start no further run, and cancel its jobs.

        Repeating it changes nothing. Raises ConflictError for a sweep that ended otherwise."""
        make = answer or cast("Answer[A]", _row)

        def change(conn: Connection) -> A:
            sweep, now = store.get_sweep(conn, sweep_id), self._clock()
            if sweep.state.ended and sweep.state is not SweepState.CANCELLED:
                raise ConflictError(f"sweep {sweep_id} has ended already: {sweep.state}")
            cancel_sweep(conn, sweep_id, now)
            return make(conn, store.get_sweep(conn, sweep_id))

        return self._changed(change)

    def retry(self, sweep_id: str, answer: Answer[A] | None = None) -> A:
        """Start unsuccessful runs again with new jobs.

        These are runs that failed, reached their time limit, were cancelled or never started. Raises ConflictError
        while the sweep is stopping, or if all runs succeeded. Raises InvalidError if its jobs are no longer allowed."""
        make = answer or cast("Answer[A]", _row)
        with self._db.read() as conn:
            known = store.get_sweep(conn, sweep_id)
            [first] = store.list_runs(conn, sweep_id, "", limit=1)
        self._check(_job_of(known, first.number, first.params))

        def change(conn: Connection) -> A:
            sweep, now = store.get_sweep(conn, sweep_id), self._clock()
            if sweep.state is SweepState.STOPPING:
                raise ConflictError(f"sweep {sweep_id} is stopping: try again once its runs have ended")
            store.forget_unsuccessful(conn, sweep_id)
            if sweep.state.ended:
                pending = store.progress_of(conn, [sweep_id])[sweep_id].pending
                if not pending:
                    raise ConflictError(f"sweep {sweep_id} has nothing to retry: none of its runs was unsuccessful")
                message = f"Started again with {pending} runs."
                store.move_sweep(conn, sweep_id, SweepState.RUNNING, SweepReason.RETRIED, message, now)
            return make(conn, store.get_sweep(conn, sweep_id))

        return self._changed(change)

    def _changed(self, change: Callable[[Connection], A]) -> A:
        answered = self._db.write(change)
        self._wake()
        return answered


def _beginning(spec: SweepSpec, runs: int) -> str:
    if spec.is_adaptive:
        return f"Started with {runs} of {spec.size} trials; {spec.search} chooses the others from their results."
    return f"Started with {runs} run{'s' * (runs != 1)}."


def _job_of(sweep: SweepRow, number: int, params: Params) -> JobSpec:
    """Return the job of a run, for the sweep's current user.

    The stored specification may name a user who was removed."""
    return job_of(sweep.name, {**sweep.spec["job"], "user": sweep.user}, number, params)


def cancel_sweep(conn: Connection, sweep_id: str, now: float) -> None:
    """Cancel a sweep and its jobs. Does nothing if it is ending."""
    sweep = store.get_sweep(conn, sweep_id)
    for job in store.active_jobs(conn, sweep_id):
        cancel_job(conn, job, now)
    if not sweep.state.ended and sweep.reason is not SweepReason.CANCELLED:
        reason, message = SweepReason.CANCELLED, "Cancelled; its runs are stopping."
        store.move_sweep(conn, sweep_id, SweepState.STOPPING, reason, message, now)
        _advance(sweep_id, now, _Limits(), conn)


def advance_sweeps(
    db: Database,
    now: float,
    quotas: Quotas = NO_QUOTAS,
    is_disk_low: Callable[[], bool] = lambda: False,
    unsettled: Collection[str] = (),
) -> bool:
    """Advance all sweeps as far as possible; return whether anything changed.

    Any call may be the first after a start. No run starts beyond its user's quota of waiting jobs, or while the disk is
    almost full. `unsettled`: sweeps that must not end yet, since results of their runs are incomplete."""
    with db.read() as conn:
        unfinished = store.unfinished(conn)
        limits = _Limits(quotas, bool(unfinished) and is_disk_low(), unsettled)
        due = [sweep.id for sweep in unfinished if _next(conn, sweep, limits) is not None]
    for sweep_id in due:
        try:
            while db.write(partial(_advance, sweep_id, now, limits)):
                pass
        except InvalidError:
            log.exception("sweep %s: a run that was right when it was stored is not any more", sweep_id)
            db.write(partial(_give_up, sweep_id, now))
    return bool(due)


class _Limits(NamedTuple):
    """Limits that keep runs from starting, and sweeps from ending."""

    quotas: Quotas = NO_QUOTAS
    disk_low: bool = False
    unsettled: Collection[str] = ()


def _next(conn: Connection, sweep: SweepProgress, limits: _Limits) -> SweepStep | None:
    room = room_to_wait(conn, limits.quotas, sweep.user) if sweep.pending else None
    step = next_step(sweep, room, disk_low=limits.disk_low)
    ends = isinstance(step, ChangeState) and step.state.ended
    return None if ends and sweep.id in limits.unsettled else step


def _advance(sweep_id: str, now: float, limits: _Limits, conn: Connection) -> bool:
    """Return whether more may be done. Runs start in small groups.

    Other changes wait while runs start."""
    while (step := _next(conn, store.progress_of(conn, [sweep_id])[sweep_id], limits)) is not None:
        match step:
            case StartRuns(count):
                _start_runs(conn, sweep_id, count, now, limits.quotas)
                return True
            case ChangeState(state, reason, message, cancel_waiting):
                if cancel_waiting:
                    for job in store.active_jobs(conn, sweep_id, only_waiting=True):
                        cancel_job(conn, job, now)
                store.move_sweep(conn, sweep_id, state, reason, message, now)
    return False


def _start_runs(conn: Connection, sweep_id: str, count: int, now: float, quotas: Quotas) -> None:
    sweep = store.get_sweep(conn, sweep_id)
    runs = _first(store.pending_runs(conn, sweep_id, min(count, _RUNS)), len(str(sweep.spec["job"])))
    specs = [_job_of(sweep, run.number, run.params) for run in runs]
    jobs = [
        {
            **job_row(spec, now),
            "max_duration": quotas.duration_of(spec.user, spec.max_duration),
            "sweep": sweep_id,
            "params": run.params,
        }
        for run, spec in zip(runs, specs, strict=True)
    ]
    settle_inputs(conn, jobs, specs)
    insert_jobs(conn, [(job, sweep.user) for job in jobs])
    store.give_jobs(conn, [(run, str(job["id"])) for run, job in zip(runs, jobs, strict=True)])


def _first(runs: Sequence[RunRow], job: int) -> Sequence[RunRow]:
    """Return the runs that one transaction starts.

    `job`: characters of the sweep's job. The total length is limited, because long jobs take time to parse."""
    lengths = accumulate(job + len(str(run.params)) for run in runs)
    return [run for number, (run, length) in enumerate(zip(runs, lengths, strict=True)) if not number or length < _TEXT]


def _give_up(sweep_id: str, now: float, conn: Connection) -> None:
    """Stop a sweep whose jobs the service no longer accepts.

    A newer version may refuse jobs that an older one accepted."""
    message = "Its runs can't start any more: see the service's log."
    store.move_sweep(conn, sweep_id, SweepState.STOPPING, SweepReason.REFUSED, message, now)


def _located(detail: str, number: int) -> str:
    return detail if detail.startswith(f"run {number}:") else f"run {number}: {detail}"


def settled_sweep(spec: SweepSpec, store: CodeStore, allowed: Sequence[str]) -> SweepSpec:
    """Return a sweep with stored code and requirements, equal for all runs.

    Raises InvalidError."""
    first = job_of(spec.name, spec.job, 1, next(iter(runs_of(spec))))
    if is_settled([first]):
        return spec
    [job] = settled([first], store, allowed)
    told = job.model_dump(mode="json", include={"code", "requirements"}, exclude_none=True)
    return spec.model_copy(update={"job": {**spec.job, **told}})
