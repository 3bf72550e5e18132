"""GPU-hours by user, label and day."""

import csv
import io
from pathlib import Path

import pytest
from apis import Api, serve_api
from clusters import wait_for
from matrices import each
from sqlalchemy import insert, select, update
from sqlmodel import col

from schedulearn.scheduler.background import Timing
from schedulearn.scheduler.core.states import Parking
from schedulearn.scheduler.store.accounting.capacity import Capacity, capacity, note_capacity
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.models import Gpu, Host, Task
from schedulearn.scheduler.telemetry.monitor import ClusterUtility, Monitor

DAY = 86_400.0
SPAN = {"since": "2024-10-04T00:00:00Z", "until": "2024-10-09T00:00:00Z"}
START = 20_000 * DAY + DAY / 2  # noon


def ran(api: Api, hours: float, gpus: int, at: float = START, on: str = "", **fields: object) -> str:
    """A job that is given such a history. `on`: GPUs of its own, a letter each."""
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
    } | ({"gpu_uuids": [*on]} if on else {})
    db.write(lambda c: c.execute(update(Task).where(Task.id == task).values(**changes)))  # type: ignore[arg-type]
    with db.read() as c:
        assert c.execute(select(Task)).all()
    db.close()
    return job


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with serve_api(tmp_path_factory.mktemp("usage")) as api:
        ran(api, 10, 2, on="ab", user="ann", labels={"project": "x"})
        ran(api, 18, 1, on="c", user="ann", labels={"project": "=1+1"})
        ran(api, 1, 4, on="defg", user="ben")

        def ask(**query: object):  # type: ignore[no-untyped-def]
            return api.http.get("/api/v1/usage", params={**SPAN, **query})  # type: ignore[dict-item]

        yield ask


def test_usage_is_summed_by_what_is_asked_for(report) -> None:  # type: ignore[no-untyped-def]
    assert {row["cost"] for row in report().json()} == {None}, "no price is known"
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


@each(
    [{"by": "moon"}, {"by": "label"}, {"label": "x"}, {"since": "2025-01-01"}, {"gpu_hour_price": -1}, {"since": "x"}],
    "query",
)
def test_a_report_that_makes_no_sense_is_refused(report, query) -> None:  # type: ignore[no-untyped-def]
    answer = report(**query)
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid"


@pytest.mark.parametrize(
    ("prices", "asked", "cost"),
    [
        ({"simulated": 2.0, "A100": 9.0}, {}, 8.0),
        ({"*": 3.0}, {}, 12.0),
        ({"A100": 9.0}, {}, None),
        ({"simulated": 2.0}, {"gpu_hour_price": 0.5}, 2.0),
    ],
)
def test_each_type_of_gpu_has_the_price_that_is_set(  # type: ignore[no-untyped-def]
    tmp_path: Path, prices, asked, cost
) -> None:
    with serve_api(tmp_path, gpu_prices=prices, currency="EUR") as api:
        job = ran(api, 1, 4, user="ben")
        [row] = api.http.get("/api/v1/usage", params={**SPAN, **asked}).json()
        assert (row["cost"], row["currency"]) == (cost, "EUR")
        text = api.http.get("/api/v1/usage", params={**SPAN, **asked, "format": "csv"}).text
        [row] = csv.DictReader(io.StringIO(text))
        assert row["cost"] == ("" if cost is None else str(cost))
        if not asked:
            told = api.http.get(f"/api/v1/jobs/{job}").json()
            assert (told["cost"], told["currency"], told["energy_kwh"]) == (cost, "EUR", 1.0)


def test_capacity_is_what_there_was_and_a_gpu_that_jobs_share_is_held_once(tmp_path: Path) -> None:
    with serve_api(tmp_path) as api:
        noon_before = START - DAY
        ran(api, 1, 4, at=noon_before - 3600)  # before it was known how many there are
        shared = [ran(api, 10, 2), ran(api, 18, 1)]
        db = Database(sqlite_url(tmp_path))
        db.write(lambda c: c.execute(insert(Capacity), [
            {"at": noon_before, "gpus": 8}, {"at": START + DAY / 2, "gpus": 4},
        ]))  # fmt: skip
        db.write(lambda c: c.execute(update(Task).where(col(Task.job_id).in_(shared)).values(gpu_uuids=["GPU-0"])))
        db.close()

        def ask(**span: str) -> list[tuple[str, float, float]]:
            found = api.http.get("/api/v1/usage/capacity", params={**SPAN, **span}).json()
            assert found["known_since"] == "2024-10-03T12:00:00.000Z"
            return [(day["day"], day["gpu_hours"], day["held_gpu_hours"]) for day in found["days"]]

        assert ask(since="2024-10-01", until="2024-10-06") == [
            ("2024-10-03", 96.0, 0.0), ("2024-10-04", 192.0, 12.0), ("2024-10-05", 96.0, 6.0),
        ]  # fmt: skip
        assert ask(since="2024-10-04T20:00:00Z", until="2024-10-04T21:30:00Z") == [("2024-10-04", 12.0, 1.5)]
        assert ask(since="2024-10-01", until="2024-10-02") == []
        assert sum(row["gpu_hours"] for row in api.http.get("/api/v1/usage", params=SPAN).json()) == 18.0
        assert api.http.post(f"/api/v1/jobs/{shared[1]}/purge").status_code == 200
        assert ask(since="2024-10-05", until="2024-10-06") == [("2024-10-05", 96.0, 6.0)], "what was held stays counted"


def test_how_many_gpus_jobs_can_have_is_noted_when_it_changes(tmp_path: Path) -> None:
    db = Database(sqlite_url(tmp_path))

    def put(*statements: object) -> None:
        for statement in statements:
            db.write(lambda c, statement=statement: c.execute(statement))  # type: ignore[misc]

    def stored() -> list[tuple[float, int]]:
        with db.read() as c:
            return [(row.at, row.gpus) for row in c.execute(select(Capacity).order_by(col(Capacity.at)))]

    def noted(at: float) -> list[tuple[float, int]]:
        db.write(lambda c: note_capacity(c, at))
        return stored()

    assert noted(1.0) == [], "no GPU was found yet"
    with db.read() as c:
        assert capacity(c, 0.0, 10.0) == (None, [])
    for position, host in enumerate("abc"):
        put(insert(Host).values(id=host, address="", runtime="fake", state="active", labels={}, position=position))
        for index in range(2):
            values = {"uuid": f"{host}{index}", "host_id": host, "ordinal": index, "type": "t", "memory_bytes": 1}
            put(insert(Gpu).values(**values, simulated=True))
    assert noted(2.0) == noted(3.0) == [(2.0, 6)]
    put(update(Gpu).where(col(Gpu.uuid) == "a0").values(fault="Xid 79"))
    put(update(Gpu).where(col(Gpu.uuid) == "a1").values(present=False))
    assert noted(4.0)[-1] == (4.0, 4)
    put(update(Host).where(col(Host.id) == "b").values(lost_at=4.5))
    put(update(Host).where(col(Host.id) == "c").values(parking=Parking.EMPTYING))
    assert noted(5.0)[-1] == (5.0, 2), "jobs still run on a host that is emptied"
    put(update(Host).where(col(Host.id) == "c").values(parking=Parking.PARKED))
    assert noted(6.0)[-1] == (6.0, 0)

    put(update(Host).values(lost_at=None, parking=Parking.NONE))
    clock = [600.0]
    monitor = Monitor(
        db, lambda _: None, lambda: None, keep_days=1, utility=lambda: ClusterUtility(), timing=Timing(lambda: clock[0])
    )
    monitor.start()
    clock[0] = 660.0
    wait_for(lambda: stored()[-1] == (660.0, 4), what="the end of the minute")
    monitor.close()
    with db.read() as c:
        assert capacity(c, 0.0, 3600 + 660.0)[1][0].gpu_hours == pytest.approx(4 + (2 * 6 + 1 * 4 + 1 * 2) / 3600)
    db.close()
