"""Queries and changes of accounts.

Every function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import SQLModel, col

from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.core.task import RunAs
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.accounting.usage import DeletedTask
from schedulearn.scheduler.store.data.tables import DataVersion
from schedulearn.scheduler.store.models import Event, Job
from schedulearn.scheduler.store.owned import OWNED
from schedulearn.scheduler.store.people.notices import Notice, NoticeChannel, forget_addresses
from schedulearn.scheduler.store.people.tables import (
    AccountIdentity,
    AccountTable,
    GroupMember,
    LoginSession,
    QuotaTable,
    RegistryLoginTable,
    SecretTable,
)
from schedulearn.scheduler.store.people.tokens import remove_tokens_of
from schedulearn.scheduler.store.predictions.lengths import LengthPrediction
from schedulearn.scheduler.store.predictions.metric_predictions import PredictedMetric
from schedulearn.scheduler.store.predictions.versions import ModelVersion

_RETIRED = "~"
"""Separator between the name and the id of a removed account. No account has it in its name."""
_SHOWN = 80
"""Maximum characters of the name that stay."""


class Account(NamedTuple):
    id: int
    name: str
    role: Role
    created_at: float
    uid: int | None
    gid: int | None
    gids: list[int]
    disabled_by: str | None


_ACCOUNTS = (
    select(*(col(getattr(AccountTable, name)) for name in Account._fields))
    .where(col(AccountTable.removed_at).is_(None))
    .order_by(col(AccountTable.name))
)
_OWNED: tuple[tuple[type[SQLModel], str, bool], ...] = (
    *((model, "user", True) for model in (Job, DataVersion, DeletedTask)),
    *((model, "owner", True) for model in (LengthPrediction, PredictedMetric, ModelVersion)),
    (Job, "held_by", True),
    (Event, "actor", True),
    (Notice, "owner", True),
    (SecretTable, "owner", False),
    (RegistryLoginTable, "user", False),
    (QuotaTable, "user", False),
    (GroupMember, "user", False),
)
"""Table, column with the owner's name, and whether that owner may have no account (as a job's owner)."""


def list_accounts(db: Connection) -> list[Account]:
    return [Account._make(row) for row in db.execute(_ACCOUNTS)]


def has_accounts(db: Connection) -> bool:
    """Return whether accounts besides the service's own exist and may submit jobs."""
    return db.execute(_ACCOUNTS.limit(1)).first() is not None


def get_account(db: Connection, name: str) -> Account:
    """Return an account. Raises NotFoundError."""
    row = db.execute(_ACCOUNTS.where(col(AccountTable.name) == name)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no user {name!r}: `schedulearn users ls` lists them")
    return Account._make(row)


def add_account(db: Connection, name: str, role: Role, now: float) -> Account:
    """Add an account. Raises ConflictError if one of this name exists."""
    if db.execute(_ACCOUNTS.where(col(AccountTable.name) == name)).first() is not None:
        raise ConflictError(f"a user {name!r} already exists", field="name")
    _take_from_namesake(db, name)
    highest = db.execute(select(func.max(col(AccountTable.id)))).scalar() or 0
    db.execute(insert(AccountTable).values(name=name, id=highest + 1, role=role, created_at=now))
    repository.add_event(
        db, now, "user.created", code=role.value, message=f"User {name} was created, as {role}.", about=f"user:{name}"
    )
    return get_account(db, name)


def set_role(db: Connection, name: str, role: Role, now: float) -> Account:
    """Set the role of an account. Raises NotFoundError."""
    before = get_account(db, name)
    if before.role is not role:
        db.execute(update(AccountTable).where(col(AccountTable.name) == name).values(role=role))
        message = f"User {name} is now {role}, was {before.role}."
        repository.add_event(db, now, "user.changed", code=role.value, message=message, about=f"user:{name}")
    return get_account(db, name)


def set_ids(db: Connection, name: str, ids: RunAs | None, now: float) -> Account:
    """Set the ids with which a user's jobs write to folders of the hosts.

    None: they can't write there. Raises NotFoundError."""
    before = get_account(db, name)
    values = {"uid": ids.uid, "gid": ids.gid, "gids": list(ids.gids)} if ids else {"uid": None, "gid": None, "gids": []}
    if any(getattr(before, key) != value for key, value in values.items()):
        db.execute(update(AccountTable).where(col(AccountTable.name) == name).values(**values))
        groups = f" and the groups {', '.join(map(str, ids.gids))}" if ids and ids.gids else ""
        said = f"writes on the hosts as uid {ids.uid}, gid {ids.gid}{groups}" if ids else "no longer has a uid"
        repository.add_event(
            db, now, "user.changed", code="ids", message=f"User {name} {said}.", data=values, about=f"user:{name}"
        )
    return get_account(db, name)


def set_disabled(db: Connection, name: str, by: str | None, now: float) -> Account:
    """Disable an account, or enable it if `by` is None. Raises NotFoundError.

    Tokens stay, and work again once it is enabled. Sessions end."""
    before = get_account(db, name)
    if before.disabled_by != by:
        db.execute(update(AccountTable).where(col(AccountTable.name) == name).values(disabled_by=by))
        if by is not None:
            db.execute(delete(LoginSession).where(col(LoginSession.account_id) == before.id))
        told = {"admin": "was disabled by an admin", "rules": "was disabled: no rule lets them sign in any more"}
        message = f"User {name} {told[by] if by is not None else 'is enabled again'}."
        repository.add_event(db, now, "user.changed", code="disabled" if by else "enabled", message=message)
    return get_account(db, name)


def owns_something(db: Connection, name: str) -> bool:
    """Return whether jobs, data or other objects have this name as their owner, with or without an account."""
    return any(
        db.execute(select(col(getattr(model, column))).where(col(getattr(model, column)) == name).limit(1)).first()
        for model, column, named in _owned()
        if named
    )


def remove_account(db: Connection, name: str, now: float) -> str:
    """Remove an account with its tokens and sessions, and return its retired name.

    The user's other rows stay, under the retired name, which no account can have. A later account of the old name gets
    none of them. Raises NotFoundError."""
    get_account(db, name)
    remove_tokens_of(db, name, now)
    forget_addresses(db, name, now)
    row = col(AccountTable.name) == name
    account_id = db.execute(select(col(AccountTable.id)).where(row)).scalar_one()
    db.execute(delete(AccountIdentity).where(col(AccountIdentity.account_id) == account_id))
    db.execute(delete(LoginSession).where(col(LoginSession.account_id) == account_id))
    retired = f"{name[:_SHOWN]}{_RETIRED}{account_id}"
    db.execute(update(AccountTable).where(row).values(name=retired, removed_at=now))
    for model, column, _ in _owned():
        _rename(db, model, column, name, retired)
    message = f"User {name} was removed, with all tokens. Their remaining data belongs to {retired}."
    repository.add_event(db, now, "user.removed", message=message, about=f"user:{name}")
    return retired


def _take_from_namesake(db: Connection, name: str) -> None:
    """Move late rows of a removed account of this name to its retired name.

    A request that was under way during the removal may have added such rows. Secrets and registry logins of this name
    are deleted, because they need an account, and so are addresses for notices."""
    db.execute(delete(SecretTable).where(col(SecretTable.owner) == name))
    db.execute(delete(RegistryLoginTable).where(col(RegistryLoginTable.user) == name))
    db.execute(delete(NoticeChannel).where(col(NoticeChannel.owner) == name))
    before = select(col(AccountTable.name)).where(
        col(AccountTable.removed_at).is_not(None),
        col(AccountTable.name).startswith(f"{name[:_SHOWN]}{_RETIRED}", autoescape=True),
    )
    retired = db.execute(before.order_by(col(AccountTable.id).desc()).limit(1)).scalar()
    if retired is not None:
        for model, column, named in _owned():
            if named:
                _rename(db, model, column, name, retired)


def _owned() -> list[tuple[type[SQLModel], str, bool]]:
    return [*_OWNED, *((kind.table, "user", True) for kind in OWNED.values())]


def _rename(db: Connection, model: type[SQLModel], column: str, name: str, to: str) -> None:
    db.execute(update(model).where(col(getattr(model, column)) == name).values({column: to}))
