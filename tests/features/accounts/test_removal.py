"""A name is not an identity: who gets the name of a removed user gets nothing else of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from apis import FIVE_KEYS, Api, known_by, serve_api, token_for
from clusters import wait_for

from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.people import accounts

JOB = {key: value for key, value in FIVE_KEYS.items() if key != "name"}
SWEEP = {"name": "lr", "job": {**JOB, "command": "t {lr}"}, "grid": {"lr": [1, 2]}, "max_parallel": 1}
SECRET = {"value": "correct horse"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, token="correct-horse-battery", hide_jobs=True) as api:
        yield api


def lives(api: Api) -> str:
    """Of ada, with jobs that run, are held or ended, a sweep, a secret, a quota, a group and two versions of data."""
    token = token_for(api, "ada", "user")
    with known_by(api, token) as ada:
        for name in ("ended", "runs"):
            made = ada.post("/api/v1/jobs", json={**FIVE_KEYS, "name": name, "required_gpus": 1})
            job = str(made.json()["id"])
            wait_for(lambda: ada.get(f"/api/v1/jobs/{job}").json()["state"] == "running")  # noqa: B023
            if name == "ended":
                api.runtime.finish(f"schedulearn-{job}-1-0", 0)
                wait_for(lambda: ada.get(f"/api/v1/jobs/{job}").json()["state"] == "succeeded")  # noqa: B023
        assert ada.post("/api/v1/jobs", json={**FIVE_KEYS, "name": "held", "hold": True}).status_code == 201
        assert ada.post("/api/v1/sweeps", json=SWEEP).status_code == 201
        wait_for(lambda: any(row["sweep"] for row in items(ada, "jobs")), what="the first run of the sweep")
        assert ada.put("/api/v1/secrets/wandb", json=SECRET).status_code == 200
        made = ada.put(f"/api/v1/content/{EMPTY}", params={"size": 0}, content=b"")
        version = {"files": [{"path": "f", "size": 0, "sha256": EMPTY}]}
        assert ada.post("/api/v1/data/faces/versions", json=version).status_code in (200, 201), made.text
    api.http.put("/api/v1/quotas/ada", json={"gpus": 3})
    api.http.put("/api/v1/groups/vision", json={"gpus": 9})
    api.http.put("/api/v1/groups/vision/members/ada")
    return job


EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def remove(api: Api, **answers: str) -> httpx.Response:
    return api.http.delete("/api/v1/users/ada", params=answers)


def items(client: httpx.Client, path: str) -> list[Any]:
    return list(client.get(f"/api/v1/{path}").json()["items"])


def test_a_namesake_gets_nothing(api: Api) -> None:
    job = lives(api)
    refused = remove(api)
    assert refused.status_code == 409
    for words in ("jobs and sweeps that have not ended", "1 secrets", "1 versions", "jobs=cancel or keep", "data="):
        assert words in refused.text
    assert remove(api, jobs="keep", secrets="keep").status_code == 409
    assert remove(api, jobs="keep", secrets="keep", data="keep").status_code == 204
    [sweep] = items(api.http, "sweeps")
    first = next(row for row in items(api.http, "jobs") if row["sweep"] == sweep["id"])
    wait_for(lambda: api.http.get(f"/api/v1/jobs/{first['id']}").json()["state"] == "running")
    api.runtime.finish(f"schedulearn-{first['id']}-1-0", 0)  # so that its next run comes
    runs = wait_for(lambda: [row for row in items(api.http, "jobs") if row["sweep"] == sweep["id"]][1:])
    assert {row["user"] for row in runs} == {"ada~1"}
    before = accounts_of(api)
    with known_by(api, token_for(api, "ada", "user")) as ada:
        assert ada.get(f"/api/v1/jobs/{job}").status_code == 404
        assert ada.post(f"/api/v1/jobs/{job}/cancel").status_code == 404
        for path in ("jobs", "sweeps", "secrets", "events:search"):
            assert [row for row in items(ada, path) if not str(row.get("kind")).startswith("token")] == [], path
        assert ada.get("/api/v1/usage", params={"by": "user"}).json() == []
        me = ada.get("/api/v1/whoami").json()
        assert (me["quota"], me["group"]) == (None, None)
        assert ada.delete("/api/v1/data/faces").status_code == 403
    [new] = accounts_of(api)
    assert new["id"] > 1
    assert before == []
    # What is kept is there, of nobody who can come.
    kept = api.http.get(f"/api/v1/jobs/{job}").json()
    assert (kept["state"], kept["user"]) == ("running", "ada~1")
    assert [row["held_by"] for row in items(api.http, "jobs") if row["name"] == "held"] == ["ada~1"]
    assert [each["owner"] for each in items(api.http, "secrets")] == ["ada~1"]
    assert [row["user"] for row in items(api.http, "quotas")] == ["ada~1"]
    assert api.http.post("/api/v1/users", json={"name": "ada~1"}).status_code == 422


def accounts_of(api: Api) -> list[Any]:
    return items(api.http, "users")


def test_what_is_to_go_goes(api: Api) -> None:
    job = lives(api)
    assert remove(api, jobs="cancel", secrets="remove", data="remove").status_code == 204
    wait_for(lambda: api.http.get(f"/api/v1/jobs/{job}").json()["state"] == "cancelled")
    assert {sweep["state"] for sweep in items(api.http, "sweeps")} <= {"stopping", "cancelled"}
    for path in ("secrets", "quotas", "data"):
        assert items(api.http, path) == [], path
    assert items(api.http, "groups")[0]["members"] == []


def test_who_has_nothing_is_asked_nothing(api: Api) -> None:
    token_for(api, "ada", "user")
    assert remove(api).status_code == 204
    assert remove(api).status_code == 404
    assert remove(api, jobs="burn").status_code == 422


def test_what_comes_late_is_not_the_namesakes_either(tmp_path: Path) -> None:
    """A request of the removed user was under way."""
    db = Database(sqlite_url(tmp_path))
    for _ in range(2):
        db.write(lambda conn: accounts.add_account(conn, "ada", Role.USER, 1.0))
        retired = db.write(lambda conn: accounts.remove_account(conn, "ada", 2.0))
    secret = "INSERT INTO secret (owner, name, value, created_at, changed_at) VALUES ('ada', 'x', 'v', 1, 1)"
    version = "INSERT INTO event (at, kind, message, data, code, actor) VALUES (1, 'x', '', '{}', '', 'ada')"
    db.write(lambda conn: [conn.execute(sa.text(each)) for each in (secret, version)])
    ids = db.write(lambda conn: accounts.add_account(conn, "ada", Role.USER, 3.0).id)
    with db.read() as conn:
        assert (retired, ids) == ("ada~2", 3)
        assert conn.execute(sa.text("SELECT count(*) FROM secret")).scalar() == 0
        assert conn.execute(sa.text("SELECT actor FROM event WHERE kind = 'x'")).scalar() == "ada~2"
    db.close()
