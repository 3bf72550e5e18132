"""Experiments over the API, on the fake runtime: what runs come to is kept, analyzed, and makes advice."""

from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, run_experiment, serve_api
from clusters import wait_for

JOB = {**{key: value for key, value in FIVE_KEYS.items() if key != "name"}, "required_gpus": 1}
BODY = {
    "name": "batches", "job": {**JOB, "command": "train"}, "design": "2k",
    "factors": {"batch_size": [32, 64], "required_gpus": [1, 2]}, "replications": 2, "max_parallel": 4,
    "metric": {"name": "accuracy", "goal": "max"},
}  # fmt: skip


def look(api: Api, experiment: str) -> dict[str, Any]:
    answer = api.http.get(f"/api/v1/experiments/{experiment}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def start(api: Api, **fields: Any) -> str:
    answer = api.http.post("/api/v1/experiments", json={**BODY, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def report(api: Api, job: str, accuracy: float) -> None:
    """What the SDK of a job that runs would tell."""
    token = api.runtime.env(f"schedulearn-{job}-1-0")["SCHEDULEARN_JOB_TOKEN"]
    body = {
        "attempt": 1, "batch": {"init": 64, "max": 64, "atomic": 64, "accumulation": 0},
        "progress": {"epoch": 2, "epochs": 2, "position": 0, "epoch_samples": 100, "steps": 4},
        "metrics": [{"name": "accuracy", "step": 1, "value": accuracy, "at": 1.8e9}],
    }  # fmt: skip
    answer = api.http.post("/api/v1/reports", json=body, headers={"authorization": f"Bearer {token}"})
    assert answer.is_success, answer.text


def finish(api: Api, job: str, exit_code: int = 0) -> None:
    api.runtime.finish(f"schedulearn-{job}-1-0", exit_code)
    api.wait(job, "failed" if exit_code else "succeeded")


def test_an_experiment_is_a_sweep_whose_runs_keep_what_they_came_to(api: Api) -> None:
    experiment = start(api, max_parallel=1)
    while look(api, experiment)["state"] == "running":
        wait_for(lambda: running(api, experiment) or look(api, experiment)["state"] != "running", what="the next run")
        for run in running(api, experiment):
            api.wait(run["job"], "running")
            report(api, run["job"], 0.5 + run["params"]["batch_size"] / 1000)
            finish(api, run["job"])
    found = look(api, experiment)
    assert (found["state"], found["design"], found["factors"]) == ("completed", "2k", ["batch_size", "required_gpus"])
    assert found["message"] == "Of 8 runs 8 succeeded."
    for run in found["table"]:
        assert run["results"]["accuracy"] == pytest.approx(0.5 + run["params"]["batch_size"] / 1000)
        assert run["results"]["epoch_time"] == pytest.approx(run["results"]["run_time"] / 2, abs=1e-6)
        assert run["results"]["response_time"] >= run["results"]["run_time"] > 0
        assert run["results"]["cost"] >= run["results"]["run_time"] * run["params"]["required_gpus"] * 0.99
    analysis = api.http.get(f"/api/v1/experiments/{experiment}/analysis", params={"response": "accuracy"}).json()
    terms = {tuple(term["factors"]): term for term in analysis["terms"]}
    assert terms[("batch_size",)]["effect"] == pytest.approx(0.016)
    assert terms[("batch_size",)]["share"] == pytest.approx(1.0)
    assert len(analysis["cells"]) == 4
    assert api.http.get("/api/v1/experiments").json()["items"][0]["id"] == experiment
    as_sweep = api.http.get(f"/api/v1/sweeps/{experiment}").json()
    assert as_sweep["runs"] == 8, "it is a sweep as well"
    assert [(each["design"], each["replications"]) for each in (as_sweep, *listed(api))] == [("2k", 2), ("2k", 2)]


def listed(api: Api) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = api.http.get("/api/v1/sweeps").json()["items"]
    return items


def running(api: Api, experiment: str) -> list[dict[str, Any]]:
    return [run for run in look(api, experiment)["table"] if run["state"] in ("starting", "running")]


def test_results_outlive_their_jobs_and_a_retry_forgets_only_those_of_failures(api: Api) -> None:
    experiment = start(api, factors={"batch_size": [32, 64]}, replications=1, max_parallel=2)
    wait_for(lambda: len(running(api, experiment)) == 2, what="both runs")
    first, second = (run["job"] for run in look(api, experiment)["table"])
    api.wait(first, "running")
    api.wait(second, "running")
    finish(api, first)
    finish(api, second, exit_code=1)
    wait_for(lambda: look(api, experiment)["state"] == "completed", what="its end")
    kept, failed = (run["results"] for run in look(api, experiment)["table"])
    assert kept["run_time"] > 0
    assert failed == {}, "how long a failed run took says nothing of its factors"
    assert api.http.post(f"/api/v1/jobs/{first}/purge").is_success
    api.http.post(f"/api/v1/sweeps/{experiment}/retry")
    again = look(api, experiment)["table"]
    assert (again[0]["state"], again[0]["results"]) == ("deleted", kept)
    assert again[1]["results"] is None


def test_what_cannot_be_analyzed_is_told_with_what_can(api: Api) -> None:
    experiment = run_experiment(api, BODY)
    wrong = api.http.get(f"/api/v1/experiments/{experiment}/analysis", params={"response": "beauty"})
    assert wrong.status_code == 422
    assert "run_time" in wrong.json()["detail"]
    assert api.http.get(f"/api/v1/experiments/{experiment}/analysis").status_code == 200


def test_an_ordinary_sweep_is_shown_with_results_and_not_listed(api: Api) -> None:
    body = {"name": "lr", "job": {**JOB, "command": "train --lr {lr}"}, "grid": {"lr": [1, 2]}}
    sweep = api.http.post("/api/v1/sweeps", json=body).json()["id"]
    assert (look(api, sweep)["design"], look(api, sweep)["factors"]) == (None, ["lr"])
    assert [(each["design"], each["replications"]) for each in listed(api)] == [(None, 1)]
    assert api.http.get("/api/v1/experiments").json()["items"] == []


def test_a_wrong_experiment_stores_nothing(api: Api) -> None:
    body = {**BODY, "factors": {"batch_size": [32, -1]}}
    refused = api.http.post("/api/v1/experiments", json=body)
    assert (refused.status_code, "batch_size = -1" in refused.json()["detail"]) == (422, True)
    assert api.http.get("/api/v1/sweeps").json()["items"] == []
    key = {"Idempotency-Key": "k"}
    first, again = (api.http.post("/api/v1/experiments", json=BODY, headers=key).json()["id"] for _ in range(2))
    assert first == again


@pytest.mark.long
def test_advice_is_about_the_types_that_the_job_may_have(tmp_path: Path) -> None:
    body = {**BODY, "factors": {"batch_size": [32, 64], "gpu_type": ["A", "B"]}, "replications": 3}
    asked = {"job": {**JOB, "command": "train"}, "batch_sizes": [32], "gpus": [1, 2]}
    with serve_api(tmp_path, gpu_types=("A", "A", "B", "B"), currency="EUR", gpu_prices={"*": 1}) as api:
        none = api.http.post("/api/v1/advise", json=asked).json()
        assert (none["status"], none["code"], none["errors"][0]["field"]) == (422, "no_history", "job")
        run_experiment(api, body)
        holder = api.submit(gpu_type="B", max_duration=500.0)
        api.wait(holder, "running")

        def advise(**keys: Any) -> dict[str, Any]:
            found: dict[str, Any] = api.http.post("/api/v1/advise", json={**asked, "job": {**JOB, **keys}}).json()
            return found

        found = advise(command="train")
        assert found["currency"] == "EUR"
        waits = {(option["gpu_type"], option["required_gpus"]): option["wait_time"] for option in found["options"]}
        assert waits.keys() == {("A", 1), ("A", 2), ("B", 1), ("B", 2)}
        assert waits["A", 2] < waits["B", 2], "the other one's GPUs are free"
        only = advise(command="train", gpu_type="B")
        assert {option["gpu_type"] for option in only["options"]} == {"B"}

        absent = advise(command="train", gpu_type="C")
        assert absent["errors"] == [
            {"field": "job.gpu_type", "message": "no host has a healthy GPU of type 'C'", "type": "invalid"}
        ]
        wrong = advise(command="'")
        assert [error["field"] for error in wrong["errors"]] == ["job.command"]
        assert wrong["detail"].startswith("job.command: ")
