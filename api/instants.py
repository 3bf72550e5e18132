"""Conversion between instants of requests and responses and epoch seconds."""

from __future__ import annotations

from datetime import datetime

from schedulearn.scheduler.core.instants import shown


def iso(seconds: float | None) -> str | None:
    """Return epoch seconds as ISO 8601; see `shown`."""
    return None if seconds is None else shown(seconds)


def epoch(given: datetime | None, default: float) -> float:
    """Return a request's `Instant` in epoch seconds, or the default."""
    return default if given is None else given.timestamp()
