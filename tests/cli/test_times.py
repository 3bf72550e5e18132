"""The columns STARTS and ENDS of ls, and the line `expected` of show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schedulearn.api.cli.times import ends, expected, parse_start, starts


def eta(**known: Any) -> dict[str, Any]:
    """Numbers are seconds from now."""
    now = datetime.now(UTC) + timedelta(seconds=0.9)
    given = {
        key: (now + timedelta(seconds=value)).isoformat() if type(value) is int else value
        for key, value in known.items()
    }
    nothing = dict.fromkeys(("start", "end", "earliest", "latest", "not_before"))
    return {**nothing, "basis": "family", "awaits_image": False, **given}


@pytest.mark.parametrize(
    ("predicted", "started", "columns"),
    [
        ({"start": 60, "end": 125}, False, ("in 1m00s", "in 2m05s")),
        ({"start": 60, "end": 125, "basis": "guess"}, False, ("in 1m00s", "in 2m05s?")),
        ({"start": -9, "end": 7300}, True, ("-", "in 2h01m")),
        ({"start": -9, "not_before": 7200}, False, ("in 0s", "after 2h00m")),
        ({"not_before": 7200}, False, ("-", "after 2h00m")),
        ({"basis": "guess"}, False, ("can't run", "-")),
        ({"awaits_image": True}, False, ("-", "-")),
        (None, False, ("-", "-")),
    ],
)
def test_starts_and_ends(predicted: dict[str, Any] | None, started: bool, columns: tuple[str, str]) -> None:
    job = {
        "eta": None if predicted is None else eta(**predicted),
        "started_at": "2026-11-26T08:00:00Z" if started else None,
    }
    assert (starts(job), ends(job)) == columns


def test_show_says_that_a_job_cannot_run() -> None:
    assert expected(eta()) == "can't run with this cluster and these quotas"
    assert expected(eta(awaits_image=True)).startswith("not known yet")
    assert expected(eta(not_before="2026-12-24T18:00:00Z")).startswith("no end before 2026-12-2")


def test_an_earliest_start_is_a_delay_or_a_time_with_a_zone() -> None:
    assert [float(parse_start(text).removesuffix("s")) for text in ("90", "2h", "1.5d")] == [90, 7200, 129_600]
    assert datetime.fromisoformat(parse_start("2150-12-24T18:00")) == datetime(2150, 12, 24, 18).astimezone()
    assert datetime.fromisoformat(parse_start("2150-12-24T18:00+00:00")) == datetime(2150, 12, 24, 18, tzinfo=UTC)
    next_one = datetime.fromisoformat(parse_start("18:30"))
    assert (next_one.astimezone().hour, next_one.astimezone().minute) == (18, 30)
    assert next_one > datetime.now(UTC) - timedelta(minutes=1)
    for text in ("", "25:00", "18:60", "tomorrow", "-1h"):
        with pytest.raises(ValueError, match="is not a time"):
            parse_start(text)
