"""Reports of workers: who may send them, what they do, and what a wrong one gets."""

import copy
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import FIVE_KEYS, Api, serve_api
from builders import host
from clusters import wait_for
from matrices import each

from schedulearn.scheduler.core.command import RESERVED_PREFIXES
from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.reports import store
from schedulearn.scheduler.sim.simulator import simulate
from schedulearn.scheduler.sim.workload import read_trace


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, report_url="http://127.0.0.1:1") as served:
        yield served


def report(**changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "attempt": 1,
        "batch": {"init": 64, "max": 1024, "min_local": 8, "max_local": 256, "atomic": 32, "accumulation": 0,
                  "why": "x"},
        "observations": [observation(gpus) for gpus in (1, 2)],
        "noise_scale": 500.0,
        "progress": {"epoch": 1, "epochs": 10, "position": 128, "epoch_samples": 1000, "steps": 20},
        "metrics": [{"name": "loss", "step": 20, "value": 0.5, "at": 1.8e9}],
    }  # fmt: skip
    return {**body, **changes}


def observation(gpus: int, batch: int = 32, **changes: Any) -> dict[str, Any]:
    grad = 0.01 + 0.001 * batch
    both = grad + (0.004 if gpus > 1 else 0)
    return {"num_nodes": 1, "num_gpus": gpus, "atomic_batch": batch, "passes": 50, "grad_time": grad,
            "iter_time": both, **changes}  # fmt: skip


def running(api: Api, **fields: Any) -> tuple[str, dict[str, str]]:
    """A job that runs, and what its container finds in its environment."""
    job = api.submit(elastic=True, required_gpus=1, **fields)
    api.wait(job, "running")
    return job, api.runtime.env(f"schedulearn-{job}-1-0")


@pytest.fixture
def reporter(api: Api, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Running job and the token of its workers. Every ignored report has an event, not one an hour."""
    monkeypatch.setattr(store, "SAID_AGAIN_S", 0.0)
    job, env = running(api)
    return job, env["SCHEDULEARN_JOB_TOKEN"]


def send(api: Api, token: str, body: Any, **options: Any) -> httpx.Response:
    with httpx.Client(base_url=api.http.base_url) as worker:
        return worker.post("/api/v1/reports", headers={"authorization": f"Bearer {token}"}, json=body, **options)


def test_a_container_is_told_where_to_report_and_with_which_token(api: Api) -> None:
    job, env = running(api)
    assert env["SCHEDULEARN_REPORT_URL"] == "http://127.0.0.1:1/api/v1/reports"
    assert env["SCHEDULEARN_JOB_TOKEN"].startswith(f"{job}.")
    assert all(name.startswith(RESERVED_PREFIXES) for name in env if "REPORT" in name or "TOKEN" in name)
    assert env["SCHEDULEARN_JOB_TOKEN"] not in api.http.get(f"/api/v1/jobs/{job}").text


def test_the_token_of_a_job_opens_its_reports_and_nothing_else(tmp_path: Path) -> None:
    with serve_api(tmp_path, token="correct-horse-battery", report_url="http://127.0.0.1:1") as api:
        job, env = running(api)
        token = env["SCHEDULEARN_JOB_TOKEN"]
        assert send(api, token, report()).status_code == 200
        for wrong in ("none", token[:-1] + "x", token.replace(job, "0" * 10), "correct-horse-battery", "ünicode"):
            answer = httpx.post(
                f"{api.http.base_url}/api/v1/reports",
                headers={"authorization": f"Bearer {wrong}".encode()},
                json=report(),
            )
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized"), wrong
        with httpx.Client(base_url=api.http.base_url, headers={"authorization": f"Bearer {token}"}) as worker:
            assert worker.get("/api/v1/jobs").status_code == 401
            assert worker.get(f"/api/v1/jobs/{job}/profile").status_code == 401


@pytest.mark.slow
def test_what_is_reported_becomes_the_profile(api: Api) -> None:
    job, env = running(api)
    empty = api.http.get(f"/api/v1/jobs/{job}/profile").json()
    assert (empty["observations"], empty["batch"], empty["knee"]) == ([], None, None)
    assert send(api, env["SCHEDULEARN_JOB_TOKEN"], report()).status_code == 200
    profile = wait_for(lambda: found if (found := profile_of(api, job))["fits"] else None, what="the fit")
    assert [(o["num_gpus"], o["passes"], o["gpu_type"]) for o in profile["observations"]] == [
        (1, 50, "simulated"),
        (2, 50, "simulated"),
    ]
    assert profile["noise_scale"] == 500
    assert profile["fits"][0]["relative_error"] < 0.05
    assert profile["batch"] == {**report()["batch"], "accumulate": True}
    assert profile["progress"]["position"] == 128
    assert profile["metrics"]["loss"] == [[20, 0.5, 1.8e9]]
    predictions = profile["predictions"]
    assert [p["num_gpus"] for p in predictions] == list(range(1, 17))
    assert [p["num_nodes"] for p in predictions] == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4
    assert all(0 < p["goodput"] <= p["throughput"] for p in predictions)
    assert 1 <= profile["knee"] <= 16
    answer = send(api, env["SCHEDULEARN_JOB_TOKEN"], report(observations=[])).json()
    assert answer["models"]["simulated"] == profile["fits"][0]["parameters"]
    assert answer["use_efficiency"] is True


@pytest.mark.slow
def test_a_job_with_a_metric_of_its_own_chooses_its_batch_by_that(api: Api) -> None:
    """As the thesis has it, `speed` looks at throughput alone."""
    tokens = {}
    for metric in (None, "speed"):
        job, env = running(api, metric=metric)
        assert api.job(job)["metric"] == metric
        tokens[metric] = env["SCHEDULEARN_JOB_TOKEN"]
    for policy, expected in (("thesis-default", {None: True, "speed": False}), ("speed", {None: True, "speed": True})):
        api.http.put("/api/v1/policy", json={"algorithm": "goodput", "metric": policy})
        answers = {metric: send(api, token, report()).json() for metric, token in tokens.items()}
        assert {metric: answer["use_efficiency"] for metric, answer in answers.items()} == expected, policy
    refused = api.http.post("/api/v1/jobs", json={**FIVE_KEYS, "metric": "fast"})
    assert (refused.status_code, "metric" in refused.text) == (422, True)


def profile_of(api: Api, job: str) -> dict[str, Any]:
    found: dict[str, Any] = api.http.get(f"/api/v1/jobs/{job}/profile").json()
    return found


def test_measurements_of_one_kind_are_kept_as_one_row_in_which_new_ones_count(api: Api) -> None:
    job, env = running(api)
    for _ in range(8):
        send(api, env["SCHEDULEARN_JOB_TOKEN"], report(observations=[observation(1, iter_time=0.2)]))
    for _ in range(8):
        send(api, env["SCHEDULEARN_JOB_TOKEN"], report(observations=[observation(1, iter_time=0.4)]))
    [row] = profile_of(api, job)["observations"]
    assert row["passes"] == 200
    assert 0.36 < row["iter_time"] < 0.4


def test_a_long_job_takes_no_more_room_than_a_short_one(api: Api) -> None:
    job, env = running(api)
    for turn in range(8):
        body = report(
            observations=[observation(1, 1 + turn * 64 + index) for index in range(64)],
            metrics=[{"name": "loss", "step": turn * 400 + i, "value": 1.0, "at": 1.8e9} for i in range(400)],
        )
        assert send(api, env["SCHEDULEARN_JOB_TOKEN"], body).status_code == 200
    profile = profile_of(api, job)
    assert len(profile["observations"]) == 200
    assert max(o["atomic_batch"] for o in profile["observations"]) == 512, "the newest are those to keep"
    steps = [point[0] for point in profile["metrics"]["loss"]]
    assert 100 < len(steps) <= 240
    assert (steps[0], steps[-1]) == (0, 3199)
    assert steps == sorted(steps)


def test_after_a_step_back_to_a_checkpoint_the_later_word_counts(api: Api) -> None:
    job, env = running(api)
    for values in ([(1, 9.0), (2, 8.0), (3, 7.0)], [(2, 5.0)]):
        metrics = [{"name": "loss", "step": step, "value": value, "at": 1.8e9} for step, value in values]
        send(api, env["SCHEDULEARN_JOB_TOKEN"], report(metrics=metrics))
    assert [point[:2] for point in profile_of(api, job)["metrics"]["loss"]] == [[1, 9.0], [2, 5.0]]


@pytest.mark.slow
@each(
    [
        ("observations.0.iter_time", math.nan),
        ("observations.0.iter_time", -1),
        ("observations.1.grad_time", 0),
        ("observations.0.grad_time", math.inf),
        ("observations.0.num_gpus", 0),
        ("observations.0.num_gpus", 1.5),
        ("observations.0.atomic_batch", -3),
        ("observations.0.passes", 10**12),
        ("observations.0.host", "x"),
        ("noise_scale", math.nan),
        ("noise_scale", -1),
        ("batch.init", 0),
        ("batch.atomic", math.nan),
        ("progress.epoch", -1),
        ("metrics.0.value", math.nan),
        ("metrics.0.value", "much"),
        ("metrics.0.name", "x" * 65),
        ("attempt", None),
        ("metrics", [{"name": "m", "step": 0, "value": 0, "at": 1}] * 501),
        ("observations", [observation(1)] * 65),
    ],
    "path", "value",
)  # fmt: skip
def test_a_wrong_value_is_named_and_nothing_of_the_report_is_kept(
    api: Api, reporter: tuple[str, str], path: str, value: Any
) -> None:
    job, token = reporter
    body = copy.deepcopy(report())
    target: Any = body
    *way, last = path.split(".")
    for part in way:
        target = target[int(part)] if part.isdigit() else target[part]
    target[last] = value
    before = implausible(api, job)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    answer = httpx.post(f"{api.http.base_url}/api/v1/reports", content=json.dumps(body), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert path in [error["field"] for error in answer.json()["errors"]]
    assert profile_of(api, job)["reported_at"] is None
    [told] = implausible(api, job)[len(before) :]
    assert (told["code"], path.split(".")[0] in told["message"]) == ("implausible", True)


def implausible(api: Api, job: str) -> list[dict[str, Any]]:
    return [event for event in events_of(api, job) if event["kind"] == "report.implausible"]


def events_of(api: Api, job: str) -> list[dict[str, Any]]:
    return list(api.http.get(f"/api/v1/jobs/{job}/events").json()["items"])


def test_a_pass_that_is_longer_than_the_job_has_run_is_ignored_and_told_once(api: Api) -> None:
    job, env = running(api)
    for _ in range(2):
        body = report(observations=[observation(1), observation(2, passes=1, iter_time=80_000.0, grad_time=79_000.0)])
        assert send(api, env["SCHEDULEARN_JOB_TOKEN"], body).status_code == 200
    assert [seen["num_gpus"] for seen in profile_of(api, job)["observations"]] == [1]
    [told] = [event for event in events_of(api, job) if event["kind"] == "report.implausible"]
    assert told["message"].startswith("Ignored implausible reports of its workers: a micro-step of 80,000 s within ")


def test_bounds_that_hold_no_batch_are_refused(api: Api) -> None:
    _, env = running(api)
    body = report()
    body["batch"]["max"] = 32
    answer = send(api, env["SCHEDULEARN_JOB_TOKEN"], body)
    assert answer.status_code == 422
    assert "init (64) exceeds max (32)" in answer.json()["detail"]


def test_a_report_without_end_is_refused(api: Api) -> None:
    _, env = running(api)
    answer = send(api, env["SCHEDULEARN_JOB_TOKEN"], report(metrics=[{"name": "x" * 300_000}]))
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "body")


def test_workers_of_a_job_that_has_ended_are_told_to_give_up(api: Api) -> None:
    job, env = running(api)
    api.runtime.finish(f"schedulearn-{job}-1-0", 0)
    api.wait(job, "succeeded")
    answer = send(api, env["SCHEDULEARN_JOB_TOKEN"], report())
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


def test_an_attempt_that_was_replaced_does_not_move_the_job_back(api: Api) -> None:
    job, env = running(api)
    send(api, env["SCHEDULEARN_JOB_TOKEN"], report(attempt=2, progress={"epoch": 5}))
    send(api, env["SCHEDULEARN_JOB_TOKEN"], report(attempt=1, progress={"epoch": 4}))
    assert profile_of(api, job)["progress"]["epoch"] == 5


def test_a_job_that_reported_is_elastic_when_its_past_is_replayed(api: Api) -> None:
    job, env = running(api, max_gpus=4)
    assert send(api, env["SCHEDULEARN_JOB_TOKEN"], report()).status_code == 200
    api.runtime.finish(f"schedulearn-{job}-1-0", 0)
    api.wait(job, "succeeded")
    found = api.http.get("/api/v1/policy/replay").json()
    [kind] = found["applications"]
    assert found["applications"][kind]["local_batch_size"] == [8, 256]
    [played] = read_trace(found, "history")
    assert (played.elastic, played.max_gpus, played.application.name) == (True, 4, kind)
    assert played.application.phi(0) == pytest.approx(500)
    [outcome] = simulate(make_policy("goodput", "speed"), [played], [host(gpus=4)]).outcomes
    assert math.isfinite(outcome.ended_at)


@pytest.mark.slow
def test_a_job_that_should_report_and_does_not_says_so_until_it_does(tmp_path: Path) -> None:
    silence = {"report_interval": 0.1, "report_grace": 0.5}
    with serve_api(tmp_path, report_url="http://127.0.0.1:1", **silence) as api:
        job, env = running(api)
        message = wait_for(lambda: "No report" in api.job(job)["message"] and api.job(job)["message"], seconds=30)
        assert message.endswith("so its speed is unknown: its script does not use schedulearn.worker, or its workers "
                                "can't reach http://127.0.0.1:1.")  # fmt: skip
        [listed] = api.http.get("/api/v1/jobs").json()["items"]
        assert "No report" in listed["message"]
        assert send(api, env["SCHEDULEARN_JOB_TOKEN"], report()).status_code == 200

        def kinds() -> list[str]:
            return [event["kind"] for event in api.http.get(f"/api/v1/jobs/{job}/events").json()["items"]]

        wait_for(lambda: send(api, env["SCHEDULEARN_JOB_TOKEN"], report()) and "job.heard" in kinds(), seconds=30)
        assert "No report" not in api.job(job)["message"]
