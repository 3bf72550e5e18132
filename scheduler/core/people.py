"""Authenticated users (`Actor`) and their roles. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from schedulearn.scheduler.errors import InvalidError

T = TypeVar("T")

ANY = "any"
"""Key for GPUs of any type in the guarantee of a group."""
GROUP = "/"
"""Prefix of group names, where users and groups must be distinguished."""


class Role(StrEnum):
    """Role of a user. Each role includes the rights of the roles after it."""

    ADMIN = "admin"
    USER = "user"
    VIEWER = "viewer"
    METRICS = "metrics"
    """Reads `/metrics`, and nothing else."""

    def includes(self, other: Role) -> bool:
        return _RANK[self] >= _RANK[other]


_RANK = {Role.METRICS: 0, Role.VIEWER: 1, Role.USER: 2, Role.ADMIN: 3}


def least(one: Role, other: Role) -> Role:
    return min(one, other, key=lambda role: _RANK[role])


@dataclass(frozen=True)
class Actor:
    """Authenticated sender of a request."""

    name: str
    role: Role
    token_id: int | None = None
    """Token that authenticates the user, or that their session began with; None for the service's own account."""
    expires_at: float | None = None
    """Expiry time of the user's token or session; None if it does not expire."""
    signed_in: bool = False
    """Whether a provider or proxy vouches for the user, by a session."""
    counts_all: bool = False
    """Whether it is a token for metrics that belongs to an admin: its metrics are about all jobs."""

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN

    @property
    def tokens_end_at(self) -> float | None:
        """Latest expiry time of tokens that they create; None: any. Who can sign in again needs no bound."""
        return None if self.signed_in else self.expires_at

    def user_of(self, asked: T) -> T | str:
        """Return the owner of a job that they submit: themselves, or, for admins, the user named by `asked`."""
        if not (self.is_admin and asked):
            return self.name
        if str(asked).startswith(GROUP):
            raise InvalidError(f"invalid user {asked!r}: the name of a user can't begin with {GROUP!r}", field="user")
        return asked

    def may_change(self, owner: str) -> bool:
        """Return whether they may change objects of `owner`."""
        return self.is_admin or (self.role is Role.USER and self.name == owner)
