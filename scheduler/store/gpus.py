"""GPUs as probes find them: presence, health, use, averages by minute.

Every function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, and_, delete, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.metrics.probe.readings import GpuInfo
from schedulearn.scheduler.core.gpu_sharing import Holding, Sharing
from schedulearn.scheduler.core.job_image import HostGpus
from schedulearn.scheduler.core.outcomes.gpu_health import VANISHED, FaultKind, jobs_leave, weight
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.columns import insert_missing
from schedulearn.scheduler.store.models import Gpu, GpuMinute, Host, Lease, Task


class MinuteAverages(NamedTuple):
    """Row of GpuMinute; None: the GPU does not report the value."""

    gpu_uuid: str
    minute: int
    utilization: float | None = None
    memory_bytes: float | None = None
    temperature: float | None = None
    power_w: float | None = None


@dataclass(frozen=True)
class GpuAsSeen:
    """Latest report of a host about one GPU."""

    shown: bool = True
    at: float | None = None
    """Time of the last sample or Xid, by the host's clock; None: there was none."""
    ecc_errors: int = 0


@dataclass(frozen=True)
class LiveTasks:
    """Tasks that had not ended at one time, and the last task's number."""

    ids: Sequence[str] = ()
    last_seq: int = 0


SOUGHT = "its driver did not list it at the last query"
"""Reason why a GPU is unwatched that has been missing only briefly."""
MAX_POINTS = 600  # of one GPU in one response


def found_gpus(
    db: Connection,
    host_id: str,
    gpus: Sequence[GpuInfo],
    now: float,
    driver: str = "",
    problem: str = "",
    sought: Collection[str] = (),
) -> set[str]:
    """Record a host's real GPUs and their driver; return the UUIDs of new ones.

    A GPU that the host no longer reports is unhealthy until it is reported again. A GPU that no job holds may also have
    been replaced. This is the case if it was simulated, was a MIG device, or is split into MIG devices.

    `problem`: the reason why `gpus` may be incomplete. Missing GPUs are then unwatched, and otherwise unchanged.
    `sought`: GPUs that do not count as gone yet, but are unwatched if they are missing.

    Raises ConflictError for a GPU of another host: it would be leased twice."""
    db.execute(update(Host).where(col(Host.id) == host_id).values(driver=driver))
    before = {gpu.uuid: gpu for gpu in db.execute(select(Gpu).where(col(Gpu.host_id) == host_id))}
    names = [gpu.uuid for gpu in gpus]
    others = select(Gpu).where(col(Gpu.uuid).in_(names), col(Gpu.host_id) != host_id)
    elsewhere = {gpu.uuid: gpu for gpu in db.execute(others)}
    if taken := next((gpu for gpu in elsewhere.values() if gpu.present), None):
        raise ConflictError(
            f"GPU {taken.uuid} already belongs to host {taken.host_id!r}: remove one of the two hosts, or return the "
            "GPU there if it was moved"
        )
    for gpu in gpus:
        values = {
            "host_id": host_id, "ordinal": gpu.index, "type": gpu.type, "memory_bytes": gpu.memory_bytes,
            "simulated": False, "present": True, "island": gpu.island, "numa": gpu.numa, "compute": gpu.compute,
            "pci": gpu.pci, "unwatched": "",
        }  # fmt: skip
        old = before.get(gpu.uuid) or elsewhere.get(gpu.uuid)
        if old is not None and old.fault == VANISHED:
            _take_back(db, old, now)
        if old is None:
            db.execute(insert(Gpu).values(uuid=gpu.uuid, fault="", **values))
        elif any(getattr(old, key) != value for key, value in values.items()):
            db.execute(update(Gpu).where(col(Gpu.uuid) == gpu.uuid).values(**values))
    split = {gpu.parent for gpu in gpus}
    held = set(db.execute(select(col(Lease.gpu_uuid))).scalars())
    for old in before.values():
        if old.uuid in names or not old.present:
            continue
        replaced = old.simulated or old.uuid in split or (old.uuid.startswith("MIG-") and not problem)
        if old.uuid not in held and replaced:
            db.execute(update(Gpu).where(col(Gpu.uuid) == old.uuid).values(present=False))
            continue
        vanished = not problem and old.uuid not in sought
        unwatched = "" if vanished or old.fault == VANISHED else problem or SOUGHT
        if unwatched != old.unwatched:
            db.execute(update(Gpu).where(col(Gpu.uuid) == old.uuid).values(unwatched=unwatched))
        if vanished:
            set_fault(db, old.uuid, VANISHED, now)
    _tell_watched(db, host_id, before.values(), now)
    return set(names) - before.keys()


def note_topology(db: Connection, host_id: str, topology: str) -> None:
    """Store the topology of a host's GPUs, as written by `core.topology.to_text`."""
    db.execute(update(Host).where(col(Host.id) == host_id, col(Host.topology) != topology).values(topology=topology))


def _take_back(db: Connection, row: Row[Any], now: float) -> None:
    """Return a GPU to service whose only fault was that it was not listed."""
    db.execute(update(Gpu).where(col(Gpu.uuid) == row.uuid).values(fault="", fault_kind=""))
    message = f"GPU {row.ordinal} of {row.host_id} was found again, and is back in service."
    repository.add_event(db, now, "gpu.returned", host_id=row.host_id, message=message, data={"gpu": row.uuid})


def unwatch(db: Connection, host_id: str, why: str, now: float) -> bool:
    """Mark the GPUs of a host as unwatched, with the latest reason.

    Until they are found again, their jobs keep running and no others start. Returns True if a GPU was watched until
    now."""
    why = why[:500]
    before = [gpu for gpu in of_host(db, host_id) if not gpu.simulated and gpu.unwatched != why]
    if before:
        which = col(Gpu.uuid).in_([gpu.uuid for gpu in before])
        db.execute(update(Gpu).where(which).values(unwatched=why))
        _tell_watched(db, host_id, before, now)
    return any(not gpu.unwatched for gpu in before)


def _tell_watched(db: Connection, host_id: str, before: Iterable[Row[Any]], now: float) -> None:
    """Record one event for a host's newly unwatched GPUs, one for those watched again."""
    after = {gpu.uuid: gpu for gpu in of_host(db, host_id)}
    lost = [gpu for gpu in before if not gpu.unwatched and gpu.uuid in after and after[gpu.uuid].unwatched]
    if lost:
        why = after[lost[0].uuid].unwatched
        message = f"{_named(lost)} of {host_id} can't be monitored: {why}. Jobs there continue, but no others start."
        data = {"gpus": [gpu.uuid for gpu in lost], "why": why}
        repository.add_event(db, now, "gpu.unwatched", host_id=host_id, message=message, data=data)
    answering = {uuid for uuid, gpu in after.items() if not gpu.unwatched and gpu.fault != VANISHED}
    if back := [gpu for gpu in before if gpu.unwatched and gpu.uuid in answering]:
        message = f"{_named(back)} of {host_id} can be monitored again."
        data = {"gpus": [gpu.uuid for gpu in back]}
        repository.add_event(db, now, "gpu.watched", host_id=host_id, message=message, data=data)


def _named(gpus: Sequence[Row[Any]]) -> str:
    return f"GPU{'s' if len(gpus) > 1 else ''} {', '.join(str(gpu.ordinal) for gpu in gpus)}"


def driver_of(db: Connection, host_id: str) -> str:
    """Return the driver version last found with a host's GPUs; empty: none."""
    return str(db.execute(select(col(Host.driver)).where(col(Host.id) == host_id)).scalar() or "")


def for_images(db: Connection, host_id: str) -> HostGpus:
    """Return the facts that determine which images run on a host's real GPUs."""
    compute = {gpu.compute for gpu in of_host(db, host_id) if not gpu.simulated}
    return HostGpus(bool(compute), driver_of(db, host_id), tuple(sorted(compute)))


def has_real(db: Connection, host_id: str) -> bool:
    """Return whether a host has present GPUs that are not simulated."""
    query = select(col(Gpu.uuid)).where(col(Gpu.host_id) == host_id, col(Gpu.present), ~col(Gpu.simulated))
    return db.execute(query.limit(1)).first() is not None


def of_host(db: Connection, host_id: str) -> Sequence[Row[Any]]:
    """Return the present GPUs of a host, by index."""
    query = select(Gpu).where(col(Gpu.host_id) == host_id, col(Gpu.present))
    return db.execute(query.order_by(col(Gpu.ordinal), col(Gpu.uuid))).all()


def set_fault(db: Connection, uuid: str, fault: str, now: float, kind: FaultKind = FaultKind.LEAVE) -> None:
    """Mark a GPU as unhealthy.

    An earlier fault stays, unless the new one has more weight. A fault of the kind `STATE` also replaces another of
    that kind."""
    row = db.execute(select(Gpu).where(col(Gpu.uuid) == uuid)).one_or_none()
    if row is None or row.fault == fault:
        return
    before = weight(row.fault, row.fault_kind)
    if not (weight(fault, kind) > before or (kind is FaultKind.STATE and row.fault_kind == kind)):
        return
    db.execute(update(Gpu).where(col(Gpu.uuid) == uuid).values(fault=fault, fault_kind=kind))
    message = f"GPU {row.ordinal} of {row.host_id} is unhealthy: {fault}."
    data = {"gpu": uuid, "fault": fault, "kind": kind}
    repository.add_event(db, now, "gpu.unhealthy", host_id=row.host_id, message=message, data=data)


def clear_fault(
    db: Connection, uuid: str, now: float, kind: str, *, cleared_at: float | None = None, ecc_errors: int | None = None
) -> None:
    """Return a GPU to service without an operator.

    Does nothing unless its fault still is of this kind. `cleared_at`, `ecc_errors`: Xids until this time, and this
    number of ECC errors, are ignored from now on."""
    row = db.execute(select(Gpu).where(col(Gpu.uuid) == uuid)).one_or_none()
    if row is None or not row.fault or row.fault_kind != kind:
        return
    values = {
        "cleared_at": row.cleared_at if cleared_at is None else cleared_at,
        "ecc_accepted": row.ecc_accepted if ecc_errors is None else ecc_errors,
    }
    db.execute(update(Gpu).where(col(Gpu.uuid) == uuid).values(fault="", fault_kind="", **values))
    message = f"GPU {row.ordinal} of {row.host_id} has recovered, and is back in service. Its fault was: {row.fault}."
    repository.add_event(db, now, "gpu.returned", host_id=row.host_id, message=message, data={"gpu": uuid})


def set_occupied(db: Connection, uuid: str, who: str, now: float) -> None:
    """Record that `who` uses the GPU outside this service; empty: nobody does any more."""
    row = db.execute(select(Gpu).where(col(Gpu.uuid) == uuid)).one_or_none()
    if row is None or row.occupied == who:
        return
    db.execute(update(Gpu).where(col(Gpu.uuid) == uuid).values(occupied=who))
    kind = "gpu.occupied" if who else "gpu.free"
    what = f"is used by {who}" if who else "is no longer used by others"
    message = f"GPU {row.ordinal} of {row.host_id} {what}."
    repository.add_event(db, now, kind, host_id=row.host_id, message=message, data={"gpu": uuid, "who": who})


def find_gpu(db: Connection, host_id: str, name: str) -> Row[Any]:
    """Return a GPU of a host by its index or UUID. Raises NotFoundError."""
    if db.execute(select(col(Host.id)).where(col(Host.id) == host_id)).scalar() is None:
        raise NotFoundError(f"there is no host {host_id!r}")
    matches = [gpu for gpu in of_host(db, host_id) if name in (gpu.uuid, str(gpu.ordinal))]
    if not matches:
        raise NotFoundError(f"{host_id} has no GPU {name!r}: use its index or its UUID")
    # After a GPU has gone, two may have the same index for a while.
    return next((gpu for gpu in matches if gpu.fault), matches[0])


def close_gpu(db: Connection, host_id: str, name: str, now: float, drain_until: float | None = None) -> str:
    """Cordon a GPU, or drain it until a deadline; return its UUID. Raises NotFoundError.

    No other job starts on it."""
    row = find_gpu(db, host_id, name)
    if (row.cordoned, row.drain_until) != (True, drain_until):
        values = {"cordoned": True, "drain_until": drain_until}
        db.execute(update(Gpu).where(col(Gpu.uuid) == row.uuid).values(values))
        word = "cordoned" if drain_until is None else "draining"
        message = f"GPU {row.ordinal} of {host_id} is {word}."
        data = {"gpu": row.uuid, "drain_until": drain_until}
        repository.add_event(db, now, f"gpu.{word}", host_id=host_id, message=message, data=data)
    return str(row.uuid)


def return_gpu(db: Connection, host_id: str, name: str, as_seen: Callable[[str], GpuAsSeen], now: float) -> str:
    """Uncordon a GPU or clear its fault, as an operator requests; return its UUID.

    `as_seen` returns the host's latest report about a GPU; errors until then are ignored. A GPU that the host does not
    report is marked as not present until it is reported again. Raises NotFoundError. Raises ConflictError for a GPU in
    service, and for an unhealthy one that a job has yet to leave."""
    row = find_gpu(db, host_id, name)
    if row.cordoned:
        db.execute(update(Gpu).where(col(Gpu.uuid) == row.uuid).values(cordoned=False, drain_until=None))
        if not row.fault:
            message = f"GPU {row.ordinal} of {host_id} takes jobs again."
            repository.add_event(db, now, "gpu.returned", host_id=host_id, message=message, data={"gpu": row.uuid})
            return str(row.uuid)
    if not row.fault:
        raise ConflictError(f"GPU {row.ordinal} of {host_id} is in service: it is not unhealthy, and not cordoned")
    held = db.execute(select(col(Lease.task_id)).where(col(Lease.gpu_uuid) == row.uuid)).first() is not None
    if held and jobs_leave(row.fault_kind):
        raise ConflictError(f"a job is still leaving GPU {row.ordinal} of {host_id}: try again in a moment")
    seen = as_seen(row.uuid)
    cleared_at = seen.at if seen.at is not None else row.cleared_at
    db.execute(
        update(Gpu)
        .where(col(Gpu.uuid) == row.uuid)
        .values(
            fault="",
            fault_kind="",
            failures=[],
            present=seen.shown,
            cleared_at=cleared_at,
            ecc_accepted=seen.ecc_errors,
        )
    )
    what = "was returned." if seen.shown else "was returned, and is hidden until its host reports it again."
    message = f"GPU {row.ordinal} of {host_id} {what}"
    repository.add_event(db, now, "gpu.returned", host_id=host_id, message=message, data={"gpu": row.uuid})
    return str(row.uuid)


def add_minutes(db: Connection, averages: Sequence[MinuteAverages]) -> None:
    """Store averages by minute, except those of minutes that exist already."""
    if averages:
        insert_missing(db, GpuMinute, [average._asdict() for average in averages])


def drop_minutes(db: Connection, before: int) -> None:
    """Delete the averages of minutes before this one."""
    # By GPU, because the table is sorted by it: this avoids a full scan.
    for uuid in db.execute(select(col(Gpu.uuid))).scalars().all():
        db.execute(delete(GpuMinute).where(col(GpuMinute.gpu_uuid) == uuid, col(GpuMinute.minute) < before))


def whole_minutes(minute: Any, since: float, until: float) -> ColumnElement[bool]:
    """Match rows whose minute lies wholly in this time, in seconds since the epoch."""
    return and_(minute >= int(since // 60) + 1, minute < int(until // 60))


def minutes(db: Connection, uuid: str, since: int, until: int) -> tuple[int, list[Row[Any]]]:
    """Return the minutes per row, and the rows of means for minutes in [since, until).

    There are at most about MAX_POINTS rows, so that long spans have longer steps. A row has the first minute of its
    step and the columns of GpuMinute."""
    step = max(1, -(-(until - since) // MAX_POINTS))
    group = func.min(GpuMinute.minute)
    means = [func.avg(col(getattr(GpuMinute, name))).label(name) for name in _AVERAGES]
    query = (
        select(group.label("minute"), *means)
        .where(col(GpuMinute.gpu_uuid) == uuid, col(GpuMinute.minute) >= since, col(GpuMinute.minute) < until)
        .group_by(col(GpuMinute.minute) // step)
        .order_by(group)
    )
    return step, list(db.execute(query))


def live_tasks(db: Connection) -> LiveTasks:
    """Return the start value for the first call of `add_energy`."""
    live = db.execute(select(col(Task.id)).where(col(Task.state).in_(("wanted", "running")))).scalars().all()
    return LiveTasks(live, db.execute(select(func.max(col(Task.seq)))).scalar() or 0)


def add_energy(
    db: Connection,
    joules: Callable[[str, float, float], float],
    since: float,
    until: float,
    before: LiveTasks,
) -> LiveTasks:
    """Add to each task the energy that its GPUs drew while it ran.

    Only the time from `since` to `until` counts. Tasks that run on the same GPU at an instant share its energy.
    `before`: the result of `live_tasks` or of the last call, which identifies the tasks that have ended since."""
    query = select(Task).where(col(Task.state).in_(("wanted", "running")) | (col(Task.seq) > before.last_seq))
    found = {task.id: task for task in db.execute(query)}
    for begin in range(0, len(before.ids), 500):
        some = [task_id for task_id in before.ids[begin : begin + 500] if task_id not in found]
        found |= {task.id: task for task in db.execute(select(Task).where(col(Task.id).in_(some)))}
    tasks = [
        task for task in found.values()
        if task.started_at is not None and task.started_at < until and (task.finished_at or until) > since
    ]  # fmt: skip
    running = [
        Holding(max(since, task.started_at), min(until, task.finished_at or until), task.gpu_uuids) for task in tasks
    ]
    sharing = Sharing(running)
    for task, ran in zip(tasks, running, strict=True):
        drawn = sum(
            joules(uuid, part.begin, part.end) / part.holders
            for uuid in ran.gpu_uuids
            for part in sharing.parts(uuid, ran.begin, ran.end)
        )
        if drawn > 0:
            where = col(Task.id) == task.id
            db.execute(update(Task).where(where).values(energy_joules=col(Task.energy_joules) + drawn))
    still = [task.id for task in found.values() if task.state != "ended" or (task.finished_at or 0.0) > until]
    return LiveTasks(still, max([before.last_seq, *(task.seq for task in found.values())]))


_AVERAGES = ("utilization", "memory_bytes", "temperature", "power_w")
