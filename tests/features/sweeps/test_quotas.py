"""Sweeps of users with quotas: they wait, and lose no run."""

from __future__ import annotations

from typing import Any

import pytest
from apis import FIVE_KEYS, Api
from clusters import wait_for

JOB = {**{key: value for key, value in FIVE_KEYS.items() if key != "name"}, "required_gpus": 1}


def start(api: Api, gpus: int = 1) -> str:
    job = {**JOB, "command": "train --lr {lr}", "user": "ada", "required_gpus": gpus}
    answer = api.http.post("/api/v1/sweeps", json={"name": "lr", "job": job, "grid": {"lr": [1, 2, 3, 4, 5]}})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def look(api: Api, sweep: str) -> dict[str, Any]:
    found: dict[str, Any] = api.http.get(f"/api/v1/sweeps/{sweep}").json()
    return found


def jobs_of(api: Api, sweep: str, *states: str) -> list[str]:
    return [run["job"] for run in look(api, sweep)["table"] if run["job"] and run["state"] in states]


@pytest.mark.slow
def test_a_sweep_obeys_all_quotas_and_comes_to_its_end(api: Api) -> None:
    api.http.put("/api/v1/quotas/ada", json={"gpus": 1})
    api.http.put("/api/v1/groups/vision", json={"waiting": 2})
    api.http.put("/api/v1/groups/vision/members/ada")
    sweep = start(api)
    for ended in range(5):
        wait_for(lambda: len(jobs_of(api, sweep, "running")) == 1, what="the next run")
        left = min(2, 4 - ended)
        wait_for(lambda left=left: len(jobs_of(api, sweep, "queued")) == left, what="as many that wait as may")
        [job] = jobs_of(api, sweep, "running")
        assert len(jobs_of(api, sweep, "queued", "pulling", "starting", "running")) <= 3
        api.runtime.finish(f"schedulearn-{job}-1-0")
        api.wait(job, "succeeded")
    wait_for(lambda: look(api, sweep)["state"] == "completed", what="its end")
    assert look(api, sweep)["message"] == "Of 5 runs 5 succeeded."


@pytest.mark.slow
def test_a_sweep_says_so_while_no_run_may_start(api: Api) -> None:
    api.http.put("/api/v1/quotas/ada", json={"waiting": 0})
    sweep = start(api)
    wait_for(lambda: look(api, sweep)["reason"] == "over_quota", what="the reason")
    assert look(api, sweep)["state"] == "running"
    assert look(api, sweep)["message"].startswith("5 runs can't start yet: ada, or their group, has reached the quota")
    api.http.delete("/api/v1/quotas/ada")
    wait_for(lambda: len(jobs_of(api, sweep, "running")) == 4, what="as many as there are GPUs")
    assert look(api, sweep)["reason"] == "started"


def test_runs_without_gpus_count_among_those_that_wait_only(api: Api) -> None:
    api.http.put("/api/v1/quotas/ada", json={"waiting": 5, "gpus": 0, "gpu_hours": 0, "submissions": 1})
    sweep = start(api, gpus=0)
    wait_for(lambda: len(jobs_of(api, sweep, "running")) == 5, what="all runs")
