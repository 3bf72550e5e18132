"""Logins to registries of images: of users, of groups and of everybody.

Passwords are encrypted with the key of the secrets, and only given to a host's pull. Each change of a login gives it a
new id. The ids tell with which login an image was pulled (`private_images`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import ColumnElement, delete, func, insert, or_, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.registries import NO_LOGIN, registry_of
from schedulearn.scheduler.errors import ConflictError, NotFoundError, RuntimeFault
from schedulearn.scheduler.runtimes.contract import RegistryLogin
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people.groups import check_group
from schedulearn.scheduler.store.people.secrets import Secrets
from schedulearn.scheduler.store.people.tables import GroupMember, RegistryLoginTable
from schedulearn.scheduler.store.people.visibility import seeing_all

MAX_LOGINS = 50
"""Maximum logins of one user, of one group or of everybody."""


class Holder(NamedTuple):
    """Owner of a login: a user, a group, or with neither everybody."""

    user: str = ""
    group: str = ""

    def __str__(self) -> str:
        return self.user or (f"group {self.group}" if self.group else "everybody")


class LoginShown(NamedTuple):
    """Login without its password."""

    host: str
    user: str
    group: str
    username: str
    created_at: float
    changed_at: float


_SHOWN = [col(getattr(RegistryLoginTable, name)) for name in LoginShown._fields]


@dataclass(frozen=True)
class _LoginIds:
    ids: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    """(registry, user, group) -> id."""
    group_of: Mapping[str, str] = field(default_factory=dict)


class RegistryLogins:
    """Logins of one database."""

    def __init__(self, db: Database, secrets: Secrets) -> None:
        self._db = db
        self._secrets = secrets
        self._lock = threading.Lock()
        self._known = _LoginIds()
        self._is_current = False
        self._version = 0

    def committed(self) -> None:
        """Note a commit, which may have changed a login or a group."""
        self._version += 1
        if self._known.ids:
            self._is_current = False

    def put(self, holder: Holder, login: RegistryLogin, now: float) -> None:
        """Set a login. Raises ConflictError if there are too many, NotFoundError for an unknown group."""
        password = self._secrets.encrypt(login.password)

        def change(conn: Connection) -> None:
            if holder.group:
                check_group(conn, holder.group)
            there = _is(holder, login.registry)
            created = conn.execute(select(col(RegistryLoginTable.created_at)).where(*there)).scalar()
            conn.execute(delete(RegistryLoginTable).where(*there))
            count = conn.execute(select(func.count()).select_from(RegistryLoginTable).where(*_of(holder))).scalar_one()
            if count >= MAX_LOGINS:
                raise ConflictError(f"{holder} has {count} registry logins, the maximum: remove one first")
            conn.execute(
                insert(RegistryLoginTable).values(
                    host=login.registry, user=holder.user, group=holder.group, username=login.username,
                    password=password, created_at=now if created is None else created, changed_at=now,
                )
            )  # fmt: skip
            what = "created" if created is None else "changed"
            message = f"Login of {holder} to the registry {login.registry} was {what}."
            repository.add_event(conn, now, f"registry_login.{what}", message=message)

        self._db.write(change)
        self._is_current = False

    def remove(self, holder: Holder, registry: str, now: float) -> None:
        """Remove a login. Raises NotFoundError."""

        def change(conn: Connection) -> None:
            if not conn.execute(delete(RegistryLoginTable).where(*_is(holder, registry))).rowcount:
                raise NotFoundError(
                    f"there is no login of {holder} to {registry}: `schedulearn registry ls` lists them"
                )
            message = f"Login of {holder} to the registry {registry} was removed."
            repository.add_event(conn, now, "registry_login.removed", message=message)

        self._db.write(change)
        self._is_current = False

    def list_for(self, user: str | None) -> list[LoginShown]:
        """Return the logins that jobs of `user` may use; None: all."""
        table = RegistryLoginTable
        query = select(*_SHOWN).order_by(col(table.host), col(table.user), col(table.group))
        with seeing_all(), self._db.read() as conn:
            if user is not None:
                group = conn.execute(select(col(GroupMember.group)).where(col(GroupMember.user) == user)).scalar()
                mine = [_of(holder) for holder in (Holder(user), Holder(group=group or ""), Holder())]
                query = query.where(or_(*(left & right for left, right in mine)))
            return [LoginShown._make(row) for row in conn.execute(query)]

    def find(self, user: str, image: str) -> int:
        """Return the id of the login with which a user's job pulls an image: their own, or their group's.

        `NO_LOGIN`: they have none, so everybody's login or the service's own applies."""
        known = self._load()
        if not known.ids or not user:
            return NO_LOGIN
        registry = registry_of(image)
        if (own := known.ids.get((registry, user, ""))) is not None:
            return own
        group = known.group_of.get(user)
        return known.ids.get((registry, "", group), NO_LOGIN) if group else NO_LOGIN

    def named_by_admins(self) -> set[str]:
        """Return the registries with a login of a group or of everybody."""
        return {registry for registry, user, _ in self._load().ids if not user}

    def credentials(self, image: str, login: int) -> RegistryLogin | None:
        """Return what to pull an image with. `NO_LOGIN`: everybody's login, if there is one.

        Raises RuntimeFault if the login was removed or changed meanwhile."""
        registry, table = registry_of(image), RegistryLoginTable
        query = select(col(table.username), col(table.password)).where(col(table.host) == registry)
        query = query.where(col(table.id) == login) if login else query.where(*_of(Holder()))
        with seeing_all(), self._db.read() as conn:
            row = conn.execute(query).first()
        if row is not None:
            return RegistryLogin(registry, row.username, self._secrets.decrypt(row.password))
        if login:
            raise RuntimeFault(f"the login to {registry} for the pull of {image!r} was removed or changed meanwhile.")
        return None

    def _load(self) -> _LoginIds:
        with self._lock:
            if self._is_current:
                return self._known
            version, table = self._version, RegistryLoginTable
            with seeing_all(), self._db.read() as conn:
                rows = conn.execute(select(col(table.id), col(table.host), col(table.user), col(table.group))).all()
                ids = {(row.host, row.user, row.group): row.id for row in rows}
                members = select(col(GroupMember.user), col(GroupMember.group))
                group_of = {row.user: row.group for row in conn.execute(members)} if ids else {}
            self._known = _LoginIds(ids, group_of)
            self._is_current = version == self._version
            return self._known


def _of(holder: Holder) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return col(RegistryLoginTable.user) == holder.user, col(RegistryLoginTable.group) == holder.group


def _is(holder: Holder, registry: str) -> tuple[ColumnElement[bool], ...]:
    return (*_of(holder), col(RegistryLoginTable.host) == registry)
