"""Times at the edge of what can be written, in requests and in a database that was kept."""

import math
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, serve_api
from hypothesis import given
from hypothesis import strategies as st
from matrices import each
from pydantic import TypeAdapter
from sqlmodel import SQLModel

from schedulearn.api.instants import iso
from schedulearn.scheduler.core.instants import EARLIEST, LATEST, Instant
from schedulearn.scheduler.store import models

BEYOND = [
    "9999-12-31T23:59:59-01:00",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-14:00",
    "1969-12-31T23:59:59Z",
    "2200-01-01T00:00:01Z",
    "2200-01-01T00:00:00-00:01",
]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serve_api(tmp_path_factory.mktemp("instants")) as served:
        yield served


def stored(api: Api) -> int:
    return sum(api.http.get("/api/v1/jobs").json()["counts"].values())


@pytest.mark.parametrize("deadline", BEYOND)
def test_a_deadline_out_of_bounds_is_refused_and_nothing_is_stored(api: Api, deadline: str) -> None:
    before = stored(api)
    job = {**FIVE_KEYS, "deadline": deadline}
    for path, body, field in (
        ("/jobs", job, "deadline"),
        ("/api/v1/jobs", job, "deadline"),
        ("/api/v1/jobs:batch", [FIVE_KEYS, job], "1.deadline"),
        ("/api/v1/jobs:preview", job, "deadline"),
    ):
        answer = api.http.post(path, json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["field"] == field
        assert "1970" in answer.json()["detail"]
    assert stored(api) == before


QUERIES = [
    "/api/v1/timeline?until={}", "/api/v1/timeline?since={}", "/api/v1/usage?until={}", "/api/v1/usage?since={}",
    "/api/v1/cluster/utility?to={}", "/api/v1/hosts/local/telemetry?from={}", "/api/v1/hosts/local/telemetry?to={}",
]  # fmt: skip


@each(product(QUERIES, BEYOND), "path", "at")
def test_every_instant_of_a_query_has_the_same_bounds(api: Api, path: str, at: str) -> None:
    answer = api.http.get(path.format(at.replace("+", "%2B")))
    assert answer.status_code == 422, answer.text
    assert "1970" in answer.json()["detail"]


def test_the_bounds_themselves_are_taken_and_shown(api: Api) -> None:
    for deadline in ("1970-01-01T00:00:00Z", "2200-01-01T00:00:00Z", "2199-12-31T23:00:00-01:00"):
        job = api.job(api.submit(deadline=deadline))
        assert datetime.fromisoformat(job["deadline"]) == datetime.fromisoformat(deadline)


def test_a_deadline_in_the_past_is_taken_and_says_so_until_the_job_starts(api: Api) -> None:
    with serve_api(api.directory / "late", gpus=2) as late:
        late.submit()  # holds both GPUs
        answer = late.http.post("/jobs", json={**FIVE_KEYS, "deadline": "2020-05-01T10:00:00Z"})
        assert answer.status_code == 201
        said = "Its deadline (2020-05-01T10:00:00.000Z) had passed when it was submitted."
        assert said in answer.json()["message"]
        job = answer.json()["id"]
        assert said in late.http.get(f"/api/v1/jobs/{job}/events").json()["items"][0]["message"]
        assert said in late.job(job)["message"]
        on_time = late.http.post("/jobs", json={**FIVE_KEYS, "deadline": "2199-05-01T10:00:00Z"})
        assert "deadline" not in on_time.json()["message"]


def test_a_kept_database_with_impossible_times_is_mended_at_start(tmp_path: Path) -> None:
    with serve_api(tmp_path, gpus=0) as api:
        ids = [api.submit(name=f"job {number}") for number in range(4)]
    raw = [253402304399.0, -62135647200.0, math.inf, -math.inf]
    with closing(sqlite3.connect(tmp_path / "schedulearn.db")) as db:
        for job, at in zip(ids, raw, strict=True):
            db.execute("UPDATE job SET deadline = ? WHERE id = ?", (at, job))
        db.execute("UPDATE event SET at = 1e300 WHERE id = 1")
        db.commit()
    with serve_api(tmp_path, gpus=0) as api:
        found = {job["id"]: job["deadline"] for job in api.http.get("/api/v1/jobs").json()["items"]}
        first, last = "1970-01-01T00:00:00.000Z", "2200-01-01T00:00:00.000Z"
        assert [found[job] for job in ids] == [last, first, last, first]
        assert api.http.get("/jobs").status_code == 200
        assert api.http.get("/api/v1/events").json()["items"][0]["at"] <= last
        with closing(sqlite3.connect(tmp_path / "schedulearn.db")) as db:
            assert db.execute("SELECT max(deadline), min(deadline) FROM job").fetchone() == (LATEST, EARLIEST)


@given(st.floats())
def test_every_number_has_a_time_that_a_request_may_name_again(seconds: float) -> None:
    shown = iso(seconds)
    assert shown is not None
    again = TypeAdapter(Instant).validate_python(shown).timestamp()
    if EARLIEST <= seconds <= LATEST:
        assert again == pytest.approx(seconds, abs=0.001)


@given(st.datetimes(timezones=st.timezones() | st.none()))
def test_every_time_that_can_be_written_is_taken_or_refused(at: datetime) -> None:
    if EARLIEST <= (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() <= LATEST:
        taken = TypeAdapter(Instant).validate_python(at)
        assert EARLIEST <= taken.timestamp() <= LATEST
        assert taken.tzinfo is UTC
    else:
        with pytest.raises(ValueError, match="between"):
            TypeAdapter(Instant).validate_python(at)


def test_every_column_that_holds_a_time_is_bounded() -> None:
    names = {"deadline", "start_after", "at", "drain_until", "not_before", "since", "until", "used_since"}
    for table in SQLModel.metadata.sorted_tables:
        for column in table.columns:
            if column.name in names or column.name.endswith("_at"):
                assert isinstance(column.type, models.InstantColumn), f"{table.name}.{column.name}"
            else:
                assert not isinstance(column.type, models.InstantColumn), f"{table.name}.{column.name}"
