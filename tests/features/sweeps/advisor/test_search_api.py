"""Searches over the API: trials one after the other, through a restart, to an answer that jobs can be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from apis import Api, serve_api
from clusters import wait_for
from matrices import each
from sqlalchemy import select, update
from sqlmodel import col

from schedulearn.features.sweeps.table import SweepRun
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.models import Task

JOB = {
    "type": "Pytorch", "container_image": "image", "command": "train.py {batch_size}", "launcher": "none",
}  # fmt: skip
BODY: dict[str, Any] = {"name": "nets", "job": JOB, "gpus": [1, 2, 4], "batch_sizes": [32, 64], "trials": 5}


def start(api: Api, **changes: Any) -> dict[str, Any]:
    answer = api.http.post("/api/v1/searches", json={**BODY, **changes})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def search_of(api: Api, search: str) -> dict[str, Any]:
    found: dict[str, Any] = api.http.get(f"/api/v1/searches/{search}").json()
    return found


def running(api: Api, search: str) -> dict[str, Any] | None:
    items = api.http.get("/api/v1/jobs", params={"sweep": search, "state": "running"}).json()["items"]
    assert len(items) <= 1, "one trial at a time"
    return items[0] if items else None


def end_trials(api: Api, search: str, count: int, *, code: int = 0) -> list[dict[str, Any]]:
    """Ends so many trials, one after the other."""
    ended: list[dict[str, Any]] = []
    for _ in range(count):
        wait_for(lambda: running(api, search), seconds=120, what="the next trial")
        job = running(api, search)
        assert job is not None
        api.runtime.finish(f"schedulearn-{job['id']}-1-0", code)
        ended.append(api.wait(job["id"], "succeeded", "failed"))
    return ended


def ended(api: Api, search: str) -> dict[str, Any]:
    wait_for(lambda: search_of(api, search)["finished_at"], seconds=120, what="the end of the search")
    return search_of(api, search)


def best_at(found: dict[str, Any]) -> int:
    """Index of the best trial."""
    keys = found["best"].keys()
    return next(at for at, each in enumerate(found["tried"]) if {key: each[key] for key in keys} == found["best"])


@pytest.mark.long
def test_a_search_goes_on_after_a_restart_and_its_answer_is_the_familys_default(tmp_path: Path) -> None:
    with serve_api(tmp_path) as api:
        search = start(api)
        assert (search["configurations"], search["trials"], search["state"]) == (6, 5, "running")
        assert api.http.get("/api/v1/sweeps").json()["items"][0]["design"] == "search"
        jobs = end_trials(api, search["id"], 2)
    with serve_api(tmp_path) as api:
        assert search_of(api, search["id"])["state"] == "running"
        jobs += end_trials(api, search["id"], 3)
        found = ended(api, search["id"])
        assert found["state"] == "completed"
        assert found["why"] == "5 trials were made, the maximum of this search."
        tried = [(job["required_gpus"], job["batch_size"] or job["params"]["batch_size"]) for job in jobs]
        assert len(set(tried)) == 5, "each configuration once"
        assert {job["priority"] for job in jobs} == {10}
        assert {job["max_duration"] for job in jobs} == {3600.0}
        best = found["best"]
        assert found["found"] == {key: best[key] for key in ("gpu_type", "required_gpus", "batch_size")}
        assert best in found["curve"]
        [family] = {job["family"] for job in jobs}
        default = api.http.get("/api/v1/searches/default", params={"family": family}).json()
        assert [each["number"] for each in found["tried"]] == [1, 2, 3, 4, 5]
        assert min(each["value"] for each in found["tried"]) == pytest.approx(found["tried"][best_at(found)]["value"])
        assert (found["tried"][0]["gain"], found["tried"][4]["gain"] is None) == (None, False), "by the process at last"
        assert default == {**found["found"], "family": family, "search": search["id"]}
        assert api.http.get("/api/v1/searches/default", params={"family": "other"}).status_code == 404


@pytest.mark.slow
def test_the_fastest_or_the_cheapest_trial_is_found(tmp_path: Path) -> None:
    with serve_api(tmp_path) as api:
        search = start(api, gpus=[1, 2], batch_sizes=[32, 64], goal="time")["id"]
        end_trials(api, search, 4)
        ended(api, search)
        runs = {run["number"]: run["params"] for run in api.http.get(f"/api/v1/experiments/{search}").json()["table"]}
        db = Database(sqlite_url(api.directory))
        for number, params in runs.items():
            seconds = 100 / params["required_gpus"] ** 0.5 + params["batch_size"] / 64
            results = {"run_time": seconds, "gpu_hours": seconds * params["required_gpus"] / 3600}
            db.write(
                lambda conn, number=number, results=results: conn.execute(  # type: ignore[misc]
                    update(SweepRun).where(col(SweepRun.number) == number).values(results=results)
                )
            )
        db.close()
        found = search_of(api, search)
        assert (found["best"]["required_gpus"], found["best"]["batch_size"]) == (2, 32)
        assert [(each["required_gpus"], each["batch_size"]) for each in found["curve"]] == [(2, 32), (1, 32)]


@pytest.mark.long
def test_types_of_gpu_are_searched_by_their_prices_and_each_trial_runs_on_its_type(tmp_path: Path) -> None:
    prices = {"fast": 3.0, "slow": 1.0}
    with serve_api(tmp_path, gpus=4, gpu_types=["fast", "fast", "slow", "slow"], gpu_prices=prices) as api:
        search = start(api, gpus=[1, 2], batch_sizes=[], gpu_types=["slow", "fast"])["id"]
        for job in end_trials(api, search, 4):
            wanted = api.http.get(f"/api/v1/jobs/{job['id']}").json()["gpu_type"]
            held = {int(uuid.removeprefix("GPU-")) for uuid in gpus_of(api, job["id"])}
            assert held <= ({0, 1} if wanted == "fast" else {2, 3}), job
            assert len(held) == job["required_gpus"]
        found = ended(api, search)
        assert {(each["gpu_type"], each["required_gpus"]) for each in found["tried"]} == {
            (kind, gpus) for kind in prices for gpus in (1, 2)
        }
        measured = api.http.get(f"/api/v1/experiments/{search}").json()["table"]
        results = {run["number"]: run["results"] for run in measured}
        for each in found["tried"]:
            came_to = results[each["number"]]
            assert each["cost"] == pytest.approx(came_to["cost"])
            assert came_to["cost"] >= prices[each["gpu_type"]] * came_to["gpu_hours"] - 1e-6, "held longer than running"
        family = api.http.get(f"/api/v1/jobs/{found['tried'][0]['job']}").json()["family"]
        default = api.http.get("/api/v1/searches/default", params={"family": family}).json()
        assert default["gpu_type"] == found["best"]["gpu_type"]


def test_types_of_which_some_have_no_price_are_compared_by_time_alone(tmp_path: Path) -> None:
    with serve_api(tmp_path, gpu_prices={"fast": 3.0}) as api:
        asked = {**BODY, "gpu_types": ["fast", "slow"]}
        answer = api.http.post("/api/v1/searches", json={**asked, "goal": "cost"})
        assert answer.status_code == 422
        assert "no price of slow" in answer.text
        assert api.http.get("/api/v1/experiments").json()["items"] == []
        assert api.http.post("/api/v1/searches", json={**asked, "goal": "time"}).status_code == 201


def gpus_of(api: Api, job: str) -> list[str]:
    db = Database(sqlite_url(api.directory))
    with db.read() as conn:
        [uuids] = conn.execute(select(col(Task.gpu_uuids)).where(col(Task.job_id) == job)).scalars()
    db.close()
    return list(uuids)


@pytest.mark.long
def test_a_search_of_which_every_trial_fails_ends_without_an_answer(tmp_path: Path) -> None:
    with serve_api(tmp_path) as api:
        search = start(api, gpus=[1], batch_sizes=[32, 64], trials=2)["id"]
        end_trials(api, search, 2, code=1)
        found = ended(api, search)
        assert (found["found"], found["best"], found["curve"]) == (None, None, [])


def test_a_cancelled_search_tries_no_more(tmp_path: Path) -> None:
    with serve_api(tmp_path) as api:
        search = start(api)["id"]
        end_trials(api, search, 1)
        api.http.post(f"/api/v1/sweeps/{search}/cancel")
        for job in api.http.get("/api/v1/jobs", params={"sweep": search}).json()["items"]:
            if job["state"] not in ("succeeded", "cancelled"):
                api.runtime.finish(f"schedulearn-{job['id']}-1-0", 143)
        found = ended(api, search)
        assert (found["state"], found["found"]) == ("cancelled", None)


@each(
    [
        ({"gpus": []}, "gpus"),
        ({"gpus": [0]}, "gpus"),
        ({"goal": "fame"}, "goal"),
        ({"gpus": list(range(1, 21)), "batch_sizes": list(range(1, 51))}, "at most 500 configurations, not 1000"),
        ({"batch_sizes": [32], "job": {**JOB, "command": "train.py '"}}, "command"),
        ({"trials": 0}, "trials"),
        ({"max_parallel": 3}, "max_parallel"),
    ],
    "changes",
    "why",
)
def test_a_search_that_makes_no_sense_is_refused(api: Api, changes: dict[str, Any], why: str) -> None:
    answer = api.http.post("/api/v1/searches", json={**BODY, **changes})
    assert answer.status_code == 422
    assert why in answer.text
    assert api.http.get("/api/v1/experiments").json()["items"] == []
