"""GPU-hours by user, label and day."""

import csv
import io
from pathlib import Path

import pytest
from apis import Api, serve_api
from sqlalchemy import select, update

from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.models import Task

DAY = 86_400.0
START = 20_000 * DAY + DAY / 2  # noon


def ran(api: Api, hours: float, gpus: int, at: float = START, **fields: object) -> str:
    """A job that is given such a history."""
    job = api.submit(required_gpus=gpus, launcher="none", **fields)
    api.wait(job, "running")
    task = f"schedulearn-{job}-1-0"
    api.runtime.finish(task)
    api.wait(job, "succeeded")
    db = Database(sqlite_url(api.directory))
    changes = {
        "created_at": at,
        "started_at": at + 60,
        "finished_at": at + hours * 3600,
        "energy_joules": 3.6e6 * hours,
    }
    db.write(lambda c: c.execute(update(Task).where(Task.id == task).values(**changes)))  # type: ignore[arg-type]
    with db.read() as c:
        assert c.execute(select(Task)).all()
    db.close()
    return job


@pytest.fixture
def report(tmp_path: Path):  # type: ignore[no-untyped-def]
    with serve_api(tmp_path) as api:
        ran(api, 10, 2, user="ann", labels={"project": "x"})
        ran(api, 18, 1, user="ann", labels={"project": "=1+1"})
        ran(api, 1, 4, user="ben")

        def ask(**query: object):  # type: ignore[no-untyped-def]
            span = {"since": "2024-10-04T00:00:00Z", "until": "2024-10-09T00:00:00Z"}
            return api.http.get("/api/v1/usage", params={**span, **query})  # type: ignore[dict-item]

        yield ask


def test_usage_is_summed_by_what_is_asked_for(report) -> None:  # type: ignore[no-untyped-def]
    by_user = {row["user"]: row for row in report(gpu_hour_price=0.5).json()}
    assert {user: (row["gpu_hours"], row["jobs"], row["cost"]) for user, row in by_user.items()} == {
        "ann": (38.0, 2, 19.0),
        "ben": (4.0, 1, 2.0),
    }
    assert by_user["ann"]["energy_kwh"] == pytest.approx(28)
    days = {(row["day"], row["user"]): row["gpu_hours"] for row in report(by=["day", "user"]).json()}
    assert days == {("2024-10-04", "ann"): 32.0, ("2024-10-05", "ann"): 6.0, ("2024-10-04", "ben"): 4.0}
    labels = {row["label"]: row["gpu_hours"] for row in report(by="label", label="project").json()}
    assert labels == {"x": 20.0, "=1+1": 18.0, "": 4.0}


def test_gpus_count_from_the_time_that_a_job_was_given_them(report) -> None:  # type: ignore[no-untyped-def]
    [row] = report(since="2024-10-04T12:00:00Z", until="2024-10-04T12:00:30Z", by="day").json()
    assert row["gpu_hours"] == pytest.approx(30 / 3600 * (2 + 1 + 4), rel=1e-3), "its container ran 60 s later"


def test_only_what_lies_in_the_span_counts(report) -> None:  # type: ignore[no-untyped-def]
    rows = report(since="2024-10-04T20:00:00Z", until="2024-10-04T21:00:00Z").json()
    assert [(row["user"], row["gpu_hours"]) for row in rows] == [("ann", 3.0)]


def test_a_spreadsheet_gets_csv_without_formulas(report) -> None:  # type: ignore[no-untyped-def]
    answer = report(by="label", label="project", format="csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert [row["label"] for row in csv.DictReader(io.StringIO(answer.text))] == ["", "'=1+1", "x"]


@pytest.mark.parametrize(
    "query",
    [{"by": "moon"}, {"by": "label"}, {"label": "x"}, {"since": "2025-01-01"}, {"gpu_hour_price": -1}, {"since": "x"}],
)
def test_a_report_that_makes_no_sense_is_refused(report, query) -> None:  # type: ignore[no-untyped-def]
    answer = report(**query)
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid"
