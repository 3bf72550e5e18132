"""Addresses, responses and streams of the client. Errors say what to do."""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from schedulearn.api.client import contexts
from schedulearn.api.client.errors import ApiError, ClientError, UnreachableError
from schedulearn.api.client.trust import VARIABLE, is_distrust, trusted_context

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]

DEFAULT_URL = "http://127.0.0.1:8000"
PATIENCE_S = 300.0
"""Seconds for which a stream tries to reach a service that has gone."""
_SILENCE_S = 60.0  # maximum silence of a stream; then it is resumed: the service may have gone without closing it
_BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    id: int | None
    name: str
    data: Any


def connection(url: str | None, token: str | None, timeout_s: float, ca: str | None = None) -> tuple[str, Json]:
    """Return the address of a service, and the options of an httpx client for it. Raises ClientError."""
    address, token, ca = _target(url, token, ca)
    if token and not (token.isascii() and token.isprintable()):
        raise ClientError("the token must be plain ASCII without spaces or line ends: check SCHEDULEARN_TOKEN")
    parts = urlsplit(address)
    try:
        # Without TLS, certificates are not needed.
        context = trusted_context(ca) if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    except ValueError as error:
        raise ClientError(f"{error}: check --ca or {VARIABLE}") from error
    return address, {
        "base_url": address,
        "headers": {"authorization": f"Bearer {token}"} if token else {},
        "timeout": timeout_s,
        # Connections to this machine itself need no proxy.
        "trust_env": parts.hostname not in ("127.0.0.1", "localhost", "::1"),
        "verify": context,
    }


def _target(url: str | None, token: str | None, ca: str | None) -> tuple[str, str | None, str | None]:
    """Return address, token and certificate: as given, else by the environment, else by the contexts.

    An empty token is given, and means none.

    The token of a context goes only to the address that it was made for. The token of the environment never goes to a
    context."""
    if not url and (name := contexts.current_name()) is not None:
        known = contexts.read_context(name)
        return base_url(known.url), known.token if token is None else token, ca or known.ca
    address = base_url(url or os.environ.get("SCHEDULEARN_URL") or DEFAULT_URL)
    ca = ca or os.environ.get(VARIABLE)
    if token is None:
        token = os.environ.get("SCHEDULEARN_TOKEN") or None
    stored = None if token is not None and ca else contexts.context_of(address)
    if stored is not None:
        token, ca = stored.token if token is None else token, ca or stored.ca
    return address, token, ca


def unreachable(url: str, error: Exception) -> UnreachableError:
    if is_distrust(error):
        return UnreachableError(
            f"what answers at {url} is not trusted ({_words(error)}): give its certificate or fingerprint, which the "
            f"service shows when it starts, with --ca or {VARIABLE}"
        )
    return UnreachableError(
        f"no Schedulearn answers at {url} ({_words(error)}): start it with `schedulearn serve`, "
        "or name its address with --url, SCHEDULEARN_URL or `schedulearn contexts use`"
    )


def limits() -> httpx.Timeout:
    """Return the timeouts of a stream."""
    import httpx

    return httpx.Timeout(10.0, read=_SILENCE_S)


class ResumedStream:
    """Endless stream of events that is resumed after the last event read when it breaks."""

    def __init__(self, url: str, last_id: int, on_gap: Callable[[str], None]) -> None:
        self.connected = False
        """Whether it was open once."""
        self._url = url
        self._last_id = last_id
        self._on_gap = on_gap
        self._lost_at: float | None = None
        self._tries = 0
        self._why: Exception | str = ""
        self._parser = EventParser()

    @property
    def headers(self) -> dict[str, str]:
        return {"accept": "text/event-stream", "last-event-id": str(self._last_id)}

    def opens(self, response: httpx.Response) -> bool:
        """Return whether events will come. Raises ApiError if the service refuses."""
        self._parser = EventParser()
        self._why = f"{self._url} closed the connection"
        if self.connected and response.status_code in (502, 503, 504):
            self._why = f"{self._url} answered {response.status_code}"
            return False
        check(response, self._url)
        self.connected, self._lost_at = True, None
        return True

    def feed(self, chunk: bytes) -> Iterator[Event]:
        for event in self._parser.feed(chunk):
            self._tries = 0
            self._last_id = self._last_id if event.id is None else event.id
            yield event

    def failed(self, error: Exception) -> None:
        import httpx

        self._why = error
        if isinstance(error, httpx.ReadTimeout):
            self._tries = 0

    def pause(self) -> float:
        """Return the seconds until the next try. Raises UnreachableError after PATIENCE_S."""
        self._lost_at = self._lost_at or time.monotonic()
        if time.monotonic() - self._lost_at > PATIENCE_S:
            raise UnreachableError(
                f"{self._url} has not answered for {PATIENCE_S:.0f} s ({_words(self._why)}); jobs continue"
            )
        if self._tries == 2:
            self._on_gap(f"{self._url} does not answer; trying again for {PATIENCE_S:.0f} s")
        self._tries += 1
        return _BACKOFF_S[min(self._tries, len(_BACKOFF_S)) - 1]


def base_url(url: str) -> str:
    if "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port)
    except ValueError:
        valid = False
    if not valid or not url.isprintable():
        raise ClientError(f"{url!r} is not the address of a service: write it like {DEFAULT_URL}")
    return url.rstrip("/").removesuffix("/ui")


def part(name: str) -> str:
    """Return `name` as one part of a path, whatever characters it has."""
    return quote(name, safe="") if name.strip(".") else quote(name, safe="").replace(".", "%2E")


def check(response: httpx.Response, url: str) -> None:
    """Raise ApiError for anything but success."""
    if response.is_success:
        return
    response.read()
    try:
        problem = response.json()
        detail, code, errors = str(problem["detail"]), str(problem["code"]), problem.get("errors") or ()
    except (ValueError, KeyError, TypeError, AttributeError):
        detail = f"{url} answered {response.status_code} in a way that Schedulearn never does: is the address right?"
        raise ApiError(response.status_code, "not_schedulearn", detail) from None
    if response.status_code == 401:
        detail += f". Log in with `schedulearn login {url}`, or set SCHEDULEARN_TOKEN"
    raise ApiError(response.status_code, code, detail, errors)


def checked_json(response: httpx.Response, url: str) -> Any:
    check(response, url)
    try:
        return response.json()
    except ValueError:
        raise not_ours(url) from None


def below_api(path: str) -> str:
    """Return a path of the API, unless `path` begins with "/"."""
    return path if path.startswith("/") else f"/api/v1/{path}"


def without_empty(**values: Any) -> Json:
    """Return a query without the parameters that are not given."""
    return {name: value for name, value in values.items() if value}


def not_ours(url: str) -> ClientError:
    return ClientError(f"what answers at {url} is not Schedulearn: check --url or SCHEDULEARN_URL")


def _words(error: Exception | str) -> str:
    return str(error) or type(error).__name__


class EventParser:
    """Parser of a `text/event-stream`; it leaves out comments and an incomplete event at the end."""

    def __init__(self) -> None:
        self._buffer = b""
        self._event = _Unfinished()

    def feed(self, chunk: bytes) -> Iterator[Event]:
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for raw in lines:
            line = raw.decode("utf-8", "replace").removesuffix("\r")
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            event = self._event
            if not line:
                if event.data:
                    yield Event(event.id, event.name, json.loads(event.data))
                self._event = _Unfinished()
            elif field == "id" and value.isdigit():
                event.id = int(value)
            elif field == "event":
                event.name = value
            elif field == "data":
                event.data += value


@dataclass
class _Unfinished:
    id: int | None = None
    name: str = "message"
    data: str = ""
