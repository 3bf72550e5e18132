"""Cron expressions with a time zone: the times at which something repeats.

Days on which clocks change are as in Debian's cron. A fixed time that a day does not have is replaced by the next
one, and a time that a day has twice counts once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field

from schedulearn.scheduler.core.instants import LATEST, bounded

MAX_COUNTED = 1000
"""Maximum times that are counted one by one."""
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,2}")
_FIELDS = 5


def _cron(text: str) -> str:
    text = " ".join(text.split())
    try:
        if len(text.split(" ")) != _FIELDS:
            raise ValueError
        CronSim(text, datetime.now(UTC))
    except (CronSimError, ValueError) as error:
        detail = f": {str(error).lower()}" if isinstance(error, CronSimError) else ""
        raise ValueError(
            f"{text!r} is not a cron expression{detail}. Write minute, hour, day of the month, month and day of the "
            'week, as in "0 3 * * *" (each day at 3:00) or "*/15 8-18 * * MON-FRI"'
        ) from error
    return text


def _zone(name: str) -> str:
    try:
        if _ZONE.fullmatch(name) is None:
            raise ValueError
        ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:  # a folder is an OSError, an unknown name a KeyError
        raise ValueError(f"there is no time zone {name!r}: write a name such as Europe/Berlin or UTC") from error
    return name


CronText = Annotated[str, Field(min_length=9, max_length=200), AfterValidator(_cron)]
ZoneName = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_zone)]


@lru_cache(1)
def local_zone() -> str:
    """Return the name of this machine's time zone; UTC if it has no name."""
    from tzlocal import get_localzone_name

    try:
        return _zone(get_localzone_name())
    except (ValueError, KeyError, TypeError):
        return "UTC"


class Repetition(NamedTuple):
    """Times at which something repeats."""

    cron: str
    zone: str

    def after(self, at: float) -> Iterator[float]:
        """Yield the times after `at`, in order. It ends if there is none within 50 years."""
        begin = datetime.fromtimestamp(bounded(at), ZoneInfo(self.zone))
        last = at
        for found in CronSim(self.cron, begin):
            if (seconds := found.timestamp()) > LATEST:
                return
            if seconds > last:
                yield seconds
                last = seconds

    def next(self, at: float) -> float | None:
        """Return the first time after `at`; None: there is none."""
        return next(self.after(at), None)

    def shown(self, at: float) -> str:
        """Return a time in its zone, as sentences show it."""
        return f"{datetime.fromtimestamp(bounded(at), ZoneInfo(self.zone)):%Y-%m-%d %H:%M} {self.zone}"
