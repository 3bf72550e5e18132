"""The parts of the client that no service would show: odd streams, odd addresses."""

from __future__ import annotations

import httpx
import pytest

from schedulearn import ApiError, Client
from schedulearn.api.cli.common import clean, exit_code
from schedulearn.api.cli.times import parse_seconds, show_seconds
from schedulearn.api.client.errors import ClientError
from schedulearn.api.client.transport import Event, EventParser, base_url, part

STREAM = (
    b': connected\n\nid: 3\nevent: log\ndata: {"text":"a"}\n\n: alive\n\ndata: {}\r\n\r\nid: 4\nevent: log\ndata: {"te'
)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_events_are_the_same_however_the_stream_is_cut(size: int) -> None:
    chunks = [STREAM[i : i + size] for i in range(0, len(STREAM), size)]
    parser = EventParser()
    assert [event for chunk in chunks for event in parser.feed(chunk)] == [
        Event(3, "log", {"text": "a"}),
        Event(None, "message", {}),
    ]


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("host", "http://host"),
        ("host:81/", "http://host:81"),
        ("https://h/ui/", "https://h"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_addresses_are_taken_as_people_write_them(given: str, url: str) -> None:
    assert base_url(given) == url


@pytest.mark.parametrize("given", ["ftp://h", "http://", "http://h:x", "http://h:70000", "http://h:0", "http://a\nb"])
def test_addresses_that_can_not_be_are_refused(given: str) -> None:
    with pytest.raises(ClientError, match="is not the address of a service"):
        base_url(given)


def test_a_name_is_one_part_of_a_path_whatever_is_in_it() -> None:
    assert [part(name) for name in ("a", "../x", "a/b?c#d", "ü", "..")] == [
        "a",
        "..%2Fx",
        "a%2Fb%3Fc%23d",
        "%C3%BC",
        "%2E%2E",
    ]


def test_clean_leaves_nothing_that_a_terminal_acts_upon() -> None:
    everything = "".join(map(chr, [*range(0x2100), 0xFEFF, 0xE0001, 0xD800]))
    assert clean(everything).isprintable()
    assert clean("Grüße, 世界 [bold]") == "Grüße, 世界 [bold]"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5h", 5400), ("30m", 1800), ("2D", 172800), ("0.2s", 0.2)]
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1", "1w", "nan", "1h30m"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_seconds(text)


def test_times_show_the_two_units_that_matter() -> None:
    assert [show_seconds(s) for s in (-3, 0, 59.9, 60, 3599, 3600, 86399, 90000)] == [
        *("0s", "0s", "59s", "1m00s", "59m59s", "1h00m", "23h59m", "1d1h"),
    ]


@pytest.mark.parametrize(
    ("state", "code", "ends"),
    [
        ("succeeded", 0, 0),
        ("failed", 3, 3),
        ("failed", 137, 137),
        ("failed", None, 1),
        ("failed", 0, 1),
        ("failed", 256, 1),
        ("cancelled", 143, 130),
        ("timeout", None, 124),
    ],
)
def test_exit_codes(state: str, code: int | None, ends: int) -> None:
    assert exit_code({"state": state, "exit_code": code}) == ends


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_wait_goes_on_while_a_proxy_answers_for_a_service_that_restarts(status: int) -> None:
    answers = iter([(200, {"id": "j", "state": "running"}), (status, {}), (200, {"id": "j", "state": "succeeded"})])

    def answer(request: httpx.Request) -> httpx.Response:
        code, body = next(answers)
        return httpx.Response(code, json=body)

    with Client("http://service") as client:
        client._http = httpx.Client(base_url="http://service", transport=httpx.MockTransport(answer))
        assert client.wait("j", timeout_s=30).state == "succeeded"


def test_a_service_that_refuses_ends_a_wait() -> None:
    with Client("http://service") as client:
        refuse = httpx.MockTransport(lambda request: httpx.Response(403, json={"code": "forbidden", "detail": "no"}))
        client._http = httpx.Client(base_url="http://service", transport=refuse)
        with pytest.raises(ApiError, match="no"):
            client.wait("j", timeout_s=30)
