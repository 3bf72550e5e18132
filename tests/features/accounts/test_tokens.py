"""Named tokens: made and revoked while the service runs, beside its own."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from apis import Api, serve_api
from clusters import wait_for
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from schedulearn.api.access.guard import COOKIE

TOKEN = "correct-horse-battery"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, token=TOKEN) as served:
        yield served


def create(api: Api, name: str) -> tuple[int, str]:
    answer = api.http.post("/api/v1/tokens", json={"name": name})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"], answer.json()["token"]


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_it_opens_what_the_services_own_does_until_it_is_revoked(guarded: Api) -> None:
    token_id, token = create(guarded, "ada's laptop")
    with httpx.Client(base_url=guarded.http.base_url) as ada:
        assert ada.get("/api/v1/jobs").status_code == 401
        assert ada.get("/api/v1/jobs", headers=bearer(token)).status_code == 200
        assert ada.get("/api/v1/jobs", headers=bearer(token[:-1])).status_code == 401
        assert ada.post("/api/v1/session", json={"token": token}).status_code == 200
        assert ada.cookies[COOKIE] != token, "the session is one of its own"
        assert ada.get("/api/v1/jobs").status_code == 200
        wait_for(lambda: guarded.http.get("/api/v1/tokens").json()["items"][0]["last_used_at"])
        assert guarded.http.delete(f"/api/v1/tokens/{token_id}").status_code == 204
        assert ada.get("/api/v1/jobs").status_code == 401
        assert ada.get("/api/v1/jobs", headers=bearer(token)).status_code == 401
        assert ada.post("/api/v1/session", json={"token": token}).status_code == 401
    assert guarded.http.get("/api/v1/jobs").status_code == 200, "the service's own stays"
    assert guarded.http.delete(f"/api/v1/tokens/{token_id}").status_code == 404
    assert guarded.http.get("/api/v1/tokens").json() == {"required": True, "items": []}


def test_it_is_shown_once_and_stored_as_a_hash_only(guarded: Api, tmp_path: Path) -> None:
    _, token = create(guarded, "ci")
    listed = guarded.http.get("/api/v1/tokens")
    assert listed.json()["items"][0]["name"] == "ci"
    for text in (listed.text, guarded.http.get("/api/v1/events").text):
        assert token not in text
    with closing(sqlite3.connect(tmp_path / "schedulearn.db")) as connection:
        assert token not in "\n".join(connection.iterdump())


def test_streams_that_it_opened_end_when_it_is_revoked(guarded: Api) -> None:
    job = guarded.submit()
    guarded.wait(job, "running")
    guarded.write_log(job, b"before\n")
    token_id, token = create(guarded, "gone soon")
    url = str(guarded.http.base_url).replace("http", "ws") + f"/jobs/{job}/logs"
    headers = {**bearer(token), "accept": "text/event-stream"}
    with (
        httpx.Client(base_url=guarded.http.base_url, timeout=10) as http,
        http.stream("GET", "/api/v1/events", headers=headers) as events,
        connect(url, additional_headers=bearer(token)) as socket,
    ):
        lines = events.iter_lines()
        assert next(lines) == ": connected"
        assert "before" in str(socket.recv(timeout=5))
        guarded.http.delete(f"/api/v1/tokens/{token_id}")
        guarded.write_log(job, b"after\n")
        guarded.http.put("/api/v1/policy", json={"algorithm": "las"})
        began = time.monotonic()
        told = [line for line in lines if line.startswith("data:")]
        assert all('"kind":"token.revoked"' in line for line in told), "its own end is the last that it hears of"
        assert time.monotonic() - began < 5
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=5)


def test_names_are_unique_and_can_be_shown(guarded: Api) -> None:
    create(guarded, "ci")
    answer = guarded.http.post("/api/v1/tokens", json={"name": "ci"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (409, "name")
    for name in ("", "   ", "two\nlines", "x" * 101, None):
        assert guarded.http.post("/api/v1/tokens", json={"name": name}).status_code == 422


def test_they_outlive_the_service(tmp_path: Path) -> None:
    with serve_api(tmp_path, token=TOKEN) as api:
        _, token = create(api, "ci")
    with serve_api(tmp_path, token=TOKEN) as api:
        assert httpx.get(f"{api.http.base_url}/api/v1/jobs", headers=bearer(token)).status_code == 200


def test_on_loopback_the_account_that_runs_the_service_needs_none(api: Api) -> None:
    _, token = create(api, "for others")
    assert api.http.get("/api/v1/tokens").json()["required"] is False
    assert api.http.get("/api/v1/jobs").status_code == 200
    assert api.http.get("/api/v1/jobs", headers=bearer(token)).status_code == 200
    assert api.http.get("/api/v1/jobs", headers={"host": "rebound.example"}).status_code == 403


def test_on_loopback_a_token_that_is_none_is_told_and_not_overlooked(api: Api) -> None:
    """Whoever sends one expects to be known by it: a token that was revoked must not turn into an admin."""
    token_id, token = create(api, "short-lived")
    api.http.delete(f"/api/v1/tokens/{token_id}")
    for given in (token, "wrong"):
        assert api.http.get("/api/v1/jobs", headers=bearer(given)).status_code == 401


def test_odd_texts_are_wrong_tokens_not_faults(guarded: Api) -> None:
    with httpx.Client(base_url=guarded.http.base_url) as stranger:
        for body in ('{"token": "\\ud800"}', '{"token": 5}', "[]", "nope"):
            assert (
                stranger.post("/api/v1/session", content=body, headers={"content-type": "application/json"}).status_code
                == 401
            )
