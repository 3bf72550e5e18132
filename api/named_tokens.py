"""Tokens with a name, beside the service's own: made and revoked while it runs, kept as hashes only."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Row
from sqlalchemy.engine import Connection

from schedulearn.scheduler.store import tokens as store
from schedulearn.scheduler.store.db import Database

T = TypeVar("T")
TokenRow = Row[Any]

PREFIX = "sl_"
_USE_EVERY_S = 60.0  # `last_used_at` is written so often at most


class NamedTokens:
    """Those of one database, in memory too: every request is checked. None is known before `open`."""

    def __init__(self) -> None:
        self._db: Database | None = None
        self._ids: dict[str, int] = {}  # by hash
        self._used: dict[str, float] = {}

    def open(self, db: Database) -> None:
        with db.read() as connection:
            self._ids = {row.hash: row.id for row in store.list_tokens(connection)}
        self._db = db

    def find(self, token: str) -> str | None:
        """The hash of a token that is known, and notes that it was used; None for any other."""
        digest = _digest(token)
        token_id = self._ids.get(digest)
        if token_id is None:
            return None
        now = time.time()
        if self._db is not None and now - self._used.get(digest, 0.0) > _USE_EVERY_S:
            self._used[digest] = now
            self._db.submit(lambda db: store.note_use(db, token_id, now))
        return digest

    def knows(self, digest: str) -> bool:
        return digest in self._ids

    def create(self, db: Database, name: str, answer: Callable[[TokenRow, str], T]) -> T:
        """The `answer` to its row and the token itself, which can't be shown again: if it fails, there is no token.
        Raises ConflictError for a name that is taken."""
        token = PREFIX + secrets.token_urlsafe(32)
        digest, now = _digest(token), time.time()

        def change(connection: Connection) -> tuple[int, T]:
            row = store.add_token(connection, name, digest, now)
            return row.id, answer(row, token)

        self._ids[digest], answered = db.write(change)
        return answered

    def revoke(self, db: Database, token_id: int) -> None:
        """Revokes the token; its open streams end. Raises NotFoundError."""
        now = time.time()
        db.write(lambda connection: store.remove_token(connection, token_id, now))
        self._ids = {digest: known for digest, known in self._ids.items() if known != token_id}


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
