"""Sweeps over the API, on the fake runtime: each job ends when the test says so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, serve_api
from clusters import wait_for
from matrices import each
from servers.git_server import git_server

JOB = {**{key: value for key, value in FIVE_KEYS.items() if key != "name"}, "required_gpus": 1}


def start(api: Api, **fields: Any) -> str:
    body = {"name": "lr", "job": {**JOB, "command": "train --lr {lr}"}, "grid": {"lr": list(range(6))}, **fields}
    answer = api.http.post("/api/v1/sweeps", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def look(api: Api, sweep: str, **query: Any) -> dict[str, Any]:
    answer = api.http.get(f"/api/v1/sweeps/{sweep}", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def table(api: Api, sweep: str) -> dict[int, str]:
    return {run["number"]: run["state"] for run in look(api, sweep)["table"]}


def wait_table(api: Api, sweep: str, expected: list[str]) -> None:
    wait_for(lambda: [*table(api, sweep).values()] == expected, what=f"{expected}, not {table(api, sweep)}")


def wait_state(api: Api, sweep: str, state: str) -> dict[str, Any]:
    wait_for(lambda: look(api, sweep)["state"] == state, what=state)
    return look(api, sweep)


def end(api: Api, sweep: str, number: int, exit_code: int = 0) -> None:
    """The job of a run that runs ends."""
    job = look(api, sweep)["table"][number - 1]["job"]
    api.wait(job, "running")
    api.runtime.finish(f"schedulearn-{job}-1-0", exit_code)
    api.wait(job, "failed" if exit_code else "succeeded")


def report(api: Api, job: str, **metrics: list[float]) -> None:
    """What the SDK of a job that runs would tell."""
    token = api.runtime.env(f"schedulearn-{job}-1-0")["SCHEDULEARN_JOB_TOKEN"]
    points = [
        {"name": name, "step": step, "value": value, "at": 1.8e9}
        for name, values in metrics.items()
        for step, value in enumerate(values)
    ]
    body = {"attempt": 1, "batch": {"init": 64, "max": 64, "atomic": 64, "accumulation": 0}, "metrics": points}
    answer = api.http.post("/api/v1/reports", json=body, headers={"authorization": f"Bearer {token}"})
    assert answer.is_success, answer.text


@pytest.mark.slow
def test_runs_become_jobs_as_others_end_and_then_the_sweep_is_completed(api: Api) -> None:
    sweep = start(api, max_parallel=2)
    wait_table(api, sweep, ["running"] * 2 + ["pending"] * 4)
    for number in range(1, 7):
        end(api, sweep, number, exit_code=1 if number == 3 else 0)
    done = wait_state(api, sweep, "completed")
    assert done["message"] == "Of 6 runs 5 succeeded, 1 failed."
    assert done["counts"] == {"pending": 0, "active": 0, "succeeded": 5, "failed": 1, "cancelled": 0, "pruned": 0}
    jobs = api.http.get("/api/v1/jobs", params={"limit": 100, "order": "oldest"}).json()["items"]
    assert [(job["name"], job["command"], job["params"], job["sweep"]) for job in jobs] == [
        (f"lr-{n}", f"train --lr {n - 1}", {"lr": n - 1}, sweep) for n in range(1, 7)
    ]
    assert [run["job"] for run in done["table"]] == [job["id"] for job in jobs]
    kinds = [e for e in api.http.get("/api/v1/events", params={"after": 0}).json()["items"] if "sweep." in e["kind"]]
    assert [(e["kind"], e["data"]) for e in kinds] == [
        ("sweep.running", {"sweep": sweep}), ("sweep.completed", {"sweep": sweep}),
    ]  # fmt: skip


def test_after_too_many_failures_what_runs_goes_on_and_nothing_else_starts(api: Api) -> None:
    sweep = start(api, max_failures=1)  # 4 GPUs: runs 5 and 6 are jobs that wait
    wait_table(api, sweep, ["running"] * 4 + ["queued"] * 2)
    end(api, sweep, 1, exit_code=1)
    wait_table(api, sweep, ["failed"] + ["running"] * 4 + ["queued"])
    end(api, sweep, 2, exit_code=1)
    wait_table(api, sweep, ["failed"] * 2 + ["running"] * 3 + ["cancelled"])
    stopping = look(api, sweep)
    assert (stopping["state"], stopping["reason"]) == ("stopping", "too_many_failures")
    assert "running ones continue" in stopping["message"]
    for number in (3, 4, 5):
        end(api, sweep, number)
    done = wait_state(api, sweep, "failed")
    assert done["message"] == "Of 6 runs 3 succeeded, 2 failed, 1 were cancelled."
    assert done["finished_at"] is not None


def test_a_sweep_is_cancelled_as_one_and_again_for_nothing(api: Api) -> None:
    sweep = start(api, max_parallel=5)
    wait_table(api, sweep, ["running"] * 4 + ["queued", "pending"])
    assert api.http.post(f"/api/v1/sweeps/{sweep}/cancel").json()["state"] == "stopping"
    done = wait_state(api, sweep, "cancelled")
    assert [run["state"] for run in done["table"]] == ["cancelled"] * 6
    assert done["table"][5]["job"] is None, "it never started"
    assert api.http.post(f"/api/v1/sweeps/{sweep}/cancel").json()["state"] == "cancelled"
    assert len(api.http.get("/api/v1/jobs").json()["items"]) == 5


def test_a_sweep_that_waits_is_cancelled_at_once(api: Api) -> None:
    sweep = start(api, job={**JOB, "command": "{lr}", "required_gpus": 9})
    wait_table(api, sweep, ["queued"] * 6)
    assert api.http.post(f"/api/v1/sweeps/{sweep}/cancel").json()["state"] == "cancelled"


@pytest.mark.slow
def test_a_retry_starts_what_did_not_succeed_and_nothing_else(api: Api) -> None:
    sweep = start(api, max_failures=0, max_parallel=2)
    wait_table(api, sweep, ["running"] * 2 + ["pending"] * 4)
    end(api, sweep, 1)
    wait_table(api, sweep, ["succeeded"] + ["running"] * 2 + ["pending"] * 3)
    end(api, sweep, 2, exit_code=1)
    assert wait_state(api, sweep, "stopping")["counts"]["active"] == 1
    refused = api.http.post(f"/api/v1/sweeps/{sweep}/retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    end(api, sweep, 3)
    before = wait_state(api, sweep, "failed")
    again = api.http.post(f"/api/v1/sweeps/{sweep}/retry").json()
    assert (again["state"], again["message"]) == ("running", "Started again with 4 runs.")
    wait_table(api, sweep, ["succeeded", "running", "succeeded", "running", "pending", "pending"])
    after = look(api, sweep)
    assert [run["tries"] for run in after["table"]] == [1, 2, 1, 1, 0, 0]
    assert after["table"][0]["job"] == before["table"][0]["job"]
    assert after["table"][1]["job"] != before["table"][1]["job"]
    assert api.job(before["table"][1]["job"])["sweep"] == sweep, "the job of the first try stays"
    for number in (2, 4, 5, 6):
        end(api, sweep, number)
    wait_state(api, sweep, "completed")
    refused = api.http.post(f"/api/v1/sweeps/{sweep}/retry")
    assert (refused.status_code, "nothing to retry" in refused.json()["detail"]) == (409, True)
    refused = api.http.post(f"/api/v1/sweeps/{sweep}/cancel")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


def test_a_run_that_was_cancelled_by_itself_is_no_failure(api: Api) -> None:
    sweep = start(api, grid={"lr": [1, 2]}, max_failures=0)
    wait_table(api, sweep, ["running"] * 2)
    api.http.post(f"/api/v1/jobs/{look(api, sweep)['table'][0]['job']}/cancel")
    end(api, sweep, 2)
    assert wait_state(api, sweep, "completed")["message"] == "Of 2 runs 1 succeeded, 1 were cancelled."


def test_the_table_has_the_last_and_the_best_value_of_the_metric(api: Api) -> None:
    sweep = start(api, grid={"lr": [1, 2, 3]}, metric={"name": "accuracy", "goal": "max"})
    wait_table(api, sweep, ["running"] * 3)
    runs = look(api, sweep)["table"]
    report(api, runs[0]["job"], accuracy=[0.5, 0.9, 0.7], loss=[3.0])
    report(api, runs[1]["job"], accuracy=[0.8], loss=[1.0, 2.0])
    found = look(api, sweep)
    assert [(run["last"], run["best"]) for run in found["table"]] == [(0.7, 0.9), (0.8, 0.8), (None, None)]
    assert found["best"] == found["table"][0]
    assert found["logged"] == ["accuracy", "loss"]
    by_loss = look(api, sweep, metric="loss", goal="min")
    assert [run["best"] for run in by_loss["table"]] == [3.0, 1.0, None]
    assert by_loss["best"]["number"] == 2
    assert look(api, sweep, metric="nothing")["best"] is None


def test_the_best_value_is_kept_when_its_point_is_thinned_out(api: Api) -> None:
    sweep = start(api, grid={"lr": [1]})
    wait_table(api, sweep, ["running"])
    [run] = look(api, sweep)["table"]
    curve = [1.0] * 450
    curve[201] = -7.0  # neither an end nor on a grid of every second point
    report(api, run["job"], loss=curve)
    [run] = look(api, sweep)["table"]
    assert (run["last"], run["best"]) == (1.0, -7.0)
    points = api.http.get(f"/api/v1/jobs/{run['job']}/profile").json()["metrics"]["loss"]
    assert -7.0 not in [point[1] for point in points]


def test_a_large_table_comes_in_pages(api: Api) -> None:
    sweep = start(api, grid={"lr": list(range(25)), "seed": list(range(2))},
                  job={**JOB, "command": "{lr} {seed}"}, max_parallel=1)  # fmt: skip
    first = look(api, sweep, limit=30)
    rest = look(api, sweep, limit=30, after=first["next"])
    assert [run["number"] for run in first["table"] + rest["table"]] == list(range(1, 51))
    assert rest["next"] is None


def test_sweeps_are_listed_newest_first_in_pages(api: Api) -> None:
    ids = [start(api, name=f"s{n}", job={**JOB, "command": "{lr}", "user": user}) for n, user in enumerate("aab")]
    page = api.http.get("/api/v1/sweeps", params={"limit": 2}).json()
    rest = api.http.get("/api/v1/sweeps", params={"limit": 2, "cursor": page["next"]}).json()
    assert [each["id"] for each in page["items"] + rest["items"]] == ids[::-1]
    assert (rest["next"], page["items"][0]["parameters"]) == (None, ["lr"])
    of_a = api.http.get("/api/v1/sweeps", params={"user": "a", "state": "running"}).json()["items"]
    assert [each["id"] for each in of_a] == ids[1::-1]


def test_the_same_key_starts_one_sweep(api: Api) -> None:
    body = {"name": "s", "job": {**JOB, "command": "{lr}"}, "grid": {"lr": [1, 2]}}
    key = {"Idempotency-Key": "k"}
    first, second = (api.http.post("/api/v1/sweeps", json=body, headers=key).json()["id"] for _ in range(2))
    assert first == second
    other = api.http.post("/api/v1/sweeps", json={**body, "name": "t"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    assert len(api.http.get("/api/v1/sweeps").json()["items"]) == 1


@pytest.fixture
def bounded(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, max_gpus_per_job=2) as served:
        yield served


@each(
    [
        ({"grid": {"lr": [1], "batch_size": [1, -1]}}, "batch_size", "run 2: batch_size = -1"),
        ({"job": {**JOB, "command": "{lr}", "mounts": ["wiki"]}}, "mounts", "run 1: there is no data set 'wiki'"),
        ({"grid": {"lr": [1], "required_gpus": [1, 3]}}, "required_gpus", "run 2: required_gpus is 3; the operator"),
        ({"job": {**JOB, "command": "{lr}", "env": {"A": "********"}}}, "env.A", "is hidden"),
        ({"gird": {}}, "gird", "there is no such key; did you mean 'grid'?"),
    ],
    "fields", "field", "words",
)  # fmt: skip
def test_a_sweep_with_one_wrong_run_stores_nothing(
    bounded: Api, fields: dict[str, Any], field: str, words: str
) -> None:
    body = {"name": "s", "job": {**JOB, "command": "{lr}"}, "grid": {"lr": [1]}, **fields}
    refused = bounded.http.post("/api/v1/sweeps", json=body)
    assert refused.status_code == 422, refused.text
    assert [error["field"] for error in refused.json()["errors"]] == [field]
    assert words in refused.json()["detail"]
    assert bounded.http.get("/api/v1/sweeps").json()["items"] == []
    assert bounded.http.get("/api/v1/jobs").json()["items"] == []


def test_values_of_variables_are_hidden_and_the_jobs_have_them(api: Api) -> None:
    sweep = start(api, job={**JOB, "command": "{lr}", "env": {"API_KEY": "s3cr3t", "SEED": 1}}, grid={"lr": [1]})
    wait_table(api, sweep, ["running"])
    found = look(api, sweep)
    assert found["job"]["env"] == {"API_KEY": "********", "SEED": "1"}
    assert api.runtime.env(f"schedulearn-{found['table'][0]['job']}-1-0")["API_KEY"] == "s3cr3t"


def test_all_runs_have_the_code_that_there_was_at_the_start(tmp_path: Path) -> None:
    with git_server(tmp_path / "git") as server, serve_api(tmp_path, code_git_hosts=[server.origin]) as api:
        first = server.commit({"train.py": "print(1)"})
        job = {**JOB, "command": "train {lr}", "code": {"git": server.url(), "ref": "main"}}
        sweep = start(api, job=job, grid={"lr": [1, 2]}, max_parallel=1)
        server.commit({"train.py": "print(2)"})
        wait_table(api, sweep, ["running", "pending"])
        end(api, sweep, 1)
        wait_table(api, sweep, ["succeeded", "running"])
        jobs = [api.job(run["job"])["code"] for run in look(api, sweep)["table"]]
        assert [code["commit"] for code in jobs] == [first, first]
        assert len({code["digest"] for code in jobs}) == 1


@pytest.mark.slow
def test_a_retry_of_runs_whose_code_is_gone_is_refused(tmp_path: Path) -> None:
    with git_server(tmp_path / "git") as server, serve_api(tmp_path, code_git_hosts=[server.origin]) as api:
        server.commit({"train.py": "print(1)"})
        job = {**JOB, "command": "{lr}", "code": {"git": server.url()}}
        sweep = start(api, job=job, grid={"lr": [1, 2]}, max_parallel=1)
        wait_table(api, sweep, ["running", "pending"])
        digest = look(api, sweep)["job"]["code"]["digest"]
        api.http.post(f"/api/v1/sweeps/{sweep}/cancel")
        wait_state(api, sweep, "cancelled")
        (tmp_path / "code" / f"{digest.removeprefix('sha256:')}.tar").unlink()
        refused = api.http.post(f"/api/v1/sweeps/{sweep}/retry")
        assert (refused.status_code, "is not stored here" in refused.json()["detail"]) == (422, True)
        assert look(api, sweep)["state"] == "cancelled"


def test_a_wrong_range_is_named_by_its_keys_alone(api: Api) -> None:
    body = {"name": "lr", "job": {**JOB, "command": "train --lr {lr}"}, "search": "tpe", "trials": 9}
    for span, field in (({"min": 0, "max": 1, "scale": "log"}, "lr"), ({"min": "x", "max": 1}, "lr.min")):
        answer = api.http.post("/api/v1/sweeps", json={**body, "parameters": {"lr": span}})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"].endswith(f"parameters.{field}")
        assert not {"[", "constrained"} & {*answer.json()["detail"], *answer.json()["detail"].split(".")}
