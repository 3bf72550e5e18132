"""Identities: persons at a provider or proxy, and the accounts to which they sign in.

Every function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, delete, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.people.accounts import Account, get_account
from schedulearn.scheduler.store.people.tables import AccountIdentity, AccountTable, LoginSession

MAX_OF_ACCOUNT = 10


class LinkedPerson(NamedTuple):
    """Person at a provider or proxy."""

    issuer: str
    subject: str
    signed_in_at: float | None


def account_of(db: Connection, issuer: str, subject: str) -> Account | None:
    """Return the account of an identity; None: it has none."""
    query = select(col(AccountTable.name)).join(
        AccountIdentity, col(AccountIdentity.account_id) == col(AccountTable.id)
    )
    name = db.execute(query.where(*_is(issuer, subject), col(AccountTable.removed_at).is_(None))).scalar()
    return get_account(db, name) if name is not None else None


def namesake_of(db: Connection, name: str) -> str | None:
    """Return the account with this name in any case of letters; None: there is none."""
    same = func.lower(col(AccountTable.name)) == name.lower()
    return db.execute(select(col(AccountTable.name)).where(same, col(AccountTable.removed_at).is_(None))).scalar()


def identities_by_account(db: Connection) -> Mapping[int, Sequence[LinkedPerson]]:
    """Return account ID -> identities, for each account that has some."""
    columns = (AccountIdentity.account_id, *(getattr(AccountIdentity, name) for name in LinkedPerson._fields))
    found: defaultdict[int, list[LinkedPerson]] = defaultdict(list)
    for account_id, *values in db.execute(select(*map(col, columns)).order_by(col(AccountIdentity.created_at))):
        found[account_id].append(LinkedPerson._make(values))
    return found


def link(db: Connection, name: str, issuer: str, subject: str, now: float) -> None:
    """Let a person sign in to an account. Repeating it changes nothing.

    Raises NotFoundError for an unknown account, and ConflictError if the person has another one."""
    account, before = get_account(db, name), account_of(db, issuer, subject)
    if before is not None and before.id == account.id:
        return
    if before is not None:
        raise ConflictError(
            f"{subject!r} of {issuer} signs in as {before.name}: unlink it there first "
            f"(schedulearn users unlink {before.name})",
            field="subject",
        )
    if len(identities_by_account(db).get(account.id, ())) >= MAX_OF_ACCOUNT:
        raise ConflictError(f"{name} has {MAX_OF_ACCOUNT} identities already: unlink some first")
    db.execute(delete(AccountIdentity).where(*_is(issuer, subject)))  # of a removed account
    db.execute(insert(AccountIdentity).values(issuer=issuer, subject=subject, account_id=account.id, created_at=now))
    message = f"User {name} signs in by {issuer} now."  # viewers read events, and a subject may be an e-mail address
    repository.add_event(db, now, "user.changed", code="linked", message=message)


def unlink(db: Connection, name: str, now: float) -> None:
    """Remove all identities of an account, and end their sessions.

    Raises NotFoundError for an unknown account, and if it has none."""
    account = get_account(db, name)
    if not db.execute(delete(AccountIdentity).where(col(AccountIdentity.account_id) == account.id)).rowcount:
        raise NotFoundError(f"{name} is not linked to a provider")
    db.execute(delete(LoginSession).where(col(LoginSession.account_id) == account.id))
    message = f"User {name} no longer signs in by a provider."
    repository.add_event(db, now, "user.changed", code="unlinked", message=message)


def note_sign_in(db: Connection, issuer: str, subject: str, now: float) -> None:
    db.execute(update(AccountIdentity).where(*_is(issuer, subject)).values(signed_in_at=now))


def last_sign_ins(db: Connection) -> dict[str, float]:
    """Return account name -> time of the last sign-in, or of the link. Accounts without an identity are left out."""
    at = func.max(func.coalesce(col(AccountIdentity.signed_in_at), col(AccountIdentity.created_at)))
    query = select(col(AccountTable.name), at.label("at")).join(
        AccountIdentity, col(AccountIdentity.account_id) == col(AccountTable.id)
    )
    return {name: float(found) for name, found in db.execute(query.group_by(col(AccountTable.name)))}


def _is(issuer: str, subject: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return col(AccountIdentity.issuer) == issuer, col(AccountIdentity.subject) == subject
