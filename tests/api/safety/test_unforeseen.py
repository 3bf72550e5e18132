"""What nobody foresaw: no request makes a 500, and a fault of ours is told with a reference that the log has too."""

import json
import logging
import re
import sqlite3
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from apis import FIVE_KEYS, Api, openapi, read_sse, serve_api
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import each
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from schedulearn.api.logs.stream import Piece
from schedulearn.api.routes import jobs as job_routes
from schedulearn.scheduler.policies import registry as policy
from schedulearn.scheduler.store import repository

BEYOND = 1 << 63
DEEP = "[" * 3300 + "]" * 3300
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serve_api(tmp_path_factory.mktemp("unforeseen")) as served:
        yield served


def check_refused(answer: httpx.Response) -> None:
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code


PATHS = ["/", "/healthz", "/ui/", "/api/v1/jobs", "/jobs", "/api/v1/nothing", "/api/v1/reports"]
NO_HOSTS = [{"host": "["}, {"host": "[::1"}, {"origin": "http://["}, {"origin": "//[x]y"}]


@each(product(PATHS, NO_HOSTS), "path", "headers")
def test_a_host_or_origin_that_is_none_is_refused(api: Api, path: str, headers: dict[str, str]) -> None:
    check_refused(api.http.get(path, headers=headers))
    check_refused(api.http.get(path, headers={**headers, "cookie": "schedulearn_token=x"}))


def test_a_host_or_origin_that_is_none_is_refused_with_a_token_too(tmp_path: Path) -> None:
    with serve_api(tmp_path, token="correct-horse") as api:
        for headers in ({"host": "["}, {"origin": "http://["}):
            check_refused(api.http.get("/api/v1/jobs", headers=headers))
            check_refused(
                api.http.get("/api/v1/jobs", headers={**headers, "cookie": "schedulearn_token=correct-horse"})
            )


@pytest.mark.parametrize(
    "path", ["/ui/%00", "/ui/" + "x" * 300, "/ui/a/" + "..%2f" * 50, "/ui/%ff%fe", "/ui/assets/%00.js"]
)
def test_a_path_that_no_file_can_have_is_a_deep_link(api: Api, path: str) -> None:
    assert api.http.get(path).status_code in (200, 404)


def test_code_of_another_version_of_the_page_is_not_found(api: Api) -> None:
    answer = api.http.get("/ui/assets/JobScreen-of-before.js")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"/api/v1/events?after={BEYOND}"), ("GET", f"/api/v1/events:search?before={BEYOND}"),
        ("GET", f"/api/v1/jobs/JOB/events?after={BEYOND}"), ("GET", f"/api/v1/jobs/JOB/events?after={-BEYOND - 1}"),
        ("GET", f"/api/v1/jobs/JOB/logs?offset={10**30}"), ("DELETE", f"/api/v1/tokens/{BEYOND}"),
        ("DELETE", f"/api/v1/webhooks/{BEYOND}"), ("POST", f"/api/v1/webhooks/{BEYOND}/test"),
        ("DELETE", f"/api/v1/webhooks/{-BEYOND - 1}"), ("DELETE", f"/api/v1/tokens/{'9' * 5000}"),
        ("GET", "/api/v1/policy/preview?algorithm=fifo&params=" + "[" * 5000),
        ("GET", "/api/v1/policy/preview?algorithm=fifo&params=" + '{"a":' * 1900),
        ("GET", "/api/v1/policy/preview?algorithm=fifo&params=" + '{"metric":1}'),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_a_number_or_depth_beyond_bounds_is_refused(api: Api, method: str, path: str) -> None:
    check_refused(api.http.request(method, path.replace("JOB", api.submit(required_gpus=4))))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("shm_size", "9" * 400), ("memory", "9" * 400 + "t"), ("shm_size", "1." + "9" * 5000), ("mounts", [["x"]]),
        ("mounts", [{}]), ("mounts", [None]), ("mounts", 5), ("cpus", 10**400), ("max_duration", 10**400),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_a_value_that_no_job_has_is_refused(api: Api, key: str, value: Any) -> None:
    answer = api.http.post("/jobs", content=json.dumps({**FIVE_KEYS, key: value}), headers=JSON)
    check_refused(answer)
    assert answer.json()["errors"][0]["field"].startswith(key)


@pytest.mark.parametrize("tls", ["~nosuchuser/x", "\0", "x" * 5000, "/" + "y" * 300])
def test_a_folder_that_cannot_be_is_refused(api: Api, tls: str) -> None:
    check_refused(api.http.post("/api/v1/hosts", json={"address": "tcp://h:2376", "tls": tls}))


@pytest.mark.parametrize("name", ["metric", "algorithm", "self", "cls", "params", "\ud800", "x" * 100_000])
def test_a_parameter_of_any_name_is_refused(api: Api, name: str) -> None:
    for algorithm in ("fifo", "goodput"):
        body = json.dumps({"algorithm": algorithm, "params": {name: 1}})
        answer = api.http.put("/api/v1/policy", content=body, headers=JSON)
        check_refused(answer)
        assert len(answer.content) < 5000


def parameters() -> list[tuple[str, str]]:
    return [(name, key) for name, cls in policy.POLICIES.items() for key in policy.parameters_of(cls)]


NO_JSON = ["Infinity", "-Infinity", "NaN", '"Infinity"', '"nan"', "1e999", "1" + "0" * 400, DEEP]


@each(product(parameters(), NO_JSON), "parameter", "value")
def test_no_parameter_takes_what_no_json_can_show(api: Api, parameter: tuple[str, str], value: str) -> None:
    algorithm, key = parameter
    before = api.http.get("/api/v1/policy").text
    body = f'{{"algorithm": "{algorithm}", "params": {{"{key}": {value}}}}}'
    answer = api.http.put("/api/v1/policy", content=body.encode(), headers=JSON)
    check_refused(answer)
    if value != DEEP:
        assert answer.json()["errors"][0]["field"] == f"params.{key}"
    assert api.http.get("/api/v1/policy").text == before


def test_a_stored_parameter_that_is_no_number_is_shown_as_json_and_told(tmp_path: Path) -> None:
    """As older versions took them."""
    with serve_api(tmp_path):
        pass
    with sqlite3.connect(tmp_path / "schedulearn.db") as db:
        params = '{"promote": Infinity}'
        db.execute("INSERT INTO policy (at, algorithm, metric, params) VALUES (1, 'tiresias', 'default', ?)", (params,))
        db.execute(
            "INSERT INTO event (at, kind, code, message, data) VALUES (1, 'policy.changed', '', '', ?)",
            (f'{{"params": {params}}}',),
        )
    with serve_api(tmp_path) as api:

        def strict(text: str) -> Any:
            return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))

        found = strict(api.http.get("/api/v1/policy").text)
        assert "promote" in found["problem"]
        assert found["params"] == {"promote": None}
        assert strict(api.http.get("/api/v1/events").text)["items"][-1]["data"] == {"params": {"promote": None}}
        with api.http.stream("GET", "/api/v1/events?after=0", headers={"accept": "text/event-stream"}) as response:
            for line in response.iter_lines():
                if line.startswith("data: "):
                    strict(line.removeprefix("data: "))
                    break


# --- the last resort ---


def fail(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("/secret/place of the service")


def reference_in(problem: dict[str, Any], caplog: pytest.LogCaptureFixture) -> str:
    assert (problem["status"], problem["code"], problem["title"]) == (500, "internal", "Internal Server Error")
    assert "secret" not in json.dumps(problem)
    reference = str(problem["reference"])
    assert reference in problem["detail"]
    told = [record for record in caplog.records if reference in record.getMessage()]
    assert len(told) == 1
    assert told[0].levelno == logging.ERROR
    assert "ZeroDivisionError" in (logging.Formatter().format(told[0]))
    return reference


def test_an_unforeseen_fault_is_a_problem_with_a_reference_that_the_log_has_too(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = set()
    with monkeypatch.context() as patch:
        patch.setattr(repository, "count_jobs", fail)
        for path in ("/api/v1/jobs", "/metrics", "/api/v1/jobs"):
            answer = api.http.get(path)
            assert answer.status_code == 500
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["x-content-type-options"] == "nosniff"
            found.add(reference_in(answer.json(), caplog))
    assert len(found) == 3
    assert api.http.get("/api/v1/jobs").status_code == 200


def test_a_fault_outside_of_all_routes_is_told_alike(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("schedulearn.api.access.guard.Guard._refusal", fail)
        answer = api.http.get("/healthz")
    assert answer.status_code == 500
    reference_in(answer.json(), caplog)


def test_a_stream_that_fails_says_so_and_ends(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(repository, "list_events", fail)
        with api.http.stream("GET", "/api/v1/events", headers={"accept": "text/event-stream"}) as response:
            assert response.status_code == 200
            [told] = list(read_sse(response))
    assert told["event"] == "problem"
    reference_in(told["data"], caplog)


def test_a_download_that_fails_does_not_look_complete(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job = api.submit()

    async def torn(*_: Any, **__: Any) -> Any:
        yield Piece(10, "the first half")
        fail()

    with monkeypatch.context() as patch:
        patch.setattr(job_routes, "log_chunks", torn)
        with pytest.raises(httpx.RemoteProtocolError), api.http.stream("GET", f"/api/v1/jobs/{job}/logs") as response:
            response.read()
    assert any("reference" in record.getMessage() for record in caplog.records)


def test_a_socket_that_fails_is_closed_with_the_reference(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job = api.submit()
    with monkeypatch.context() as patch:
        patch.setattr("schedulearn.api.routes.legacy.log_chunks", fail)
        url = str(api.http.base_url).replace("http", "ws") + f"/jobs/{job}/logs"
        with connect(url) as socket, pytest.raises(ConnectionClosed) as closed:
            socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011
    [reference] = re.findall(r"reference (\w+)", closed.value.rcvd.reason)
    assert any(reference in record.getMessage() for record in caplog.records)


# --- every route, with values that nobody means ---

DOCUMENT = openapi()
ROUTES = sorted((method, path) for path, methods in DOCUMENT["paths"].items() for method in methods)
TEXTS = st.sampled_from(
    ["", "0", "-1", "nan", "inf", "1e400", str(BEYOND), str(-BEYOND - 1), "9" * 400, "%00", "\0", "x" * 300, "[", "{}",
     "../..", "~nosuchuser", "true", "null", "\u202e", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "🚂"]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.sampled_from(["\ud800", 10**400, -BEYOND]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, dict[str, str], bytes | None]:
    method, path = draw(st.sampled_from(ROUTES))
    described = DOCUMENT["paths"][path][method]
    query = {}
    for parameter in described.get("parameters", ()):
        if parameter["in"] == "path":
            value = draw(TEXTS.filter(lambda text: text.strip("./") != ""))
            path = path.replace(f"{{{parameter['name']}}}", quote(value, safe=""))
        elif parameter["in"] == "query" and draw(st.booleans()):
            query[parameter["name"]] = draw(TEXTS)
    if "application/json" not in described.get("requestBody", {}).get("content", {}):
        return method, path, query, None
    keys = sorted(properties(described["requestBody"]))
    fields = draw(st.dictionaries(st.sampled_from(keys), VALUES, max_size=3)) if keys else {}
    given: Any = draw(st.sampled_from([{**FIVE_KEYS, **fields}, fields])) if "required_gpus" in keys else fields
    body = draw(st.sampled_from([given, [given], None])) if path.endswith("batch") else given
    return method, path, query, json.dumps(body).encode()


def properties(body: dict[str, Any]) -> set[str]:
    schema = body["content"]["application/json"]["schema"]
    schema = schema.get("items", schema)
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return set(schema.get("properties", ()))


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(asked=requests())
def test_no_request_makes_a_500_or_breaks_the_lists(
    api: Api, asked: tuple[str, str, dict[str, str], bytes | None]
) -> None:
    method, path, query, body = asked
    with api.http.stream(method, path, params=query, content=body, headers=JSON) as answer:
        if "event-stream" not in answer.headers.get("content-type", ""):
            answer.read()
        assert answer.status_code < 500 or answer.status_code in (502, 503), answer.text
    if method != "get":
        for shown in ("/api/v1/jobs", "/api/v1/hosts", "/api/v1/policy", "/api/v1/events", "/api/v1/webhooks"):
            assert api.http.get(shown).status_code == 200
