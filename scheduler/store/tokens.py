"""Named tokens in the database, as hashes. Every function takes the connection of its caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.models import ApiToken


def list_tokens(db: Connection) -> Sequence[Row[Any]]:
    return db.execute(select(ApiToken).order_by(col(ApiToken.id))).all()


def add_token(db: Connection, name: str, digest: str, now: float) -> Row[Any]:
    """Raises ConflictError if another token has the name."""
    if db.execute(select(col(ApiToken.id)).where(col(ApiToken.name) == name)).first() is not None:
        raise ConflictError(f"there is a token named {name!r} already: revoke it, or take another name", field="name")
    db.execute(insert(ApiToken).values(name=name, hash=digest, created_at=now))
    repository.add_event(db, now, "token.created", message=f"Token {name!r} was created.")
    return db.execute(select(ApiToken).where(col(ApiToken.name) == name)).one()


def remove_token(db: Connection, token_id: int, now: float) -> None:
    """Raises NotFoundError."""
    row = db.execute(select(ApiToken).where(col(ApiToken.id) == token_id)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no token {token_id}")
    db.execute(delete(ApiToken).where(col(ApiToken.id) == token_id))
    repository.add_event(db, now, "token.revoked", message=f"Token {row.name!r} was revoked.")


def note_use(db: Connection, token_id: int, at: float) -> None:
    db.execute(update(ApiToken).where(col(ApiToken.id) == token_id).values(last_used_at=at))
