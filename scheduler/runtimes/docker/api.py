"""Connection to one Docker Engine.

It adds time limits, converts errors, and provides streams that another thread can end.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker.errors
import requests
import urllib3
from docker import APIClient
from docker.constants import MINIMUM_DOCKER_API_VERSION
from docker.tls import TLSConfig

from schedulearn.scheduler.errors import ObjectFault, RuntimeFault
from schedulearn.scheduler.runtimes.docker.transport import Adapter, KeepAliveAdapter
from schedulearn.scheduler.runtimes.installing import is_full

CONNECT_S = 5.0
QUERY_S = 15.0  # time limit of a query
ACTION_S = 120  # time limit of a change: the first container on a cold GPU may take a while to start
Frame = tuple[int, bytes]
_REDIRECTS = frozenset({300, 301, 302, 303, 305, 306, 307, 308})
_POOL = 64  # connections kept for reuse; followed logs hold one each


def ping(url: str | None) -> str | None:
    """Return None if a Docker Engine answers at `url`, else the reason. Takes at most a few seconds."""
    try:
        client = _Client(_resolve(url), quick=True)
    except (docker.errors.DockerException, requests.RequestException, OSError, ValueError) as error:
        return _plain(error)
    client.close()
    return None


class Engine:
    """Client of one engine. Connects at first use; thread-safe.

    Every method raises RuntimeFault if the engine does not answer. `url` has the format of DOCKER_HOST: unix://, ssh://
    (by the `ssh` command, so keys must work without a password), or tcp:// with TLS from the folder `tls` or
    DOCKER_CERT_PATH. None means DOCKER_HOST, or this machine's default socket.
    """

    def __init__(self, url: str | None, tls: Path | None = None) -> None:
        self.url = _resolve(url)
        self.tls = tls
        self._lock = threading.Lock()
        self._connecting = threading.Lock()  # apart from `_lock`, so that close need not wait for it
        self._client: _Client | None = None
        self._streams: set[Stream] = set()
        self._closed = False

    @property
    def api(self) -> Any:
        """The SDK's low-level client. Use it inside `errors`."""
        with self._connecting:
            if self._client is None and not self._closed:
                with self.errors("connect"):
                    client = _Client(self.url, self.tls)
                with self._lock:
                    self._client = client
        if self._closed:
            raise self._closed_error()
        return self._client

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Convert errors of the SDK and the network into RuntimeFault.

        Error answers of the engine become ObjectFault. Other errors pass unchanged."""
        try:
            yield
        except docker.errors.APIError as error:
            words = explain(error)
            if is_full(words):
                raise ObjectFault(self.full(what)) from error
            raise ObjectFault(f"the Docker Engine at {self.url} failed to {what}: {words}") from error
        except (docker.errors.DockerException, urllib3.exceptions.HTTPError, OSError) as error:
            raise RuntimeFault(f"the Docker Engine at {self.url} does not answer: {_plain(error)}") from error

    def full(self, what: str) -> str:
        """Return the message for an action that failed because the engine's disk is full."""
        return (
            f"the disk of the Docker Engine at {self.url} is full, so it can't {what}: "
            "free disk space there (`docker system df` shows what uses it)."
        )

    @contextmanager
    def stream(self, method: str, path: str, **request: Any) -> Iterator[Stream]:
        """Send a request whose answer is streamed, without a time limit, until `close`.

        Raises docker's APIError if the engine refuses it; call it inside `errors`."""
        api = self.api
        response = api.request(
            method, f"{api.base_url}/v{api.api_version}{path}", stream=True, timeout=(CONNECT_S, None), **request
        )
        stream = Stream(response)
        try:
            if response.status_code >= 400:
                try:
                    response.raise_for_status()
                except requests.HTTPError as error:
                    raise docker.errors.create_api_error_from_http_exception(error) from error
            with self._lock:
                self._streams.add(stream)
                closed = self._closed
            if closed:
                raise self._closed_error()
            yield stream
        finally:
            with self._lock:
                self._streams.discard(stream)
            response.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            client, streams = self._client, list(self._streams)
        for stream in streams:
            stream.cancel()
        # Closes the pooled connections; running requests keep theirs until they have their answer.
        if client is not None:
            client.close()

    def _closed_error(self) -> RuntimeFault:
        return RuntimeFault(f"the connection to the Docker Engine at {self.url} is closed")


class Stream:
    """Body of a streamed answer."""

    def __init__(self, response: requests.Response) -> None:
        self._response = response

    def chunks(self) -> Iterator[bytes]:
        """Yield bytes as they arrive. Ends when the engine ends the stream; raises if the connection breaks."""
        yield from self._response.iter_content(None)

    def objects(self) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects of a stream with one object per line."""
        rest = b""
        for chunk in self.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)

    def frames(self) -> Iterator[Frame]:
        """Yield the frames of Docker's multiplexed format.

        A frame is 8 bytes (1 for stdout or 2 for stderr; 3 zeros; length), then the payload."""
        buffer = bytearray()
        for chunk in self.chunks():
            buffer += chunk
            position = 0
            while len(buffer) - position >= 8:
                end = position + 8 + int.from_bytes(buffer[position + 4 : position + 8])
                if len(buffer) < end:
                    break
                yield buffer[position], bytes(buffer[position + 8 : end])
                position = end
            del buffer[:position]

    def cancel(self) -> None:
        """End the stream, from any thread. Its reader gets the end of the stream or an error."""
        try:
            duplicate = os.dup(self._response.raw.fileno())
        except (OSError, ValueError, AttributeError):
            return  # it has ended
        # Shutting down wakes the reader's blocked call; closing would not.
        with socket.socket(fileno=duplicate) as connection:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other side was faster


def explain(error: docker.errors.APIError) -> str:
    """Return the engine's error message."""
    return str(error.explanation or error).strip()


def status_of(error: docker.errors.APIError) -> int:
    return int(error.status_code or 0)


class _Client(APIClient):  # type: ignore[misc]  # the SDK has no types
    def __init__(self, url: str, tls: Path | None = None, *, quick: bool = False) -> None:
        self._quick = quick
        local = url.startswith(("unix://", "ssh://"))
        # A version that every engine supports, until our own adapter can query the engine's version.
        super().__init__(
            "tcp://localhost:2375" if local else url,
            version=MINIMUM_DOCKER_API_VERSION,
            timeout=ACTION_S,
            tls=_tls(url, tls),
            max_pool_size=_POOL,
        )
        # Hosts are reached directly: without a proxy, and without a CA from the environment instead of the engine's.
        self.trust_env = False
        adapter = Adapter(url, _POOL) if local else KeepAliveAdapter(pool_maxsize=_POOL)
        self.mount("http://", adapter)
        self.mount("https://", adapter)
        try:
            self._version = self.version(api_version=False)["ApiVersion"]
        except BaseException:
            self.close()
            raise

    def request(self, method: str, url: str, *args: Any, timeout: Any = None, **kwargs: Any) -> requests.Response:
        # The SDK has one time limit for all requests. A host that is gone should be noticed sooner than after the time
        # that an action may take.
        if isinstance(timeout, int | float):
            query = self._quick or (method == "GET" and not kwargs.get("stream"))
            timeout = (CONNECT_S, QUERY_S if query else timeout)
        # The other side chooses the target of a redirect: a hostile engine could redirect us to our own API.
        kwargs["allow_redirects"] = False
        response: requests.Response = super().request(method, url, *args, timeout=timeout, **kwargs)
        if response.status_code in _REDIRECTS:  # the SDK would treat it as success
            response.close()
            raise docker.errors.DockerException(
                f"it answers with a redirect ({response.status_code}), as no engine does: check the address"
            )
        return response

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None, so that requests does not even prepare the next request."""


def _resolve(url: str | None) -> str:
    return url or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def _tls(url: str, folder: Path | None) -> TLSConfig | bool:
    """Return the TLS settings: ca.pem, cert.pem and key.pem of `folder`.

    Without `folder`, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH apply, as for the docker command."""
    if not url.startswith(("tcp://", "https://")) or (folder is None and not os.environ.get("DOCKER_TLS_VERIFY")):
        return False
    folder = folder or Path(os.environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")
    return TLSConfig(
        client_cert=(str(folder / "cert.pem"), str(folder / "key.pem")), ca_cert=str(folder / "ca.pem"), verify=True
    )


def _plain(error: BaseException) -> str:
    """Return the message of the innermost cause; the outer errors only repeat it."""
    seen: BaseException = error
    while True:
        inner = getattr(seen, "reason", None) or next((a for a in seen.args if isinstance(a, BaseException)), None)
        inner = inner if isinstance(inner, BaseException) else seen.__cause__
        if inner is None:
            return str(seen) or type(seen).__name__
        seen = inner
