"""Queries and changes of the addresses of accounts, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, delete, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.features.notices.addresses import Address
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.people.notices import WAITING, Notice, NoticeChannel, channels_of

MAX = 10
"""Maximum addresses of an account."""


def get_channel(db: Connection, owner: str, name: str) -> Row[Any]:
    """Raises NotFoundError."""
    row = db.execute(select(NoticeChannel).where(*_is(owner, name))).one_or_none()
    if row is None:
        raise NotFoundError(f"you have no address {name!r} for notices: `schedulearn notify ls` lists them")
    return row


def set_channel(
    db: Connection, owner: str, name: str, address: Address, stored: str, events: Sequence[str], every: bool, now: float
) -> Row[Any]:
    """Add or change an address; `stored`: as it is encrypted. Raises ConflictError if there are `MAX` already."""
    existing = {row.name for row in channels_of(db, owner)}
    values = {"address": stored, "shown": address.shown, "events": list(events), "every_job": every}
    after = repository.last_event_id(db)
    if name in existing:
        change = update(NoticeChannel).where(*_is(owner, name))
        db.execute(change.values(**values, after_event=after, last_at=None, last_error=""))
    elif len(existing) >= MAX:
        raise ConflictError(f"you have {MAX} addresses for notices already: remove one first")
    else:
        db.execute(insert(NoticeChannel).values(owner=owner, name=name, created_at=now, after_event=after, **values))
    what = "changed" if name in existing else "added"
    repository.add_event(
        db, now, f"notify.{what}", message=f"Address {name} of {owner} for notices was {what}.", about=f"notify:{name}"
    )
    return get_channel(db, owner, name)


def remove_channel(db: Connection, owner: str, name: str, now: float) -> None:
    """Raises NotFoundError."""
    get_channel(db, owner, name)
    db.execute(delete(NoticeChannel).where(*_is(owner, name)))
    repository.add_event(
        db, now, "notify.removed", message=f"Address {name} of {owner} for notices was removed.", about=f"notify:{name}"
    )


def waiting_by_target(db: Connection, owner: str) -> dict[str, int]:
    """Return the number of waiting notices of each recipient."""
    query = select(col(Notice.target), func.count()).where(col(Notice.state) == WAITING, col(Notice.owner) == owner)
    return {row[0]: row[1] for row in db.execute(query.group_by(col(Notice.target)))}


def note_trial(db: Connection, channel_id: int, error: str, now: float) -> None:
    """Store the outcome of a trial notice."""
    mine = update(NoticeChannel).where(col(NoticeChannel.id) == channel_id)
    db.execute(mine.values(last_at=now, last_error=error))


def _is(owner: str, name: str) -> tuple[Any, Any]:
    return col(NoticeChannel.owner) == owner, col(NoticeChannel.name) == name
