"""What passes between a browser and a job's port, and what does not."""

from __future__ import annotations

import pytest

from schedulearn.features.interactive.ports.headers import Origin, cookies_in, to_browser, to_job
from schedulearn.features.interactive.ports.origins import PortKey, origin_of, port_of

JOB = "0tw77c8xn3"
HERE = Origin(f"https://web-{JOB}.jobs.example.net", 8888)


def sent(*headers: tuple[bytes, bytes]) -> dict[bytes, bytes]:
    return dict(to_job(headers, HERE, "t", lambda given: given == "Bearer sl_ours"))


@pytest.mark.parametrize(
    ("host", "found"),
    [
        (f"web-{JOB}.localhost:8000", PortKey(JOB, "web")),
        (f"a-b-{JOB}.jobs.example.net", PortKey(JOB, "a-b")),
        (f"WEB-{JOB.upper()}.LOCALHOST.", PortKey(JOB, "web")),
        ("localhost:8000", None),
        ("schedulearn.localhost", None),
        (f"-{JOB}.localhost", None),
        (f"web-{JOB}.localhost.example.org", None),
        (f"x.web-{JOB}.localhost", None),
        (f"web-{JOB}", None),
        ("", None),
    ],
)
def test_a_host_names_a_port_or_the_service(host: str, found: PortKey | None) -> None:
    assert port_of(host, "jobs.example.net") == found


def test_a_port_s_origin_is_beside_that_of_the_service() -> None:
    key = PortKey(JOB, "web")
    for service, domain, origin in (
        ("127.0.0.1:8000", "jobs.example.net", f"http://web-{JOB}.localhost:8000"),
        ("[::1]:8000", None, f"http://web-{JOB}.localhost:8000"),
        ("cluster.example.org", "jobs.example.net", f"http://web-{JOB}.jobs.example.net"),
        ("cluster.example.org:81", "jobs.example.net", f"http://web-{JOB}.jobs.example.net:81"),
        ("cluster.example.org", None, None),
    ):
        assert origin_of(key, service=service, scheme="http", domain=domain) == origin


def test_the_job_is_spoken_to_as_on_its_own_machine() -> None:
    found = sent(
        (b"host", b"x"), (b"origin", HERE.outside.encode()), (b"referer", HERE.outside.encode() + b"/lab"),
        (b"x-forwarded-for", b"1.2.3.4"), (b"accept", b"*/*"),
    )  # fmt: skip
    assert found == {
        b"host": b"localhost:8888",
        b"origin": b"http://localhost:8888",
        b"referer": b"http://localhost:8888/lab",
        b"accept": b"*/*",
        b"authorization": b"Bearer t",
        b"x-forwarded-host": f"web-{JOB}.jobs.example.net".encode(),
        b"x-forwarded-proto": b"https",
    }
    assert sent((b"origin", b"https://evil.example"))[b"origin"] == b"https://evil.example"
    assert sent((b"origin", HERE.outside.encode() + b".evil.example"))[b"origin"].endswith(b".evil.example")


def test_no_secret_of_the_service_goes_to_it() -> None:
    ours = b"schedulearn_session=a; __Host-schedulearn_port=b;schedulearn_port=c"
    assert b"cookie" not in sent((b"cookie", ours))
    assert sent((b"cookie", b"_xsrf=1; " + ours + b"; x=y"))[b"cookie"] == b"_xsrf=1; x=y"
    assert sent((b"authorization", b"Bearer sl_ours"))[b"authorization"] == b"Bearer t"
    assert sent((b"authorization", b"Basic own"))[b"authorization"] == b"Basic own"


def test_what_belongs_to_one_connection_stays_there() -> None:
    found = sent(
        (b"connection", b"Upgrade, X-Mine"), (b"upgrade", b"websocket"), (b"x-mine", b"1"), (b"te", b"trailers"),
        (b"sec-websocket-key", b"k"), (b"transfer-encoding", b"chunked"), (b"proxy-authorization", b"p"),
    )  # fmt: skip
    assert set(found) == {b"host", b"authorization", b"x-forwarded-host", b"x-forwarded-proto"}


def test_an_answer_stays_at_its_origin() -> None:
    answer = to_browser(
        [
            (b"Location", b"http://localhost:8888/lab"), (b"Set-Cookie", b"a=1; Domain=example.net; Secure"),
            (b"Set-Cookie", b"__Host-schedulearn_port=x"), (b"Clear-Site-Data", b'"cookies"'), (b"Alt-Svc", b"h3"),
            (b"Strict-Transport-Security", b"max-age=1"), (b"Transfer-Encoding", b"chunked"), (b"ETag", b"e"),
        ],
        HERE,
    )  # fmt: skip
    assert answer == [
        (b"location", HERE.outside.encode() + b"/lab"),
        (b"set-cookie", b"a=1; Secure"),
        (b"etag", b"e"),
    ]
    assert to_browser([(b"location", b"http://127.0.0.1:8888")], HERE) == [(b"location", HERE.outside.encode())]
    assert to_browser([(b"location", b"http://localhost:88889/")], HERE) == [(b"location", b"http://localhost:88889/")]


def test_each_value_of_a_cookie_is_tried() -> None:
    headers = [(b"cookie", b"a=1; a=2"), (b"x", b"a=3"), (b"cookie", b"b=1; a=4")]
    assert cookies_in(headers, "a") == ["1", "2", "4"]
