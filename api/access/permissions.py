"""Permissions that routes require: a role, or one's own job or sweep."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeVar

from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.routing import BaseRoute

from schedulearn.scheduler.core.people import Actor, Role
from schedulearn.scheduler.store.owned import OWNED


class Access(StrEnum):
    """Requirement of a route."""

    NOTHING = "nothing"
    """No data behind it: liveness, the page's own files, and the exchange of a token for a session."""
    JOB_TOKEN = "job token"  # noqa: S105
    """The route itself checks the token of a job, which is good for nothing else."""
    METRICS = "metrics"
    VIEWER = "viewer"
    USER = "user"
    OWN = "own"
    """As USER, and the job or sweep of the path must be one's own."""
    ADMIN = "admin"

    @cached_property
    def role(self) -> Role | None:
        """Minimum role; None: anybody may."""
        if self in (Access.NOTHING, Access.JOB_TOKEN):
            return None
        return Role.USER if self is Access.OWN else Role(self.value)


class Rule(NamedTuple):
    need: Access
    what: tuple[str, str] | None = None
    """The object that the path names: `job` or `sweep`, and its id."""


F = TypeVar("F", bound=Callable[..., object])


def needs(need: Access) -> Callable[[F], F]:
    """Declare the requirement of a route, in place of its method's default.

    Place it below the route's decorator."""

    def declare(endpoint: F) -> F:
        endpoint.need = need  # type: ignore[attr-defined]
        return endpoint

    return declare


class Permission(StrEnum):
    """Permission that clients check before they offer an action."""

    SUBMIT = "submit"
    CHANGE_OWN_JOBS = "change_own_jobs"
    CHANGE_ALL_JOBS = "change_all_jobs"
    """Also jobs of others."""
    MANAGE_TOKENS = "manage_tokens"
    """One's own tokens; those of others with `manage_people`."""
    MANAGE_PEOPLE = "manage_people"
    MANAGE_WEBHOOKS = "manage_webhooks"
    CHANGE_HOSTS = "change_hosts"
    CHANGE_POLICY = "change_policy"


ASKED: dict[Permission, str] = {
    Permission.SUBMIT: "POST /api/v1/jobs",
    Permission.CHANGE_OWN_JOBS: "POST /api/v1/jobs/ID/cancel",
    Permission.MANAGE_TOKENS: "POST /api/v1/tokens",
    Permission.MANAGE_PEOPLE: "POST /api/v1/users",
    Permission.MANAGE_WEBHOOKS: "POST /api/v1/webhooks",
    Permission.CHANGE_HOSTS: "POST /api/v1/hosts",
    Permission.CHANGE_POLICY: "PUT /api/v1/policy",
}
"""A route that stands for each permission, so that the rules are written once. `CHANGE_ALL_JOBS` has none."""


def refused_to(actor: Actor, rules: Rules) -> dict[Permission, str]:
    """Return the permissions that an actor lacks, each with the reason."""
    needed = {permission: rules.of(*asked.split(" ", 1)).need.role for permission, asked in ASKED.items()}
    needed[Permission.CHANGE_ALL_JOBS] = Role.ADMIN
    return {each: lacking(actor, role) for each, role in needed.items() if role and not actor.role.includes(role)}


def lacking(actor: Actor, role: Role) -> str:
    """Return the sentence that refuses an actor for their role."""
    return f"{actor.name} is {actor.role} here, and this needs the role {role}"


_READS = ("GET", "HEAD", "OPTIONS")
_METHODS = frozenset({*_READS, "POST", "PUT", "PATCH", "DELETE", "WS"})


class Rules:
    """Requirements of all routes.

    A route that declares none has its method's default. Reading needs a viewer, changing a job or sweep needs its user,
    and changing anything else needs an admin."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._declared: list[tuple[Collection[str], re.Pattern[str], Access]] = []
        """Methods, path and need. WS: a socket, which goes both ways, so it requires what a change requires."""
        for route in routes:
            if isinstance(route, APIRoute | APIWebSocketRoute) and hasattr(route.endpoint, "need"):
                methods = (route.methods or set()) if isinstance(route, APIRoute) else {"WS"}
                self._declared.append((methods, route.path_regex, route.endpoint.need))
        kinds = "|".join(("job", *OWNED))
        self._owned = re.compile(rf"/(?:api/v1/)?({kinds})s/([^/]+)(?:/.*)?", re.DOTALL)
        self.of = lru_cache(1024)(self._of)

    def _of(self, method: str, path: str) -> Rule:
        """Return what `method` on `path` requires.

        A path without a route has the default of the method. A method that no route has requires nothing, nor does a
        method that is missing on a path for everybody. Nothing is behind these, and the router says so."""
        if method not in _METHODS:
            return Rule(Access.NOTHING)
        path = path.removesuffix("\n")  # as the router does, whose patterns end with `$`
        method = "GET" if method == "HEAD" else method
        declared = [(methods, need) for methods, pattern, need in self._declared if pattern.fullmatch(path)]
        owned = self._owned.fullmatch(path)
        need = next((need for methods, need in declared if method in methods), None)
        if need is None and any(need is Access.NOTHING for _, need in declared):
            need = Access.NOTHING
        if need is None:
            need = Access.VIEWER if method in _READS else Access.OWN if owned else Access.ADMIN
        return Rule(need, (owned[1], owned[2]) if owned else None)
