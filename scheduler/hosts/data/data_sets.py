"""Data sets and models by name: what there is, and what becomes of a version that is pushed or removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy.engine import Connection

from schedulearn.scheduler.core.people import Actor
from schedulearn.scheduler.data.manifest import Manifest, check_name
from schedulearn.scheduler.data.store import DataStore, MissingBlob
from schedulearn.scheduler.store.data import versions
from schedulearn.scheduler.store.data.versions import Version
from schedulearn.scheduler.store.db import Database

A = TypeVar("A")


@dataclass(frozen=True)
class Offer:
    """What the service says of a version that somebody would push."""

    version: Version | None
    """It is stored; None: content is missing."""
    missing: Sequence[MissingBlob] = ()


class DataSets:
    def __init__(self, db: Database, store: DataStore) -> None:
        self._db = db
        self.store = store

    def push(self, name: str, manifest: Manifest, actor: Actor, answer: Callable[[Offer], A]) -> A:
        """Stores a version once all of its content is here; else says what is missing. What the newest version holds
        already makes no new one. Raises InvalidError, ForbiddenError, NoSpaceError
        and QuotaError."""
        check_name(name)
        with self._db.read() as conn:
            versions.check_may_change(conn, name, actor.name, is_admin=actor.is_admin)
            self._check_share(conn, manifest, actor)
        if missing := self.store.missing(manifest):
            return answer(Offer(None, missing))
        digest = self.store.keep(manifest)
        made = Version(name, 0, digest, manifest.bytes, manifest.files, actor.name, None, time.time())

        def change(conn: Connection) -> A:
            versions.check_may_change(conn, name, actor.name, is_admin=actor.is_admin)
            self._check_share(conn, manifest, actor)
            return answer(Offer(versions.add(conn, made)))

        return self._db.write(change)

    def _check_share(self, conn: Connection, manifest: Manifest, actor: Actor) -> None:
        versions.check_share(conn, actor.name, manifest.digest, manifest.bytes, self.store.per_user)

    def remove(self, name: str, version: int | None, actor: Actor, answer: Callable[[Sequence[Version]], A]) -> A:
        """One version, or all of them. Raises NotFoundError, ForbiddenError, and ConflictError while jobs need it."""

        def change(conn: Connection) -> A:
            versions.find(conn, name, version)
            versions.check_may_change(conn, name, actor.name, is_admin=actor.is_admin)
            return answer(versions.remove(conn, name, version, time.time()))

        return self._db.write(change)

    def collect(self) -> int:
        """Removes content that no version names any more. Bytes that are free then."""

        def needed() -> set[str]:
            with self._db.read() as conn:
                return versions.digests(conn)

        return self.store.collect(needed, time.time())
