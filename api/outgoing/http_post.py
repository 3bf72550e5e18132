"""One POST to a receiver outside the service. The caller decides when, and tries again."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from schedulearn.api.outgoing.targets import WebhookTargets

TIMEOUT_S = 10.0
"""Maximum seconds to connect to a receiver, and then to wait for its answer."""


def post(targets: WebhookTargets, url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Send a request and return the HTTP status of the answer.

    Raises OSError with the reason if there is none. The reason never quotes an answer: it may come from some other
    service, and is confidential."""
    timeouts = dict.fromkeys(("connect", "read", "write", "pool"), TIMEOUT_S)
    proxy = _proxy_for(url)
    try:
        with (
            httpcore.ConnectionPool(
                _tls(url), proxy=proxy, network_backend=None if proxy else _Checked(targets)
            ) as pool,
            pool.stream(
                "POST", url, headers=[*headers.items(), ("Host", _host(url))], content=body,
                extensions={"timeout": timeouts},
            ) as response,
        ):  # fmt: skip
            return response.status
    except httpcore.TimeoutException as error:
        raise OSError(f"it did not answer within {TIMEOUT_S:.0f} s") from error
    except httpcore.NetworkError as error:
        raise OSError(str(error) or type(error).__name__) from error
    except (httpcore.ProtocolError, httpcore.ProxyError) as error:
        raise OSError("the server does not speak HTTP") from error


class _Checked(httpcore.NetworkBackend):
    """Network backend that connects only to allowed targets."""

    def __init__(self, targets: WebhookTargets) -> None:
        self._targets = targets
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            addresses = self._targets.addresses(host, port)
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        failed = httpcore.ConnectError("it has no address")
        for address in addresses:
            try:
                return self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore.ConnectError as error:
                failed = error
        raise failed


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _tls(url: str) -> ssl.SSLContext | None:
    """Return the TLS context of an https URL. SSL_CERT_FILE may name its authorities."""
    return httpx.create_ssl_context() if urlsplit(url).scheme == "https" else None


def _proxy_for(url: str) -> httpcore.Proxy | None:
    """Return the proxy that the environment names, if any.

    The proxy resolves the host name, and itself decides which targets it allows."""
    parts = urlsplit(url)
    found = getproxies().get(parts.scheme)
    if found is None or proxy_bypass(parts.hostname or ""):
        return None
    return httpcore.Proxy(found if "://" in found else f"http://{found}")
