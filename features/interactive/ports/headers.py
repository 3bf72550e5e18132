"""Filter of headers between browsers and ports of jobs.

The job is addressed as on its own machine. No cookie or token of the service goes to it. Nothing in its response
reaches beyond the port's origin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple

from schedulearn.api.access.guard import COOKIE, SECURE_COOKIE

Header = tuple[bytes, bytes]

PORT_COOKIES = ("__Host-schedulearn_port", "schedulearn_port")
"""Cookie names over https, and over http. No other host can set the first one."""
_OURS = (*PORT_COOKIES, SECURE_COOKIE, COOKIE)

_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
     b"trailer", b"transfer-encoding", b"upgrade"}
)  # fmt: skip
_OF_SOCKETS = b"sec-websocket-"
_FORWARDING = (b"forwarded", b"x-forwarded-", b"x-real-ip", b"x-original-url")
_BEYOND = frozenset({b"clear-site-data", b"alt-svc", b"strict-transport-security"})
"""Response headers that change more than their own origin, or where that is found."""


class Origin(NamedTuple):
    """Origin of a port, as the browser names it and as the job does."""

    outside: str
    port: int

    @property
    def inside(self) -> str:
        return f"http://localhost:{self.port}"


def to_job(given: Iterable[Header], origin: Origin, token: str, is_ours: Callable[[str], bool]) -> list[Header]:
    """Return the headers of a request as the job gets them.

    `token`: identifies the service to the job. `is_ours`: whether a bearer token is one of the service."""
    headers = list(given)
    dropped = _HOP | _named_in_connection(headers)
    found: list[Header] = [(b"host", origin.inside.removeprefix("http://").encode())]
    knows = False
    for name, value in headers:
        name = name.lower()
        if name in dropped or name == b"host" or name.startswith((_OF_SOCKETS, *_FORWARDING)):
            continue
        if name == b"cookie":
            value = without_ours(value)
        elif name == b"authorization":
            if is_ours(value.decode("latin-1")):
                continue
            knows = True
        elif name in (b"origin", b"referer"):
            value = _replaced(value, origin.outside, origin.inside)
        if value or name != b"cookie":
            found.append((name, value))
    if not knows:
        found.append((b"authorization", f"Bearer {token}".encode()))
    scheme, _, host = origin.outside.partition("://")
    return [*found, (b"x-forwarded-host", host.encode()), (b"x-forwarded-proto", scheme.encode())]


def to_browser(given: Iterable[Header], origin: Origin) -> list[Header]:
    """Return the headers of the job's response as the browser gets them."""
    headers = [(name.lower(), value) for name, value in given]
    dropped = _HOP | _BEYOND | _named_in_connection(headers)
    found: list[Header] = []
    for name, value in headers:
        if name in dropped or name.startswith(_OF_SOCKETS):
            continue
        if name == b"set-cookie":
            cookie = _of_this_host(value)
            if cookie is None:
                continue
            value = cookie
        elif name == b"location":
            value = _replaced(value, origin.inside, origin.outside)
            value = _replaced(value, f"http://127.0.0.1:{origin.port}", origin.outside)
        found.append((name, value))
    return found


def cookies_in(headers: Sequence[Header], name: str) -> list[str]:
    """Return all values of a cookie: a page of another host below the same domain can add its own."""
    found = []
    for key, value in headers:
        if key == b"cookie":
            for part in value.decode("latin-1").split(";"):
                key_, _, content = part.strip().partition("=")
                if key_ == name:
                    found.append(content)
    return found


def without_ours(cookies: bytes) -> bytes:
    parts = [part.strip() for part in cookies.split(b";")]
    return b"; ".join(part for part in parts if part.partition(b"=")[0].strip().decode("latin-1") not in _OURS)


def _of_this_host(cookie: bytes) -> bytes | None:
    """Return a cookie that a job sets, for its own host alone.

    None: it has the name of one of ours, or is not a valid cookie."""
    parts = [part.strip() for part in cookie.split(b";")]
    if parts[0].partition(b"=")[0].strip().decode("latin-1") in _OURS:
        return None
    try:
        SimpleCookie().load(cookie.decode("latin-1"))
    except CookieError:
        return None
    return b"; ".join(part for part in parts if part.partition(b"=")[0].strip().lower() != b"domain")


def _named_in_connection(headers: Iterable[Header]) -> frozenset[bytes]:
    return frozenset(
        word.strip().lower() for name, value in headers if name.lower() == b"connection" for word in value.split(b",")
    )


def _replaced(value: bytes, origin: str, by: str) -> bytes:
    """Return an address of one origin as one of another."""
    old = origin.encode()
    if value == old or value.startswith(old + b"/"):
        return by.encode() + value[len(old) :]
    return value
