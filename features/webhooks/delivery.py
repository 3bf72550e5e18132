"""HTTP requests to webhook receivers."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from schedulearn.features.webhooks.targets import WebhookTargets

TIMEOUT_S = 10.0
"""So long a receiver may take to connect, and then to answer."""


def post(targets: WebhookTargets, url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """The HTTP status of what answers. Raises OSError with why there is none, in words of ours: what else answers
    is nobody's business."""
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
        raise OSError("what answered does not speak HTTP") from error


class _Checked(httpcore.NetworkBackend):
    """Connects where webhooks may lead, and nowhere else."""

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
    """With the authorities that SSL_CERT_FILE names, if it does."""
    return httpx.create_ssl_context() if urlsplit(url).scheme == "https" else None


def _proxy_for(url: str) -> httpcore.Proxy | None:
    """The proxy that the environment names. It resolves the name itself, and decides itself where it lets us."""
    parts = urlsplit(url)
    found = getproxies().get(parts.scheme)
    if found is None or proxy_bypass(parts.hostname or ""):
        return None
    return httpcore.Proxy(found if "://" in found else f"http://{found}")
