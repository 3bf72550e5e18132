"""Tickets and sessions for ports of jobs.

A ticket is valid once: at the port's own origin it is exchanged for a cookie of that origin. Both are kept in memory:
they end with the service, and a new ticket is one click away."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from schedulearn.api.access.credentials import SESSION_S, Grant, digest_of
from schedulearn.features.interactive.ports.origins import PortKey
from schedulearn.scheduler.core.people import Actor

TICKET_S = 120.0
_TICKETS, _SESSIONS = 1000, 5000


@dataclass(frozen=True)
class PortSession:
    """One person at one port."""

    key: PortKey
    actor: Actor
    grant: Grant | None
    """Grant that identifies the person; None: the account at the other end of each connection does."""
    ends: float


class PortSessions:
    """Tickets and sessions of all ports. All calls are from the event loop."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._tickets: OrderedDict[str, PortSession] = OrderedDict()
        self._sessions: OrderedDict[str, PortSession] = OrderedDict()

    def ticket(self, key: PortKey, actor: Actor, grant: Grant | None) -> tuple[str, float]:
        """Return a ticket, and when it ends."""
        now = self._clock()
        ends = now + TICKET_S
        return _keep(self._tickets, PortSession(key, actor, grant, ends), _TICKETS), ends

    def enter(self, key: PortKey, ticket: str) -> tuple[str, float] | None:
        """Return the cookie for a ticket, and for how many seconds it is valid.

        None: the ticket is not valid, or not any more."""
        found = self._tickets.pop(digest_of(ticket), None)
        now = self._clock()
        if found is None or found.key != key or found.ends <= now:
            return None
        ends = min(now + SESSION_S, found.actor.expires_at or now + SESSION_S)
        session = PortSession(key, found.actor, found.grant, ends)
        return _keep(self._sessions, session, _SESSIONS), ends - now

    def find(self, key: PortKey, cookie: str) -> PortSession | None:
        found = self._sessions.get(digest_of(cookie))
        return found if found is not None and found.key == key and found.ends > self._clock() else None

    def forget(self, job_id: str) -> None:
        """Forget the tickets and sessions of a job that has ended."""
        for kept in (self._tickets, self._sessions):
            for digest in [digest for digest, each in kept.items() if each.key.job_id == job_id]:
                del kept[digest]


def _keep(kept: OrderedDict[str, PortSession], session: PortSession, most: int) -> str:
    """Keep a session, and return its secret. Above `most` entries the oldest is dropped."""
    secret = secrets.token_urlsafe(32)
    kept[digest_of(secret)] = session
    while len(kept) > most:
        kept.popitem(last=False)
    return secret
