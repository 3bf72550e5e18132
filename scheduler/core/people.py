"""Who asks, and what they may: roles. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from schedulearn.scheduler.errors import InvalidError

T = TypeVar("T")

GROUP = "/"
"""Before the name of a group, where users and groups are told apart."""


class Role(StrEnum):
    """What somebody may do. Each may do all that those after it may."""

    ADMIN = "admin"
    USER = "user"
    VIEWER = "viewer"

    def includes(self, other: Role) -> bool:
        return _RANK[self] >= _RANK[other]


_RANK = {Role.VIEWER: 0, Role.USER: 1, Role.ADMIN: 2}


def least(one: Role, other: Role) -> Role:
    return min(one, other, key=lambda role: _RANK[role])


@dataclass(frozen=True)
class Actor:
    """Somebody who asks for something, and is known."""

    name: str
    role: Role
    token_id: int | None = None
    """The token by which they are known, or by which their session began; None: they are the service's own account."""
    expires_at: float | None = None
    """When what they are known by ends; None: it does not by itself."""

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN

    def user_of(self, asked: T) -> T | str:
        """Return whose a job is that they send: theirs, but admins may name another (`asked`)."""
        if not (self.is_admin and asked):
            return self.name
        if str(asked).startswith(GROUP):
            raise InvalidError(f"invalid user {asked!r}: the name of a user can't begin with {GROUP!r}", field="user")
        return asked

    def may_change(self, owner: str) -> bool:
        """Whether they may act on what belongs to `owner`."""
        return self.is_admin or (self.role is Role.USER and self.name == owner)
