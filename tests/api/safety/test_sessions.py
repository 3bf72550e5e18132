"""Sessions of browsers: their cookie is not the token, and they end."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from apis import Api, serve_api, token_for
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from schedulearn.api.access.guard import COOKIE

TOKEN = "correct-horse-battery"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, token=TOKEN) as served:
        yield served


@pytest.fixture
def visitor(guarded: Api) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=guarded.http.base_url, timeout=10) as found:
        yield found


def log_in(visitor: httpx.Client, token: str = TOKEN) -> str:
    assert visitor.post("/api/v1/session", json={"token": token}).status_code == 200
    return visitor.cookies[COOKIE]


def test_the_cookie_is_not_the_token_and_is_stored_as_a_hash(
    guarded: Api, visitor: httpx.Client, tmp_path: Path
) -> None:
    cookie = log_in(visitor)
    assert TOKEN not in cookie
    assert httpx.get(f"{guarded.http.base_url}/api/v1/jobs", headers={"authorization": f"Bearer {cookie}"}).is_error
    assert visitor.get("/api/v1/jobs", headers={"cookie": f"{COOKIE}={TOKEN}"}).status_code == 401
    with closing(sqlite3.connect(tmp_path / "schedulearn.db")) as connection:
        assert cookie not in "\n".join(connection.iterdump())


def test_logging_out_ends_it_and_its_streams(guarded: Api, visitor: httpx.Client) -> None:
    job = guarded.submit()
    guarded.wait(job, "running")
    cookie = {"cookie": f"{COOKIE}={log_in(visitor)}"}
    url = str(guarded.http.base_url).replace("http", "ws") + f"/jobs/{job}/logs"
    with connect(url, additional_headers=cookie) as logs:
        assert visitor.delete("/api/v1/session").status_code == 204
        assert COOKIE not in visitor.cookies
        guarded.write_log(job, b"after\n")
        with pytest.raises(ConnectionClosed):
            logs.recv(timeout=5)
    assert visitor.get("/api/v1/jobs", headers=cookie).status_code == 401
    assert visitor.delete("/api/v1/session", headers=cookie).status_code == 204, "again changes nothing"


def test_it_ends_with_its_token_and_has_its_role(guarded: Api, visitor: httpx.Client) -> None:
    log_in(visitor, token_for(guarded, "ada", "viewer"))
    assert visitor.get("/api/v1/whoami").json()["name"] == "ada"
    assert visitor.put("/api/v1/policy", json={"algorithm": "las"}).status_code == 403
    guarded.http.delete("/api/v1/users/ada")
    assert visitor.get("/api/v1/jobs").status_code == 401


def test_a_body_is_not_read_on_and_on_before_anybody_is_known(guarded: Api) -> None:
    """The answer comes before the rest of what was announced, which nobody waits for."""
    port = guarded.http.base_url.port
    lines = ("Host: 127.0.0.1", "Content-Type: application/json", "Content-Length: 30000000", "", "")
    head = "\r\n".join(("POST /api/v1/session HTTP/1.1", *lines))
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
        stranger.sendall(head.encode() + b" " * 5000)
        assert stranger.recv(64).split()[1] == b"413"
    assert guarded.http.post("/api/v1/session", json={"token": TOKEN + " " * 5000}).status_code == 413
