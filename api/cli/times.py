"""Instants and durations as users write and read them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from schedulearn.api.client.client import Json

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")


class Parsed(click.ParamType[Any]):
    """Parameter type whose text `parse` converts; the message of its ValueError is shown."""

    name = "text"

    def __init__(self, parse: Callable[[str], object]) -> None:
        self._read = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._read(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_seconds(text: str) -> float:
    """Return the seconds of `90`, `30m`, `2h` or `1.5d`. Raises ValueError."""
    match = _LENGTH.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is not a duration: write seconds, or e.g. 30m, 2h, 1d")
    return float(match[1]) * _UNITS[match[2] or "s"]


def parse_instant(text: str) -> str:
    """Return ISO 8601 with a time zone for a time, or for a duration from now. Raises ValueError.

    A time without a zone is in the zone of this machine."""
    try:
        return (datetime.now(UTC) + timedelta(seconds=parse_seconds(text))).isoformat()
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.fromisoformat(text.strip()).astimezone().isoformat()
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{text!r} is not a time: write e.g. 2026-12-24T18:00, or 2h for in two hours") from error


def parse_start(text: str) -> str:
    """Return a delay in seconds, such as `7200s`, or ISO 8601 with a time zone. Raises ValueError.

    A time without a zone is in the zone of this machine, and one without a date is the next one."""
    try:
        return f"{parse_seconds(text):f}s"
    except ValueError:
        pass
    if (clock := _CLOCK.fullmatch(text.strip())) is not None:
        now = datetime.now().astimezone()
        try:
            at = now.replace(tzinfo=None, hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
        except ValueError as error:
            raise ValueError(f"{text!r} is not a time of day: write e.g. 18:00") from error
        days = 0 if at.astimezone() > now else 1
        return (at + timedelta(days=days)).astimezone().isoformat()
    return parse_instant(text)


def parse_past(text: str) -> str:
    """Return ISO 8601 with a time zone for a time, `today`, or a duration before now. Raises ValueError.

    A time without a zone is in the zone of this machine."""
    try:
        return (datetime.now(UTC) - timedelta(seconds=parse_seconds(text))).isoformat()
    except (ValueError, OverflowError):
        pass
    today = datetime.now().strftime("%Y-%m-%d")
    try:
        return datetime.fromisoformat(today if text.strip() == "today" else text.strip()).astimezone().isoformat()
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(
            f"{text!r} is not a time: write e.g. 2h for two hours ago, today, or 2026-12-24T18:00"
        ) from error


def since_option(told: str, default: str | None = None) -> Callable[[_Decorated], _Decorated]:
    """Return the option `--since`: an earlier time, or a duration before now."""
    return click.option("--since", type=Parsed(parse_past), default=default, metavar="TIME", help=told)


def show_seconds(seconds: float) -> str:
    """Return a duration in its two largest units: `42s`, `3m05s`, `2h10m`, `3d4h`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def show_time(stamp: str | None) -> str:
    """Return a time from the API as local time; `-` for never."""
    return _parse(stamp).astimezone().strftime("%Y-%m-%d %H:%M:%S") if stamp else "-"


def job_time(job: Json) -> str:
    """Return how long a job has been waiting or running, or ran."""
    end = _parse(job["finished_at"]) if job["finished_at"] else datetime.now(UTC)
    return show_seconds((end - _parse(job["started_at"] or job["submitted_at"])).total_seconds())


def starts(job: Json) -> str:
    """Return when a waiting job is expected to start: `in 12m05s`.

    `can't run` if it never will; `-` if that is unknown or it has started."""
    eta = job["eta"]
    if eta is None or job["started_at"]:
        return "-"
    if never(eta):
        return "can't run"
    return f"in {_until(eta['start'])}" if eta["start"] else "-"


def ends(job: Json) -> str:
    """Return when a job is expected to end: `in 12m05s`, or `in 12m05s?` for a guess.

    `after 7d0h` if it will not end before; `-` if that is unknown or it has ended."""
    eta = job["eta"]
    if eta is None or not (eta["end"] or eta["not_before"]):
        return "-"
    if not eta["end"]:
        return f"after {_until(eta['not_before'])}"
    seconds = f"in {_until(eta['end'])}"
    return f"{seconds}?" if eta["basis"] == "guess" else seconds


def never(eta: Json) -> bool:
    """Whether the job can't run with this cluster and these quotas."""
    return not any(eta[key] for key in ("start", "end", "not_before", "awaits_image"))


def _until(stamp: str) -> str:
    return show_seconds((_parse(stamp) - datetime.now(UTC)).total_seconds())


def expected(eta: Json | None) -> str:
    """Return the API's forecast of a job as a sentence; empty without a forecast."""
    if eta is None:
        return ""
    if eta["awaits_image"]:
        return "not known yet: its image is being fetched"
    if never(eta):
        return "can't run with this cluster and these quotas"
    start = f"starts {show_time(eta['start'])}, " if eta["start"] else ""
    if not eta["end"]:
        return f"{start}no end before {show_time(eta['not_before'])}" if eta["not_before"] else ""
    bounds = f"{show_time(eta['earliest'])} to {show_time(eta['latest'])}"
    return f"{start}ends {show_time(eta['end'])} ({bounds}; by {_BASES.get(eta['basis'], eta['basis'])})"


_BASES = {"log": "the progress in its log"}


def _parse(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)
