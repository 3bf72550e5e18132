"""Instants between what people write and what is stored: seconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(seconds: float | None) -> str | None:
    """Epoch seconds as ISO 8601 with milliseconds."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def epoch(given: datetime | None, default: float) -> float:
    """What a request gives, in seconds; UTC if it names no zone."""
    if given is None:
        return default
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()
