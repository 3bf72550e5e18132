"""Queries and changes of hosts.

Every function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, delete, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.outcomes.host_liveness import LivenessChange
from schedulearn.scheduler.errors import ConflictError, InvalidError, NotFoundError
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.specs.where import MAX_LABELS
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.early_failures import reopen
from schedulearn.scheduler.store.models import Gpu, GpuMinute, Host
from schedulearn.scheduler.store.resources import minutes

HostRow = Row[Any]


def get_host(db: Connection, host_id: str) -> HostRow:
    """Return a host's row. Raises NotFoundError."""
    row = db.execute(select(Host).where(col(Host.id) == host_id)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no host {host_id!r}")
    return row


def runtime_of(db: Connection, host_id: str) -> str:
    """Return `docker` or `process`; empty: there is no such host."""
    return str(db.execute(select(col(Host.runtime)).where(col(Host.id) == host_id)).scalar() or "")


def list_hosts(db: Connection) -> Sequence[HostRow]:
    return db.execute(select(Host).order_by(col(Host.position), col(Host.id))).all()


def put_host(db: Connection, host_id: str, **values: Any) -> bool:
    """Add a host behind the others, or change it. Return True if it is new."""
    if db.execute(update(Host).where(col(Host.id) == host_id).values(values)).rowcount:
        return False
    last = db.execute(select(func.max(Host.position))).scalar()
    fields = {"state": "active", "labels": {}, "position": 0 if last is None else last + 1, **values}
    db.execute(insert(Host).values(id=host_id, **fields))
    return True


def put_spec(db: Connection, spec: HostSpec, origin: str, now: float) -> None:
    """Add or change the host that `spec` describes.

    Raises ConflictError if another host has its address."""
    other = db.execute(
        select(col(Host.id)).where(col(Host.address) == spec.address, col(Host.id) != spec.name)
    ).scalar()
    if other is not None:
        raise ConflictError(f"{spec.address} is already the address of host {other!r}", field="address")
    # A restart with a settings file must not lose labels that were set by command.
    kept = db.execute(select(col(Host.labels)).where(col(Host.id) == spec.name)).scalar() or {}
    labels = {**kept, **spec.labels}
    new = put_host(
        db,
        spec.name,
        address=spec.address,
        runtime="docker",
        labels=labels,
        origin=origin,
        simulated_gpus=spec.simulate_gpus,
        tls=spec.tls,
        network=spec.network,
    )
    if new:
        repository.add_event(
            db, now, "host.added", host_id=spec.name, message=f"{spec.name} was added ({spec.address})."
        )


def record_engine(db: Connection, host_id: str, engine_id: str) -> None:
    """Record the id of a host's engine. Raises ConflictError if another host has it."""
    other = db.execute(select(col(Host.id)).where(col(Host.engine_id) == engine_id, col(Host.id) != host_id)).scalar()
    if other is not None:
        raise ConflictError(
            f"host {other!r} already has this engine (engine id {engine_id}): remove one of the two. Machines cloned "
            "from one image share an id: delete /var/lib/docker/engine-id or "
            "/etc/docker/key.json on one of them and restart its Docker"
        )
    db.execute(update(Host).where(col(Host.id) == host_id).values(engine_id=engine_id))


def set_state(db: Connection, host_id: str, state: str, now: float, drain_until: float | None = None) -> HostRow:
    """Set the state of a host.

    `cordoned`: its jobs keep running, no others start there; with `drain_until` they leave by then. `active`: back in
    service, also for jobs with GPUs. Either stays after a maintenance window. Raises ConflictError for `active` during
    one."""
    host = get_host(db, host_id)
    if state == "active" and host.window_id is not None:
        raise ConflictError(
            f"{host_id} is in maintenance: delete the window first, `schedulearn maintenance rm {host.window_id}`"
        )
    changes = {"state": state, "drain_until": drain_until, "parking": "", "window_id": None}
    if (host.state, host.drain_until, host.parking, host.window_id) != (state, drain_until, "", None):
        db.execute(update(Host).where(col(Host.id) == host_id).values(changes))
        word = "draining" if drain_until is not None else state
        repository.add_event(
            db, now, f"host.{word}", host_id=host_id, message=f"{host_id} is {word}.", data={"drain_until": drain_until}
        )
    if state == "active":
        reopen(db, host_id, "an operator uncordoned it", now)
    return get_host(db, host_id)


def set_labels(db: Connection, host_id: str, labels: Mapping[str, str | None], now: float) -> None:
    """Set labels of a host, and remove those without a value; other labels stay."""
    before = dict(get_host(db, host_id).labels)
    after = {key: value for key, value in {**before, **labels}.items() if value is not None}
    if len(after) > MAX_LABELS:
        raise InvalidError(
            f"{host_id} would have {len(after)} labels: at most {MAX_LABELS} are allowed", field="labels"
        )
    if after == before:
        return
    db.execute(update(Host).where(col(Host.id) == host_id).values(labels=after))
    shown = ", ".join(f"{key}={value}" for key, value in sorted(after.items())) or "no labels"
    message = f"{host_id} has {shown}."
    repository.add_event(db, now, "host.labelled", host_id=host_id, message=message[:1000], data={"labels": after})


_PARKING = {
    "close": ("cordoned", "emptying", "host.emptying", "is being emptied, and is parked afterwards"),
    "reopen": ("active", "", "host.active", "stays on"),
    "park": ("cordoned", "parked", "host.parked", "is parked until the policy needs it"),
    "wake": ("active", "", "host.woken", "was woken"),
}


def set_parking(db: Connection, host_id: str, step: str, now: float) -> None:
    """Record a step of `parking.steps`.

    A host that was removed, or that an operator cordoned meanwhile, is left alone."""
    state, parking, kind, what = _PARKING[step]
    before = {"close": ("active", ""), "wake": ("cordoned", "parked")}.get(step, ("cordoned", "emptying"))
    which = (col(Host.id) == host_id, col(Host.state) == before[0], col(Host.parking) == before[1])
    if db.execute(update(Host).where(*which).values(state=state, parking=parking)).rowcount:
        repository.add_event(db, now, kind, host_id=host_id, message=f"{host_id} {what}.")


def set_liveness(db: Connection, changes: Sequence[LivenessChange], now: float) -> None:
    """Record hosts that are lost or back, except those removed meanwhile."""
    for change in changes:
        found = db.execute(update(Host).where(col(Host.id) == change.host_id).values(lost_at=change.lost_at))
        if found.rowcount and change.message:
            kind = "host.back" if change.lost_at is None else "host.lost"
            repository.add_event(db, now, kind, host_id=change.host_id, message=change.message)


def delete_host(db: Connection, host_id: str, now: float) -> None:
    """Delete a host without live tasks; its tasks stay in the history of their jobs."""
    gone = select(col(Gpu.uuid)).where(col(Gpu.host_id) == host_id)
    db.execute(delete(GpuMinute).where(col(GpuMinute.gpu_uuid).in_(gone)))
    minutes.forget_host(db, host_id)
    db.execute(delete(Host).where(col(Host.id) == host_id))
    repository.add_event(db, now, "host.removed", host_id=host_id, message=f"{host_id} was removed.")
