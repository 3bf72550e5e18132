"""The tables of people. A change of this file needs a migration, as one of `store/models.py` does."""

from __future__ import annotations

from sqlalchemy import JSON, Column, ForeignKey, Index, Integer, Text
from sqlmodel import Field, SQLModel

from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.store.columns import EnumColumn, InstantColumn


class Account(SQLModel, table=True):
    """A person or program with a role. The service's own account is none of these: it is always an admin."""

    __table_args__ = (Index("account_by_id", "id", unique=True),)

    name: str = Field(primary_key=True)
    """Of one that was removed: no name that an account can have, see `accounts.retire`."""
    id: int
    """Never given again."""
    removed_at: float | None = Field(default=None, sa_type=InstantColumn)
    role: Role = Field(sa_column=Column(EnumColumn(Role), nullable=False))
    created_at: float = Field(sa_type=InstantColumn)
    uid: int | None = None
    """As whom their jobs write folders of the hosts; None: they write none."""
    gid: int | None = None
    gids: list[int] = Field(default_factory=list, sa_column=Column(JSON, nullable=False, server_default="[]"))
    """Their further groups on the hosts."""


class ApiToken(SQLModel, table=True):
    """A named token of a person or program. Only its hash is kept."""

    __tablename__ = "api_token"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True)
    hash: str = Field(unique=True)
    """SHA-256, in hexadecimal."""
    created_at: float = Field(sa_type=InstantColumn)
    last_used_at: float | None = Field(default=None, sa_type=InstantColumn)
    owner: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """An account; empty: the service's own."""
    role: Role = Field(
        default=Role.ADMIN, sa_column=Column(EnumColumn(Role), nullable=False, server_default=Role.ADMIN.value)
    )
    """What it may do at most; less where its owner may do less."""
    expires_at: float | None = Field(default=None, sa_type=InstantColumn)
    parent_id: int | None = Field(default=None, sa_column=Column(Integer, nullable=True))
    """The token with which it was made: it is revoked with that one. None: the service's own account made it."""


class LoginSession(SQLModel, table=True):
    """A browser that has logged in. Its cookie is kept as a hash only."""

    __tablename__ = "login_session"

    hash: str = Field(primary_key=True)
    token_id: int | None = Field(
        default=None, sa_column=Column(Integer, ForeignKey("api_token.id", ondelete="CASCADE"), nullable=True)
    )
    """The token that began it, and with which it ends; None: the service's own, or its link for the first login."""
    began_by: str = Field(default="")
    """Hash of the service's own token that began it: with another one the session is over."""
    created_at: float = Field(sa_type=InstantColumn)
    expires_at: float = Field(sa_type=InstantColumn)


class Quota(SQLModel, table=True):
    """How much one user may have; None: no bound. The row `*` is for all that have none of their own."""

    user: str = Field(primary_key=True)
    gpus: int | None = None
    """At once."""
    gpu_hours: float | None = None
    """Within seven days."""
    waiting: int | None = None
    """Jobs that have not started."""
    submissions: int | None = None
    """Within a minute."""
    cpu_jobs: int | None = None
    """Jobs without GPUs at once; the next two are what those ask for together."""
    cpus: float | None = None
    memory_gib: float | None = None
    weight: float = Field(default=1.0, sa_column_kwargs={"server_default": "1"})
    """Share of the cluster against other users, where shares are fair."""


class UserGroup(SQLModel, table=True):
    """How much a group may have, all its users together; None: no bound."""

    __tablename__ = "user_group"

    name: str = Field(primary_key=True)
    gpus: int | None = None
    gpu_hours: float | None = None
    waiting: int | None = None
    submissions: int | None = None
    cpu_jobs: int | None = None
    cpus: float | None = None
    memory_gib: float | None = None


class GroupMember(SQLModel, table=True):
    """A user belongs to one group at most."""

    __tablename__ = "group_member"

    user: str = Field(primary_key=True)
    group: str = Field(sa_column=Column(ForeignKey("user_group.name", ondelete="CASCADE"), index=True, nullable=False))


class Secret(SQLModel, table=True):
    """A value that jobs get by its name, encrypted."""

    owner: str = Field(primary_key=True)
    """Whose jobs may use it; empty: everybody's."""
    name: str = Field(primary_key=True)
    value: str = Field(sa_type=Text)
    created_at: float = Field(sa_type=InstantColumn)
    changed_at: float = Field(sa_type=InstantColumn)
