"""Specification of a maintenance window."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from schedulearn.scheduler.core.instants import Instant
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.specs.cron import CronText, Repetition, ZoneName
from schedulearn.scheduler.specs.texts import Text

MAX_S = 30 * 86_400.0
_MIN_S = 60.0


class WindowSpec(BaseModel):
    """Window of `POST /api/v1/maintenance`: once from `start` to `end`, or `every` time for `duration` seconds."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, str_strip_whitespace=True)

    hosts: list[Annotated[Text, Field(min_length=1, max_length=100)]] = Field(
        default_factory=list, max_length=1000, description="names of hosts; empty: all hosts, also later ones"
    )
    start: Instant | None = Field(default=None, description="begin of the only occurrence; default: now")
    end: Instant | None = Field(default=None, description="end of the only occurrence")
    every: CronText | None = Field(default=None, description="cron expression of the begins, instead of `start`")
    duration: float | None = Field(
        default=None, ge=_MIN_S, le=MAX_S, description="length in seconds, with `every`, or instead of `end`"
    )
    time_zone: ZoneName | None = Field(
        default=None, description="time zone of `every`, and of times in sentences; default: that of the service"
    )
    reason: Text = Field(default="", max_length=500, description="shown to users whose jobs are concerned")
    deadline: float = Field(
        default=0.0, ge=0, le=MAX_S, description="seconds after the begin at which rigid jobs are stopped too"
    )


def values_of(spec: WindowSpec, zone: str, now: float) -> dict[str, Any]:
    """Return the columns of a new window. Raises InvalidError."""
    zone = spec.time_zone or zone
    starts_at, ends_at = _recurring(spec, zone, now) if spec.every is not None else _once(spec, now)
    return {
        "hosts": list(dict.fromkeys(spec.hosts)),
        "starts_at": starts_at,
        "ends_at": ends_at,
        "reason": spec.reason,
        "cron": spec.every or "",
        "time_zone": zone,
        "stops_rigid_s": spec.deadline,
    }


def _once(spec: WindowSpec, now: float) -> tuple[float, float]:
    begin = now if spec.start is None else spec.start.timestamp()
    if (spec.end is None) == (spec.duration is None):
        raise InvalidError("give the end of the window, or its duration", field="end")
    end = spec.end.timestamp() if spec.end is not None else begin + (spec.duration or 0.0)
    if end <= now:
        raise InvalidError("the end of the window has passed: give a later one", field="end")
    if not _MIN_S <= end - begin <= MAX_S:
        days = MAX_S / 86_400
        raise InvalidError(f"a window ends a minute to {days:g} days after its begin: change `end`", field="end")
    return begin, end


def _recurring(spec: WindowSpec, zone: str, now: float) -> tuple[float, float]:
    if spec.start is not None or spec.end is not None:
        raise InvalidError("`every` does not go with `start` and `end`: give `duration`", field="every")
    if spec.duration is None:
        raise InvalidError("a repeated window needs a duration", field="duration")
    times = list(islice(Repetition(spec.every or "", zone).after(now), 2))
    if not times:
        raise InvalidError(f"`{spec.every}` names no time within 50 years: correct it", field="every")
    if len(times) > 1 and times[1] - times[0] <= spec.duration:
        raise InvalidError("the window would last until it begins again: shorten its duration", field="duration")
    return times[0], times[0] + spec.duration
