"""Quotas of groups: what the users of each may have together, beside their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, known_by, serve_api, token_for
from clusters import wait_for

from schedulearn.scheduler.background import Timing
from schedulearn.scheduler.core.planning.quotas import Bounds, Quota
from schedulearn.scheduler.errors import QuotaError
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.people import groups, quotas
from schedulearn.scheduler.store.people.quota_book import QuotaBook


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, gpus=8, token="correct-horse-battery") as served:
        yield served


def group(api: Api, name: str, *users: str, **bounds: Any) -> None:
    answer = api.http.put(f"/api/v1/groups/{name}", json=bounds)
    assert answer.status_code == 200, answer.text
    for user in users:
        assert api.http.put(f"/api/v1/groups/{name}/members/{user}").status_code == 200


def test_gpus_at_once_are_those_of_all_in_the_group(api: Api) -> None:
    group(api, "vision", "ada", "ben", gpus=4)
    first = api.submit(user="ada", required_gpus=3)
    api.wait(first, "running")
    second, other = api.submit(user="ben", required_gpus=2), api.submit(user="eve", required_gpus=4)
    api.wait(other, "running")
    wait_for(lambda: api.job(second)["reason"] == "over_quota", what="the reason")
    assert api.job(second)["message"] == "It needs 2 GPUs; the group vision may hold 4 at once, and holds 3."
    [shown] = api.http.get("/api/v1/groups").json()["items"]
    assert (shown["name"], shown["members"], shown["gpus"]) == ("vision", ["ada", "ben"], 4)
    assert (shown["used"]["gpus"], shown["used"]["waiting"]) == (3, 1)
    assert api.http.delete("/api/v1/groups/vision/members/ben").status_code == 204
    wait_for(lambda: api.job(second)["reason"] != "over_quota", what="another reason: only 1 GPU is free")
    api.http.delete(f"/api/v1/jobs/{first}")
    api.wait(second, "running")
    assert api.http.delete("/api/v1/groups/vision").status_code == 204
    assert api.http.get("/api/v1/groups").json()["items"] == []


def test_gpu_hours_of_a_group(api: Api) -> None:
    group(api, "vision", "ada", gpu_hours=0)
    job = api.submit(user="ada", required_gpus=1)
    without = api.submit(user="ada", required_gpus=0)
    wait_for(lambda: api.job(job)["reason"] == "over_quota", what="the reason")
    assert api.job(job)["message"] == "The group vision has used 0.0 of 0 GPU-hours within seven days."
    api.wait(without, "running")
    group(api, "vision", gpu_hours=1)
    api.wait(job, "running")


def test_jobs_that_wait_are_counted_for_the_group_and_for_each_user(api: Api) -> None:
    group(api, "vision", "ada", "ben", gpus=0, waiting=2)
    assert api.http.put("/api/v1/quotas/ada", json={"waiting": 1}).status_code == 200
    with known_by(api, token_for(api, "ada", "user")) as ada, known_by(api, token_for(api, "ben", "user")) as ben:
        assert [ada.post("/jobs", json=FIVE_KEYS).status_code for _ in range(2)] == [201, 429], "her own bound"
        assert ben.post("/jobs", json=FIVE_KEYS).status_code == 201
        refused = ben.post("/jobs", json={**FIVE_KEYS, "required_gpus": 0})
        assert (refused.status_code, refused.json()["code"]) == (429, "over_quota")
        assert refused.json()["detail"].startswith("the group vision may have at most 2 waiting jobs, and has 2")
        me = ben.get("/api/v1/whoami").json()
        assert (me["group"]["name"], me["group"]["used"]["waiting"], me["quota"]) == ("vision", 2, None)
    api.submit(user="eve")


def test_submissions_of_a_group_within_a_minute(tmp_path: Path) -> None:
    db, now = Database(sqlite_url(tmp_path)), [1000.0]
    book = QuotaBook(db, timing=Timing(lambda: now[0], lambda: now[0]))
    book.change(lambda conn: groups.set_group(conn, "g", Bounds(submissions=3), 0.0))
    for user in ("ada", "ben"):
        book.change(lambda conn, user=user: groups.add_member(conn, "g", user, 0.0))
    book.change(lambda conn: quotas.set_quota(conn, "ada", Quota(submissions=1), 0.0))
    book.note_submission({"ada": 1, "eve": 9})
    with pytest.raises(QuotaError, match="ada may submit at most 1 jobs per minute"):
        book.note_submission({"ben": 1, "ada": 1})
    book.note_submission({"ben": 2})  # what was refused was not counted
    with pytest.raises(QuotaError, match="the group g may submit at most 3 jobs per minute"):
        book.note_submission({"ben": 1})
    now[0] += 60
    book.note_submission({"ben": 3})
    db.close()


def test_a_user_is_in_one_group_at_most(api: Api) -> None:
    group(api, "vision", "ada")
    group(api, "speech", "ada", gpus=1)
    assert [each["members"] for each in api.http.get("/api/v1/groups").json()["items"]] == [["ada"], []]
    message = api.http.get("/api/v1/events:search?kind=group.changed").json()["items"][0]["message"]
    assert message == "User ada is in group speech now, and no longer in vision."
    assert api.http.delete("/api/v1/groups/vision/members/ada").status_code == 404
    assert api.http.put("/api/v1/groups/none/members/ada").status_code == 404
    assert api.http.delete("/api/v1/groups/none").status_code == 404


def test_nonsense_is_refused(api: Api) -> None:
    for body in ({"gpus": -1}, {"gpu_hours": "NaN"}, {"weight": 2}, {"gpu": 1}, {"waiting": 1e30}):
        assert api.http.put("/api/v1/groups/vision", json=body).status_code == 422
    assert api.http.put("/api/v1/groups/-x", json={}).status_code == 422
    assert api.http.get("/api/v1/groups").json()["items"] == []


def test_groups_outlive_a_restart(tmp_path: Path) -> None:
    with serve_api(tmp_path, gpus=8) as api:
        group(api, "vision", "ada", gpus=1)
    with serve_api(tmp_path, gpus=8) as api:
        job = api.submit(user="ada", required_gpus=2)
        wait_for(lambda: api.job(job)["reason"] == "over_quota", what="the reason")
