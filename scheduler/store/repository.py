"""Queries and changes of the tables.

Every function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar, Unpack, cast

from sqlalchemy import Row, Select, Table, and_, bindparam, delete, func, insert, inspect, not_, or_, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Mapped
from sqlmodel import col

from schedulearn.scheduler.core import cluster_state as records
from schedulearn.scheduler.core.cluster_state import run_seconds
from schedulearn.scheduler.core.gang import free_port
from schedulearn.scheduler.core.host_facts import FoundGpu
from schedulearn.scheduler.core.outcomes.conclusions import PREEMPTED
from schedulearn.scheduler.core.outcomes.findings import JobChanges
from schedulearn.scheduler.core.planning.command_masking import hide_in_text
from schedulearn.scheduler.core.states import WAITS, JobState, Reason, check_transition
from schedulearn.scheduler.errors import NotFoundError
from schedulearn.scheduler.store.job_list import ALL_JOBS, JobFilter, Sort, behind, jobs_by
from schedulearn.scheduler.store.models import (
    Event,
    Gpu,
    Host,
    Job,
    Lease,
    Meta,
    PolicyChoice,
    PortLease,
    Task,
)
from schedulearn.scheduler.store.moved_outputs import forget_moved
from schedulearn.scheduler.store.people.acting import ACTOR, ADDRESS


class Versioned(Protocol):
    """Job as it was read. A change decided on an outdated version is dropped."""

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> JobState: ...
    @property
    def version(self) -> int: ...


JobRow = Row[Any]
_AT_ONCE = 500  # ids in a query
T = TypeVar("T")


@dataclass(frozen=True)
class Hosts:
    """Hosts in their order, their GPUs, and the jobs that hold them."""

    hosts: Sequence[Row[Any]]
    gpus: Sequence[Row[Any]]  # present ones
    holders: Mapping[str, list[str]]  # gpu uuid -> job ids; "": a job that the requesting user may not see


def load_hosts(db: Connection) -> Hosts:
    hosts = db.execute(select(Host).order_by(col(Host.position), col(Host.id))).all()
    gpus = db.execute(
        select(Gpu).where(col(Gpu.present)).order_by(col(Gpu.host_id), col(Gpu.ordinal), col(Gpu.uuid))
    ).all()
    holders: dict[str, list[str]] = {}
    leases = select(col(Lease.gpu_uuid), col(Task.job_id)).outerjoin(Task, col(Task.id) == col(Lease.task_id))
    for uuid, job_id in db.execute(leases.order_by(col(Lease.gpu_uuid), col(Lease.slot))):
        holders.setdefault(uuid, []).append(job_id or "")
    return Hosts(hosts, gpus, holders)


def get_job(db: Connection, job_id: str) -> JobRow:
    """Return a job's row. Raises NotFoundError."""
    row = db.execute(select(Job).where(col(Job.id) == job_id)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no job {job_id!r}")
    return row


def requirements_of(conn: Connection, layer: str) -> Sequence[str]:
    """Return the requirements of the jobs that share this layer. Raises NotFoundError."""
    spec = conn.execute(select(col(Job.spec)).where(col(Job.layer) == layer).limit(1)).scalar()
    if spec is None:
        raise NotFoundError(f"no job has the requirements {layer}")
    found: Sequence[str] = spec["requirements"]
    return found


def job_states(db: Connection, job_ids: Iterable[str]) -> dict[str, JobState]:
    """Return the states of those of these jobs that exist."""
    return _of_jobs(db, col(Job.state), job_ids)


def job_names(db: Connection, job_ids: Iterable[str]) -> dict[str, str]:
    """Return the names of those of these jobs that exist."""
    return _of_jobs(db, col(Job.name), job_ids)


def _of_jobs(db: Connection, column: Mapped[T], job_ids: Iterable[str]) -> dict[str, T]:
    ids = sorted(job_ids)
    found: dict[str, T] = {}
    for begin in range(0, len(ids), _AT_ONCE):
        query = select(col(Job.id), column).where(col(Job.id).in_(ids[begin : begin + _AT_ONCE]))
        found.update((job_id, value) for job_id, value in db.execute(query))
    return found


def list_jobs(
    db: Connection,
    *,
    states: Sequence[str] = (),
    among: JobFilter = ALL_JOBS,
    sort: Sort | None = None,
    now: float = 0.0,
    after: str | None = None,
    limit: int = 50,
    oldest_first: bool = False,
) -> list[JobRow]:
    """Return a page of jobs, ordered by `sort`, or by time of submission.

    Durations of unfinished jobs extend to `now`. `after` is the last id of the previous page. Raises NotFoundError if
    that job does not exist."""
    by: Sort = sort or ("submitted" if oldest_first else "-submitted")
    query = jobs_by(by)
    if states:
        query = query.where(col(Job.state).in_(states))
    query = among.narrow(db, query)
    if after is not None:
        get_job(db, after)  # raises NotFoundError for an unknown job
        query = behind(query, db, by, after, now)
    return list(db.execute(query, {"most": limit, "now": now}))


_COUNTS = cast(Select[Any], select(col(Job.state), func.count()).group_by(col(Job.state)))


def count_jobs(db: Connection, among: JobFilter = ALL_JOBS) -> dict[str, int]:
    """Return the number of jobs in each state, including states without jobs."""
    found: dict[JobState, int] = {row[0]: row[1] for row in db.execute(among.narrow(db, _COUNTS))}
    return {state.value: found.get(state, 0) for state in JobState}


def gpus_wanted(db: Connection, now: float) -> int:
    """Return the total number of GPUs that waiting jobs require.

    Jobs that wait for the end of other jobs, are held or may not start yet don't count: they could use no GPU."""
    may_start = or_(col(Job.start_after).is_(None), col(Job.start_after) <= now)
    waits = and_(col(Job.state).in_([*WAITS]), col(Job.held_at).is_(None), may_start)
    may_depend = and_(col(Job.after).is_not(None), col(Job.attempt) == 0)
    wanted = int(db.execute(select(func.sum(col(Job.required_gpus))).where(waits, not_(may_depend))).scalar() or 0)
    dependent = db.execute(select(col(Job.required_gpus), col(Job.after)).where(waits, may_depend)).all()
    states = job_states(db, {each for row in dependent for each in row.after["jobs"]})
    ended = {job_id for job_id, state in states.items() if state.terminal}
    free = [row.required_gpus for row in dependent if ended.issuperset(states.keys() & row.after["jobs"])]
    return wanted + int(sum(free))


def _table(model: type) -> Table:
    return cast(Table, inspect(model).local_table)


# A scheduling cycle executes these for each job that it starts, sometimes hundreds. Building one takes longer than
# SQLite needs to execute it.
_JOB = _table(Job)
_MOVE_JOB = update(_JOB).where(_JOB.c.id == bindparam("moved_id"), _JOB.c.version == bindparam("moved_version"))
_AT_HOME = update(_JOB).where(_JOB.c.id == bindparam("home_of")).values(checkpoint_host=bindparam("checkpoint_host"))
_TASK = _table(Task)
_MARK_RUNNING = (
    update(_TASK)
    .where(_TASK.c.id == bindparam("marked_id"), _TASK.c.state == "wanted")
    .values(state=bindparam("state"), started_at=bindparam("started_at"), image=bindparam("image"))
)
_ADD_TASK, _ADD_LEASE, _ADD_EVENT = (insert(_table(model)) for model in (Task, Lease, Event))


def move_job(
    db: Connection,
    job: Versioned,
    reason: Reason,
    message: str,
    now: float,
    *,
    data: Mapping[str, Any] | None = None,
    **changes: Unpack[JobChanges],
) -> bool:
    """Move `job` to the state of `reason`, and record an event with `data`.

    `changes`: further columns to set. Returns False, without any change, if the job has changed since it was read.
    Raises IllegalTransitionError for a transition that is not in TRANSITIONS."""
    message = hide_in_text(message)
    state = reason.to_state()
    check_transition(job.state, state)
    ended = {"finished_at": changes.get("finished_at", now)} if state.terminal else {}
    values = {
        "state": state.value,
        "reason": reason.value,
        "message": message,
        "version": job.version + 1,
        **changes,
        **ended,
    }
    changed = db.execute(_MOVE_JOB, {**values, "moved_id": job.id, "moved_version": job.version})
    if changed.rowcount == 0:
        return False
    add_event(db, now, f"job.{state.value}", code=reason.value, message=message, job_id=job.id, data=data)
    return True


def end_task(
    db: Connection,
    task: records.Task,
    *,
    outcome: str,
    now: float,
    exit_code: int | None = None,
    error: str = "",
    started_at: float | None = None,
    finished_at: float | None = None,
    image: str | None = None,
) -> bool:
    """Record the end of a task and release its leases.

    The task's service is added to its job. Returns False if the task had ended already."""
    started = started_at or task.started_at
    finished = finished_at or now
    changed = db.execute(
        update(Task)
        .where(col(Task.id) == task.id, col(Task.state) != "ended")
        .values(
            state="ended",
            outcome=outcome,
            exit_code=exit_code,
            error=hide_in_text(error),
            started_at=started,
            finished_at=finished,
            image=task.image if image is None else image,
        )
    )
    if changed.rowcount == 0:
        return False
    db.execute(delete(Lease).where(col(Lease.task_id) == task.id))
    db.execute(delete(PortLease).where(col(PortLease.task_id) == task.id))
    if started is not None:
        seconds = run_seconds(task, finished, started)
        db.execute(
            update(Job)
            .where(col(Job.id) == task.job_id)
            .values(
                gpu_seconds=col(Job.gpu_seconds) + seconds * len(task.gpu_uuids),
                run_seconds=col(Job.run_seconds) + (seconds if task.rank == 0 else 0.0),
            )
        )
    return True


def stop_tasks(db: Connection, job_id: str, ids: Sequence[str] | None = None) -> None:
    """Mark a job's live tasks, all or those in `ids`, to be stopped by the loop."""
    query = update(Task).where(col(Task.job_id) == job_id, col(Task.state) != "ended")
    db.execute((query if ids is None else query.where(col(Task.id).in_(ids))).values(stop=True))


_SEEMS_FAILED = (Reason.COMMAND_FAILED.value, Reason.LOST.value)


def name_stopped(db: Connection, job: records.Job, outcome: Reason) -> None:
    """Set the outcome of tasks that seem to have failed, but were stopped on request.

    Only tasks of the job's current attempt are changed."""
    attempt = (col(Task.job_id) == job.id, col(Task.attempt) == job.attempt, col(Task.outcome).in_(_SEEMS_FAILED))
    told = col(Task.exit_code) == PREEMPTED if outcome is Reason.PREEMPTED else col(Task.stop)
    db.execute(update(Task).where(*attempt, told).values(outcome=outcome.value))


def next_rank(db: Connection, job_id: str, attempt: int) -> int:
    """Return a rank that no task of the attempt has had."""
    query = select(func.max(col(Task.rank))).where(col(Task.job_id) == job_id, col(Task.attempt) == attempt)
    last = db.execute(query).scalar()
    return 0 if last is None else int(last) + 1


def add_task(db: Connection, claims: Iterable[tuple[str, int]], now: float, **fields: Any) -> None:
    """Add a task and its leases, given as (gpu uuid, slot).

    Raises IntegrityError if a slot is taken or the job has a live task of this rank."""
    claims = list(claims)
    values = {
        "state": "wanted", "stop": False, "created_at": now, "outcome": "", "error": "", "generation": 0,
        "image": "", **fields,
    }  # fmt: skip
    db.execute(_ADD_TASK, {**values, "gpu_uuids": [uuid for uuid, _ in claims]})
    if claims:
        db.execute(
            _ADD_LEASE,
            [{"gpu_uuid": uuid, "slot": slot, "task_id": fields["id"], "claimed_at": now} for uuid, slot in claims],
        )


def lease_port(db: Connection, host_id: str, task_id: str, attempt: int) -> None:
    """Lease a port of the host for the gang whose first task this is.

    Raises IntegrityError if the port is taken meanwhile."""
    taken = set(db.execute(select(col(PortLease.port)).where(col(PortLease.host_id) == host_id)).scalars())
    db.execute(insert(PortLease).values(host_id=host_id, port=free_port(taken, attempt), task_id=task_id))


def add_event(
    db: Connection,
    now: float,
    kind: str,
    *,
    code: str = "",
    message: str = "",
    job_id: str | None = None,
    host_id: str | None = None,
    data: Mapping[str, Any] | None = None,
    about: str = "",
) -> None:
    """Store an event. `about`: the changed thing that is neither a job nor a host, as `user:ada`."""
    message = hide_in_text(message)
    values = {"at": now, "kind": kind, "code": code, "message": message, "job_id": job_id, "host_id": host_id}
    by = {"actor": ACTOR.get(), "address": ADDRESS.get()}
    db.execute(_ADD_EVENT, {**values, "data": dict(data or {}), **by, "about": about})


def list_events(
    db: Connection, *, after: int = 0, job_id: str | None = None, limit: int = 500, newest: bool = False
) -> list[Row[Any]]:
    """Return events with an id above `after`, oldest first.

    Returns the first `limit` of them, or with `newest` the last `limit`."""
    query = select(Event).where(col(Event.id) > after).limit(limit)
    if job_id is not None:
        query = query.where(col(Event.job_id) == job_id)
    rows = list(db.execute(query.order_by(col(Event.id).desc() if newest else col(Event.id))))
    return rows[::-1] if newest else rows


def last_event_id(db: Connection) -> int:
    return db.execute(select(func.max(col(Event.id)))).scalar() or 0


IS_RESIZE = or_(col(Event.kind) == "job.resizing", col(Event.code) == Reason.RESIZING_IN_PLACE.value)
"""Condition of the events of resizes."""


def count_resizes(db: Connection) -> int:
    """Return the number of resizes, by restart and in place."""
    there = db.execute(select(func.count()).select_from(Event).where(IS_RESIZE)).scalar() or 0
    return there + deleted_of(db, "resizes")


def deleted_of(db: Connection, what: str) -> int:
    """Return how many `resizes` or `jobs` were deleted, for counters that never fall."""
    return int(meta(db, f"deleted_{what}") or 0)


def count_deleted(db: Connection, what: str, number: int) -> None:
    """Add to the number of deleted `resizes` or `jobs`."""
    if number:
        key, count = f"deleted_{what}", deleted_of(db, what) + number
        db.execute(delete(Meta).where(col(Meta.key) == key))
        db.execute(insert(Meta).values(key=key, value=str(count)))


def current_policy(db: Connection) -> Row[Any] | None:
    return db.execute(select(PolicyChoice).order_by(col(PolicyChoice.id).desc()).limit(1)).one_or_none()


def meta(db: Connection, key: str) -> str | None:
    return db.execute(select(col(Meta.value)).where(col(Meta.key) == key)).scalar()


def sync_gpus(db: Connection, host_id: str, gpus: Sequence[FoundGpu]) -> None:
    """Replace the GPUs of a host by those given.

    Its other GPUs stay in the table as not present, because leases and history name them."""
    db.execute(update(Gpu).where(col(Gpu.host_id) == host_id).values(present=False))
    known = set(db.execute(select(col(Gpu.uuid))).scalars())
    for gpu in gpus:
        values = {**asdict(gpu), "host_id": host_id, "present": True, "unwatched": ""}
        if gpu.uuid in known:
            db.execute(update(Gpu).where(col(Gpu.uuid) == gpu.uuid).values(values))
        else:
            db.execute(insert(Gpu).values(values))


def mark_running(db: Connection, task: records.Task, started_at: float, image: str = "") -> None:
    """Record that a task runs on its host.

    The job's outputs there are valid again. For the first task, the host becomes the job's `checkpoint_host`."""
    forget_moved(db, task.job_id, task.host_id)
    if task.rank == 0:
        db.execute(_AT_HOME, {"home_of": task.job_id, "checkpoint_host": task.host_id})
    db.execute(_MARK_RUNNING, {"marked_id": task.id, "state": "running", "started_at": started_at, "image": image})


def mark_paused(db: Connection, task: records.Task, at: float) -> None:
    live = (col(Task.id) == task.id, col(Task.state) == "running", col(Task.paused_at).is_(None))
    db.execute(update(Task).where(*live).values(paused_at=at))


def mark_resumed(db: Connection, task: records.Task, at: float) -> None:
    paused = (col(Task.id) == task.id, col(Task.state) == "running", col(Task.paused_at) == task.paused_at)
    since = at if task.paused_at is None else task.paused_at
    seconds = task.paused_seconds + max(0.0, at - since)
    db.execute(update(Task).where(*paused).values(paused_at=None, paused_seconds=seconds))


def held_gpus(db: Connection) -> dict[str, int]:
    """Return the number of GPUs that each user holds now.

    A GPU that several of their jobs share counts once per job."""
    query = select(col(Job.user), func.count()).join(Task, col(Task.job_id) == col(Job.id))
    query = query.join(Lease, col(Lease.task_id) == col(Task.id)).group_by(col(Job.user))
    return {str(user): int(gpus) for user, gpus in db.execute(query)}
