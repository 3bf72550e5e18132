"""Instants between what people write and what is stored: seconds since the epoch."""

from __future__ import annotations

from datetime import datetime

from schedulearn.scheduler.core.instants import shown


def iso(seconds: float | None) -> str | None:
    """Epoch seconds as ISO 8601; see `shown`."""
    return None if seconds is None else shown(seconds)


def epoch(given: datetime | None, default: float) -> float:
    """What a request gives (an `Instant`), in seconds."""
    return default if given is None else given.timestamp()
