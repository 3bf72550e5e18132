"""Lists of jobs: filters, orders, how far jobs are, and how they failed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from apis import Api
from clusters import wait_for

from schedulearn.scheduler.store.db import Database, sqlite_url


def listed(api: Api, **query: Any) -> list[str]:
    """Names of all pages."""
    names: list[str] = []
    cursor = None
    while True:
        page = api.http.get(
            "/api/v1/jobs", params={"limit": 2, **query, **({"cursor": cursor} if cursor else {})}
        ).json()
        names += [job["name"] for job in page["items"]]
        cursor = page["next"]
        if cursor is None:
            return names


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("name", ["Ant", "bee", "Cat", "dog"]),
        ("-name", ["dog", "Cat", "bee", "Ant"]),
        ("-gpus", ["dog", "bee", "Cat", "Ant"]),
        ("user", ["dog", "Ant", "bee", "Cat"]),
        ("submitted", ["Cat", "dog", "Ant", "bee"]),
    ],
)
def test_jobs_are_sorted_over_all_pages(api: Api, sort: str, names: list[str]) -> None:
    for name, gpus, user in (("Cat", 10, "zoe"), ("dog", 12, "aaron"), ("Ant", 9, "ada"), ("bee", 11, "Ben")):
        api.submit(name=name, required_gpus=gpus, user=user)
    assert listed(api, sort=sort) == names


def test_the_counts_are_of_the_jobs_that_the_filters_leave(api: Api) -> None:
    for name, user, label in (("lilo", "ada", "x"), ("lil", "ada", "y"), ("bill", "ben", "x")):
        api.submit(name=name, required_gpus=99, user=user, labels={"team": label})

    def queued(**query: Any) -> int:
        counts = api.http.get("/api/v1/jobs", params={"limit": 1, **query}).json()["counts"]
        assert sum(counts.values()) == counts["queued"]
        return int(counts["queued"])

    assert queued() == 3
    assert queued(state="running") == 3, "a chip tells what its state would list"
    assert queued(user="ada") == 2
    assert queued(q="lil") == 2  # ids have no i, l or o
    assert queued(q="bill") == 1
    assert queued(user="ada", label="team=x") == 1
    assert queued(host="elsewhere") == 0
    assert queued(ended_until="2026-01-01T00:00:00Z") == 0


def test_an_unknown_order_is_refused(api: Api) -> None:
    answer = api.http.get("/api/v1/jobs", params={"sort": "colour"})
    assert answer.status_code == 422
    assert "'-name'" in answer.text


def test_jobs_are_sorted_by_when_they_ran_and_how_long(api: Api) -> None:
    first, second = api.submit(name="first", required_gpus=1), api.submit(name="second", required_gpus=1)
    for job in (first, second):
        api.wait(job, "running")
    api.submit(name="waits", required_gpus=99)
    api.runtime.finish(f"schedulearn-{first}-1-0")
    api.wait(first, "succeeded")
    assert listed(api, sort="-finished")[0] == "first"
    assert listed(api, sort="started")[0] == "waits"
    assert listed(api, sort="-duration")[2] == "waits"


def test_jobs_of_a_host_and_of_a_time(api: Api) -> None:
    done, runs = api.submit(name="done", required_gpus=1), api.submit(name="runs", required_gpus=1)
    api.submit(name="waits", required_gpus=99)
    for job in (done, runs):
        api.wait(job, "running")
    api.runtime.finish(f"schedulearn-{done}-1-0")
    api.wait(done, "succeeded")
    assert listed(api, host="local", sort="name") == ["done", "runs"]
    assert listed(api, host="elsewhere") == []
    soon = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
    before = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    assert listed(api, ended_until=soon) == ["done"]
    assert listed(api, ended_since=before, ended_until=soon) == ["done"]
    assert listed(api, ended_until=before) == []
    assert listed(api, ended_since=soon, sort="name") == ["runs", "waits"]


def test_a_failed_job_says_where_and_why(api: Api) -> None:
    job = api.submit(required_gpus=2)
    held = api.wait(job, "running")["gpus"]
    assert api.job(job)["failure"] is None
    api.write_log(job, b"step 1\nRuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n", end=True)
    api.runtime.finish(f"schedulearn-{job}-1-0", code=1)
    failed = api.wait(job, "failed")
    line = "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB"
    assert {key: failed["failure"][key] for key in ("gpus", "exit_code", "line", "kind", "cause", "clone")} == {
        "gpus": held,
        "exit_code": 1,
        "line": line,
        "kind": "gpu_memory",
        "cause": "out of GPU memory",
        "clone": None,
    }
    [shown] = api.http.get("/api/v1/jobs", params={"state": "failed"}).json()["items"]
    assert shown["failure"] == failed["failure"]
    assert api.http.get("/api/v1/cluster").json()["failed_24h"] == 1


def test_a_job_that_failed_without_a_word(api: Api) -> None:
    job = api.submit(required_gpus=1)
    api.wait(job, "running")
    api.runtime.finish(f"schedulearn-{job}-1-0", code=3)
    failure = api.wait(job, "failed")["failure"]
    assert (failure["exit_code"], failure["line"]) == (3, "")


def test_progress_is_in_the_list(api: Api) -> None:
    job = api.submit(required_gpus=1, epochs=4)
    api.wait(job, "running")
    assert api.job(job)["progress"] is None
    db = Database(sqlite_url(api.directory))
    try:
        db.write(lambda conn: conn.exec_driver_sql(
            "INSERT INTO profile (job_id, attempt, reported_at, init_batch, max_batch, min_local, accumulate, "
            "atomic_batch, accumulation, why, epoch, epochs, position, epoch_samples, steps) "
            "VALUES (?, 1, 1, 1, 1, 1, 0, 1, 0, '', 1, 4, 50, 100, 10)", (job,)))  # fmt: skip
    finally:
        db.close()
    wait_for(lambda: api.job(job)["progress"] == 0.375, what="progress")
    assert api.http.get("/api/v1/jobs").json()["items"][0]["progress"] == 0.375
