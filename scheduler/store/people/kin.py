"""Whose jobs share what is learned of a family: those of one user, or of all users of one group.

Anybody may give a job the family of somebody else's, so what others' jobs reported counts as a hint at most. Every
function takes the connection of its caller's transaction.
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
    """The jobs that share what is learned: one family, of one owner."""

    family: str
    owner: str
    """A user, or a group with all its users, which begins with a slash."""


def owner_of(conn: Connection, user: str) -> str:
    return owners_of(conn, [user])[user]


def owners_of(conn: Connection, users: Collection[str]) -> dict[str, str]:
    """User -> owner."""
    rows = conn.execute(select(col(GroupMember.user), col(GroupMember.group)))
    group_of = {row.user: row.group for row in rows}
    return {user: f"{GROUP}{group_of[user]}" if user in group_of else user for user in users}


def owner_column() -> ColumnElement[str]:
    """The owner of each job of a query."""
    group: Any = select(literal(GROUP) + col(GroupMember.group)).where(col(GroupMember.user) == col(Job.user))
    return func.coalesce(group.scalar_subquery(), col(Job.user))


def owned_by(owner: str) -> ColumnElement[bool]:
    """That a job belongs to this owner."""
    if owner.startswith(GROUP):
        members = select(col(GroupMember.user)).where(col(GroupMember.group) == owner.removeprefix(GROUP))
        return col(Job.user).in_(members)
    return col(Job.user) == owner


def of_family(family: str) -> ColumnElement[bool]:
    """That a job is of this family, whoever has it, and has started: of others nothing is known, and the index has only
    those, so that a batch of 10,000 families is stored in half the time."""
    return (col(Job.family) == family) & (col(Job.attempt) > literal_column("0"))


def of_kin(kin: Kin) -> ColumnElement[bool]:
    return of_family(kin.family) & owned_by(kin.owner)
