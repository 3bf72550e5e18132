"""Queries and changes of user groups and their quotas.

Every function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import NamedTuple

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.people import GROUP
from schedulearn.scheduler.core.planning.quotas import Bounds
from schedulearn.scheduler.errors import NotFoundError
from schedulearn.scheduler.store import repository
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

    def members(self, name: str) -> list[str]:
        return [user for user, group in self.group_of.items() if group == name]


def load_groups(db: Connection) -> Groups:
    rows = db.execute(select(col(UserGroup.name), *_COLUMNS).order_by(col(UserGroup.name)))
    members = db.execute(select(col(GroupMember.user), col(GroupMember.group)).order_by(col(GroupMember.user)))
    return Groups({name: Bounds(*values) for name, *values in rows}, {row.user: row.group for row in members})


def set_group(db: Connection, name: str, bounds: Bounds, now: float) -> None:
    """Create a group, or change its bounds and keep its members."""
    is_new = db.execute(select(col(UserGroup.name)).where(col(UserGroup.name) == name)).first() is None
    values = asdict(bounds)
    if is_new:
        db.execute(insert(UserGroup).values(name=name, **values))
    else:
        db.execute(update(UserGroup).where(col(UserGroup.name) == name).values(**values))
    told = {key: value for key, value in values.items() if value is not None}
    said = ", ".join(f"{key} {value:g}" for key, value in told.items()) or "no limits"
    kind, what = ("group.created", "was created") if is_new else ("group.changed", "was changed")
    repository.add_event(db, now, kind, message=f"Group {name} {what}: {said}.", data=told, about=f"group:{name}")


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
