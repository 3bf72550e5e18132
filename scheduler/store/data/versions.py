"""Queries and changes of versions by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Select, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.code.archive import show_bytes
from schedulearn.scheduler.core.states import TERMINAL
from schedulearn.scheduler.errors import ConflictError, ForbiddenError, NotFoundError, QuotaError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.data.tables import DataVersion
from schedulearn.scheduler.store.models import Job
from schedulearn.scheduler.store.owned import OWNED

_ALL = 1 << 31
_AGAIN_S = 60.0


class Version(NamedTuple):
    name: str
    version: int
    digest: str
    bytes: int
    files: int
    user: str
    job_id: str | None
    created_at: float

    @property
    def reference(self) -> str:
        return f"{self.name}@{self.version}"


def _versions() -> Select[tuple[object, ...]]:
    columns = (col(getattr(DataVersion, name)) for name in Version._fields)
    return select(*columns).where(col(DataVersion.removed_at).is_(None))


def newest(conn: Connection, limit: int, after: str = "") -> list[Version]:
    """Return the newest version of each name after `after`, by name."""
    last = (
        select(col(DataVersion.name), func.max(col(DataVersion.version)).label("version"))
        .where(col(DataVersion.removed_at).is_(None), col(DataVersion.name) > after)
        .group_by(col(DataVersion.name))
        .order_by(col(DataVersion.name))
        .limit(limit)
        .subquery()
    )
    joined = (col(DataVersion.name) == last.c.name) & (col(DataVersion.version) == last.c.version)
    query = _versions().join(last, joined).order_by(col(DataVersion.name))
    return [Version._make(row) for row in conn.execute(query)]


def counts(conn: Connection, names: Sequence[str]) -> Mapping[str, int]:
    """Return the number of versions of each name."""
    query = select(col(DataVersion.name), func.count()).where(
        col(DataVersion.removed_at).is_(None), col(DataVersion.name).in_(names)
    )
    return {name: count for name, count in conn.execute(query.group_by(col(DataVersion.name)))}  # noqa: C416


def versions_of(conn: Connection, name: str, limit: int = 1000) -> list[Version]:
    """Return the versions of a name, newest first. Raises NotFoundError."""
    query = _versions().where(col(DataVersion.name) == name).order_by(col(DataVersion.version).desc()).limit(limit)
    found = [Version._make(row) for row in conn.execute(query)]
    if not found:
        raise NotFoundError(f"there is no data set or model {name!r}: `schedulearn data ls` lists them")
    return found


def find(conn: Connection, name: str, version: int | None) -> Version:
    """Return a version; None: the newest one. Raises NotFoundError."""
    if version is None:
        return versions_of(conn, name, 1)[0]
    query = _versions().where(col(DataVersion.name) == name, col(DataVersion.version) == version)
    row = conn.execute(query).one_or_none()
    if row is None:
        last = versions_of(conn, name, 1)[0].version
        raise NotFoundError(f"{name}@{version} does not exist, or was removed: the newest version is {last}")
    return Version._make(row)


def digests(conn: Connection) -> set[str]:
    """Return the digests of all versions."""
    return set(conn.execute(select(col(DataVersion.digest)).where(col(DataVersion.removed_at).is_(None))).scalars())


def check_may_change(conn: Connection, name: str, user: str, *, is_admin: bool) -> None:
    """Raise ForbiddenError if the user may not change versions of this name.

    A name belongs to the owner of its oldest version that is not removed. Admins may change all."""
    query = select(col(DataVersion.user)).where(col(DataVersion.name) == name, col(DataVersion.removed_at).is_(None))
    owner = conn.execute(query.order_by(col(DataVersion.version)).limit(1)).scalar()
    if owner is not None and owner != user and not is_admin:
        raise ForbiddenError(f"{name} belongs to {owner or 'an admin'}: choose another name, or ask them or an admin")


def check_share(conn: Connection, user: str, digest: str, size: int, most: int) -> None:
    """Raise QuotaError if a user's versions would exceed `most` bytes.

    Content that the user already has needs no more space. A `most` of 0 means no limit."""
    mine = select(col(DataVersion.digest), func.max(col(DataVersion.bytes))).where(
        col(DataVersion.user) == user, col(DataVersion.removed_at).is_(None)
    )
    held: dict[str, int] = {each: held for each, held in conn.execute(mine.group_by(col(DataVersion.digest)))}  # noqa: C416
    used = sum(held.values())
    if most and digest not in held and used + size > most:
        raise QuotaError(
            f"{user or 'an admin'} may store at most {show_bytes(most)} of data sets (setting data_per_user) and "
            f"stores {show_bytes(used)}; this version has {show_bytes(size)}: remove versions with `schedulearn data "
            "rm`",
            retry_after=_AGAIN_S,
        )


def add(conn: Connection, made: Version) -> Version:
    """Store a version and return it with its number.

    If the newest version has the same content, return that one."""
    current = _versions().where(col(DataVersion.name) == made.name).order_by(col(DataVersion.version).desc()).limit(1)
    row = conn.execute(current).one_or_none()
    if row is not None and Version._make(row).digest == made.digest:
        return Version._make(row)
    highest = conn.execute(
        select(func.max(col(DataVersion.version))).where(col(DataVersion.name) == made.name)
    ).scalar()
    stored = made._replace(version=(highest or 0) + 1)
    conn.execute(insert(DataVersion).values(**stored._asdict()))
    came = f"job {stored.job_id}" if stored.job_id else stored.user or "an admin"
    message = f"{stored.reference} was added: {stored.files} files, {stored.bytes / 1e6:,.1f} MB, from {came}."
    repository.add_event(
        conn, stored.created_at, "data.added", message=message, job_id=stored.job_id, about=f"data:{stored.name}"
    )
    return stored


def remove(conn: Connection, name: str, version: int | None, now: float) -> list[Version]:
    """Remove one version of a name, or all if `version` is None.

    Raises NotFoundError, and ConflictError if an unfinished job or sweep needs one."""
    gone = versions_of(conn, name, _ALL) if version is None else [find(conn, name, version)]
    needed = _needed_by(conn, {each.reference for each in gone})
    if needed:
        raise ConflictError(needed)
    numbers = [each.version for each in gone]
    where = (
        col(DataVersion.name) == name,
        col(DataVersion.version).in_(numbers),
    )
    conn.execute(update(DataVersion).where(*where).values(removed_at=now))
    what = ", ".join(each.reference for each in gone[:5]) + (" and more" if len(gone) > 5 else "")
    repository.add_event(conn, now, "data.removed", message=f"Removed {what}.", about=f"data:{name}")
    return gone


def _needed_by(conn: Connection, references: set[str]) -> str:
    unfinished = select(col(Job.id), col(Job.spec)).where(col(Job.state).not_in([state.value for state in TERMINAL]))
    for job_id, keys in conn.execute(unfinished, execution_options={"yield_per": 500}):
        if used := references & keys.get("data", {}).keys():
            return f"job {job_id} needs {min(used)}: cancel it, or wait for its end"
    for kind, owned in OWNED.items():
        for name, keys in owned.jobs_to_come(conn):
            if used := references & (keys.get("data") or {}).keys():
                return f"{kind} {name} needs {min(used)}: cancel it, or wait for its end"
    return ""
