"""Images on engines that were pulled with the login of a user or group.

Only jobs with such a login may use them from there. A row for the pull is written before it begins, because the service
may be killed between the pull and the row for its result. An image without rows is free for all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import UniqueConstraint, delete, insert, select
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.store.columns import InstantColumn, json_column

NOBODY = -1


class PrivateImage(SQLModel, table=True):
    """Right of a login to use an image from an engine. Login 0: all may use it."""

    __tablename__ = "private_image"
    __table_args__ = (UniqueConstraint("engine_id", "image_id", "login_id"), {"sqlite_autoincrement": True})

    id: int | None = Field(default=None, primary_key=True)
    """A repeated pull gets a new one: see `forget`."""
    engine_id: str
    """Engine, not host: an engine keeps its images if its host is added under another name."""
    image_id: str
    login_id: int
    """No foreign key: an image stays private to a login that was removed. `NOBODY`: of an interrupted pull."""
    host: str
    """Registry that it was pulled from."""


class PrivatePull(SQLModel, table=True):
    """Pull that has begun with a login, and whose image is not recorded yet."""

    __tablename__ = "private_pull"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: int | None = Field(default=None, primary_key=True)
    engine_id: str = Field(index=True)
    image: str
    """Its name."""
    login_id: int
    before: list[str] = Field(sa_column=json_column())
    """Ids of the images that were there before."""
    began_at: float = Field(sa_type=InstantColumn)


class Right(NamedTuple):
    id: int
    image_id: str
    login_id: int
    host: str


class Pull(NamedTuple):
    id: int
    image: str
    login_id: int
    before: Sequence[str]
    began_at: float


class Private(NamedTuple):
    """State of one engine."""

    rights: Sequence[Right]
    pulls: Sequence[Pull]

    def owners(self) -> dict[str, set[int]]:
        """Return the logins that may use each image with rows."""
        found: dict[str, set[int]] = {}
        for right in self.rights:
            found.setdefault(right.image_id, set()).add(right.login_id)
        return found


def load(db: Connection, engine_id: str) -> Private:
    rights = select(*(col(getattr(PrivateImage, name)) for name in Right._fields))
    pulls = select(*(col(getattr(PrivatePull, name)) for name in Pull._fields))
    return Private(
        [Right._make(row) for row in db.execute(rights.where(col(PrivateImage.engine_id) == engine_id))],
        [Pull._make(row) for row in db.execute(pulls.where(col(PrivatePull.engine_id) == engine_id))],
    )


def begin_pull(db: Connection, engine_id: str, image: str, login: int, before: Collection[str], now: float) -> int:
    values = {"image": image, "login_id": login, "before": list(before), "began_at": now}
    made = insert(PrivatePull).values(engine_id=engine_id, **values).returning(col(PrivatePull.id))
    return db.execute(made).scalar_one() or 0


def end_pulls(db: Connection, ids: Collection[int]) -> None:
    db.execute(delete(PrivatePull).where(col(PrivatePull.id).in_(ids)))


def allow(db: Connection, engine_id: str, image_id: str, login: int, registry: str) -> None:
    values = {"engine_id": engine_id, "image_id": image_id, "login_id": login}
    db.execute(delete(PrivateImage).where(*(col(getattr(PrivateImage, name)) == each for name, each in values.items())))
    db.execute(insert(PrivateImage).values(host=registry, **values))


def forget(db: Connection, rights: Collection[Right]) -> None:
    """Delete these rows of images that are gone. A row of a later pull has another id, and stays."""
    db.execute(delete(PrivateImage).where(col(PrivateImage.id).in_([right.id for right in rights])))
