"""Push and removal of versions of data sets and models."""

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
    """Response to a push of a version."""

    version: Version | None
    """The stored version; None: content is missing."""
    missing: Sequence[MissingBlob] = ()


class DataSets:
    def __init__(self, db: Database, store: DataStore) -> None:
        self._db = db
        self.store = store

    def push(self, name: str, manifest: Manifest, actor: Actor, answer: Callable[[Offer], A]) -> A:
        """Store a version, or report the content that must be sent first.

        `answer` makes the response. Content equal to the newest version adds no new version. Raises InvalidError,
        ForbiddenError, NoSpaceError and QuotaError."""
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
        """Remove one version, or all versions if `version` is None.

        Raises NotFoundError, ForbiddenError, and ConflictError while unfinished jobs or sweeps need one."""

        def change(conn: Connection) -> A:
            versions.find(conn, name, version)
            versions.check_may_change(conn, name, actor.name, is_admin=actor.is_admin)
            return answer(versions.remove(conn, name, version, time.time()))

        return self._db.write(change)

    def collect(self) -> int:
        """Delete content that no version needs; return the freed bytes."""

        def needed() -> set[str]:
            with self._db.read() as conn:
                return versions.digests(conn)

        return self.store.collect(needed, time.time())
