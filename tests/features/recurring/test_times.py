"""Times of cron expressions, and which of them run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from schedulearn.features.recurring.times import LATE_S, due_at
from schedulearn.scheduler.specs.cron import MAX_COUNTED, CronText, Repetition, ZoneName, local_zone

CRON, ZONE = TypeAdapter(CronText), TypeAdapter(ZoneName)
EACH_HOUR = Repetition("0 * * * *", "UTC")
EACH_MINUTE = Repetition("* * * * *", "UTC")
EACH_NIGHT = Repetition("30 2 * * *", "Europe/Berlin")


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def shown(times: list[float]) -> list[str]:
    return [datetime.fromtimestamp(time, UTC).isoformat(timespec="minutes")[:-6] for time in times]


def first(repetition: Repetition, count: int, after: str) -> list[str]:
    times = repetition.after(at(after))
    return shown([next(times) for _ in range(count)])


def test_a_time_that_has_come_runs_once() -> None:
    noon = at("2026-06-01T12:00Z")
    assert due_at(EACH_HOUR, noon, noon) == (noon, 0, noon + 3600)
    assert due_at(EACH_HOUR, noon, noon + LATE_S - 1) == (noon, 0, noon + 3600), "after a short restart"


def test_after_an_outage_only_the_latest_time_runs_and_only_if_it_is_recent() -> None:
    noon = at("2026-06-01T12:00Z")
    assert due_at(EACH_HOUR, noon, noon + 3 * 3600 + 10) == (noon + 3 * 3600, 3, noon + 4 * 3600)
    assert due_at(EACH_HOUR, noon, noon + 3 * 3600 + 1800) == (None, 4, noon + 4 * 3600)
    assert due_at(EACH_HOUR, noon, noon + 1800) == (None, 1, noon + 3600)


def test_an_outage_of_years_is_not_counted_minute_by_minute() -> None:
    begin, now = at("2026-06-01T12:00Z"), at("2036-06-01T12:00:30Z")
    assert due_at(EACH_MINUTE, begin, now) == (now - 30, MAX_COUNTED, now + 30)
    assert due_at(Repetition("0 0 * * *", "UTC"), at("2026-01-01T00:00Z"), now)[:2] == (None, MAX_COUNTED)


def test_as_many_as_are_counted_are_told_exactly() -> None:
    begin = at("2026-06-01T12:00Z")
    assert due_at(EACH_HOUR, begin, begin + (MAX_COUNTED - 1) * 3600 + 1800).missed == MAX_COUNTED
    assert due_at(EACH_HOUR, begin, begin + (MAX_COUNTED - 2) * 3600 + 1800).missed == MAX_COUNTED - 1


def test_times_are_those_of_the_zone_also_when_clocks_change() -> None:
    assert first(EACH_NIGHT, 2, "2026-06-01T12:00Z") == ["2026-06-02T00:30", "2026-06-03T00:30"]
    # On 29 March 2026 there is no 2:30, and on 25 October there are two.
    assert first(EACH_NIGHT, 3, "2026-03-27T12:00Z") == ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]
    assert first(EACH_NIGHT, 2, "2026-10-24T12:00Z") == ["2026-10-25T00:30", "2026-10-26T01:30"]


def test_a_time_that_never_comes_is_told() -> None:
    assert Repetition("* * */20 * 1L", "UTC").next(at("2026-01-01T00:00Z")) is None


@pytest.mark.parametrize(
    "text", ["", "nonsense", "61 * * * *", "* * * *", "* * * * * *", "@daily", "0 3 * * X", "0 0 31 2 *", "9" * 150]
)
def test_what_is_no_cron_expression_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValidationError) as error:
        CRON.validate_python(text)
    assert "0 3 * * *" in str(error.value) or "characters" in str(error.value)


@given(st.text(st.sampled_from("0159*/,-#L W²MONJA\t"), min_size=9, max_size=40))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        CRON.validate_python(text)
    except ValidationError:
        pass


@pytest.mark.parametrize("name", ["", "Europe", "../../etc/passwd", "Europe/Atlantis", "/etc/localtime", "a" * 65, "é"])
def test_what_is_no_time_zone_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        ZONE.validate_python(name)


def test_the_zone_of_this_machine_is_one() -> None:
    assert ZONE.validate_python(local_zone()) == local_zone()
