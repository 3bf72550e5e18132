"""Earliest start of a job: a time with its zone, or a delay from the submission."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from schedulearn.scheduler.core.instants import in_utc

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])")
_MAX_DELAY = timedelta(days=3650)
_HOW = 'write a time with its zone, as in "2026-12-24T18:00+01:00", or a delay, as in "90s", "30m", "2h" or "1d"'


def delay_text(seconds: float) -> str:
    """Return a delay as `StartAfter` reads it."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def _parsed(given: object) -> object:
    if isinstance(given, datetime | timedelta):
        return given
    if not isinstance(given, str) or len(given) > 64:
        raise ValueError(f"is neither a time nor a delay: {_HOW}")
    if match := _DELAY.fullmatch(given.strip()):
        return timedelta(seconds=float(match[1]) * _UNITS[match[2]])
    try:
        return datetime.fromisoformat(given.strip())
    except ValueError as error:
        raise ValueError(f"is neither a time nor a delay: {_HOW}") from error


def _checked(given: datetime | timedelta) -> datetime | timedelta:
    if isinstance(given, timedelta):
        if not timedelta(0) <= given <= _MAX_DELAY:
            raise ValueError(f"must be a delay of at most {_MAX_DELAY.days} days")
        return given
    if given.tzinfo is None:
        raise ValueError("has no zone: add it, as in 2026-12-24T18:00+01:00, or Z for UTC")
    return in_utc(given)


def _written(at: datetime | timedelta) -> str:
    return at.isoformat() if isinstance(at, datetime) else delay_text(at.total_seconds())


StartAfter = Annotated[
    datetime | timedelta,
    BeforeValidator(_parsed),
    AfterValidator(_checked),
    PlainSerializer(_written, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 64}),
]
"""Time in UTC, or delay. Numbers are refused: they could be either."""
