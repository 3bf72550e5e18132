"""A request that fails changes nothing, whatever fails: its answer is written before what it asks for is committed."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from apis import FIVE_KEYS, Api
from clusters import wait_for

from schedulearn.api.answers.model import Answer
from schedulearn.api.routes import jobs

KEY = {"idempotency-key": "once"}


def contents(api: Api) -> list[str]:
    """All that is stored, but for what the service notes by itself."""
    with closing(sqlite3.connect(api.directory / "schedulearn.db", timeout=10)) as db:
        own = ('"cluster_minute"', '"gpu_minute"', '"capacity"')
        return [line for line in db.iterdump() if not any(table in line for table in own)]


@pytest.fixture(autouse=True)
def contacted(api: Api) -> None:
    """The service stores which engine its host has, a moment after its start."""

    def engines() -> list[tuple[str | None]]:
        with closing(sqlite3.connect(api.directory / "schedulearn.db", timeout=10)) as db:
            return db.execute("SELECT engine_id FROM host").fetchall()

    wait_for(lambda: all(engine for (engine,) in engines()), what="the engine's name")


@pytest.fixture
def waiting(api: Api) -> str:
    """A job that stays in the queue, and of which all was said: nothing is stored unless we ask for it."""
    job = api.submit(required_gpus=5)
    events = f"/api/v1/jobs/{job}/events"
    wait_for(lambda: len(api.http.get(events).json()["items"]) == 2, what="the reason why it waits")
    return job


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        ("POST", "/jobs", FIVE_KEYS, {}),
        ("POST", "/api/v1/jobs", FIVE_KEYS, {}),
        ("POST", "/api/v1/jobs", FIVE_KEYS, KEY),
        ("POST", "/api/v1/jobs:batch", [FIVE_KEYS] * 3, {}),
        ("POST", "/api/v1/jobs:batch", [FIVE_KEYS] * 3, KEY),
        ("PATCH", "/api/v1/jobs/{job}", {"priority": 7}, {}),
        ("POST", "/api/v1/jobs/{job}/cancel", None, {}),
        ("DELETE", "/api/v1/jobs/{job}", None, {}),
        ("PUT", "/api/v1/policy", {"algorithm": "las"}, {}),
        ("PUT", "/algorithm/las", None, {}),
        ("POST", "/api/v1/webhooks", {"url": "http://127.0.0.1:9/hook"}, {}),
        ("PUT", "/api/v1/notify/own", {"address": "http://127.0.0.1:9/hook"}, {}),
        ("POST", "/api/v1/tokens", {"name": "ci"}, {}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_answer_that_cannot_be_written_leaves_nothing_behind(
    api: Api, waiting: str, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any, headers: dict[str, str]
) -> None:
    before, policy = contents(api), api.http.get("/api/v1/policy").json()["algorithm"]

    def fails(*_: object) -> bytes:
        raise ZeroDivisionError("the answer can't be written")

    with monkeypatch.context() as patch:
        patch.setattr(Answer, "render", fails)
        patch.setattr(jobs, "json_bytes", fails)  # of a batch
        answer = api.http.request(method, path.format(job=waiting), json=body, headers=headers)
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal"
    assert contents(api) == before
    assert api.http.get("/api/v1/policy").json()["algorithm"] == policy
    assert api.http.get("/api/v1/jobs").status_code == 200
    answer = api.http.request(method, path.format(job=waiting), json=body, headers=headers)
    assert answer.is_success, answer.text
    assert contents(api) != before


def test_a_batch_with_one_wrong_job_leaves_nothing_behind(api: Api) -> None:
    before = contents(api)
    answer = api.http.post("/api/v1/jobs:batch", json=[FIVE_KEYS, {**FIVE_KEYS, "required_gpus": -1}])
    assert answer.status_code == 422
    assert contents(api) == before
