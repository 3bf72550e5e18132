"""Jobs that wait for others, over the API, on the fake runtime."""

from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, serve_api
from clusters import wait_for
from matrices import each


def end(api: Api, job: str, exit_code: int = 0) -> None:
    api.wait(job, "running")
    api.runtime.finish(f"schedulearn-{job}-1-0", exit_code)


def wait_message(api: Api, job: str, message: str) -> dict[str, Any]:
    wait_for(lambda: message in api.job(job)["message"], what=message)
    return api.job(job)


def test_jobs_start_one_after_the_other(api: Api) -> None:
    first = api.submit()
    second = api.submit(after=[first])
    third = api.submit(after={"jobs": [first, second], "when": "any"})
    assert api.job(second)["after"] == {"jobs": [first], "when": "ok"}
    api.wait(first, "running")
    waiting = wait_message(api, second, f"It waits for job {first} (running) to succeed.")
    assert (waiting["state"], waiting["reason"]) == ("queued", "waiting_for_jobs")
    told = [event["code"] for event in api.http.get(f"/api/v1/jobs/{second}/events").json()["items"]]
    assert told == ["submitted", "waiting_for_jobs"]
    end(api, first)
    api.wait(second, "running")
    wait_message(api, third, f"job {second} (running) to end")
    end(api, second, exit_code=1)
    api.wait(third, "running")


def test_when_one_fails_those_that_needed_its_success_are_cancelled_and_name_it(api: Api) -> None:
    first = api.submit()
    second = api.submit(after=[first])
    third = api.submit(after=[second])
    other = api.submit(after={"jobs": [third], "when": "any"})
    end(api, first, exit_code=3)
    assert api.wait(second, "cancelled")["message"].startswith(f"Job {first} ended as failed")
    last = api.wait(third, "cancelled")
    assert (last["reason"], last["started_at"]) == ("predecessor_failed", None)
    assert f"Job {second} was cancelled" in last["message"]
    api.wait(other, "running")
    late = api.submit(after=[first])
    assert api.wait(late, "cancelled")["message"].startswith(f"Job {first} ended as failed")


def test_a_job_that_is_tried_again_has_not_failed_yet(api: Api) -> None:
    first = api.submit(max_restarts=1)
    second = api.submit(after=[first])
    end(api, first, exit_code=1)
    wait_for(lambda: api.job(first)["attempt"] == 2, what="the second attempt")
    api.wait(first, "running")
    assert api.job(second)["state"] == "queued"
    api.runtime.finish(f"schedulearn-{first}-2-0", 0)
    api.wait(second, "running")


def test_a_job_that_waits_can_be_cancelled(api: Api) -> None:
    first = api.submit()
    second = api.submit(after=[first])
    api.http.post(f"/api/v1/jobs/{second}/cancel")
    assert api.job(second)["state"] == "cancelled"
    assert api.wait(first, "running")["state"] == "running"


@each(
    [
        (["0000000000"], "after"),
        ({"jobs": ["0000000000"], "when": "any"}, "after"),
        ({"jobs": []}, "after.jobs"),
        ([], "after.jobs"),
        ({"jobs": ["x"] * 101}, "after.jobs"),
        ({"jobs": ["x"], "when": "failed"}, "after.when"),
        ({"jobs": ["x"], "wen": "ok"}, "after.wen"),
        ([7], "after.jobs.0"),
        ("x", "after"),
    ],
    "after",
    "field",
)
def test_what_is_no_job_to_wait_for_is_refused_and_nothing_stored(api: Api, after: Any, field: str) -> None:
    refused = api.http.post("/api/v1/jobs", json={**FIVE_KEYS, "after": after})
    assert refused.status_code == 422, refused.text
    assert [error["field"] for error in refused.json()["errors"]] == [field]
    assert api.http.get("/api/v1/jobs").json()["items"] == []


@pytest.mark.slow
def test_in_a_batch_and_a_sweep_too(api: Api) -> None:
    first = api.submit()
    batch = api.http.post("/api/v1/jobs:batch", json=[{**FIVE_KEYS, "after": [first]}, {**FIVE_KEYS, "after": ["x"]}])
    assert [error["field"] for error in batch.json()["errors"]] == ["1.after"]
    job = {**{key: value for key, value in FIVE_KEYS.items() if key != "name"}, "command": "{n}", "after": ["x"]}
    body = {"name": "s", "job": job, "grid": {"n": [1, 2]}}
    assert "there is no job 'x'" in api.http.post("/api/v1/sweeps", json=body).json()["detail"]
    assert len(api.http.get("/api/v1/jobs").json()["items"]) == 1
    sweep = api.http.post("/api/v1/sweeps", json={**body, "job": {**job, "after": [first]}}).json()["id"]
    wait_for(lambda: api.http.get("/api/v1/jobs").json()["counts"]["queued"] == 2, what="two runs that wait")
    end(api, first, exit_code=1)
    wait_for(lambda: api.http.get(f"/api/v1/sweeps/{sweep}").json()["state"] == "completed", what="its end")


def test_the_same_key_gives_the_job_that_waits_again(api: Api) -> None:
    body, key = {**FIVE_KEYS, "after": [api.submit()]}, {"Idempotency-Key": "k"}
    first, second = (api.http.post("/api/v1/jobs", json=body, headers=key).json()["id"] for _ in range(2))
    assert first == second


def test_what_a_job_waits_for_survives_a_restart(tmp_path: Path) -> None:
    with serve_api(tmp_path) as api:
        first = api.submit(required_gpus=4)
        second = api.submit(after=[first])
        api.http.post(f"/api/v1/jobs/{first}/cancel")
        api.wait(second, "cancelled")
        held = api.submit(required_gpus=9)
        third = api.submit(after=[held])
    with serve_api(tmp_path) as api:
        wait_message(api, third, f"job {held} (queued)")
        api.http.post(f"/api/v1/jobs/{held}/cancel")
        assert api.wait(third, "cancelled")["reason"] == "predecessor_failed"


def test_gpus_of_jobs_that_wait_for_others_are_not_wanted_yet(api: Api) -> None:
    first = api.submit(required_gpus=4)
    api.wait(first, "running")
    api.submit(required_gpus=3, after=[first])
    free = api.submit(required_gpus=2)

    def wanted() -> int:
        return int(api.http.get("/api/v1/cluster").json()["gpus_wanted"])

    assert wanted() == 2
    api.http.post(f"/api/v1/jobs/{free}/cancel")
    api.http.post("/api/v1/hosts/local/cordon")
    end(api, first)
    wait_for(lambda: wanted() == 3, what="the second job in the queue")
