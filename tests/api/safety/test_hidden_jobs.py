"""With `hide_jobs` nobody but admins finds a trace of others' jobs, by whatever route."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from apis import FIVE_KEYS, Api, described_routes, known_by, read_sse, serve_api, token_for
from clusters import wait_for
from sqlmodel import SQLModel
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from schedulearn.scheduler.reports import access, membership
from schedulearn.scheduler.store.people import visibility

NAMES = {
    "name": "nobody-finds-this", "user": "adalovelace", "labels": {"project": "engine-number-one"},
    "family": "difference-engines", "command": "python analytical.py",
}  # fmt: skip
ROUTES = [
    route for route in described_routes() if route[1] not in (access.PATH, membership.PATH) and "page" not in route[1]
]
OF_ONE = [route for route in ROUTES if re.search(r"(job|sweep)_id", route[1])]
LISTS = [path for method, path in ROUTES if method == "GET" and (method, path) not in OF_ONE]
QUERIES = {
    "/api/v1/policy/preview": {"algorithm": "srtf"},
    "/api/v1/usage": {"by": "user"},
    "/api/v1/searches/default": {"family": "f"},
    "/api/v1/predictions/versions": {"family": "f"},
}
LONG_S = 300.0
"""To compare all policies takes a second of the processor for each."""
BODY = {key: value for key, value in FIVE_KEYS.items() if key != "name"}


class Stage:
    def __init__(self, api: Api, ben: httpx.Client, token: str) -> None:
        self.api, self.ben, self.token = api, ben, token
        fields = {**NAMES, "required_gpus": 1, "ports": {"web": 8888}}
        self.running, self.waiting = api.submit(**fields), api.submit(**{**fields, "required_gpus": 99})
        body = {"name": NAMES["name"], "job": {**BODY, "user": NAMES["user"], "command": "x {a}"}, "grid": {"a": [1]}}
        self.sweep = api.http.post("/api/v1/sweeps", json=body).json()["id"]
        api.wait(self.running, "running")
        api.write_log(self.running, b"engine-number-one\n")
        api.runtime.write_output(self.running, "model.pt", b"weights")
        done = api.submit(**{**fields, "required_gpus": 1})
        api.wait(done, "running")
        api.runtime.finish(f"schedulearn-{done}-1-0")
        api.wait(done, "succeeded")
        assert api.http.post(f"/api/v1/jobs/{done}/purge").status_code == 200
        failed = api.submit(**{**fields, "required_gpus": 1})
        api.wait(failed, "running")
        api.write_log(failed, b"KeyError: 'engine-number-one'\n", end=True)
        api.runtime.finish(f"schedulearn-{failed}-1-0", code=1)
        api.wait(failed, "failed")
        self.first = api.submit(**{**fields, "required_gpus": 4})
        self.behind = self.submit(required_gpus=1)
        self.traces = (
            *self.ids,
            done,
            failed,
            self.first,
            *map(str, NAMES.values()),
            "engine-number-one",
            "analytical.py",
        )

    def submit(self, **fields: object) -> str:
        """A job of ben."""
        return str(self.ben.post("/api/v1/jobs", json={**FIVE_KEYS, **fields}).json()["id"])

    def told(self, client: httpx.Client, about: str) -> str:
        return str(client.get(f"/api/v1/jobs/{about}").json()["message"])

    @property
    def ids(self) -> tuple[str, ...]:
        return self.running, self.waiting, self.sweep

    def found_in(self, text: str) -> set[str]:
        return {trace for trace in self.traces if trace in text}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("hidden")
    with serve_api(folder, token="correct-horse-battery", hide_jobs=True) as api, ExitStack() as stack:
        token = token_for(api, "ben", "user")
        yield Stage(api, stack.enter_context(known_by(api, token)), token)


def filled(path: str, job: str, sweep: str) -> str:
    names = {
        "job_id": job, "sweep_id": sweep, "path:path": "outputs/model.pt", "path": "outputs/model.pt", "name": "web",
        "host_id": "local", "algorithm": "fifo", "version": "1", "digest": "sha256:" + "0" * 64,
    }  # fmt: skip
    for name, value in names.items():
        path = re.sub(rf"(?<=/){name}(?=/|$|:)", value, path)
    return path


@pytest.mark.parametrize(("method", "path"), OF_ONE)
def test_a_route_of_anothers_job_answers_as_if_there_were_none(stage: Stage, method: str, path: str) -> None:
    seen = []
    for job, sweep in ((stage.running, stage.sweep), ("0000000000", "0000000000")):
        url = filled(path, job, sweep)
        answer = stage.ben.request(method, url, json={"priority": 1} if method == "PATCH" else None)
        assert answer.status_code == 404, (answer.status_code, url, answer.text)
        seen.append(answer.text.replace(job, "ID").replace(sweep, "ID"))
    if "/files" not in path and method == "GET" and not path.endswith(("/processes", "/name")):
        assert seen[0] == seen[1]
    assert stage.found_in(seen[0]) == set()
    assert stage.api.job(stage.running)["state"] == "running"


@pytest.mark.parametrize("path", LISTS)
def test_no_list_has_anothers_job(stage: Stage, path: str) -> None:
    url = filled(path, "", "")
    answer = stage.ben.get(url, params=QUERIES.get(url), timeout=LONG_S)
    assert answer.status_code in (200, 303, 403, 404, 409), (answer.status_code, url, answer.text)
    assert stage.found_in(answer.text) == set(), url


def test_admins_find_them_in_many_lists(stage: Stage) -> None:
    """Else the test before would show nothing."""
    showing = {path for path in LISTS if "metrics" not in path and stage.found_in(listed(stage.api.http, path))}
    assert showing >= {
        "/jobs", "/api/v1/jobs", "/api/v1/sweeps", "/api/v1/events", "/api/v1/events:search", "/api/v1/timeline",
        "/api/v1/usage", "/api/v1/failures", "/api/v1/gpus", "/api/v1/hosts", "/api/v1/policy/preview",
    }  # fmt: skip


def listed(client: httpx.Client, path: str) -> str:
    url = filled(path, "", "")
    return client.get(url, params=QUERIES.get(url), timeout=LONG_S).text


def test_the_stream_of_events_has_ones_own_only(stage: Stage) -> None:
    headers = {"accept": "text/event-stream"}
    with stage.ben.stream("GET", "/api/v1/events?after=0", headers=headers) as answer:
        stage.api.submit(**NAMES)
        mine = stage.ben.post("/jobs", json={**FIVE_KEYS, "name": "mine"}).json()["id"]
        seen = []
        for message in read_sse(answer, seconds=60):
            seen.append(str(message))
            if mine in seen[-1]:
                break
    assert stage.found_in(" ".join(seen)) == set()


def test_no_socket_leads_to_anothers_job(stage: Stage) -> None:
    url = str(stage.api.http.base_url).replace("http", "ws", 1).rstrip("/")
    known = {"authorization": f"Bearer {stage.token}"}
    for path in (f"/jobs/{stage.running}/logs", f"/api/v1/jobs/{stage.running}/exec"):
        with pytest.raises((ConnectionClosed, InvalidStatus)), connect(url + path, additional_headers=known) as socket:
            raise AssertionError(f"{path} said {socket.recv()!r}")


def test_a_gpu_is_used_and_says_not_by_whom(stage: Stage) -> None:
    [used] = [gpu for gpu in stage.api.http.get("/api/v1/gpus").json() if stage.running in gpu["jobs"]]
    [same] = [gpu for gpu in stage.ben.get("/api/v1/gpus").json() if gpu["uuid"] == used["uuid"]]
    assert (same["state"], same["jobs"]) == ("used", [])
    cluster = stage.ben.get("/api/v1/cluster").json()
    assert cluster["gpus_used"] == stage.api.http.get("/api/v1/cluster").json()["gpus_used"]


def test_nothing_can_be_made_of_anothers_job(stage: Stage) -> None:
    for body in (
        {**FIVE_KEYS, "after": {"jobs": [stage.running]}},
        {**FIVE_KEYS, "data": {"x": f"job:{stage.running}"}},
    ):
        refused = stage.ben.post("/api/v1/jobs", json=body)
        assert refused.status_code == 422, refused.text
    refused = stage.ben.post(f"/api/v1/jobs?env_from={stage.running}", json=FIVE_KEYS)
    assert refused.status_code in (404, 422), refused.text


def test_a_sentence_tells_of_another_job_without_its_id(stage: Stage) -> None:
    told = wait_for(lambda: "hold up" in (said := stage.told(stage.api.http, stage.behind)) and said, what="a reason")
    assert stage.first in told
    expected = "It could hold up another job."
    for answer in (stage.ben.get(f"/api/v1/jobs/{stage.behind}"), stage.ben.get(f"/jobs/{stage.behind}")):
        assert (answer.json()["message"], answer.json()["names"]) == (expected, {})
    mine = stage.submit(required_gpus=1)
    answers = [
        stage.ben.get(f"/api/v1/jobs/{stage.behind}/events"),
        stage.ben.patch(f"/api/v1/jobs/{stage.behind}", json={"priority": 1}),
        stage.ben.get("/api/v1/events:search", params={"q": stage.running}),
        stage.ben.delete(f"/api/v1/jobs/{mine}"),
    ]
    assert [stage.found_in(answer.text) for answer in answers] == [set()] * len(answers)
    assert [expected in answer.text for answer in answers[:2]] == [True, True]
    assert answers[2].json()["items"] == []


def test_a_sentence_names_ones_own_job(stage: Stage) -> None:
    mine = stage.submit(name="mine", required_gpus=99)
    after = stage.submit(after={"jobs": [mine]})
    wait_for(lambda: mine in stage.told(stage.ben, after), what="its reason")
    assert stage.ben.get(f"/api/v1/jobs/{after}").json()["names"] == {mine: "mine"}
    for job in (after, mine):
        stage.ben.delete(f"/api/v1/jobs/{job}")


def test_one_sees_ones_own(stage: Stage) -> None:
    mine = stage.ben.post("/jobs", json={**FIVE_KEYS, "name": "mine"}).json()["id"]
    started = stage.ben.post(
        "/api/v1/sweeps", json={"name": "s", "job": {**BODY, "command": "x {a}"}, "grid": {"a": [1]}}
    )
    sweep = started.json()["id"]
    assert stage.ben.get(f"/api/v1/jobs/{mine}").json()["name"] == "mine"
    assert mine in {job["id"] for job in stage.ben.get("/api/v1/jobs").json()["items"]}
    assert [each["id"] for each in stage.ben.get("/api/v1/sweeps").json()["items"]] == [sweep]
    wait_for(lambda: stage.ben.get(f"/api/v1/sweeps/{sweep}").json()["table"][0]["job"], what="its run")
    told = stage.ben.get("/api/v1/events?limit=1000").json()["items"]
    assert {"sweep.running", "job.queued"} <= {event["kind"] for event in told}
    assert stage.ben.delete(f"/api/v1/jobs/{mine}").status_code == 200
    assert stage.ben.get("/api/v1/whoami").json()["sees_all_jobs"] is False
    assert stage.api.http.get("/api/v1/whoami").json()["sees_all_jobs"] is True


def test_each_table_that_tells_of_jobs_or_users_has_a_view() -> None:
    hidden = {model.__tablename__ for model, *_ in visibility.views()}
    telling = {
        table.name: {"job_id", "user"} & set(table.columns.keys())
        for table in SQLModel.metadata.tables.values()
        if {"job_id", "user"} & set(table.columns.keys())
    }
    # Routes show users their own rows of these tables, and admins all.
    quotas: dict[str, Any] = {"quota": {"user"}, "group_member": {"user"}, "registry_login": {"user"}}
    assert {name: columns for name, columns in telling.items() if name not in hidden} == quotas
