"""A name that nobody knows is refused with the one that was meant: a filter or key with a typing error does nothing."""

from typing import Any

import pytest
from apis import FIVE_KEYS, Api, described_routes, serve_api
from matrices import each

from schedulearn.scheduler.core.suggestions import did_you_mean


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serve_api(tmp_path_factory.mktemp("names")) as served:
        yield served


@each(described_routes(), "method", "path")
def test_every_route_refuses_a_query_parameter_that_it_does_not_know(api: Api, method: str, path: str) -> None:
    answer = api.http.request(method, f"{path}?nonsense=1")
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert problem["code"] == "invalid"
    assert problem["errors"][0]["field"] == "nonsense"
    assert "there is no query parameter 'nonsense'" in problem["detail"]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/api/v1/jobs?stat=running", "'stat'; did you mean 'state'?; this route takes: state, user, q"),
        ("/api/v1/jobs?limits=3", "did you mean 'limit'?"),
        ("/jobs?state=running", "there is no query parameter 'state'; this route takes: limit"),
        ("/api/v1/hosts/local/telemetry?form=2026-01-01", "did you mean 'from'?"),
        ("/api/v1/policy?x", "this route takes: none"),
        ("/api/v1/events?" + "x" * 5000 + "=1", "this route takes: after, limit"),
    ],
)
def test_what_was_meant_is_told(api: Api, path: str, told: str) -> None:
    answer = api.http.get(path)
    assert answer.status_code == 422
    assert told in answer.json()["detail"]


def test_a_submission_with_a_query_that_is_not_known_stores_nothing(api: Api) -> None:
    for path in ("/jobs?dry_run=1", "/api/v1/jobs?dry_run=1", "/api/v1/jobs:batch?dry_run=1"):
        body: Any = [FIVE_KEYS] if path.endswith("batch?dry_run=1") else FIVE_KEYS
        assert api.http.post(path, json=body).status_code == 422
    assert sum(api.http.get("/api/v1/jobs").json()["counts"].values()) == 0


def test_links_into_the_page_keep_their_queries(api: Api) -> None:
    assert api.http.get("/ui/jobs?show=failed").status_code != 422


@pytest.mark.parametrize(
    ("method", "path", "body", "field", "meant"),
    [
        ("POST", "/jobs", {**FIVE_KEYS, "prioritty": 1}, "prioritty", "priority"),
        ("POST", "/api/v1/jobs", {**FIVE_KEYS, "Deadline": "x"}, "Deadline", "deadline"),
        ("POST", "/api/v1/jobs:batch", [FIVE_KEYS, {**FIVE_KEYS, "enviroment": {}, "epoch": 3}], "1.epoch", "epochs"),
        ("POST", "/api/v1/jobs:preview", {**FIVE_KEYS, "max_gpu": 4}, "max_gpu", "max_gpus"),
        ("PUT", "/api/v1/policy", {"algorithm": "fifo", "parms": {}}, "parms", "params"),
        ("PUT", "/api/v1/policy", {"algorithm": "fifo", "params": {"backfil": True}}, "params.backfil", "backfill"),
        ("POST", "/api/v1/hosts", {"address": "ssh://a", "label": {}}, "label", "labels"),
        ("POST", "/api/v1/webhooks", {"url": "http://a", "secrets": "x"}, "secrets", "secret"),
    ],
    ids=lambda value: str(value)[:25],
)
def test_a_key_that_is_not_known_is_refused_with_the_one_that_was_meant(
    api: Api, method: str, path: str, body: Any, field: str, meant: str
) -> None:
    answer = api.http.request(method, path, json=body)
    assert answer.status_code == 422, answer.text
    [told] = [error["message"] for error in answer.json()["errors"] if error["field"] == field]
    assert f"did you mean {meant!r}?" in told
    assert f"did you mean {meant!r}?" in answer.json()["detail"]


def test_keys_of_a_report_are_told_too(api: Api) -> None:
    job = api.submit()
    api.wait(job, "running")
    token = next(task.env["SCHEDULEARN_JOB_TOKEN"] for task in api.runtime.tasks())
    batch = {"init": 1, "max": 1, "atomic": 1, "accumulation": 0, "accumulat": True}
    headers = {"authorization": f"Bearer {token}"}
    answer = api.http.post("/api/v1/reports", json={"attempt": 1, "batch": batch}, headers=headers)
    assert answer.status_code == 422
    assert answer.json()["errors"][0] == {
        "field": "batch.accumulat",
        "message": "there is no such key; did you mean 'accumulate'?",
        "type": "extra_forbidden",
    }


def test_nobody_means_anything_by_a_name_that_is_like_none() -> None:
    assert did_you_mean("zzz", ["state", "limit"]) == ""
    assert did_you_mean("x" * 10_000_000, ["x" * 100]) == ""
