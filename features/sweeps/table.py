"""Tables and queries of sweeps.

Every function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Dialect,
    ForeignKey,
    Index,
    Row,
    Select,
    String,
    Table,
    Text,
    and_,
    bindparam,
    case,
    false,
    func,
    insert,
    inspect,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.features.sweeps.steps import UNFINISHED, SweepProgress, SweepReason, SweepState
from schedulearn.scheduler.core.states import UNFINISHED as UNFINISHED_JOBS
from schedulearn.scheduler.core.states import WAITS, JobState
from schedulearn.scheduler.errors import NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.columns import (
    EnumColumn,
    InstantColumn,
    json_column,
    json_or_none_column,
    prepare_rows,
)
from schedulearn.scheduler.store.models import Job, Metric

_STATES = ", ".join(f"'{state.value}'" for state in SweepState)
_ENDED = ", ".join(f"'{state.value}'" for state in SweepState if state.ended)


class Sweep(SQLModel, table=True):
    """Sweep: one job with many parameters."""

    __table_args__ = (
        CheckConstraint(f"state IN ({_STATES})", name="sweep_status"),
        CheckConstraint(f"(finished_at IS NOT NULL) = (state IN ({_ENDED}))", name="sweep_finished"),
        Index("sweep_by_state", "state"),
        Index("sweep_by_time", "created_at", "id"),
    )

    id: str = Field(primary_key=True)
    name: str
    user: str
    spec: dict[str, Any] = Field(sa_column=json_column())
    """`SweepSpec`, as its user wrote it."""
    runs: int
    max_parallel: int
    max_failures: int | None
    state: SweepState = Field(sa_column=Column(EnumColumn(SweepState), nullable=False))
    reason: SweepReason = Field(sa_column=Column(EnumColumn(SweepReason), nullable=False))
    message: str = Field(sa_type=Text)
    created_at: float = Field(sa_type=InstantColumn)
    finished_at: float | None = Field(default=None, sa_type=InstantColumn)
    idempotency_key: str | None = Field(default=None, unique=True)
    request_hash: str | None = None
    design: dict[str, Any] | None = Field(default=None, sa_column=json_or_none_column())
    """Properties of an experiment or search; None: an ordinary sweep."""
    open: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    """Whether a search may still add runs."""
    search: str | None = None
    """How runs choose their parameters, of a sweep with `search`."""
    prune: str | None = None
    """Method that ends runs early; None: all run to their end."""


class SweepRun(SQLModel, table=True):
    """Run of a sweep: parameters, and the job that tries them."""

    __tablename__ = "sweep_run"

    sweep_id: str = Field(sa_column=Column(String, ForeignKey("sweep.id", ondelete="CASCADE"), primary_key=True))
    number: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    """Number from 1, in starting order."""
    params: dict[str, Any] = Field(sa_column=json_column())
    job_id: str | None = Field(default=None, unique=True)
    """Set in the transaction that stores the job, so that no run is lost or started twice.

    It is no foreign key: after its job is deleted, the run still counts as started."""
    tries: int = 0
    """Number of jobs so far: one more with each retry."""
    results: dict[str, float] | None = Field(default=None, sa_column=json_or_none_column())
    """Results of its job; None: not recorded yet."""
    pruned: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    """Whether its job was stopped because of its metric. Set in the transaction that stops the job."""
    judged_step: int | None = Field(default=None, sa_type=BigInteger)
    """Last step of the metric at which the pruner let it go on."""
    sampler: dict[str, Any] | None = Field(default=None, sa_column=json_or_none_column())
    """State that the sampler stored with it. CMA-ES continues from there."""


SweepRow = Row[Any]
RunRow = Row[Any]

_BAD = (JobState.FAILED, JobState.TIMEOUT)
_JOINED = col(Job.id) == col(SweepRun.job_id)


_TABLE = cast(Table, inspect(SweepRun).local_table)
_GIVE_JOB = (
    update(_TABLE)
    .where(_TABLE.c.sweep_id == bindparam("of"), _TABLE.c.number == bindparam("which"))
    .values(job_id=bindparam("job_id"), tries=_TABLE.c.tries + 1)
)


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


_PROGRESS: Select[Any] = (
    select(
        *(col(getattr(Sweep, name)) for name in SweepProgress._fields[:8]),
        _count(col(SweepRun.job_id).is_(None)),
        _count(col(Job.state).in_(UNFINISHED_JOBS)),
        _count(col(Job.state) == JobState.SUCCEEDED),
        _count(col(Job.state).in_(_BAD)),
        _count(and_(col(Job.state) == JobState.CANCELLED, col(SweepRun.pruned).is_(False))),
        _count(and_(col(Job.state) == JobState.CANCELLED, col(SweepRun.pruned))),
    )
    .join(SweepRun, col(SweepRun.sweep_id) == col(Sweep.id))
    .outerjoin(Job, _JOINED)
    .group_by(col(Sweep.id))
)
_UNFINISHED = _PROGRESS.where(col(Sweep.state).in_(UNFINISHED)).order_by(col(Sweep.id))


def unfinished(conn: Connection) -> list[SweepProgress]:
    """Return the progress of each unfinished sweep, oldest first."""
    return [SweepProgress._make(row) for row in conn.execute(_UNFINISHED)]


def progress_of(conn: Connection, sweep_ids: Sequence[str]) -> dict[str, SweepProgress]:
    found = [SweepProgress._make(row) for row in conn.execute(_PROGRESS.where(col(Sweep.id).in_(sweep_ids)))]
    return {progress.id: progress for progress in found}


def get_sweep(conn: Connection, sweep_id: str) -> SweepRow:
    """Return a sweep. Raises NotFoundError."""
    row = conn.execute(select(Sweep).where(col(Sweep.id) == sweep_id)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no sweep {sweep_id!r}")
    return row


def sweep_by_key(conn: Connection, idempotency_key: str) -> SweepRow | None:
    return conn.execute(select(Sweep).where(col(Sweep.idempotency_key) == idempotency_key)).one_or_none()


def list_sweeps(
    conn: Connection,
    *,
    states: Sequence[SweepState] = (),
    user: str | None = None,
    after: str | None = None,
    limit: int = 20,
    designed: bool = False,
) -> tuple[list[SweepRow], str | None]:
    """Return sweeps, newest first, and `after` of the next page or None.

    `designed`: only experiments and searches."""
    query = select(Sweep).order_by(col(Sweep.created_at).desc(), col(Sweep.id).desc()).limit(limit + 1)
    if designed:
        query = query.where(col(Sweep.design).is_not(null()))
    if states:
        query = query.where(col(Sweep.state).in_(states))
    if user is not None:
        query = query.where(col(Sweep.user) == user)
    if after is not None:
        at = get_sweep(conn, after).created_at
        same = and_(col(Sweep.created_at) == at, col(Sweep.id) < after)
        query = query.where(or_(col(Sweep.created_at) < at, same))
    rows = list(conn.execute(query))
    return rows[:limit], rows[limit - 1].id if len(rows) > limit else None


def add_sweep(conn: Connection, values: Mapping[str, object]) -> None:
    """Insert a sweep without its runs."""
    conn.execute(insert(Sweep), [values])


def prepare_runs(
    dialect: Dialect, sweep_id: str, runs: Iterable[Mapping[str, object]]
) -> Callable[[Connection], object]:
    """Return a function that inserts the runs of a new sweep.

    It is prepared before the change is queued, to spare the writer the work. `runs`: parameters of each run."""
    rows = [
        {"sweep_id": sweep_id, "number": n, "params": p, "tries": 0, "pruned": False} for n, p in enumerate(runs, 1)
    ]
    return prepare_rows(dialect, SweepRun, rows)


def pending_runs(conn: Connection, sweep_id: str, limit: int) -> list[RunRow]:
    """Return the next runs to start."""
    query = select(SweepRun).where(col(SweepRun.sweep_id) == sweep_id, col(SweepRun.job_id).is_(None))
    return list(conn.execute(query.order_by(col(SweepRun.number)).limit(limit)))


def give_jobs(conn: Connection, jobs: Iterable[tuple[RunRow, str]]) -> None:
    """Store the job id of each run."""
    conn.execute(_GIVE_JOB, [{"of": run.sweep_id, "which": run.number, "job_id": job_id} for run, job_id in jobs])


def active_jobs(conn: Connection, sweep_id: str, *, only_waiting: bool = False) -> list[repository.JobRow]:
    """Return the unfinished jobs of a sweep.

    `only_waiting`: only jobs that never started."""
    query = select(Job).join(SweepRun, _JOINED).where(col(SweepRun.sweep_id) == sweep_id)
    if only_waiting:
        query = query.where(col(Job.state).in_([*WAITS]), col(Job.attempt) == 0)
    return list(conn.execute(query.where(col(Job.state).in_(UNFINISHED_JOBS)).order_by(col(SweepRun.number))))


def forget_unsuccessful(conn: Connection, sweep_id: str) -> int:
    """Make unsuccessful runs pending again; return their number.

    Their jobs failed, reached a time limit or were cancelled, but not pruned."""
    bad = select(col(Job.id)).where(col(Job.sweep) == sweep_id, col(Job.state).in_([*_BAD, JobState.CANCELLED]))
    where = (col(SweepRun.sweep_id) == sweep_id, col(SweepRun.job_id).in_(bad), col(SweepRun.pruned).is_(False))
    values = {"job_id": None, "results": null(), "judged_step": None}
    return conn.execute(update(SweepRun).where(*where).values(values)).rowcount


def move_sweep(
    conn: Connection, sweep_id: str, state: SweepState, reason: SweepReason, message: str, now: float
) -> None:
    """Change the state of a sweep, and record an event."""
    values = {"state": state, "reason": reason, "message": message, "finished_at": now if state.ended else None}
    conn.execute(update(Sweep).where(col(Sweep.id) == sweep_id).values(values))
    add_sweep_event(conn, sweep_id, state, reason, message, now)


def add_sweep_event(
    conn: Connection, sweep_id: str, state: SweepState, reason: SweepReason, message: str, now: float
) -> None:
    told = f"Sweep {sweep_id}: {message}"
    repository.add_event(
        conn, now, f"sweep.{state}", code=reason, message=told, data={"sweep": sweep_id}, about=f"sweep:{sweep_id}"
    )


_RUN = (SweepRun.number, SweepRun.params, SweepRun.job_id, SweepRun.tries, SweepRun.results, SweepRun.pruned)
_OF_JOB = (Job.state, Job.message, Job.exit_code, Job.started_at, Job.finished_at, Job.run_seconds)
_OF_METRIC = (Metric.last, Metric.lowest, Metric.highest)


def _runs(sweep_id: str, metric: str) -> Select[Any]:
    return (
        select(*map(col, (*_RUN, *_OF_JOB, *_OF_METRIC)))
        .select_from(SweepRun)
        .outerjoin(Job, _JOINED)
        .outerjoin(Metric, and_(col(Metric.job_id) == col(Job.id), col(Metric.name) == metric))
        .where(col(SweepRun.sweep_id) == sweep_id)
    )


def list_runs(conn: Connection, sweep_id: str, metric: str, *, after: int = 0, limit: int = 1000) -> list[RunRow]:
    """Return runs above `after`, with job states and values of `metric`."""
    query = _runs(sweep_id, metric).where(col(SweepRun.number) > after).order_by(col(SweepRun.number))
    return list(conn.execute(query.limit(limit)))


def best_run(conn: Connection, sweep_id: str, metric: str, *, highest: bool) -> RunRow | None:
    """Return the run with the best logged value; None: none logged it."""
    column = col(Metric.highest) if highest else col(Metric.lowest)
    query = _runs(sweep_id, metric).where(column.is_not(None))
    return conn.execute(query.order_by(column.desc() if highest else column, col(SweepRun.number)).limit(1)).first()


def logged_metrics(conn: Connection, job_ids: Sequence[str]) -> list[str]:
    """Return the names of the metrics that these jobs logged."""
    return list(conn.execute(select(col(Metric.name)).where(col(Metric.job_id).in_(job_ids)).distinct()).scalars())
