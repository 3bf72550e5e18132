"""What bad input gets: a clear error that names the field, nothing lost, never a 500, never a half-made row."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, serve_api
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BAD_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"required_gpus": -1}, "required_gpus"),
    ({"required_gpus": 0, "elastic": True}, ""),
    ({"required_gpus": 0, "max_gpus": 1}, ""),
    ({"required_gpus": 0, "launcher": "torchrun"}, ""),
    ({"elastic": True, "min_gpus": 0}, ""),
    ({"required_gpus": 1.5}, "required_gpus"),
    ({"required_gpus": "many"}, "required_gpus"),
    ({"required_gpus": 10**30}, "required_gpus"),
    ({"name": ""}, "name"),
    ({"name": "x" * 201}, "name"),
    ({"name": "nul\0"}, "name"),
    ({"name": None}, "name"),
    ({"container_image": "-v /:/host"}, "container_image"),
    ({"container_image": "a b"}, "container_image"),
    ({"command": "python 'unbalanced"}, "command"),
    ({"command": "   "}, "command"),
    ({"priority": 101}, "priority"),
    ({"launcher": "slurm"}, "launcher"),
    ({"shm_size": "lots"}, "shm_size"),
    ({"shm_size": 1}, "shm_size"),
    ({"max_duration": -1}, "max_duration"),
    ({"max_duration": float("inf")}, "max_duration"),
    ({"weight": float("nan")}, "weight"),
    ({"env": {"1BAD": "x"}}, "env"),
    ({"env": {"A": ["list"]}}, "env.A"),
    ({"env": {"NVIDIA_VISIBLE_DEVICES": "all"}}, "env"),
    ({"env": {"CUDA_VISIBLE_DEVICES": "0"}}, "env"),
    ({"env": {"nvidia_visible_devices": "all"}}, "env"),
    ({"env": {"SCHEDULEARN_JOB_ID": "other"}}, "env"),
    ({"deadline": "soon"}, "deadline"),
    ({"min_gpus": 1, "required_gpus": 2}, ""),
    ({"elastic": True, "min_gpus": 3, "required_gpus": 2}, ""),
    ({"batch_size": 0}, "batch_size"),
    ({"batch_size": 1 << 31}, "batch_size"),
    ({"epochs": 2.5}, "epochs"),
    ({"batch_size": 64, "max_batch_size": 32}, ""),
    ({"privileged": True}, "privileged"),
    ({"volumes": ["/:/host"]}, "volumes"),
]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serve_api(tmp_path_factory.mktemp("bad")) as served:
        yield served


@pytest.mark.parametrize(
    ("method", "path", "body", "told"),
    [
        (
            "POST",
            "users",
            {"name": "Jörg K"},
            "name: must begin with a letter or a digit, and have only letters, digits",
        ),
        ("PUT", "groups/a b", {"members": []}, "and . _ @ - (no spaces or accents)"),
        ("POST", "users", {"name": "x" * 101}, "name: must have at most 100 characters"),
        (
            "POST",
            "jobs",
            {**FIVE_KEYS, "container_image": "a b"},
            "container_image: must begin with a letter",
        ),
        ("POST", "jobs", {**FIVE_KEYS, "priority": 101}, "priority: must be at most 100"),
        ("POST", "jobs", {**FIVE_KEYS, "code": {"digest": "x"}}, "must be 'sha256:' and 64 hexadecimal digits"),
        ("PUT", "secrets/a", {"value": "nul\0" * 9}, "value: must not have the character NUL"),
    ],
)
def test_what_is_wrong_is_told_in_words(api: Api, method: str, path: str, body: Any, told: str) -> None:
    answer = api.http.request(method, f"/api/v1/{path}", json=body)
    assert answer.status_code == 422
    assert told in answer.json()["detail"]
    assert not re.search(r"pattern|should|[\^$]", answer.json()["detail"])


def count(api: Api) -> int:
    return sum(api.http.get("/api/v1/jobs").json()["counts"].values())


@pytest.mark.parametrize(("fields", "named"), BAD_FIELDS, ids=lambda value: str(value)[:40])
def test_a_bad_field_is_named_and_nothing_is_stored(api: Api, fields: dict[str, Any], named: str) -> None:
    before = count(api)
    body = json.dumps({**FIVE_KEYS, **fields}).encode()
    for path in ("/api/v1/jobs", "/jobs"):
        answer = api.http.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert (problem["status"], problem["code"]) == (422, "invalid")
        assert problem["errors"][0]["field"].startswith(named)
        assert problem["detail"]
    assert count(api) == before


@pytest.mark.parametrize("key", list(FIVE_KEYS))
def test_each_of_the_five_keys_is_needed(api: Api, key: str) -> None:
    answer = api.http.post("/jobs", json={k: v for k, v in FIVE_KEYS.items() if k != key})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == key


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"[]", b"5", b"\xff\xfe", b'{"name": "\\ud800"}', b"[" * 100_000, b'{"a":' * 50_000],
    ids=["empty", "torn", "null", "list", "number", "not utf-8", "lone surrogate", "deep list", "deep object"],
)
@pytest.mark.parametrize("path", ["/jobs", "/api/v1/jobs", "/api/v1/jobs:batch", "/api/v1/policy"])
def test_a_body_that_is_no_json_object_is_refused(api: Api, path: str, body: bytes) -> None:
    method = "PUT" if path.endswith("policy") else "POST"
    answer = api.http.request(method, path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_without_end_is_cut_off(api: Api) -> None:
    answer = api.http.post("/jobs", content=b'{"name": "' + b"x" * (2 << 20))
    assert answer.status_code == 413


@pytest.mark.parametrize("parts", [1, 3])
def test_a_batch_that_is_too_large_is_answered_by_a_problem(api: Api, parts: int) -> None:
    body = b"[" + b" " * (3 << 20) + b"]"
    content = body if parts == 1 else iter([body[: 1 << 20], body[1 << 20 : 2 << 20], body[2 << 20 :]])
    answer = api.http.post("/api/v1/jobs:batch", content=content, headers={"content-type": "application/json"})
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["status"]) == (413, 413)
    assert "too_large" in answer.json()["code"]


def test_a_lone_surrogate_in_a_name_is_refused_not_stored(api: Api) -> None:
    body = json.dumps({**FIVE_KEYS, "name": "bad \ud800"}).encode()
    assert api.http.post("/jobs", content=body).status_code == 422


def test_unknown_metrics_algorithms_and_parameters_are_told_with_the_valid_ones(api: Api) -> None:
    for body, valid in (
        ({"algorithm": "nope"}, "fifo, gandiva, goodput, las, priority"),
        ({"algorithm": "fifo", "metric": "beauty"}, "default"),
        ({"algorithm": "fifo", "params": {"x": 1}}, "backfill"),
    ):
        answer = api.http.put("/api/v1/policy", json=body)
        assert answer.status_code == 422
        assert valid in answer.json()["detail"]
    assert api.http.get("/api/v1/policy").json()["algorithm"] == "goodput"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/jobs/nope"), ("GET", "/api/v1/jobs/nope/logs"), ("GET", "/api/v1/jobs/nope/events"),
        ("POST", "/api/v1/jobs/nope/cancel"), ("DELETE", "/api/v1/jobs/nope"), ("GET", "/jobs/nope"),
        ("DELETE", "/jobs/nope"), ("POST", "/api/v1/hosts/nope/cordon"), ("GET", "/api/v1/nothing"),
        ("GET", "/api/v1/jobs?cursor=nope"), ("GET", "/api/v1/jobs/..%2f..%2fetc"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_a_404_problem(api: Api, method: str, path: str) -> None:
    answer = api.http.request(method, path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_files_outside_the_page_are_not_served(api: Api) -> None:
    for path in ("/ui/..%2f..%2fapi%2fapp.py", "/ui/%2fetc%2fpasswd", "/ui/../app.py"):
        assert "import" not in api.http.get(path).text
        assert "root:" not in api.http.get(path).text


def test_a_job_larger_than_the_operator_allows_is_refused(tmp_path: Path) -> None:
    with serve_api(tmp_path, max_gpus_per_job=4) as api:
        answer = api.http.post("/jobs", json={**FIVE_KEYS, "required_gpus": 5})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "required_gpus"
        assert "at most 4" in answer.json()["detail"]


def test_duplicate_names_are_fine(api: Api) -> None:
    assert api.submit(name="twin") != api.submit(name="twin")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.sampled_from([*FIVE_KEYS, "env", "labels", "shm_size", "deadline", "elastic", "weight"]), value=json_values
)
def test_no_value_of_any_key_makes_a_500(api: Api, key: str, value: Any) -> None:
    body = json.dumps({**FIVE_KEYS, key: value}).encode()
    answer = api.http.post("/jobs", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (201, 422)
    if answer.status_code == 201:
        assert api.http.get(f"/jobs/{answer.json()['id']}").status_code == 200
        api.http.delete(f"/jobs/{answer.json()['id']}")
