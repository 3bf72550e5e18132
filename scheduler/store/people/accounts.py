"""Accounts in the database. Every function takes the connection of its caller's transaction."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.core.task import RunAs
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.people.tables import Account as AccountTable
from schedulearn.scheduler.store.people.tokens import remove_tokens_of


class Account(NamedTuple):
    name: str
    role: Role
    created_at: float
    uid: int | None
    gid: int | None
    gids: list[int]


_ACCOUNTS = select(*(col(getattr(AccountTable, name)) for name in Account._fields)).order_by(col(AccountTable.name))


def list_accounts(db: Connection) -> list[Account]:
    return [Account._make(row) for row in db.execute(_ACCOUNTS)]


def has_accounts(db: Connection) -> bool:
    """Whether others than the service's own account may send jobs."""
    return db.execute(select(col(AccountTable.name)).limit(1)).first() is not None


def get_account(db: Connection, name: str) -> Account:
    """Raises NotFoundError."""
    row = db.execute(_ACCOUNTS.where(col(AccountTable.name) == name)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no user {name!r}: `schedulearn users ls` shows them")
    return Account._make(row)


def add_account(db: Connection, name: str, role: Role, now: float) -> Account:
    """Raises ConflictError if there is one of this name."""
    if db.execute(_ACCOUNTS.where(col(AccountTable.name) == name)).first() is not None:
        raise ConflictError(f"there is a user {name!r} already", field="name")
    db.execute(insert(AccountTable).values(name=name, role=role, created_at=now))
    repository.add_event(db, now, "user.created", code=role.value, message=f"User {name} was created, as {role}.")
    return get_account(db, name)


def set_role(db: Connection, name: str, role: Role, now: float) -> Account:
    """Raises NotFoundError."""
    before = get_account(db, name)
    if before.role is not role:
        db.execute(update(AccountTable).where(col(AccountTable.name) == name).values(role=role))
        message = f"User {name} is now {role}, not {before.role}."
        repository.add_event(db, now, "user.changed", code=role.value, message=message)
    return get_account(db, name)


def set_ids(db: Connection, name: str, ids: RunAs | None, now: float) -> Account:
    """As whom their jobs write folders of the hosts; None: they write none. Raises NotFoundError."""
    before = get_account(db, name)
    values = {"uid": ids.uid, "gid": ids.gid, "gids": list(ids.gids)} if ids else {"uid": None, "gid": None, "gids": []}
    if any(getattr(before, key) != value for key, value in values.items()):
        db.execute(update(AccountTable).where(col(AccountTable.name) == name).values(**values))
        groups = f" and the groups {', '.join(map(str, ids.gids))}" if ids and ids.gids else ""
        said = f"writes on the hosts as uid {ids.uid}, gid {ids.gid}{groups}" if ids else "has no uid any more"
        repository.add_event(db, now, "user.changed", code="ids", message=f"User {name} {said}.", data=values)
    return get_account(db, name)


def remove_account(db: Connection, name: str, now: float) -> None:
    """With their tokens and sessions; their jobs go on. Raises NotFoundError."""
    get_account(db, name)
    remove_tokens_of(db, name, now)
    db.execute(delete(AccountTable).where(col(AccountTable.name) == name))
    repository.add_event(db, now, "user.removed", message=f"User {name} was removed, with all tokens.")
