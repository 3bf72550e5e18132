"""Audit log: who changed what, from where, and which sign-ins were refused.

tests/api/test_answers.py checks that each route that changes something leaves an event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import FIVE_KEYS, Api, known_by, serve_api, token_for

from schedulearn.api.access.refusals import MAX_ADDRESSES, RefusedSignIns
from schedulearn.scheduler.store import history, repository
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.people.acting import ACTOR, ADDRESS

TOKEN = "correct-horse-battery"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, token=TOKEN) as served:
        yield served


def found(client: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    answer = client.get("/api/v1/events:search", params=query)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def test_what_one_person_did_is_found_by_name_thing_and_time(api: Api) -> None:
    with known_by(api, token_for(api, "boss", "admin")) as boss:
        began = time.time()
        boss.post("/api/v1/users", json={"name": "ada"})
        boss.put("/api/v1/quotas/ada", json={"gpus": 2})
        theirs = api.submit(user="ada")
        boss.post(f"/api/v1/jobs/{theirs}/cancel")
        done = {event["kind"] for event in found(boss, actor="boss")}
        assert done == {"user.created", "quota.changed", next(iter(done & {"job.cancelled", "job.stopping"}))}
        [created] = found(boss, about="user:ada")
        assert (created["actor"], created["address"], created["about"]) == ("boss", "127.0.0.1", "user:ada")
        assert {event["job_id"] for event in found(boss, about=f"job:{theirs}")} == {theirs}
        assert found(boss, actor="boss", kind="quota.")[0]["about"] == "quota:ada"
        assert found(boss, actor="boss", until=began) == []
        assert len(found(boss, actor="boss", since=began)) == 3
        assert "" not in {event["actor"] for event in found(boss, actor="*")}
        assert found(boss, actor="nobody") == []
        assert boss.get("/api/v1/events:search", params={"since": "soon"}).status_code == 422


def test_addresses_are_shown_to_admins_and_to_oneself(api: Api) -> None:
    with known_by(api, token_for(api, "ada", "user")) as ada, known_by(api, token_for(api, "eve", "viewer")) as eve:
        job = ada.post("/api/v1/jobs", json=FIVE_KEYS).json()["id"]
        assert found(ada, actor="ada")[0]["address"] == "127.0.0.1"
        for shown in (found(eve, actor="ada"), eve.get(f"/api/v1/jobs/{job}/events").json()["items"]):
            assert {event["address"] for event in shown} == {""}
        with eve.stream("GET", "/api/v1/events?after=0", headers={"accept": "text/event-stream"}) as stream:
            for line in stream.iter_lines():
                assert "127.0.0.1" not in line
                if job in line:
                    break
        assert found(eve, q="127.0.0.1") == [], "no search finds what is hidden"


def test_sign_ins_are_recorded_and_floods_of_refused_ones_are_counted(api: Api) -> None:
    token = token_for(api, "ada", "user")
    with httpx.Client(base_url=api.http.base_url) as browser:
        assert browser.post("/api/v1/session", json={"token": "guessed-wrong"}).status_code == 401
        for number in range(30):
            refused = browser.get("/api/v1/jobs", headers={"authorization": f"Bearer guess-{number}"})
            assert refused.status_code == 401
        assert browser.get("/api/v1/jobs").status_code == 401, "without a token nobody signs in"
        assert browser.post("/api/v1/session", json={"token": token}).status_code == 200
        assert browser.delete("/api/v1/session").status_code == 204
    kinds = [(event["kind"], event["actor"], event["address"]) for event in found(api.http, kind="login.")]
    assert kinds == [
        ("login.ended", "ada", "127.0.0.1"),
        ("login.started", "ada", "127.0.0.1"),
        ("login.refused", "", "127.0.0.1"),
    ]
    assert "guess" not in api.http.get("/api/v1/events?limit=1000").text


def test_a_flood_from_many_addresses_leaves_few_events(tmp_path: Path) -> None:
    asyncio.run(flood(Database(sqlite_url(tmp_path))))


async def flood(db: Database) -> None:
    refused = RefusedSignIns()
    try:
        for number in range(500):
            refused.note(db, f"10.0.{number // 250}.{number % 250}")
        refused.note(db, "10.0.0.1")
        refused.close_window(db)
        refused.note(db, "10.0.0.1")
        db.write(lambda conn: None)  # after those before it
        with db.read() as conn:
            events = history.search_events(conn, kinds=["login.refused"], limit=1000).rows
    finally:
        db.close()
    assert len(events) <= MAX_ADDRESSES + 3
    assert sum(event.data["count"] for event in events) == 502, "each is counted"


def test_forged_addresses_are_not_believed(tmp_path: Path) -> None:
    forged = {"x-forwarded-for": "6.6.6.6"}
    with serve_api(tmp_path / "direct", token=TOKEN) as api:
        assert api.http.post("/api/v1/users", json={"name": "ada"}, headers=forged).status_code == 403
    with serve_api(tmp_path / "proxied", token=TOKEN, behind_proxy=True) as api:
        api.http.post("/api/v1/users", json={"name": "ada"}, headers={"x-forwarded-for": "6.6.6.6, 10.0.0.7"})
        assert found(api.http, about="user:ada")[0]["address"] == "10.0.0.7", "the proxy appends it"


def test_a_restart_tells_which_settings_changed_but_no_value(tmp_path: Path) -> None:
    with serve_api(tmp_path, token=TOKEN, smtp_password="hush-hush", idle_after=60) as api:
        assert found(api.http, kind="settings.") == []
    with serve_api(tmp_path, token=TOKEN, smtp_password="hush-hush", idle_after=60) as api:
        assert found(api.http, kind="settings.") == []
    with serve_api(tmp_path, token="another-horse-battery", smtp_password="hush-hash", idle_after=61) as api:
        [changed] = found(api.http, kind="settings.")
        assert set(changed["data"]["settings"]) == {"token", "smtp_password", "idle_after"}
        assert not any(value in str(changed) for value in ("hush", "horse", "61"))


def test_a_search_reads_a_bounded_part_and_says_where_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "EVENTS_SEARCHED", 50)
    db = Database(sqlite_url(tmp_path))

    def act(name: str, at: float) -> None:
        acting, coming = ACTOR.set(name), ADDRESS.set("10.0.0.1" if name else "")
        try:
            db.write(lambda conn: repository.add_event(conn, at, "host.seen", message="found" if at < 10 else ""))
        finally:
            ADDRESS.reset(coming)
            ACTOR.reset(acting)

    try:
        for number in range(120):
            act("ada" if number % 40 == 0 else "", float(number))
        with db.read() as conn:
            first = history.search_events(conn, text="found")
            assert (first.rows, first.next_before) == ([], 71), "no answer that there is none"
            second = history.search_events(conn, text="found", before=first.next_before)
            third = history.search_events(conn, text="found", before=second.next_before)
            assert (len(second.rows) + len(third.rows), third.next_before) == (10, None)
            by_ada = history.search_events(conn, actor="ada")
            assert ([row.at for row in by_ada.rows], by_ada.next_before) == ([80.0, 40.0, 0.0], None)
            recent = history.search_events(conn, since=100.0)
            assert (len(recent.rows), recent.next_before) == (20, None), "older ones are not asked for"
            plan = conn.exec_driver_sql(
                "EXPLAIN QUERY PLAN SELECT id FROM event WHERE actor = 'ada' AND actor <> '' ORDER BY id DESC"
            )
            assert "event_by_actor" in str(plan.all())
    finally:
        db.close()


def test_those_who_see_only_their_own_jobs_find_no_deeds_of_others(tmp_path: Path) -> None:
    with serve_api(tmp_path, token=TOKEN, hide_jobs=True) as api:
        ada_s, ben_s = token_for(api, "ada", "user"), token_for(api, "ben", "user")
        with known_by(api, ada_s) as ada, known_by(api, ben_s) as ben:
            assert ada.post("/api/v1/jobs", json=FIVE_KEYS).status_code == 201
            assert found(ben, actor="ada") == found(ben, about="user:ada") == []
            assert {event["actor"] for event in found(ada, actor="*")} == {"ada"}
