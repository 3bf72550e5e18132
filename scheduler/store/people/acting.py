"""Actor of a change and their address, which each event records."""

from __future__ import annotations

from contextvars import ContextVar

ACTOR: ContextVar[str] = ContextVar("actor", default="")
"""Name of the user whose request is processed; empty: the service itself acts.

`Database.submit` passes it to the writer thread."""

ADDRESS: ContextVar[str] = ContextVar("address", default="")
"""Address from which the request came; empty: the service itself acts."""
