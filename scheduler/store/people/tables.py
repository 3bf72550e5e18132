"""Tables of accounts, tokens, sessions, quotas, groups, secrets and registry logins.

A change of this file needs a migration, as one of `store/models.py` does.
"""

from __future__ import annotations

from sqlalchemy import JSON, Column, ForeignKey, Index, Integer, Text, UniqueConstraint
from sqlmodel import Field, SQLModel

from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.store.columns import EnumColumn, InstantColumn


class AccountTable(SQLModel, table=True):
    """Person or program with a role.

    The service's own account has no row here: it is always an admin."""

    __tablename__ = "account"

    __table_args__ = (Index("account_by_id", "id", unique=True),)

    name: str = Field(primary_key=True)
    """Name; after removal a retired name, which no account can have, see `accounts.remove_account`."""
    id: int
    """Id, which is never reused."""
    removed_at: float | None = Field(default=None, sa_type=InstantColumn)
    role: Role = Field(sa_column=Column(EnumColumn(Role), nullable=False))
    created_at: float = Field(sa_type=InstantColumn)
    uid: int | None = None
    """User id with which their jobs write to folders of the hosts; None: they can't."""
    gid: int | None = None
    gids: list[int] = Field(default_factory=list, sa_column=Column(JSON, nullable=False, server_default="[]"))
    """Ids of their supplementary groups on the hosts."""
    disabled_by: str | None = None
    """`admin` or `rules` (of sign-in): no token or session of the account works. None: all work."""


class AccountIdentity(SQLModel, table=True):
    """Person at an identity provider or proxy, who signs in to an account."""

    __tablename__ = "account_identity"
    __table_args__ = (Index("account_identity_by_account", "account_id"),)

    issuer: str = Field(primary_key=True)
    """URL of the provider, or `proxy`."""
    subject: str = Field(primary_key=True)
    """Identifier of the person there, which never changes. Names may."""
    account_id: int
    created_at: float = Field(sa_type=InstantColumn)
    signed_in_at: float | None = Field(default=None, sa_type=InstantColumn)


class ApiToken(SQLModel, table=True):
    """Named token of a person or program. Only its hash is stored."""

    __tablename__ = "api_token"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True)
    hash: str = Field(unique=True)
    """SHA-256, in hexadecimal."""
    created_at: float = Field(sa_type=InstantColumn)
    last_used_at: float | None = Field(default=None, sa_type=InstantColumn)
    owner: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Account that owns the token; empty: the service's own."""
    role: Role = Field(
        default=Role.ADMIN, sa_column=Column(EnumColumn(Role), nullable=False, server_default=Role.ADMIN.value)
    )
    """Maximum role of the token. It never has more rights than its owner."""
    expires_at: float | None = Field(default=None, sa_type=InstantColumn)
    parent_id: int | None = Field(default=None, sa_column=Column(Integer, nullable=True))
    """Token that created this one, which is revoked with it. None: the service's own account created it."""


class LoginSession(SQLModel, table=True):
    """Browser that has logged in. Only a hash of its cookie is stored."""

    __tablename__ = "login_session"

    hash: str = Field(primary_key=True)
    token_id: int | None = Field(
        default=None, sa_column=Column(Integer, ForeignKey("api_token.id", ondelete="CASCADE"), nullable=True)
    )
    """Token that began the session, and with which it ends.

    None: it began with the service's own token, or with its link for the first login."""
    began_by: str = Field(default="")
    """Hash of the service's own token that began the session. It ends when that token is replaced."""
    account_id: int | None = None
    """Account that signed in at a provider or proxy. None: a token began the session."""
    proxy_user: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """User whom the proxy named at the sign-in. The session is valid only while the proxy names them."""
    created_at: float = Field(sa_type=InstantColumn)
    expires_at: float = Field(sa_type=InstantColumn)


class QuotaTable(SQLModel, table=True):
    """Limits of one user; None: no bound.

    The row `*` is the default for users without a row."""

    __tablename__ = "quota"

    user: str = Field(primary_key=True)
    gpus: int | None = None
    """Maximum GPUs at the same time."""
    gpu_hours: float | None = None
    """Maximum GPU-hours within seven days."""
    waiting: int | None = None
    """Maximum waiting jobs."""
    submissions: int | None = None
    """Maximum submissions per minute."""
    cpu_jobs: int | None = None
    """Maximum jobs without GPUs at the same time. `cpus` and `memory_gib` bound their total requests."""
    cpus: float | None = None
    memory_gib: float | None = None
    priority: int | None = None
    """Highest priority of a job."""
    max_duration: float | None = None
    """Maximum `max_duration` of a job."""
    default_duration: float | None = None
    """`max_duration` of jobs that state none."""
    weight: float = Field(default=1.0, sa_column_kwargs={"server_default": "1"})
    """Weight of the user's share of the cluster against other users, with fair sharing."""


class UserGroup(SQLModel, table=True):
    """Limits of all users of a group together; None: no bound."""

    __tablename__ = "user_group"

    name: str = Field(primary_key=True)
    gpus: int | None = None
    gpu_hours: float | None = None
    waiting: int | None = None
    submissions: int | None = None
    cpu_jobs: int | None = None
    cpus: float | None = None
    memory_gib: float | None = None
    priority: int | None = None
    max_duration: float | None = None
    default_duration: float | None = None
    guarantee: dict[str, int] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False, server_default="{}"))
    """GPU type, or `any` -> guaranteed GPUs."""


class GroupMember(SQLModel, table=True):
    """Membership of a user, in at most one group."""

    __tablename__ = "group_member"

    user: str = Field(primary_key=True)
    group: str = Field(sa_column=Column(ForeignKey("user_group.name", ondelete="CASCADE"), index=True, nullable=False))


class SecretTable(SQLModel, table=True):
    """Encrypted value that jobs get by its name."""

    __tablename__ = "secret"

    owner: str = Field(primary_key=True)
    """User whose jobs may use it; empty: all users."""
    name: str = Field(primary_key=True)
    value: str = Field(sa_type=Text)
    created_at: float = Field(sa_type=InstantColumn)
    changed_at: float = Field(sa_type=InstantColumn)


class RegistryLoginTable(SQLModel, table=True):
    """Login to a registry."""

    __tablename__ = "registry_login"
    __table_args__ = (UniqueConstraint("host", "user", "group"), {"sqlite_autoincrement": True})

    id: int | None = Field(default=None, primary_key=True)
    host: str
    """Registry."""
    user: str = ""
    """User whose jobs use it; empty: not of one user."""
    group: str = ""
    """Group whose users' jobs use it; empty: not of a group. Without user and group it is of everybody."""
    username: str = Field(sa_type=Text)
    password: str = Field(sa_type=Text)
    """Encrypted."""
    created_at: float = Field(sa_type=InstantColumn)
    changed_at: float = Field(sa_type=InstantColumn)
