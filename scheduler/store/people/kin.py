"""Jobs that share predictions: one family of one user or group.

Any user may give a job the family of another user's jobs. Therefore reports of other users' jobs count at most as a
hint. Every function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, func, literal, literal_column, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.people import GROUP
from schedulearn.scheduler.store.models import Job
from schedulearn.scheduler.store.people.tables import GroupMember


class Kin(NamedTuple):
    """Jobs that share predictions: one family, of one owner."""

    family: str
    owner: str
    """User, or group with all its users; a group's name begins with a slash here."""


def owner_of(conn: Connection, user: str) -> str:
    return owners_of(conn, [user])[user]


def owners_of(conn: Connection, users: Collection[str]) -> dict[str, str]:
    """Return user -> owner."""
    rows = conn.execute(select(col(GroupMember.user), col(GroupMember.group)))
    group_of = {row.user: row.group for row in rows}
    return {user: f"{GROUP}{group_of[user]}" if user in group_of else user for user in users}


def owner_column() -> ColumnElement[str]:
    """Return a column with the owner of each job of a query."""
    group: Any = select(literal(GROUP) + col(GroupMember.group)).where(col(GroupMember.user) == col(Job.user))
    return func.coalesce(group.scalar_subquery(), col(Job.user))


def owned_by(owner: str) -> ColumnElement[bool]:
    """Match jobs of this owner."""
    if owner.startswith(GROUP):
        members = select(col(GroupMember.user)).where(col(GroupMember.group) == owner.removeprefix(GROUP))
        return col(Job.user).in_(members)
    return col(Job.user) == owner


def of_family(family: str) -> ColumnElement[bool]:
    """Match started jobs of this family, of any owner.

    Nothing is known of jobs that have not started. The index has only started jobs, which halves the time to store a
    batch of 10,000 families."""
    return (col(Job.family) == family) & (col(Job.attempt) > literal_column("0"))


def of_kin(kin: Kin) -> ColumnElement[bool]:
    return of_family(kin.family) & owned_by(kin.owner)
