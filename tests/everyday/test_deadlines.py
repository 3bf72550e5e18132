"""Deadlines: told at submission and while a job waits or runs, refused where that is asked for, counted in Usage."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, serve_api
from clusters import wait_for
from sqlalchemy import update
from sqlmodel import col

from schedulearn.scheduler.core.instants import shown
from schedulearn.scheduler.core.outcomes.lateness import Late, late
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.models import Job

DAY_S = 86_400.0
FAMILY = {"required_gpus": 2, "family": "nets", "launcher": "none"}


def in_seconds(seconds: float) -> str:
    return shown(time.time() + seconds)


def run(api: Api, **fields: Any) -> str:
    job = api.submit(**{**FAMILY, **fields})
    api.wait(job, "running")
    api.runtime.finish(f"schedulearn-{job}-1-0", 0)
    api.wait(job, "succeeded")
    return job


def change(api: Api, job: str, **values: object) -> None:
    db = Database(sqlite_url(api.directory))
    db.write(lambda conn: conn.execute(update(Job).where(col(Job.id) == job).values(**values)))
    db.close()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """A service that was started anew; a job of the family took two GPU-hours before."""
    with serve_api(tmp_path) as before:
        past = run(before)
    change(before, past, gpu_seconds=7200.0, run_seconds=3600.0)
    with serve_api(tmp_path) as served:
        hosts = "/api/v1/hosts"  # nothing is predicted before they answer
        wait_for(lambda: all(host["reachable"] for host in served.http.get(hosts).json()), what="the hosts")
        yield served


def post(api: Api, deadline: str, **query: Any) -> Any:
    return api.http.post("/api/v1/jobs", json={**FIVE_KEYS, **FAMILY, "deadline": deadline}, params=query)


def fields_of(answer: Any) -> list[str]:
    return [error["field"] for error in answer.json()["errors"]]


@pytest.mark.slow
def test_the_answer_says_whether_a_deadline_can_be_kept(api: Api) -> None:
    """By its family it takes an hour on its two GPUs."""
    able, late_one = post(api, in_seconds(2 * 3600)).json(), post(api, in_seconds(600)).json()
    assert (able["late"], late_one["late"]) == ("no", "expected")
    assert able["message"] == "Submitted."
    assert "It is expected to end at " in late_one["message"]
    assert late_one["eta"]["basis"] == "family"
    api.wait(late_one["id"], "running")
    wait_for(lambda: api.job(late_one["id"])["late"] == "expected", what="the next forecast")
    assert ", after its deadline." in api.job(late_one["id"])["message"]


def test_a_job_that_would_be_late_is_refused_where_that_is_asked_for_and_nothing_is_stored(api: Api) -> None:
    before = api.http.get("/api/v1/jobs").json()["counts"]
    for deadline, why in ((in_seconds(600), "it is expected to end at "), (in_seconds(-60), "its deadline has passed")):
        answer = post(api, deadline, refuse_late="true")
        assert (answer.status_code, fields_of(answer)) == (422, ["deadline"])
        assert answer.json()["detail"].startswith(why)
    assert api.http.get("/api/v1/jobs").json()["counts"] == before
    assert post(api, in_seconds(2 * 3600), refuse_late="true").status_code == 201
    assert post(api, in_seconds(600), refuse_late="false").status_code == 201
    assert fields_of(post(api, in_seconds(600), refuse_late="perhaps")) == ["refuse_late"]


def test_a_repeated_request_is_answered_also_if_a_second_such_job_would_be_late(api: Api) -> None:
    def send(key: str) -> Any:
        body = {**FIVE_KEYS, **FAMILY, "required_gpus": 4, "deadline": deadline}
        return api.http.post("/api/v1/jobs", json=body, params={"refuse_late": True}, headers={"idempotency-key": key})

    deadline = in_seconds(2100)  # one takes half an hour; a second one starts after ten minutes at least
    first = send("first")
    assert first.status_code == 201
    assert send("second").status_code == 422
    assert (send("first").status_code, send("first").json()["id"]) == (201, first.json()["id"])


def test_where_nothing_is_known_nothing_is_said_and_nothing_refused(api: Api) -> None:
    body = {**FIVE_KEYS, "family": "never seen", "launcher": "none", "deadline": in_seconds(60)}
    answer = api.http.post("/api/v1/jobs", json=body, params={"refuse_late": True})
    assert (answer.status_code, answer.json()["late"]) == (201, None)


def test_usage_counts_the_deadlines_that_were_kept(tmp_path: Path) -> None:
    at = 20_000 * DAY_S + DAY_S / 2
    with serve_api(tmp_path) as api:
        kept, missed = run(api, user="ann"), run(api, user="ann")
        failed = api.submit(**FAMILY, user="ben")
        api.wait(failed, "running")
        api.runtime.finish(f"schedulearn-{failed}-1-0", 1)
        api.wait(failed, "failed")
        cancelled = run(api, user="ben")
        for job, end, deadline in (
            (kept, at, at + 60),
            (missed, at + DAY_S, at + DAY_S - 60),
            (failed, at, at + 60),
            (cancelled, at, at + 60),
        ):
            change(api, job, deadline=deadline, finished_at=end)
        change(api, cancelled, state="cancelled")
        span = {"since": shown(at - DAY_S), "until": shown(at + 5 * DAY_S)}

        def counted(**query: Any) -> dict[tuple[str, str], tuple[int, int]]:
            rows = api.http.get("/api/v1/usage", params={**span, **query}).json()
            return {(row["day"], row["user"]): (row["deadlines"], row["deadlines_met"]) for row in rows}

        assert counted() == {("", "ann"): (2, 1), ("", "ben"): (1, 0)}
        by_day = counted(by=["day", "user"])
        assert by_day == {("2024-10-04", "ann"): (1, 1), ("2024-10-05", "ann"): (1, 0), ("2024-10-04", "ben"): (1, 0)}
        text = api.http.get("/api/v1/usage", params={**span, "format": "csv"}).text
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [(row["user"], row["deadlines"], row["deadlines_met"]) for row in rows] == [
            ("ann", "2", "1"), ("ben", "1", "0"),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "finished_at", "expected", "now", "found"),
    [
        ("queued", None, None, 50.0, None),
        ("queued", None, 99.0, 50.0, Late.NO),
        ("running", None, 101.0, 50.0, Late.EXPECTED),
        ("running", None, 99.0, 101.0, Late.YES),
        ("succeeded", 100.0, None, 500.0, Late.NO),
        ("succeeded", 101.0, None, 500.0, Late.YES),
        ("failed", 50.0, None, 500.0, Late.YES),
        ("timeout", 50.0, None, 500.0, Late.YES),
        ("cancelled", 50.0, None, 500.0, None),
        ("cancelled", 150.0, None, 500.0, Late.YES),
    ],
)
def test_when_a_job_counts_as_late(
    state: str, finished_at: float | None, expected: float | None, now: float, found: Late | None
) -> None:
    assert late(100.0, JobState(state), finished_at, expected, now) == found
    assert late(None, JobState(state), finished_at, expected, now) is None
