"""Queries and changes of user groups and their quotas.

Every function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from types import MappingProxyType
from typing import NamedTuple

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.people import ANY, GROUP
from schedulearn.scheduler.core.planning.guarantees import Guarantee, overbooked
from schedulearn.scheduler.core.planning.quotas import Bounds
from schedulearn.scheduler.errors import InvalidError, NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.models import Gpu
from schedulearn.scheduler.store.people.tables import GroupMember, RegistryLoginTable, UserGroup
from schedulearn.scheduler.store.predictions.lengths import LengthPrediction
from schedulearn.scheduler.store.predictions.metric_predictions import PredictedMetric
from schedulearn.scheduler.store.predictions.versions import ModelVersion

_REMOVED = "~"  # no group has it in its name
_COLUMNS = [col(getattr(UserGroup, each.name)) for each in fields(Bounds)]


class Groups(NamedTuple):
    """All groups."""

    bounds: Mapping[str, Bounds]
    """Bounds by group name, in the order of names."""
    group_of: Mapping[str, str]
    """User -> group, for each user who is in one."""
    guarantees: Mapping[str, Guarantee]
    """Guarantees by group name, of groups that have one."""

    def members(self, name: str) -> list[str]:
        return [user for user, group in self.group_of.items() if group == name]


def load_groups(db: Connection) -> Groups:
    columns = (col(UserGroup.name), col(UserGroup.guarantee), *_COLUMNS)
    rows = db.execute(select(*columns).order_by(col(UserGroup.name))).all()
    members = db.execute(select(col(GroupMember.user), col(GroupMember.group)).order_by(col(GroupMember.user)))
    return Groups(
        {name: Bounds(*values) for name, _, *values in rows},
        {row.user: row.group for row in members},
        {name: guarantee for name, guarantee, *_ in rows if guarantee},
    )


def gpus_by_type(db: Connection) -> dict[str, int]:
    """Return the GPUs of all hosts by type, also of hosts that are cordoned, lost or powered down."""
    query = select(col(Gpu.type), func.count()).group_by(col(Gpu.type))
    return {str(gpu_type): int(gpus) for gpu_type, gpus in db.execute(query)}


def set_group(
    db: Connection, name: str, bounds: Bounds, now: float, guarantee: Guarantee = MappingProxyType({})
) -> None:
    """Create a group, or change its bounds and its guarantee, and keep its members.

    Raises InvalidError if the guarantee grows, and all guarantees together exceed the cluster."""
    before = load_groups(db).guarantees
    grows = any(gpus > before.get(name, {}).get(gpu_type, 0) for gpu_type, gpus in guarantee.items())
    if grows and (why := overbooked({**before, name: guarantee}, gpus_by_type(db))) is not None:
        raise InvalidError(f"the guarantee is too large: {why}; lower it or those of other groups", field="guarantee")
    is_new = db.execute(select(col(UserGroup.name)).where(col(UserGroup.name) == name)).first() is None
    values = asdict(bounds)
    if is_new:
        db.execute(insert(UserGroup).values(name=name, guarantee=dict(guarantee), **values))
    else:
        changed = {**values, "guarantee": dict(guarantee)}
        db.execute(update(UserGroup).where(col(UserGroup.name) == name).values(**changed))
    told = {key: value for key, value in values.items() if value is not None}
    said = ", ".join(f"{key} {value:g}" for key, value in told.items()) or "no limits"
    if guarantee:
        shares = (f"{gpus}" if each == ANY else f"{gpus} {each}" for each, gpus in sorted(guarantee.items()))
        said += f", guaranteed GPUs {' and '.join(shares)}"
    kind, what = ("group.created", "was created") if is_new else ("group.changed", "was changed")
    repository.add_event(
        db,
        now,
        kind,
        message=f"Group {name} {what}: {said}.",
        data={**told, "guarantee": dict(guarantee)} if guarantee else told,
        about=f"group:{name}",
    )


def remove_group(db: Connection, name: str, now: float) -> None:
    """Remove a group with its registry logins; its users are in no group then. Raises NotFoundError.

    A later group of the same name learns nothing from the predictions of this one."""
    check_group(db, name)
    owner = f"{GROUP}{name}"
    db.execute(delete(ModelVersion).where(col(ModelVersion.owner) == owner))
    for predictions in (LengthPrediction, PredictedMetric):
        db.execute(update(predictions).where(col(predictions.owner) == owner).values(owner=f"{owner}{_REMOVED}"))
    db.execute(delete(GroupMember).where(col(GroupMember.group) == name))
    db.execute(delete(RegistryLoginTable).where(col(RegistryLoginTable.group) == name))
    db.execute(delete(UserGroup).where(col(UserGroup.name) == name))
    repository.add_event(db, now, "group.removed", message=f"Group {name} was removed.", about=f"group:{name}")


def add_member(db: Connection, name: str, user: str, now: float) -> None:
    """Move a user into a group, from their former group if any.

    Raises NotFoundError if there is no such group."""
    check_group(db, name)
    before = db.execute(select(col(GroupMember.group)).where(col(GroupMember.user) == user)).scalar()
    if before == name:
        return
    db.execute(delete(GroupMember).where(col(GroupMember.user) == user))
    db.execute(insert(GroupMember).values(user=user, group=name))
    left = f", and no longer in {before}" if before is not None else ""
    repository.add_event(
        db, now, "group.changed", message=f"User {user} is in group {name} now{left}.", about=f"user:{user}"
    )


def remove_member(db: Connection, name: str, user: str, now: float) -> None:
    """Remove a user from a group.

    Raises NotFoundError if there is no such group, or the user is not in it."""
    check_group(db, name)
    wanted = (col(GroupMember.user) == user, col(GroupMember.group) == name)
    if not db.execute(delete(GroupMember).where(*wanted)).rowcount:
        raise NotFoundError(f"{user!r} is not in the group {name!r}")
    repository.add_event(
        db, now, "group.changed", message=f"User {user} is no longer in group {name}.", about=f"user:{user}"
    )


def check_group(db: Connection, name: str) -> None:
    """Raise NotFoundError if there is no such group."""
    if db.execute(select(col(UserGroup.name)).where(col(UserGroup.name) == name)).first() is None:
        raise NotFoundError(f"there is no group {name!r}: `schedulearn groups ls` lists them")
