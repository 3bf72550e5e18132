"""The API as methods, synchronous: what the command line is made of, and handy in a script.

Answers are the API's JSON as it is; `schedulearn.api.schemas` describes it. httpx is imported when a client is made,
not before, so that `schedulearn serve` never pays for it.
"""

from __future__ import annotations

import json
import os
import ssl
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

from schedulearn.scheduler.states import TERMINAL, JobStatus

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]

DEFAULT_URL = "http://127.0.0.1:8000"
PATIENCE_S = 300.0
"""How long a stream tries to get back to a service that has gone."""
_SILENCE_S = 60.0  # of a stream, then it is opened anew from where it was: the service may have gone without a word
_BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_PAGE = 1000


class ClientError(Exception):
    """No answer that can be used. `str(error)` says what is wrong and what to do."""


class UnreachableError(ClientError):
    """Nothing answers at the address."""


class ApiError(ClientError):
    """The service refused: an RFC 9457 problem document. `code` is stable, `errors` names the fields at fault."""

    def __init__(self, status: int, code: str, detail: str, errors: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors


@dataclass(frozen=True)
class LogPiece:
    """`offset`: of the byte after `text` in the whole log; following resumes from there."""

    offset: int
    text: str


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    id: int | None
    name: str
    data: Any


class Client:
    """One service. `url` and `token` default to SCHEDULEARN_URL and SCHEDULEARN_TOKEN. Threads may share it.

    Every method raises UnreachableError if nothing answers and ApiError if the service refuses.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, timeout_s: float = 30.0) -> None:
        import httpx

        self.url = _base_url(url or os.environ.get("SCHEDULEARN_URL") or DEFAULT_URL)
        token = token or os.environ.get("SCHEDULEARN_TOKEN")
        if token and not (token.isascii() and token.isprintable()):
            raise ClientError("the token must be plain ASCII without spaces or line ends: check SCHEDULEARN_TOKEN")
        parts = urlsplit(self.url)
        self._http = httpx.Client(
            base_url=self.url,
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=timeout_s,
            # A proxy is of no use on the way to this machine itself, and certificates none without TLS.
            trust_env=parts.hostname not in ("127.0.0.1", "localhost", "::1"),
            verify=parts.scheme == "https" or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # --- jobs ---

    def submit(self, spec: Mapping[str, Any], idempotency_key: str | None = None) -> Json:
        """The job as stored. A lost answer is asked for again; the key keeps that from making a second job."""
        return self._object("POST", "jobs", json=dict(spec), key=idempotency_key or uuid.uuid4().hex)

    def submit_batch(self, specs: Sequence[Mapping[str, Any]], idempotency_key: str | None = None) -> Json:
        """`{"items": [...]}`; all jobs or none."""
        body = [dict(spec) for spec in specs]
        return self._object("POST", "jobs:batch", json=body, key=idempotency_key or uuid.uuid4().hex)

    def jobs(
        self,
        states: Iterable[str] = (),
        *,
        user: str | None = None,
        q: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Json:
        """One page, newest first: `{"items", "next", "counts"}`. `q`: part of a name or id."""
        given = {"state": list(states), "user": user, "q": q, "cursor": cursor, "limit": limit}
        return self._object("GET", "jobs", params={key: value for key, value in given.items() if value})

    def all_jobs(self, states: Iterable[str] = (), *, user: str | None = None, q: str | None = None) -> Json:
        """The same, with the items of all pages."""
        states = list(states)
        page = self.jobs(states, user=user, q=q, limit=_PAGE)
        items = page["items"]
        while page["next"]:
            page = self.jobs(states, user=user, q=q, cursor=page["next"], limit=_PAGE)
            items += page["items"]
        return {**page, "items": items}

    def job(self, job_id: str) -> Json:
        return self._object("GET", f"jobs/{_part(job_id)}")

    def cancel(self, job_id: str) -> Json:
        return self._object("POST", f"jobs/{_part(job_id)}/cancel")

    def set_priority(self, job_id: str, priority: int) -> Json:
        return self._object("PATCH", f"jobs/{_part(job_id)}", json={"priority": priority})

    def job_events(self, job_id: str, after: int = 0, limit: int = 500) -> Json:
        return self._object("GET", f"jobs/{_part(job_id)}/events", params={"after": after, "limit": limit})

    def logs(self, job_id: str, offset: int = 0) -> Iterator[str]:
        """What there is now, in pieces."""
        import httpx

        try:
            with self._http.stream("GET", f"/api/v1/jobs/{_part(job_id)}/logs", params={"offset": offset}) as response:
                _check(response, self.url)
                yield from response.iter_text()
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def follow_logs(
        self, job_id: str, offset: int = 0, on_gap: Callable[[str], None] = lambda why: None
    ) -> Iterator[LogPiece]:
        """Pieces as they come, until the job has ended; survives restarts of the service without a byte twice.

        `on_gap` is told when the service has gone for a while. Raises UnreachableError after `PATIENCE_S` of that.
        """
        for event in self._follow(f"/api/v1/jobs/{_part(job_id)}/logs", offset, on_gap):
            if event.name == "log":
                yield LogPiece(event.id or 0, event.data["text"])
            elif event.name == "end" and self._has_ended(job_id):
                return

    def _has_ended(self, job_id: str) -> bool:
        """A service that stops ends its streams too: only the job's state tells."""
        try:
            return JobStatus(self.job(job_id)["state"]) in TERMINAL
        except UnreachableError:
            return False

    # --- the rest of the cluster ---

    def health(self) -> Json:
        health: Json = _checked_json(self._request("GET", "/healthz"), self.url)
        return health

    def hosts(self) -> list[Json]:
        return self._list("GET", "hosts")

    def host(self, host_id: str) -> Json:
        return self._object("GET", f"hosts/{_part(host_id)}")

    def cordon(self, host_id: str) -> Json:
        return self._object("POST", f"hosts/{_part(host_id)}/cordon")

    def uncordon(self, host_id: str) -> Json:
        return self._object("POST", f"hosts/{_part(host_id)}/uncordon")

    def return_gpu(self, host_id: str, gpu: str) -> Json:
        """Gives an unhealthy GPU, by index or UUID, back to service."""
        return self._object("POST", f"hosts/{_part(host_id)}/gpus/{_part(gpu)}/return")

    def disk(self, host_id: str) -> Json:
        """What takes room on a host."""
        return self._object("GET", f"hosts/{_part(host_id)}/disk")

    def fetch_image(self, host_id: str, image: str) -> None:
        """Begins to fetch an image there."""
        _check(self._request("POST", f"/api/v1/hosts/{_part(host_id)}/images", json={"image": image}), self.url)

    def add_host(self, spec: Mapping[str, Any]) -> Json:
        return self._object("POST", "hosts", json=dict(spec))

    def remove_host(self, host_id: str, *, force: bool = False) -> None:
        _check(self._request("DELETE", f"/api/v1/hosts/{_part(host_id)}", params={"force": force}), self.url)

    def drain(self, host_id: str, deadline_s: float) -> Json:
        return self._object("POST", f"hosts/{_part(host_id)}/drain", json={"deadline_s": deadline_s})

    def gpus(self) -> list[Json]:
        return self._list("GET", "gpus")

    def usage(self, **given: Any) -> list[Json]:
        """Rows of `GET /api/v1/usage`; `given` are its parameters."""
        rows: list[Json] = _checked_json(self._request("GET", "/api/v1/usage", params=given), self.url)
        return rows

    def usage_csv(self, **given: Any) -> str:
        response = self._request("GET", "/api/v1/usage", params={**given, "format": "csv"})
        _check(response, self.url)
        return response.text

    def policy(self) -> Json:
        return self._object("GET", "policy")

    def set_policy(self, algorithm: str, metric: str = "default", params: Mapping[str, Any] | None = None) -> Json:
        body = {"algorithm": algorithm, "metric": metric, "params": dict(params or {})}
        return self._object("PUT", "policy", json=body)

    def preview(self, algorithm: str, metric: str = "default", params: Mapping[str, Any] | None = None) -> Json:
        """What another policy would do; changes nothing."""
        query = {"algorithm": algorithm, "metric": metric, "params": json.dumps(dict(params or {}))}
        return self._object("GET", "policy/preview", params=query)

    def events(self, after: int | None = None, limit: int = 200) -> Json:
        """The newest, or those after an id; oldest first."""
        return self._object("GET", "events", params={"limit": limit, **({} if after is None else {"after": after})})

    def follow_events(self, after: int = 0, on_gap: Callable[[str], None] = lambda why: None) -> Iterator[Json]:
        """Everything that happened after the event with this id, then what happens, without end."""
        for event in self._follow("/api/v1/events", after, on_gap):
            yield event.data

    def metrics(self) -> str:
        """In Prometheus' format."""
        response = self._request("GET", "/metrics")
        _check(response, self.url)
        return response.text

    # --- how ---

    def _object(self, method: str, path: str, **options: Any) -> Json:
        answer = _checked_json(self._request(method, f"/api/v1/{path}", **options), self.url)
        if not isinstance(answer, dict):
            raise _not_ours(self.url)
        return answer

    def _list(self, method: str, path: str) -> list[Json]:
        answer = _checked_json(self._request(method, f"/api/v1/{path}"), self.url)
        if not isinstance(answer, list):
            raise _not_ours(self.url)
        return answer

    def _request(self, method: str, path: str, *, key: str | None = None, **options: Any) -> httpx.Response:
        import httpx

        headers = {"idempotency-key": key} if key else {}
        try:
            try:
                return self._http.request(method, path, headers=headers, **options)
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
                if method != "GET" and not key:
                    raise
                return self._http.request(method, path, headers=headers, **options)  # it hung up: once more is safe
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _follow(self, path: str, last_id: int, on_gap: Callable[[str], None]) -> Iterator[Event]:
        """Server-sent events without end, resumed by id whenever the connection ends."""
        import httpx

        connected = False
        lost_at: float | None = None
        tries = 0
        while True:
            headers = {"accept": "text/event-stream", "last-event-id": str(last_id)}
            limits = httpx.Timeout(10.0, read=_SILENCE_S)
            why: Exception | str = f"{self.url} closed the connection"
            try:
                with self._http.stream("GET", path, headers=headers, timeout=limits) as response:
                    if connected and response.status_code in (502, 503, 504):
                        why = f"{self.url} answered {response.status_code}"
                    else:
                        _check(response, self.url)
                        connected, lost_at = True, None
                        for event in _parse_events(response.iter_bytes()):
                            tries = 0
                            last_id = last_id if event.id is None else event.id
                            yield event
            except httpx.ReadTimeout as error:
                why, tries = error, 0
            except httpx.TransportError as error:
                if not connected:
                    raise self._unreachable(error) from error
                why = error
            lost_at = lost_at or time.monotonic()
            if time.monotonic() - lost_at > PATIENCE_S:
                raise UnreachableError(
                    f"{self.url} has not answered for {PATIENCE_S:.0f} s ({_words(why)}); jobs go on"
                )
            if tries == 2:
                on_gap(f"{self.url} does not answer; trying again for {PATIENCE_S:.0f} s")
            time.sleep(_BACKOFF_S[min(tries, len(_BACKOFF_S) - 1)])
            tries += 1

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(
            f"no Schedulearn answers at {self.url} ({_words(error)}): start it with `schedulearn serve`, "
            "or name its address with --url or SCHEDULEARN_URL"
        )


def _base_url(url: str) -> str:
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


def _part(name: str) -> str:
    """`name` as one part of a path, whatever is in it."""
    return quote(name, safe="") if name.strip(".") else quote(name, safe="").replace(".", "%2E")


def _check(response: httpx.Response, url: str) -> None:
    """Raises ApiError for anything but success."""
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
        detail += ". The command line takes it from SCHEDULEARN_TOKEN"
    raise ApiError(response.status_code, code, detail, errors)


def _checked_json(response: httpx.Response, url: str) -> Any:
    _check(response, url)
    try:
        return response.json()
    except ValueError:
        raise _not_ours(url) from None


def _not_ours(url: str) -> ClientError:
    return ClientError(f"what answers at {url} is not Schedulearn: check --url or SCHEDULEARN_URL")


def _words(error: Exception | str) -> str:
    return str(error) or type(error).__name__


def _parse_events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """The events in a `text/event-stream`; comments and what is cut off at the end are left out."""
    buffer = b""
    event_id, name, data = None, "message", ""
    for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for raw in lines:
            line = raw.decode("utf-8", "replace").removesuffix("\r")
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                if data:
                    yield Event(event_id, name, json.loads(data))
                event_id, name, data = None, "message", ""
            elif field == "id" and value.isdigit():
                event_id = int(value)
            elif field == "event":
                name = value
            elif field == "data":
                data += value
