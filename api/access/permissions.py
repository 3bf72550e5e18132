"""What each route asks of who calls it. One table, checked before any route is reached: reading is for everybody who is
known, changing a job or sweep for its user, changing anything else for admins. What differs from that stands here."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import NamedTuple

from schedulearn.scheduler.core.people import Actor, Role
from schedulearn.scheduler.reports import access as reporting
from schedulearn.scheduler.reports import membership as rosters


class Need(StrEnum):
    """What a route asks for."""

    NOTHING = "nothing"
    """No data behind it: liveness, the page's own files, and the exchange of a token for a session."""
    JOB_TOKEN = "job token"  # noqa: S105
    """It checks the token of a job itself, which is good for nothing else."""
    VIEWER = "viewer"
    USER = "user"
    OWN = "own"
    """As user, the job or sweep of its path must be one's own."""
    ADMIN = "admin"

    @cached_property
    def role(self) -> Role | None:
        """The least that somebody must be; None: anybody may."""
        if self in (Need.NOTHING, Need.JOB_TOKEN):
            return None
        return Role.USER if self is Need.OWN else Role(self.value)


class Rule(NamedTuple):
    need: Need
    what: tuple[str, str] | None = None
    """What the path names: `job` or `sweep`, and its id."""


TABLE: dict[str, Need] = {
    "GET /": Need.NOTHING,
    "GET /ui": Need.NOTHING,
    "GET /ui/{path:path}": Need.NOTHING,
    "GET /healthz": Need.NOTHING,
    "POST /api/v1/session": Need.NOTHING,
    "DELETE /api/v1/session": Need.NOTHING,
    f"POST {reporting.PATH}": Need.JOB_TOKEN,
    f"POST {rosters.PATH}": Need.JOB_TOKEN,
    "WS /jobs/{job_id}/logs": Need.VIEWER,
    "GET /api/v1/jobs/{job_id}/processes": Need.OWN,
    "GET /api/v1/jobs/{job_id}/ports/{name}": Need.OWN,
    "POST /jobs": Need.USER,
    "POST /api/v1/jobs": Need.USER,
    "POST /api/v1/post": Need.USER,
    "POST /api/v1/jobs:batch": Need.USER,
    "POST /api/v1/jobs:preview": Need.VIEWER,
    "POST /api/v1/code": Need.USER,
    "POST /api/v1/sweeps": Need.USER,
    "POST /api/v1/experiments": Need.USER,
    "POST /api/v1/searches": Need.USER,
    "POST /api/v1/advise": Need.USER,
    "POST /api/v1/data/{name}/versions": Need.USER,
    "DELETE /api/v1/data/{name}": Need.USER,
    "POST /api/v1/content": Need.USER,
    "PUT /api/v1/content/{sha256}": Need.USER,
    "GET /api/v1/tokens": Need.USER,
    "POST /api/v1/tokens": Need.USER,
    "DELETE /api/v1/tokens/{token_id}": Need.USER,
    "GET /api/v1/secrets": Need.USER,
    "PUT /api/v1/secrets/{name}": Need.USER,
    "DELETE /api/v1/secrets/{name}": Need.USER,
    "GET /api/v1/webhooks": Need.ADMIN,
    "GET /api/v1/users": Need.ADMIN,
    "GET /api/v1/quotas": Need.ADMIN,
    "GET /api/v1/groups": Need.ADMIN,
}
"""`METHOD path` -> need. HEAD asks for what GET does. WS: a socket, which asks for what a change does, as it goes both
ways."""


class Permission(StrEnum):
    """What the page and other clients ask about before they offer it."""

    SUBMIT = "submit"
    CHANGE_OWN_JOBS = "change_own_jobs"
    CHANGE_ALL_JOBS = "change_all_jobs"
    """Also those of others."""
    MANAGE_TOKENS = "manage_tokens"
    """One's own; those of others with `manage_people`."""
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


def refused_to(actor: Actor) -> dict[Permission, str]:
    """Return why an actor lacks each permission that they lack."""
    needs = {permission: rule_of(*asked.split(" ", 1)).need.role for permission, asked in ASKED.items()}
    needs[Permission.CHANGE_ALL_JOBS] = Role.ADMIN
    return {each: lacking(actor, role) for each, role in needs.items() if role and not actor.role.includes(role)}


def lacking(actor: Actor, role: Role) -> str:
    """Return the sentence that refuses an actor for their role."""
    return f"{actor.name} is {actor.role} here, and this needs the role {role}"


_OWNED = re.compile(r"/(?:api/v1/)?(job|sweep)s/([^/]+)(?:/.*)?", re.DOTALL)
_READS = ("GET", "HEAD", "OPTIONS")
_METHODS = frozenset({*_READS, "POST", "PUT", "PATCH", "DELETE", "WS"})


def _as_pattern(route: str) -> re.Pattern[str]:
    pattern = re.sub(r"\\\{\w+:path\\\}", ".*", re.escape(route))
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", pattern))


_EXACT = {route: need for route, need in TABLE.items() if "{" not in route}
_PATTERNS = [(_as_pattern(route), need) for route, need in TABLE.items() if "{" in route]
_PUBLIC = [_as_pattern(route.partition(" ")[2]) for route, need in TABLE.items() if need is Need.NOTHING]


@lru_cache(1024)
def rule_of(method: str, path: str) -> Rule:
    """What `method` on `path` asks for; a path that is no route asks for what one with its method would. A method that
    no route has, or none of a path that is for everybody, asks for nothing: there is nothing behind it, and the router
    says so."""
    if method not in _METHODS:
        return Rule(Need.NOTHING)
    path = path.removesuffix("\n")  # as the router does, whose patterns end with `$`
    asked = f"{'GET' if method == 'HEAD' else method} {path}"
    need = _EXACT.get(asked) or next((need for pattern, need in _PATTERNS if pattern.fullmatch(asked)), None)
    owned = _OWNED.fullmatch(path)
    if need is None and any(pattern.fullmatch(path) for pattern in _PUBLIC):
        need = Need.NOTHING
    if need is None:
        need = Need.VIEWER if method in _READS else Need.OWN if owned else Need.ADMIN
    return Rule(need, (owned[1], owned[2]) if owned else None)
