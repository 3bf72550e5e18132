"""What metrics were predicted to end with is kept for each job, beside what came."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import Api
from clusters import FakeCluster, spec, wait_for
from services import IMAGE, Service
from sqlalchemy import insert, select
from sqlmodel import col

from schedulearn.scheduler.core.predictions.drift import Drift
from schedulearn.scheduler.core.predictions.metrics import MetricPrediction
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job, Metric
from schedulearn.scheduler.store.people.kin import Kin
from schedulearn.scheduler.store.predictions import metric_predictions as store
from schedulearn.scheduler.store.predictions import versions

KIN = Kin("f", "")
BEGAN = 1_000_000.0


def add_ended(db: Database, like: str, reached: list[Mapping[str, float]], *, first: int = 0) -> None:
    """Jobs like one that is there, which ended a second after each other with these metrics, after 1, 2, 4 and again 1
    epochs."""

    def change(conn: Any) -> None:
        job = dict(conn.execute(select(Job).where(col(Job.id) == like)).one()._mapping)
        for at, metrics in enumerate(reached, first):
            row = {**job, "id": f"past{at:04}", "state": "succeeded", "finished_at": BEGAN + at, "sweep": None}
            keys = {**row["spec"], "epochs": 2 ** (at % 3)}
            conn.execute(insert(Job), [{**row, "gpu_seconds": 100.0, "spec": keys, "attempt": 1}])
            for name, value in metrics.items():
                conn.execute(insert(Metric), [{"job_id": row["id"], "name": name, "points": [], "last": value}])

    db.write(change)


def log_metric(db: Database, job: str, **metrics: float) -> None:
    rows = [{"job_id": job, "name": name, "points": [], "last": value} for name, value in metrics.items()]
    db.write(lambda conn: conn.execute(insert(Metric), rows))


def kept(c: FakeCluster) -> list[store.PredictedMetric]:
    with c.cluster.db.read() as db:
        return store.predictions(db, "f", 100)


@contextmanager
def family_with_history(folder: Path, reached: list[Mapping[str, float]]) -> Iterator[FakeCluster]:
    with FakeCluster(folder) as c:
        [template] = c.submit(spec(family="f"))
        c.wait(template, "running")
        add_ended(c.cluster.db, template, reached)
        c.cluster.service.cancel(template)
        c.wait(template, "cancelled")
        wait_for(lambda: c.cluster.profiles.knows_lengths("f", ""), what="the family")
        yield c


def test_each_metric_of_a_new_job_is_predicted_once_and_compared_with_its_last_value(tmp_path: Path) -> None:
    history = [{"accuracy": 0.8 + 0.05 * (at % 3), "noise_scale": 5.0, "rare": 1.0} for at in range(12)]
    for past in history[2:]:
        del past["rare"]
    with family_with_history(tmp_path, history) as c:
        [job] = c.submit(spec(family="f", epochs=2))
        [found] = wait_for(lambda: kept(c), what="its prediction")
        assert (found.job_id, found.metric, found.jobs, found.actual) == (job, "accuracy", 12, None)
        assert found.value == pytest.approx(0.85, abs=0.01)
        assert (found.low < 0.85 < found.high, found.model) == (True, "linear")
        c.wait(job, "running")
        log_metric(c.cluster.db, job, accuracy=0.851)
        c.runtime.finish(f"schedulearn-{job}-1-0")
        c.wait(job, "succeeded")
        [settled] = wait_for(lambda: [each for each in kept(c) if each.ended_at], what="what came")
        assert (settled.actual, settled.value, settled.predicted_at) == (0.851, found.value, found.predicted_at)
        with c.cluster.db.read() as db:
            assert store.held(db, "f", None) == (1, 1)
            [of_metric] = store.calibrations(db, "", 100, 100)
        assert of_metric[:4] == ("f", "accuracy", 1, 1)
        assert of_metric.mean_error == pytest.approx(abs(0.851 - found.value))


def test_a_job_that_does_not_end_well_says_nothing_of_its_prediction(tmp_path: Path) -> None:
    with family_with_history(tmp_path, [{"loss": 1.0}] * 3) as c:
        [job] = c.submit(spec(family="f"))
        wait_for(lambda: kept(c), what="its prediction")
        log_metric(c.cluster.db, job, loss=7.0)
        c.cluster.service.cancel(job)
        c.wait(job, "cancelled")
        [settled] = wait_for(lambda: [each for each in kept(c) if each.ended_at], what="its end")
        assert settled.actual is None
        with c.cluster.db.read() as db:
            assert (store.held(db, None, None), store.calibrations(db, "", 100, 100)) == ((0, 0), [])


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Database]:
    """A database with one job of the family `f`, and nothing that works on it but the service."""
    with FakeCluster(tmp_path) as c:
        [template] = c.submit(spec(family="f"))
        c.wait(template, "running")
        yield c.cluster.db


def reached(db: Database) -> dict[str, list[float]]:
    with db.read() as conn:
        return {name: [job.value for job in jobs] for name, jobs in store.reached(conn, KIN, ["stall"]).items()}


def test_a_family_tells_of_the_metrics_that_most_of_its_jobs_logged(stored: Database) -> None:
    [template] = stored.write(lambda conn: conn.execute(select(col(Job.id))).scalars().all())
    history: list[dict[str, float]] = [{f"m{n:02}": float(at) for n in range(20)} for at in range(3)]
    history += [{"m19": 3.0, "once": 1.0, "stall": 9.0, "m00": 1e300} for _ in range(4)]
    add_ended(stored, template, history)
    assert list(reached(stored)) == ["m19", "once", "m00", "m01", "m02", "m03", "m04", "m05"], "eight at most"
    assert reached(stored)["m19"] == [3.0] * 4 + [2.0, 1.0, 0.0], "the newest first"
    assert reached(stored)["m00"] == [2.0, 1.0, 0.0], "nothing can be learned from the others"
    stored.write(lambda conn: versions.begin(conn, KIN, Drift(BEGAN + 4, 1.0, 3.0), BEGAN))
    assert {name: len(values) for name, values in reached(stored).items()} == {"m19": 3, "once": 3}


def test_so_many_are_kept_and_the_newest_are_counted(stored: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_KEPT", 6)
    for at in range(5):
        found = {f"job{at}": {name: MetricPrediction(1.0, 0.9, 1.1, 3, "mean") for name in ("a", "b")}}
        stored.write(lambda conn, at=at, found=found: store.remember(conn, KIN, found, BEGAN + at))
    with stored.read() as conn:
        rows = store.predictions(conn, None, 100)
        assert [(row.job_id, row.metric) for row in rows] == [(f"job{at}", name) for at in (4, 3, 2) for name in "ba"]
        assert store.predictions(conn, "other", 100) == []
    values = {row.seq: 1.2 if row.metric == "b" else 1.05 for row in rows}
    stored.write(
        lambda conn: store.settle(
            conn, [store.SettledMetric(seq or 0, BEGAN + 9, came) for seq, came in values.items()]
        )
    )
    with stored.read() as conn:
        assert (store.held(conn, "f", None), store.held(conn, "f", 1), store.held(conn, "x", 5)) == (
            (6, 3), (1, 0), (0, 0),
        )  # fmt: skip
        first, second = store.calibrations(conn, "", 2, 100)
        assert (first[:4], second[:4]) == (("f", "b", 2, 0), ("f", "a", 2, 2))
        assert (first.mean_error, second.mean_error) == (pytest.approx(0.2), pytest.approx(0.05))
        assert store.scores_of(conn, KIN, "b") == pytest.approx([2.0, 2.0, 2.0])


def report(value: float) -> dict[str, Any]:
    batch = {"init": 64, "max": 64, "atomic": 64, "accumulation": 0}
    metric = {"name": "accuracy", "step": 1, "value": value, "at": 1.8e9}
    return {"attempt": 1, "batch": batch, "metrics": [metric]}


def run_one(api: Api, value: float, *, predicted: bool) -> str:
    """A job of the family that reports an accuracy and ends well."""
    job = api.submit(required_gpus=1, family="f")
    api.wait(job, "running")
    if predicted:
        wait_for(lambda: any(item["job"] == job for item in asked(api)["items"]), what="its prediction")
    task = f"schedulearn-{job}-1-0"
    headers = {"authorization": f"Bearer {api.runtime.env(task)['SCHEDULEARN_JOB_TOKEN']}"}
    with httpx.Client(base_url=api.http.base_url) as worker:
        assert worker.post("/api/v1/reports", headers=headers, json=report(value)).status_code == 200
    api.runtime.finish(task)
    api.wait(job, "succeeded")
    return job


def asked(api: Api, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = api.http.get("/api/v1/predictions", params=query).json()["metrics"]
    return found


def test_what_the_api_says_of_metrics(api: Api) -> None:
    assert asked(api) == {"compared": 0, "held": 0, "items": []}
    for _ in range(3):
        run_one(api, 0.9, predicted=False)
    job = run_one(api, 0.97, predicted=True)
    whole = wait_for(lambda: (found := asked(api))["compared"] and found, what="what came")
    assert whole["held"] == 0
    [item] = whole["items"]
    given = ("job", "family", "metric", "rests_on", "model", "value", "actual")
    assert [item[key] for key in given] == [job, "f", "accuracy", 3, "mean", pytest.approx(0.9), 0.97]
    assert 0.89 < item["low"] < item["value"] < item["high"] < 0.91
    assert asked(api, family="other")["items"] == []
    [of_family] = api.http.get("/api/v1/predictions/families").json()["metrics"]
    assert of_family.pop("mean_error") == pytest.approx(0.07)
    assert of_family == {"family": "f", "metric": "accuracy", "compared": 1, "held": 0}


REPORTS = """
import json, os, pathlib, sys, time, urllib.request
while len(sys.argv) > 2 and not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.1)
header = {"authorization": "Bearer " + os.environ["SCHEDULEARN_JOB_TOKEN"], "content-type": "application/json"}
asked = urllib.request.Request(os.environ["SCHEDULEARN_REPORT_URL"], sys.argv[1].encode(), header)
urllib.request.urlopen(asked, timeout=60).close()
"""


@pytest.mark.long
@pytest.mark.process
def test_the_command_shows_what_jobs_were_to_reach_and_reached(tmp_path: Path) -> None:
    script, end = tmp_path / "reports.py", tmp_path / "end"
    script.write_text(REPORTS)
    given = ("submit", "--image", IMAGE, "--launcher", "none", "--family", "logs")
    train = ("--", sys.executable, str(script), json.dumps(report(0.9)))
    with Service(tmp_path / "data") as service:
        for _ in range(3):
            service.invoke(*given, *train)
        service.invoke(*given, "-d", *train, str(end))
        shown = wait_for(lambda: service.invoke("predictions").out.partition("METRIC")[2], what="the prediction")
        assert "No job whose metrics were predicted has ended well yet." in shown
        end.touch()
        wait_for(lambda: service.invoke("predictions", "--json").json["metrics"]["compared"], what="what came")
        [row, summary] = service.invoke("predictions").out.splitlines()[-2:]
        assert row.split()[1:] == ["accuracy", "0.9", "0.8991", "to", "0.9009", "mean", "3", "0.9", "yes"]
        assert summary == "1 of 1 intervals of metrics held (100%, 90% is the aim)."
        of_family = service.invoke("predictions", "families").out.splitlines()[-1]
        assert of_family.split()[:4] == ["logs", "accuracy", "1", "100%"]
