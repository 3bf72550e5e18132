"""Quotas of users: at the submission, and over the policy's plans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, known_by, serve_api, token_for
from clusters import wait_for

from schedulearn.scheduler.background import Timing
from schedulearn.scheduler.core.planning.quotas import Quota
from schedulearn.scheduler.errors import QuotaError
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.people import quotas as store
from schedulearn.scheduler.store.people.quota_book import QuotaBook


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, gpus=8, token="correct-horse-battery") as served:
        yield served


def bound(api: Api, user: str, **bounds: Any) -> None:
    answer = api.http.put(f"/api/v1/quotas/{user}", json=bounds)
    assert answer.status_code == 200, answer.text


@pytest.mark.slow
def test_gpus_at_once(api: Api) -> None:
    bound(api, "ada", gpus=4)
    first, second = (api.submit(user="ada", required_gpus=3) for _ in range(2))
    other = api.submit(user="ben", required_gpus=4)
    api.wait(first, "running")
    api.wait(other, "running")
    told = "It needs 3 GPUs; ada may hold 4 at once, and holds 3."  # 0 in the cycle that starts the first job
    wait_for(lambda: api.job(second)["message"] == told, what="the reason")
    assert api.job(second)["reason"] == "over_quota"
    events = api.http.get(f"/api/v1/jobs/{second}/events").json()["items"]
    assert [event["code"] for event in events if event["kind"] == "job.waiting"][-1] == "over_quota"
    [shown] = api.http.get("/api/v1/quotas").json()["items"]
    assert (shown["user"], shown["gpus"], shown["used"]["gpus"], shown["used"]["waiting"]) == ("ada", 4, 3, 1)
    assert api.http.delete("/api/v1/quotas/ada").status_code == 204
    api.http.delete(f"/api/v1/jobs/{other}")
    api.wait(second, "running")
    assert api.http.delete("/api/v1/quotas/ada").status_code == 404


def test_the_priority_of_a_job(api: Api) -> None:
    """Jobs of high priority take GPUs back from others, so an operator can bound it."""
    bound(api, "ada", priority=60)
    before = api.submit(user="ada", priority=60)
    body = {**FIVE_KEYS, "user": "ada", "priority": 61}
    for path, sent, field in (
        ("/api/v1/jobs", body, "priority"),
        ("/api/v1/jobs:batch", [{**body, "priority": 1}, body], "1.priority"),
        (f"/api/v1/jobs/{before}", {"priority": 61}, "priority"),
    ):
        answer = api.http.request("PATCH" if path.endswith(before) else "POST", path, json=sent)
        assert answer.status_code == 422, (path, answer.text)
        assert answer.json()["errors"][0]["field"] == field
        assert "ada may have 60 at most by quota" in answer.text
    assert len(api.http.get("/api/v1/jobs").json()["items"]) == 1, "a refused request stores nothing"
    api.submit(user="ben", priority=100)
    api.http.put("/api/v1/groups/vision", json={"priority": 40})
    api.http.put("/api/v1/groups/vision/members/ada")
    assert "ada may have 40 at most" in api.http.post("/api/v1/jobs", json={**body, "priority": 51}).text
    api.submit(user="ada")  # the default, which most jobs do not even set; decisions use 40
    assert api.http.patch(f"/api/v1/jobs/{before}", json={"priority": 55}).status_code == 200, "lower is always fine"
    [shown] = api.http.get("/api/v1/quotas").json()["items"]
    [group] = api.http.get("/api/v1/groups").json()["items"]
    assert (shown["priority"], group["priority"]) == (60, 40)
    assert api.http.put("/api/v1/quotas/ada", json={"priority": 101}).status_code == 422


def test_the_run_time_of_a_job(api: Api) -> None:
    """A longer one is refused; one that states none gets the default, and in any case the maximum."""
    bound(api, "*", max_duration=7200, default_duration=3600)
    body = {**FIVE_KEYS, "user": "ada"}
    for path, sent, field in (
        ("/api/v1/jobs", {**body, "max_duration": 7200.5}, "max_duration"),
        ("/api/v1/jobs:batch", [body, {**body, "max_duration": 1e6}], "1.max_duration"),
    ):
        answer = api.http.post(path, json=sent)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["field"] == field
        assert "ada may have 7200 seconds at most by quota" in answer.text
    assert api.http.get("/api/v1/jobs").json()["items"] == [], "a refused request stores nothing"
    key = {"Idempotency-Key": "k"}
    [first, again] = [api.http.post("/api/v1/jobs", json=body, headers=key).json() for _ in range(2)]
    assert (first["id"], first["max_duration"]) == (again["id"], 3600)
    assert api.job(api.submit(user="ada", max_duration=7200.0))["max_duration"] == 7200
    api.http.put("/api/v1/groups/vision", json={"max_duration": 600})
    api.http.put("/api/v1/groups/vision/members/ada")
    assert api.job(api.submit(user="ada"))["max_duration"] == 600, "the maximum bounds the default"
    assert api.job(api.submit(user="ben"))["max_duration"] == 3600
    assert api.job(first["id"])["max_duration"] == 3600, "what was accepted stays"
    [shown] = api.http.get("/api/v1/quotas").json()["items"]
    [group] = api.http.get("/api/v1/groups").json()["items"]
    assert (shown["max_duration"], shown["default_duration"], group["max_duration"]) == (7200, 3600, 600)
    for wrong in (0, -1, 1e9, "2h"):
        assert api.http.put("/api/v1/quotas/ada", json={"default_duration": wrong}).status_code == 422


def test_the_runs_of_a_sweep_have_a_run_time_by_quota_too(api: Api) -> None:
    bound(api, "ada", max_duration=7200, default_duration=3600)
    job = {key: value for key, value in FIVE_KEYS.items() if key != "name"} | {"user": "ada", "command": "{n}"}
    body = {"name": "s", "job": {**job, "max_duration": 9000}, "grid": {"n": [1]}}
    refused = api.http.post("/api/v1/sweeps", json=body)
    assert (refused.status_code, "7200 seconds at most" in refused.text) == (422, True)
    api.http.post("/api/v1/sweeps", json={**body, "job": job}).raise_for_status()
    [run] = wait_for(lambda: api.http.get("/api/v1/jobs").json()["items"], what="the run")
    assert run["max_duration"] == 3600


def test_jobs_without_gpus(api: Api) -> None:
    bound(api, "ada", cpu_jobs=1, cpus=4, memory_gib=8)
    first, second = (api.submit(user="ada", required_gpus=0, cpus=2, memory="3g") for _ in range(2))
    api.wait(first, "running")
    api.wait(api.submit(user="ben", required_gpus=0), "running")
    wait_for(lambda: api.job(second)["reason"] == "over_quota", what="the reason")
    assert api.job(second)["message"] == "It needs no GPU; ada may run 1 such jobs at once, and runs 1."
    [shown] = api.http.get("/api/v1/quotas").json()["items"]
    assert (shown["cpu_jobs"], shown["cpus"], shown["memory_gib"]) == (1, 4, 8)
    assert [shown["used"][key] for key in ("cpu_jobs", "cpus", "memory_gib")] == [1, 2, 3]
    bound(api, "ada", cpu_jobs=2)
    api.wait(second, "running")
    api.http.put("/api/v1/groups/vision", json={"cpus": 1.5})
    for user in ("ada", "ben"):
        api.http.put(f"/api/v1/groups/vision/members/{user}")
    [group] = api.http.get("/api/v1/groups").json()["items"]
    assert (group["cpus"], group["used"]["cpu_jobs"], group["used"]["cpus"]) == (1.5, 3, 5)


def test_one_user_does_not_take_the_last_places_for_jobs_without_gpus(api: Api) -> None:
    token_for(api, "ada", "user")  # there are accounts: others may come
    jobs = [api.submit(user="ada", required_gpus=0, cpus=0.1, memory="64m", shm_size="1m") for _ in range(8)]
    wait_for(lambda: [api.job(job)["state"] for job in jobs].count("running") == 4, what="half of the places")
    wait_for(lambda: api.job(jobs[-1])["reason"] == "fair_share", what="the reason")
    api.wait(api.submit(user="ben", required_gpus=0), "running")


def test_gpu_hours_within_a_week(api: Api) -> None:
    bound(api, "*", gpu_hours=0)
    job = api.submit(user="ada", required_gpus=1)
    wait_for(lambda: api.job(job)["reason"] == "over_quota", what="the reason")
    assert api.job(job)["message"] == "ada has used 0.0 of 0 GPU-hours within seven days."
    bound(api, "ada", gpu_hours=1)
    api.wait(job, "running")


def test_jobs_waiting(api: Api) -> None:
    bound(api, "ada", waiting=2, gpus=0)
    with known_by(api, token_for(api, "ada", "user")) as ada:
        assert ada.post("/jobs", json=FIVE_KEYS).status_code == 201
        refused = ada.post("/api/v1/jobs:batch", json=[FIVE_KEYS, FIVE_KEYS])
        assert (refused.status_code, refused.json()["code"]) == (429, "over_quota")
        assert int(refused.headers["retry-after"]) > 0
        assert ada.get("/api/v1/jobs?user=ada").json()["counts"]["queued"] == 1, "all or none"
        key = {"idempotency-key": "k"}
        assert [ada.post("/jobs", json=FIVE_KEYS, headers=key).status_code for _ in range(2)] == [201, 201]
        assert ada.post("/jobs", json=FIVE_KEYS).status_code == 429
        assert ada.get("/api/v1/whoami").json()["quota"]["used"]["waiting"] == 2
    api.submit(user="ben")


def test_submissions_a_minute(api: Api) -> None:
    bound(api, "ada", submissions=3)
    with known_by(api, token_for(api, "ada", "user")) as ada:
        assert [ada.post("/jobs", json=FIVE_KEYS).status_code for _ in range(4)] == [201, 201, 201, 429]
        late = ada.post("/jobs", json=FIVE_KEYS)
        assert 0 < int(late.headers["retry-after"]) <= 60
        assert len(ada.get("/api/v1/jobs?user=ada").json()["items"]) == 3


def test_a_repeated_request_is_answered_when_the_minute_is_used_up(api: Api) -> None:
    """A client repeats a request whose answer was lost. Its jobs are stored, and it must learn their ids."""
    bound(api, "ada", submissions=3)
    one, two = {"idempotency-key": "one"}, {"idempotency-key": "two"}
    with known_by(api, token_for(api, "ada", "user")) as ada:
        job = ada.post("/jobs", json=FIVE_KEYS, headers=one).json()["id"]
        batch = ada.post("/api/v1/jobs:batch", json=[FIVE_KEYS] * 2, headers=two).json()["items"]
        assert ada.post("/jobs", json=FIVE_KEYS).status_code == 429
        assert ada.post("/jobs", json=FIVE_KEYS, headers={"idempotency-key": "three"}).status_code == 429
        assert ada.post("/jobs", json=FIVE_KEYS, headers=one).json()["id"] == job
        again = ada.post("/api/v1/jobs:batch", json=[FIVE_KEYS] * 2, headers=two).json()["items"]
        assert [each["id"] for each in again] == [each["id"] for each in batch]


def test_the_minute_slides(tmp_path: Path) -> None:
    db, now = Database(sqlite_url(tmp_path)), [1000.0]
    book = QuotaBook(db, timing=Timing(lambda: now[0], lambda: now[0]))
    book.change(lambda conn: store.set_quota(conn, "ada", Quota(submissions=2), 0.0))
    book.note_submission({"ada": 1})
    now[0] += 40
    book.note_submission({"ada": 1})
    with pytest.raises(QuotaError) as refused:
        book.note_submission({"ada": 1})
    assert refused.value.retry_after == 20
    now[0] += 20
    book.note_submission({"ada": 1})
    with pytest.raises(QuotaError):
        book.note_submission({"ada": 1})
    db.close()


def test_fair_shares_go_before_the_order_of_submission(tmp_path: Path) -> None:
    with serve_api(tmp_path, gpus=4, fair_share=True) as api:
        running = [api.submit(user="ada", required_gpus=2) for _ in range(2)]
        for job in running:
            api.wait(job, "running")
        next_of_ada = api.submit(user="ada", required_gpus=2)
        other = api.submit(user="ben", required_gpus=2)
        wait_for(lambda: api.job(next_of_ada)["reason"] == "fair_share", what="the reason")
        api.http.delete(f"/api/v1/jobs/{running[0]}")
        api.wait(other, "running")
        assert api.job(next_of_ada)["state"] == "queued"


def test_nonsense_is_refused(api: Api) -> None:
    for body in ({"gpus": -1}, {"gpu_hours": "NaN"}, {"weight": 0}, {"gpu": 1}, {"waiting": 1e30}):
        assert api.http.put("/api/v1/quotas/ada", json=body).status_code == 422
    assert api.http.get("/api/v1/quotas").json()["items"] == []
