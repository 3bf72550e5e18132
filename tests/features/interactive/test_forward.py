"""`schedulearn forward`: a port of a job here, over HTTP and WebSockets, in a real browser too."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from browsing import ARGUMENTS, CHROMIUM
from clusters import wait_for
from networks import own_network
from playwright.sync_api import expect, sync_playwright
from servers.ports import free_port
from services import Service
from websockets.sync.client import connect

pytestmark = pytest.mark.process

SERVER = Path(__file__).parents[2] / "support/servers/notebook_like.py"


@pytest.fixture(scope="module")
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def job(service: Service, port: int) -> str:
    return serve_notebook(service, port)


def serve_notebook(service: Service, port: int) -> str:
    """The id of a job that does."""
    job_id = service.submit_shell(f"exec python3 {SERVER} {port}")
    service.wait(job_id, "running")
    wait_for(lambda: "listens" in service.logs(job_id), what="the server")
    return job_id


@contextmanager
def forwarded(service: Service, job: str, port: int) -> Iterator[tuple[str, Any]]:
    """Its address here, and the command."""
    with service.begin("forward", job, f"0:{port}") as client:
        yield client.stdout.readline().split()[0], client
        client.send_signal(signal.SIGINT)
        client.wait(30)
        assert client.returncode == 130


def relays(service: Service) -> list[str]:
    """Processes that pass on bytes in its jobs."""
    found = []
    for pid in service.leaked():
        with suppress(OSError):
            if b"nothing listens on port" in Path("/proc", pid, "cmdline").read_bytes():
                found.append(pid)
    return found


def test_requests_answers_and_sockets_go_through(service: Service, job: str, port: int) -> None:
    with forwarded(service, job, port) as (address, _):
        assert address.startswith("http://localhost:"), "another name than the service's, for the sake of its cookies"
        sent = os.urandom(700_000)
        with httpx.Client(base_url=address, trust_env=False, timeout=30) as http:
            assert "Notebook" in http.get("/").text
            assert http.post("/data", content=sent).text == "got 700000"
        with connect(address.replace("http", "ws") + "/socket", proxy=None) as opened:
            opened.send("ping")
            assert opened.recv(timeout=20) == "ping"
            assert relays(service)
    wait_for(lambda: not relays(service), what="the end of all relays")


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="NO BROWSER")
def test_a_browser_works_with_it(tmp_path: Path, port: int) -> None:
    with own_network(), Service(tmp_path / "data") as service:
        job = serve_notebook(service, port)
        with forwarded(service, job, port) as (address, _), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            page = browser.new_page()
            page.goto(address)
            expect(page.locator("#fetched")).to_have_text("got 100000", timeout=20_000)
            expect(page.locator("#heard")).to_have_text("hello again ", timeout=20_000)
            browser.close()
            wait_for(lambda: not relays(service), what="the end of all relays")


def test_the_token_stays_here(guarded: Service) -> None:
    port = free_port()
    job = guarded.submit_shell(f"exec python3 {SERVER} {port}")
    guarded.wait(job, "running")
    wait_for(lambda: "listens" in guarded.logs(job), what="the server")
    with forwarded(guarded, job, port) as (address, _):
        headers = httpx.get(f"{address}/headers", trust_env=False, timeout=30).text.lower()
    assert "host" in headers
    assert "authorization" not in headers
    assert guarded.token not in headers


def test_an_event_says_so_once(service: Service, job: str, port: int) -> None:
    with forwarded(service, job, port) as (address, _):
        for _ in range(2):
            httpx.get(address, trust_env=False, timeout=30)
    told = [e["data"] for e in service.call("GET", f"/api/v1/jobs/{job}/events")["items"] if e["kind"] == "job.port"]
    assert told == [{"rank": 0, "port": port}]


@pytest.mark.long
def test_where_nothing_listens_it_says_so_and_goes_on(service: Service, job: str) -> None:
    port = free_port()
    with forwarded(service, job, port) as (address, client):
        with pytest.raises(httpx.TransportError):
            httpx.get(address, trust_env=False, timeout=30)
        assert f"nothing listens on port {port}" in client.stderr.readline()


def test_what_can_not_be_is_said(service: Service, job: str) -> None:
    waiting = service.submit_shell("true", required_gpus=1000)
    assert "is queued" in service.invoke("forward", waiting, "80", code=1).err
    service.invoke("cancel", waiting)
    for wrong in ("x", "0", "99999", "1:2:3", "-1"):
        assert service.invoke("forward", job, "--", wrong, code=2).err
