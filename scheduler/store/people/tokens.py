"""Named tokens and sessions, stored as hashes.

Every function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.people.tables import ApiToken, LoginSession

MAX_SESSIONS = 1000
"""Maximum number of sessions; the oldest are ended for new ones."""
MAX_SESSIONS_OF_ACCOUNT = 20
"""The same of one account that signs in at a provider: its sessions end no others."""


class Token(NamedTuple):
    id: int
    name: str
    hash: str
    created_at: float
    last_used_at: float | None
    owner: str
    role: Role
    expires_at: float | None
    parent_id: int | None


class Session(NamedTuple):
    hash: str
    token_id: int | None
    began_by: str
    created_at: float
    expires_at: float
    account_id: int | None = None
    proxy_user: str = ""


_TOKENS = select(*(col(getattr(ApiToken, name)) for name in Token._fields)).order_by(col(ApiToken.id))
_SESSIONS = select(*(col(getattr(LoginSession, name)) for name in Session._fields))


def list_tokens(db: Connection) -> list[Token]:
    return [Token._make(row) for row in db.execute(_TOKENS)]


def add_token(
    db: Connection,
    name: str,
    digest: str,
    now: float,
    *,
    owner: str = "",
    role: Role = Role.ADMIN,
    expires_at: float | None = None,
    parent_id: int | None = None,
) -> Token:
    """Add a token. Raises ConflictError if another token has the name."""
    if db.execute(select(col(ApiToken.id)).where(col(ApiToken.name) == name)).first() is not None:
        raise ConflictError(f"a token named {name!r} already exists: revoke it, or choose another name", field="name")
    values = {"name": name, "hash": digest, "owner": owner, "role": role, "expires_at": expires_at}
    db.execute(insert(ApiToken).values(created_at=now, parent_id=parent_id, **values))
    of = f" for {owner}" if owner else ""
    data = {"role": role.value, **({"owner": owner} if owner else {})}
    message = f"Token {name!r} with the role {role} was created{of}."
    repository.add_event(db, now, "token.created", message=message, data=data, about=f"token:{name}")
    return Token._make(db.execute(_TOKENS.where(col(ApiToken.name) == name)).one())


def remove_token(db: Connection, token_id: int, now: float) -> None:
    """Remove a token, the tokens created with it, and their sessions.

    Raises NotFoundError."""
    found = list_tokens(db)
    if not any(token.id == token_id for token in found):
        raise NotFoundError(f"there is no token {token_id}")
    remove_tokens(db, _with_descendants(found, {token_id}), now)


def remove_tokens_of(db: Connection, owner: str, now: float) -> None:
    found = list_tokens(db)
    remove_tokens(db, _with_descendants(found, {token.id for token in found if token.owner == owner}), now)


def remove_tokens(db: Connection, tokens: Sequence[Token], now: float) -> None:
    ids = [token.id for token in tokens]
    db.execute(delete(LoginSession).where(col(LoginSession.token_id).in_(ids)))
    db.execute(delete(ApiToken).where(col(ApiToken.id).in_(ids)))
    for token in tokens:
        repository.add_event(
            db, now, "token.revoked", message=f"Token {token.name!r} was revoked.", about=f"token:{token.name}"
        )


def _with_descendants(tokens: Sequence[Token], ids: set[int]) -> list[Token]:
    """Return the tokens of `ids` and their descendants.

    `tokens` are in the order of their creation, so a token comes before those created with it."""
    found = []
    for token in tokens:
        if token.id in ids or token.parent_id in ids:
            ids.add(token.id)
            found.append(token)
    return found


def note_use(db: Connection, token_id: int, at: float) -> None:
    db.execute(update(ApiToken).where(col(ApiToken.id) == token_id).values(last_used_at=at))


def list_sessions(db: Connection) -> list[Session]:
    return [Session._make(row) for row in db.execute(_SESSIONS)]


def add_session(db: Connection, session: Session) -> None:
    """Add a session. Delete expired sessions, and the oldest above the maximum."""
    db.execute(delete(LoginSession).where(col(LoginSession.expires_at) <= session.created_at))
    newest = select(col(LoginSession.hash)).order_by(col(LoginSession.created_at).desc())
    if session.account_id is not None:
        own = col(LoginSession.account_id) == session.account_id
        kept = newest.where(own).limit(MAX_SESSIONS_OF_ACCOUNT - 1)
        db.execute(delete(LoginSession).where(own, col(LoginSession.hash).not_in(kept)))
    db.execute(delete(LoginSession).where(col(LoginSession.hash).not_in(newest.limit(MAX_SESSIONS - 1))))
    db.execute(insert(LoginSession).values(**session._asdict()))
    repository.add_event(db, session.created_at, "login.started", message="Signed in on the page.")


def remove_session(db: Connection, digest: str, now: float) -> None:
    db.execute(delete(LoginSession).where(col(LoginSession.hash) == digest))
    repository.add_event(db, now, "login.ended", message="Signed out on the page.")
