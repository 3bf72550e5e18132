"""Searches by Optuna over the API, on the fake runtime: each trial reports and ends when the test says so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, serve_api
from clusters import wait_for

JOB = {**{key: value for key, value in FIVE_KEYS.items() if key != "name"}, "required_gpus": 1}
PARAMETERS = {"lr": {"min": 1e-5, "max": 1.0, "scale": "log"}, "kind": ["sgd", "adam"]}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serve_api(tmp_path_factory.mktemp("searches")) as served:
        yield served


def start(api: Api, **fields: Any) -> str:
    body = {
        "name": "lr", "job": {**JOB, "command": "train --lr {lr} --kind {kind}"}, "search": "tpe", "trials": 12,
        "parameters": PARAMETERS, "goal": {"metric": "val_acc", "mode": "max"}, **fields,
    }  # fmt: skip
    answer = api.http.post("/api/v1/sweeps", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def look(api: Api, sweep: str) -> dict[str, Any]:
    answer = api.http.get(f"/api/v1/sweeps/{sweep}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def task_of(job: str) -> str:
    return f"schedulearn-{job}-1-0"


def report(api: Api, job: str, values: list[float], first_step: int = 1) -> None:
    token = api.runtime.env(task_of(job))["SCHEDULEARN_JOB_TOKEN"]
    points = [
        {"name": "val_acc", "step": step, "value": value, "at": 1.8e9} for step, value in enumerate(values, first_step)
    ]
    body = {"attempt": 1, "batch": {"init": 64, "max": 64, "atomic": 64, "accumulation": 0}, "metrics": points}
    answer = api.http.post("/api/v1/reports", json=body, headers={"authorization": f"Bearer {token}"})
    assert answer.is_success, answer.text


def play(api: Api, sweep: str, most: int = 99, fails: tuple[int, ...] = ()) -> int:
    """End the running trials: each reports once. Return the number of those that ended."""
    ended = 0
    for run in look(api, sweep)["table"]:
        if run["state"] == "running" and ended < most:
            if run["number"] not in fails:
                report(api, run["job"], [run["params"]["lr"]])
            api.runtime.finish(task_of(run["job"]), int(run["number"] in fails))
            api.wait(run["job"], "failed" if run["number"] in fails else "succeeded")
            ended += 1
    return ended


def test_a_search_runs_its_trials_and_a_failed_one_stops_nothing(api: Api) -> None:
    sweep = start(api, parallel=3)
    begun = look(api, sweep)
    assert (begun["search"], begun["prune"], begun["trials"], begun["runs"]) == ("tpe", None, 12, 8)
    assert begun["message"] == "Started with 8 of 12 trials; tpe chooses the others from their results."
    most_active = [0]

    def over() -> bool:
        play(api, sweep, fails=(3, 9))
        found = look(api, sweep)
        most_active[0] = max(most_active[0], found["counts"]["active"])
        return bool(found["finished_at"])

    wait_for(over, seconds=60, what="the end of the search")
    done = look(api, sweep)
    assert (done["state"], done["message"]) == ("completed", "Of 12 runs 10 succeeded, 2 failed.")
    assert most_active[0] <= 3
    assert [run["number"] for run in done["table"]] == list(range(1, 13))
    assert [run["number"] for run in done["table"] if run["state"] == "failed"] == [3, 9]
    assert {run["tries"] for run in done["table"]} == {1}
    best = max((run["best"], run["number"]) for run in done["table"] if run["best"] is not None)
    assert done["best"]["number"] == best[1]
    jobs = api.http.get("/api/v1/jobs", params={"limit": 100, "sweep": sweep}).json()["items"]
    assert sorted(job["command"] for job in jobs) == sorted(
        f"train --lr {run['params']['lr']} --kind {run['params']['kind']}" for run in done["table"]
    )


def test_the_next_trial_is_chosen_when_none_waits(api: Api) -> None:
    """4 GPUs: a trial that would only wait is chosen later, from more results."""
    sweep = start(api)
    states = ["running"] * 4 + ["queued"] * 4
    wait_for(lambda: [r["state"] for r in look(api, sweep)["table"]] == states, what="the first trials")
    assert play(api, sweep) == 4
    wait_for(lambda: look(api, sweep)["runs"] == 9, what="one more trial")
    wait_for(lambda: look(api, sweep)["table"][8]["state"] == "queued", what="it waits for a GPU")
    assert look(api, sweep)["runs"] == 9
    assert api.http.post(f"/api/v1/sweeps/{sweep}/cancel").json()["state"] == "stopping"
    wait_for(lambda: look(api, sweep)["state"] == "cancelled", what="the end")
    assert look(api, sweep)["runs"] == 9, "a cancelled search adds nothing"


def test_a_bad_trial_is_pruned_and_not_told_as_failed_or_cancelled(api: Api) -> None:
    parameters = {"lr": {"min": 0.1, "max": 0.9}, "kind": ["sgd"]}
    sweep = start(api, search="random", trials=4, parameters=parameters, prune="asha")
    wait_for(lambda: [r["state"] for r in look(api, sweep)["table"]] == ["running"] * 4, what="4 trials")
    runs = look(api, sweep)["table"]
    for run in runs[:3]:
        report(api, run["job"], [0.8] * 64)
        api.runtime.finish(task_of(run["job"]), 0)
        api.wait(run["job"], "succeeded")
    bad = runs[3]["job"]
    report(api, bad, [0.2] * 5)
    wait_for(lambda: look(api, sweep)["finished_at"], what="the end of the sweep")
    done = look(api, sweep)
    assert (done["state"], done["message"]) == ("completed", "Of 4 runs 3 succeeded, 1 were pruned.")
    assert done["prune"] == "asha"
    assert done["counts"] == {"pending": 0, "active": 0, "succeeded": 3, "failed": 0, "cancelled": 0, "pruned": 1}
    assert (done["table"][3]["state"], done["table"][3]["best"]) == ("pruned", 0.2)
    job = api.http.get(f"/api/v1/jobs/{bad}").json()
    assert job["reason"] == "pruned"
    assert job["message"] == "Pruned by asha: at step 1 its val_acc was worse than that of other trials."
    again = api.http.post(f"/api/v1/sweeps/{sweep}/retry")
    assert again.status_code == 409, "a pruned trial is no failure: there is nothing to retry"


def test_what_a_search_may_choose_is_checked_before_it_starts(api: Api) -> None:
    body = {
        "name": "x", "job": JOB, "search": "tpe", "trials": 9, "parameters": {"batch_size": {"min": 0, "max": 64}}
    }  # fmt: skip
    before = api.http.get("/api/v1/sweeps").json()["items"]
    answer = api.http.post("/api/v1/sweeps", json=body)
    assert answer.status_code == 422
    assert "batch_size = 0: must be at least 1" in answer.json()["detail"]
    assert api.http.get("/api/v1/sweeps").json()["items"] == before


def test_only_users_start_searches_and_only_owners_end_them(tmp_path: Path) -> None:
    body = {"name": "x", "job": {**JOB, "command": "{lr}"}, "search": "tpe", "trials": 9, "prune": "median",
            "parameters": {"lr": {"min": 1, "max": 9}}}  # fmt: skip
    with serve_api(tmp_path, gpus=0, token="root-token") as api:
        made = []
        for name, role in (("ada", "user"), ("bob", "user"), ("eve", "viewer")):
            assert api.http.post("/api/v1/users", json={"name": name, "role": role}).is_success
            made.append(api.http.post("/api/v1/tokens", json={"name": name, "user": name}).json()["token"])
        ada, bob, eve = ({"authorization": f"Bearer {token}"} for token in made)
        assert api.http.post("/api/v1/sweeps", json=body, headers=eve).status_code == 403
        assert (
            api.http.post("/api/v1/sweeps", json=body, headers={"authorization": "Bearer another"}).status_code == 401
        )
        sweep = api.http.post("/api/v1/sweeps", json=body, headers=ada).json()
        assert (sweep["user"], sweep["search"], sweep["prune"]) == ("ada", "tpe", "median")
        end = f"/api/v1/sweeps/{sweep['id']}/cancel"
        assert [api.http.post(end, headers=who).status_code for who in (eve, bob, ada)] == [403, 403, 200]
