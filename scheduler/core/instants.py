"""Valid timestamps: from 1970 to 2200.

Arithmetic on them can't overflow, and every calendar can represent them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Strict, WithJsonSchema

EARLIEST = 0.0
LATEST = 7_258_118_400.0
"""2200-01-01 in UTC, in seconds since the epoch."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def bounded(seconds: float) -> float:
    """Return the nearest valid time; EARLIEST for NaN."""
    return min(LATEST, seconds) if seconds > EARLIEST else EARLIEST


@lru_cache(4096)  # lists show the same times repeatedly
def shown(seconds: float) -> str:
    """Return ISO 8601 in UTC with milliseconds. A number out of bounds is replaced by the nearest valid time."""
    return datetime.fromtimestamp(bounded(seconds), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_the_second(seconds: float) -> str:
    """Return a time in UTC as sentences show it. A number out of bounds is replaced by the nearest valid time."""
    return f"{datetime.fromtimestamp(bounded(seconds), UTC):%Y-%m-%d %H:%M:%S} UTC"


def late_deadline(deadline: float | None, submitted_at: float) -> str:
    """Return a message if the deadline had passed when its job was submitted, else an empty string."""
    if deadline is None or deadline > submitted_at:
        return ""
    return f"Its deadline ({shown(deadline)}) had passed when it was submitted."


def in_utc(at: datetime) -> datetime:
    """Return a time in UTC. Raises ValueError if it is out of bounds."""
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    if not EARLIEST <= at.timestamp() <= LATEST:
        raise ValueError("must lie between 1970-01-01 and 2200-01-01")
    return _EPOCH + (at - _EPOCH)


def _seconds(given: object) -> object:
    """Convert a number, which is always in seconds and never in milliseconds. Raises ValueError."""
    if isinstance(given, bool):
        raise ValueError("must be a time")
    try:
        seconds = float(given) if isinstance(given, str | int | float) else None
    except (ValueError, OverflowError):
        return given
    return given if seconds is None else in_utc(_from_seconds(seconds))


def _from_seconds(seconds: float) -> datetime:
    if not EARLIEST <= seconds <= LATEST:
        raise ValueError("must lie between 1970-01-01 and 2200-01-01")
    return datetime.fromtimestamp(seconds, UTC)


_SCHEMA = {
    "anyOf": [{"type": "string", "format": "date-time"}, {"type": "number", "minimum": EARLIEST, "maximum": LATEST}]
}
Instant = Annotated[datetime, Strict(False), BeforeValidator(_seconds), AfterValidator(in_utc), WithJsonSchema(_SCHEMA)]
"""Time in a request, converted to UTC. A time without a zone is taken as UTC, a number as seconds since 1970."""
