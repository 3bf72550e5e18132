"""Secrets by name, encrypted in the database, for jobs only.

They are never shown. The key is a file in the data folder. It protects copies of the database; anyone who can read the
data folder has both.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import ColumnElement, delete, insert, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.errors import InvalidError, NotFoundError, StoreError
from schedulearn.scheduler.private_files import write_private
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job
from schedulearn.scheduler.store.people.tables import SecretTable

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

KEY_FILE = "secrets.key"
SHARED = ""
"""Owner of secrets that all jobs may use."""


class Secret(NamedTuple):
    owner: str
    name: str
    created_at: float
    changed_at: float


_COLUMNS = [col(getattr(SecretTable, name)) for name in Secret._fields]


class Secrets:
    """Secrets of one database. The key is created with the first secret."""

    def __init__(self, db: Database, data_dir: Path) -> None:
        self._db = db
        self._key_path = data_dir / KEY_FILE
        self._lock = threading.Lock()
        self._cipher: Fernet | None = None

    def put(self, owner: str, name: str, value: str, now: float) -> None:
        token = self.encrypt(value)

        def change(conn: Connection) -> None:
            found = conn.execute(select(SecretTable).where(*_is(owner, name))).first()
            conn.execute(delete(SecretTable).where(*_is(owner, name)))
            created = found.created_at if found is not None else now
            values = {"value": token, "created_at": created, "changed_at": now}
            conn.execute(insert(SecretTable).values(owner=owner, name=name, **values))
            what = "changed" if found is not None else "created"
            message = f"Secret {name} of {owner or 'all users'} was {what}."
            repository.add_event(conn, now, f"secret.{what}", message=message, about=f"secret:{name}")

        self._db.write(change)

    def remove(self, owner: str, name: str, now: float) -> None:
        """Remove a secret. Raises NotFoundError."""

        def change(conn: Connection) -> None:
            if not conn.execute(delete(SecretTable).where(*_is(owner, name))).rowcount:
                raise NotFoundError(f"there is no secret {name!r} of {owner or 'all users'}")
            message = f"Secret {name} of {owner or 'all users'} was removed."
            repository.add_event(conn, now, "secret.removed", message=message, about=f"secret:{name}")

        self._db.write(change)

    def list_for(self, user: str | None) -> list[Secret]:
        """Return the secrets that jobs of `user` may use; None: all."""
        query = select(*_COLUMNS).order_by(col(SecretTable.owner), col(SecretTable.name))
        if user is not None:
            query = query.where(col(SecretTable.owner).in_([user, SHARED]))
        with self._db.read() as conn:
            return [Secret._make(row) for row in conn.execute(query)]

    def check(self, user: str, wanted: Mapping[str, str]) -> None:
        """Raise InvalidError for a name that is not one of the user's secrets."""
        if not wanted:
            return
        known = {secret.name for secret in self.list_for(user)}
        for variable, name in wanted.items():
            if name not in known:
                raise InvalidError(
                    f"{user} has no secret {name!r}: create it with `schedulearn secrets set {name}`",
                    field=f"secrets.{variable}",
                )

    def env_of(self, job_id: str) -> dict[str, str]:
        """Return a job's variables with the values of its secrets. Raises StoreError.

        A variable whose secret was removed meanwhile is left out."""
        with self._db.read() as conn:
            row = conn.execute(select(col(Job.user), col(Job.spec)).where(col(Job.id) == job_id)).first()
            wanted = row.spec.get("secrets") if row is not None else None
            if row is None or not wanted:
                return {}
            query = select(col(SecretTable.owner), col(SecretTable.name), col(SecretTable.value))
            query = query.where(col(SecretTable.owner).in_([row.user, SHARED]))
            mine = query.where(col(SecretTable.name).in_(list(wanted.values())))
            ordered = conn.execute(mine.order_by(col(SecretTable.owner)))  # the user's own override shared ones
            found = {name: value for _, name, value in ordered}
        return {variable: self.decrypt(found[name]) for variable, name in wanted.items() if name in found}

    def encrypt(self, value: str) -> str:
        """Return a value as it is stored. Raises StoreError if the key can't be read."""
        return self._cipher_for(new=True).encrypt(value.encode()).decode()

    def decrypt(self, token: str) -> str:
        """Return the value that `encrypt` was given. Raises StoreError for another key."""
        from cryptography.fernet import InvalidToken

        try:
            return self._cipher_for(new=False).decrypt(token.encode()).decode()
        except InvalidToken as error:
            raise StoreError(
                f"a secret can't be decrypted with the key in {self._key_path}: it was encrypted with another key"
            ) from error

    def _cipher_for(self, *, new: bool) -> Fernet:
        """Return the cipher. Raises StoreError if the key is missing or invalid.

        `new`: create the key if it is missing."""
        from cryptography.fernet import Fernet  # slows the start, and most clusters have no secrets

        with self._lock:
            if self._cipher is None:
                if new and not self._key_path.exists():
                    write_private(self._key_path, Fernet.generate_key())
                try:
                    self._cipher = Fernet(self._key_path.read_bytes())
                except (OSError, ValueError) as error:
                    raise StoreError(f"the key of the secrets in {self._key_path} can't be read: {error}") from error
            return self._cipher


def _is(owner: str, name: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return col(SecretTable.owner) == owner, col(SecretTable.name) == name
