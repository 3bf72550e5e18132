"""For whom a change is made: each event says it."""

from __future__ import annotations

from contextvars import ContextVar

ACTOR: ContextVar[str] = ContextVar("actor", default="")
"""The name of who asks, as long as their request is answered; empty: the service itself acts. `Database.submit` hands
it to the thread that writes."""
