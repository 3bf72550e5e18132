"""Predictions of the live service: each job's eta, and what another policy would change."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, known_by, token_for
from builders import host
from clusters import wait_for
from matrices import each

from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.sim.simulator import simulate
from schedulearn.scheduler.sim.workload import load_trace


def preview(api: Api, code: int = 200, **query: Any) -> dict[str, Any]:
    answer = api.http.get("/api/v1/policy/preview", params=query)
    assert answer.status_code == code, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_preview_shows_what_would_change_and_changes_nothing(api: Api) -> None:
    api.http.put("/api/v1/policy", json={"algorithm": "fifo", "params": {"backfill": "none"}}).raise_for_status()
    first = api.submit(required_gpus=3, name="first")
    api.wait(first, "running")
    large = api.submit(required_gpus=2, name="large")
    small = api.submit(required_gpus=1, name="small")
    for waiting in (large, small):
        events_of = f"/api/v1/jobs/{waiting}/events"
        wait_for(
            lambda path=events_of: "job.waiting" in [each["kind"] for each in api.http.get(path).json()["items"]],
            what="the decision",
        )
    events = len(api.http.get("/api/v1/events").json()["items"])
    found = preview(api, algorithm="fifo", params='{"backfill": "all"}')
    assert [(c["name"], c["action"], c["before"], c["after"]) for c in found["changes"]] == [
        ("small", "start", {}, {"local": 1})
    ]
    assert found["unchanged"] == 2
    then = {job["job"]: job["then"] for job in found["jobs"]}
    now = {job["job"]: job["now"] for job in found["jobs"]}
    assert set(now) == {first, large, small}
    assert then[small]["end"] < now[small]["end"], "it need not wait for the large one"
    assert {eta["basis"] for eta in now.values()} == {"guess"}
    assert found["then"]["mean_completion"] < found["now"]["mean_completion"]
    assert found["now"]["ended"] == found["then"]["ended"] == 3
    assert found["now"]["gpu_hours"] > 0
    assert api.job(small)["state"] == "queued"
    assert api.http.get("/api/v1/policy").json()["algorithm"] == "fifo"
    assert len(api.http.get("/api/v1/events").json()["items"]) == events


def test_every_job_shows_when_it_starts_and_ends(api: Api) -> None:
    first, second = api.submit(required_gpus=4, max_duration=120.0), api.submit(required_gpus=4)
    api.wait(first, "running")
    wait_for(lambda: all(api.job(job)["eta"] for job in (first, second)), seconds=30, what="a prediction")
    shown = {job["id"]: job["eta"] for job in api.http.get("/api/v1/jobs").json()["items"]}
    one, two = shown[first], shown[second]
    assert one["start"] < one["end"] <= two["start"] < two["earliest"] < two["end"] < two["latest"]
    assert (two["basis"], two["not_before"]) == ("guess", None)
    api.runtime.finish(f"schedulearn-{first}-1-0", 0)
    assert api.wait(first, "succeeded")["eta"] is None


def test_what_a_quota_forbids_is_not_predicted_to_run(api: Api) -> None:
    ada = token_for(api, "ada", "user")
    api.http.put("/api/v1/quotas/ada", json={"gpus": 1}).raise_for_status()
    long = api.submit(required_gpus=1, max_duration=30 * 86_400.0)
    api.wait(long, "running")
    with known_by(api, ada) as http:
        beyond = http.post("/api/v1/jobs", json={**FIVE_KEYS, "required_gpus": 2}).json()["id"]
        within = http.post("/api/v1/jobs", json={**FIVE_KEYS, "required_gpus": 1, "user": "zoe"}).json()["id"]
        wait_for(lambda: all(api.job(job)["eta"] for job in (beyond, within)), seconds=30, what="a prediction")
        eta = api.job(beyond)["eta"]
        assert [eta[key] for key in ("start", "end", "not_before", "awaits_image")] == [None, None, None, False]
        assert api.job(within)["eta"]["start"]
        asked = http.post("/api/v1/jobs:preview", json={**FIVE_KEYS, "required_gpus": 2}).json()
        assert (asked["start"], asked["not_before"]) == (None, None)
        assert preview(api, algorithm="las")["changes"] == []
        api.http.put("/api/v1/quotas/ada", json={"gpus": 8, "gpu_hours": 0}).raise_for_status()
        wait_for(lambda: api.job(beyond)["reason"] == "over_quota", what="the decision")
        asked = http.post("/api/v1/jobs:preview", json={**FIVE_KEYS, "required_gpus": 2}).json()
        assert asked["start"] is None
        assert asked["not_before"], "hours come back"


def test_every_policy_can_be_previewed(api: Api) -> None:
    for index in range(6):
        api.submit(required_gpus=1 + index % 3, elastic=index % 2 == 0)
    policies = api.http.get("/api/v1/policy").json()["available"]
    for kind in policies:
        for metric in kind["metrics"]:
            found = preview(api, algorithm=kind["name"], metric=metric)
            assert found["then"]["ended"] == 6, (kind["name"], metric)


@pytest.mark.slow
def test_all_policies_are_compared_over_the_same_time_and_the_one_in_force_stands_still(api: Api) -> None:
    holder = api.submit(required_gpus=3)
    api.wait(holder, "running")
    for gpus in (2, 1, 4):
        api.submit(required_gpus=gpus)
    answer = api.http.get("/api/v1/policy/comparison", params={"hours": 6})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    first, *others = found["policies"]
    assert (first["algorithm"], first["in_force"], found["jobs"]) == ("goodput", True, 4)
    assert not any(each["in_force"] for each in others)
    known = api.http.get("/api/v1/policy").json()["available"]
    names = [(each["algorithm"], each["metric"]) for each in found["policies"]]
    assert sorted(names) == sorted((kind["name"], metric) for kind in known for metric in kind["metrics"])
    assert all(each["totals"]["mean_completion"] > 0 and each["problem"] == "" for each in found["policies"])

    baselines = [preview(api, algorithm=name)["now"] for name in ("las", "goodput", "srtf")]
    means = [each["mean_completion"] for each in baselines]
    assert max(means) - min(means) < 10, "only the clock went on"
    assert {(each["ended"], round(each["gpu_hours"], 1)) for each in baselines} == {
        (4, round(baselines[0]["gpu_hours"], 1))
    }


def test_finished_jobs_can_be_replayed_under_another_policy(api: Api, tmp_path: Path) -> None:
    hosts = [{"id": "local", "gpus": 4, "gpu_type": "simulated"}]
    assert api.http.get("/api/v1/policy/replay").json() == {"applications": {}, "jobs": [], "hosts": hosts}
    ids = [api.submit(required_gpus=gpus, priority=10) for gpus in (3, 1, 2)]
    for job, code in zip(ids, (0, 0, 1), strict=True):
        api.wait(job, "running")
        api.runtime.finish(f"schedulearn-{job}-1-0", code)
        api.wait(job, "succeeded", "failed")
    file = tmp_path / "mine.json"
    file.write_text(api.http.get("/api/v1/policy/replay").text)
    trace = load_trace(file)
    assert [(job.id, job.required_gpus, job.priority) for job in trace] == [(ids[0], 3, 10), (ids[1], 1, 10)]
    assert trace[0].submitted_at == 0
    run = simulate(make_policy("las"), trace, [host(gpus=4)])
    assert [outcome.job.id for outcome in run.outcomes if math.isfinite(outcome.ended_at)] == ids[:2]


def test_an_empty_cluster_has_an_empty_preview(api: Api) -> None:
    found = preview(api, algorithm="goodput", metric="speed")
    assert (found["changes"], found["jobs"], found["then"]["mean_completion"]) == ([], [], None)


@each(
    [
        ({"algorithm": "nonsense"}, "algorithm"),
        ({"algorithm": "goodput", "metric": "nonsense"}, "metric"),
        ({"algorithm": "fifo", "params": "{"}, "params"),
        ({"algorithm": "fifo", "params": "[1]"}, "params"),
        ({"algorithm": "fifo", "params": '{"backfil": 1}'}, "params.backfil"),
        ({}, "algorithm"),
    ],
    "query",
    "field",
)
def test_a_preview_of_what_does_not_exist_names_the_field(api: Api, query: dict[str, Any], field: str) -> None:
    assert field in str(preview(api, 422, **query))


def test_a_job_is_told_when_it_would_start_before_it_is_submitted(api: Api) -> None:
    def expect(**fields: Any) -> dict[str, Any]:
        answer = api.http.post("/api/v1/jobs:preview", json={**FIVE_KEYS, **fields})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    # Nobody knows before the host of a new service has answered.
    wait_for(lambda: expect()["start"], what="the host's first answer")
    at_once = expect()
    late = abs((datetime.fromisoformat(at_once["start"]) - datetime.now(UTC)).total_seconds())
    assert late < 30, "there is room for it"
    assert at_once["start"] < at_once["end"]
    holder = api.submit(required_gpus=3, max_duration=3000.0)
    api.wait(holder, "running")
    wait_for(lambda: api.job(holder)["eta"], seconds=30, what="a prediction")
    assert expect(required_gpus=1)["start"] < expect(required_gpus=2)["start"], "it waits for the holder"
    assert expect(required_gpus=99)["start"] is None
    assert len(api.http.get("/api/v1/jobs").json()["items"]) == 1
    refused = api.http.post("/api/v1/jobs:preview", json={**FIVE_KEYS, "required_gpus": -1})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "required_gpus"
