"""Ports of jobs as a browser finds them at the service: by names of this machine that only browsers know."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from clusters import wait_for
from services import Service
from websockets.sync.client import ClientConnection, connect

SERVER = Path(__file__).with_name("notebook_like.py")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def begin_notebook(service: Service, **fields: Any) -> str:
    """A job that serves a page at its port `notebook`."""
    port = free_port()
    job = service.submit_shell(f"exec python3 {SERVER} {port}", ports={"notebook": port}, **fields)
    service.wait(job, "running")
    wait_for(lambda: "listens" in service.logs(job), seconds=60, what="the server")
    return job


def relays(service: Service, job: str) -> list[str]:
    """Processes that pass on bytes to a port of a local job; the service may be down."""
    [[spec]] = service.rows("SELECT spec FROM job WHERE id = ?", job)
    ports = {str(port).encode() for port in json.loads(spec)["ports"].values()}
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if any(b"nothing listens on port" in word for word in words) and ports & set(words):
            found.append(entry.name)
    return found


def link_to(service: Service, job: str, name: str = "notebook") -> str:
    return str(service.call("POST", f"/api/v1/jobs/{job}/ports/{name}")["url"])


@contextmanager
def at_origin(service: Service, address: str, **headers: str) -> Iterator[httpx.Client]:
    """A client at the origin of an address, which knows nobody."""
    host = {"host": urlsplit(address).netloc, **headers}
    trust = {"verify": service.tls} if service.tls is not None else {}
    with httpx.Client(base_url=service.url, headers=host, timeout=30, trust_env=False, **trust) as client:
        yield client


def cookie_for(service: Service, link: str) -> str:
    """What the browser gets for a link, as it sends it."""
    with at_origin(service, link) as client:
        entered = client.get(link.removeprefix(origin_in(link)))
    assert (entered.status_code, entered.headers["location"]) == (303, "/"), entered.text
    return entered.headers["set-cookie"].partition(";")[0]


@contextmanager
def logged_in(service: Service, job: str) -> Iterator[httpx.Client]:
    link = link_to(service, job)
    with at_origin(service, link, cookie=cookie_for(service, link)) as client:
        yield client


def origin_in(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def socket_to(service: Service, there: str, cookie: str, **options: Any) -> ClientConnection:
    here = socket.create_connection(("127.0.0.1", service.port))
    headers = {"cookie": cookie} if cookie else {}
    address = there.replace("http", "ws", 1) + "/socket"
    if service.tls is not None:
        options["ssl"] = service.tls
    # On a busy machine five processes stand between both ends: 10 s, as by default, may be too short.
    return connect(address, sock=here, additional_headers=headers, proxy=None, open_timeout=60, **options)
