"""As whom on the hosts the jobs of users write: set by admins, asked of every way in which a job comes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import FIVE_KEYS, Api, known_by, serve_api, token_for

JOB = {key: value for key, value in FIVE_KEYS.items() if key != "name"}
OF_SWEEPS = {**JOB, "mounts": ["home"], "command": "t {lr}"}
SWEEP = {"name": "tried", "job": OF_SWEEPS, "grid": {"lr": [1, 2]}}
EXPERIMENT = {
    "name": "tried", "job": {**OF_SWEEPS, "command": "true"}, "factors": {"batch_size": [32, 64]}, "replications": 2,
}  # fmt: skip
SEARCH = {"name": "tried", "job": {**OF_SWEEPS, "command": "true", "family": "f"}, "gpus": [1]}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    writers = {"home": ["ada", "bob", *(f"ada{number}" for number in range(6))]}
    folders = {"data_sets": {"home": "/home/ada", "wiki": "/srv/wiki"}, "writable_data_sets": writers}
    with serve_api(tmp_path_factory.mktemp("ids"), token="correct-horse-battery", **folders) as api:
        yield api


@pytest.fixture(scope="module")
def ada(api: Api) -> Iterator[httpx.Client]:
    with known_by(api, token_for(api, "ada", "user")) as client:
        yield client


def change(api: Api, name: str = "ada", **ids: Any) -> httpx.Response:
    return api.http.patch(f"/api/v1/users/{name}", json=ids)


@pytest.mark.parametrize(
    ("number", "path", "body"),
    [
        (0, "/api/v1/jobs", {**FIVE_KEYS, "mounts": ["home"]}),
        (1, "/jobs", {**FIVE_KEYS, "mounts": ["home"]}),
        (2, "/api/v1/jobs:batch", [FIVE_KEYS, {**FIVE_KEYS, "mounts": {"home": "/anywhere"}}]),
        (3, "/api/v1/sweeps", SWEEP),
        (4, "/api/v1/experiments", EXPERIMENT),
        (5, "/api/v1/searches", SEARCH),
    ],
)
def test_every_way_in_asks_for_a_uid(api: Api, number: int, path: str, body: Any) -> None:
    name, uid = f"ada{number}", 1100 + number
    with known_by(api, token_for(api, name, "user")) as ada:
        refused = ada.post(path, json=body)
        assert refused.status_code == 403, refused.text
        assert (
            f"{name} has no uid: ask an admin to set it (schedulearn users ids {name} --uid UID --gid GID)"
            in refused.text
        )
        assert change(api, name, uid=uid, gid=1002, gids=[200]).json()["gids"] == [200]
        assert ada.post(path, json=body).status_code == 201


def test_a_number_with_which_a_job_runs_is_given_to_nobody(tmp_path: Path) -> None:
    folders = {"home": "/home/ada", "wiki": "/srv/wiki"}
    with serve_api(tmp_path, data_sets=folders, writable_data_sets={"home": ["ada"]}) as api:
        for name, uid in (("ada", 1001), ("bob", 1002)):
            given = {"name": name, "uid": uid, "gid": uid, "gids": [200]}
            assert api.http.post("/api/v1/users", json=given).status_code == 201
        reading = api.submit(user="ada", required_gpus=1, mounts=["wiki"])
        api.wait(reading, "running")
        assert change(api, uid=1003, gid=1003, gids=[200]).status_code == 200  # it runs as its image says
        writing = api.submit(user="ada", required_gpus=1, mounts=["home"])
        api.wait(writing, "running")
        said = f"job {writing} of ada runs with {{}} on the hosts until it ends"
        for name, ids, number in (
            ("bob", {"uid": 1003, "gid": 9}, "uid 1003"),
            ("ada", {"uid": 1004, "gid": 1003, "gids": [200]}, "uid 1003"),
            ("ada", {"uid": 1003, "gid": 5, "gids": [200]}, "gid 1003"),
            ("ada", {"uid": 1003, "gid": 1003}, "gid 200"),
            ("ada", {"uid": None}, "gid 200 and gid 1003 and uid 1003"),
        ):
            refused = change(api, name, **ids)
            assert (refused.status_code, said.format(number) in refused.text) == (409, True), refused.text
        new = api.http.post("/api/v1/users", json={"name": "cleo", "uid": 1003, "gid": 1003})
        assert (new.status_code, api.http.get("/api/v1/users").text.count("cleo")) == (409, 0)
        assert change(api, uid=1003, gid=1003, gids=[200, 201]).json()["gids"] == [200, 201]  # one more
        assert change(api, "bob", uid=1002, gid=1003).status_code == 200  # people share groups
        assert api.http.delete("/api/v1/users/ada?jobs=keep").status_code == 204
        assert change(api, "bob", uid=1003, gid=1003).status_code == 409  # it runs on, as a removed user's
        api.runtime.finish(f"schedulearn-{writing}-1-0")
        api.wait(writing, "succeeded")
        assert change(api, "bob", uid=1003, gid=1003).status_code == 200


def test_nobody_sets_their_own(ada: httpx.Client) -> None:
    assert ada.patch("/api/v1/users/ada", json={"uid": 1001, "gid": 1001}).status_code == 403


@pytest.mark.parametrize(
    "ids",
    [
        {"uid": 0, "gid": 1}, {"uid": 1, "gid": 0}, {"uid": 1, "gid": 1, "gids": [0]}, {"uid": 1}, {"gid": 1},
        {"gids": [1]}, {"uid": "1", "gid": 1}, {"uid": True, "gid": 1}, {"uid": 1.5, "gid": 1}, {"uid": -1, "gid": 1},
        {"uid": 1 << 31, "gid": 1}, {"uid": 1, "gid": 1, "gids": list(range(1, 66))},
        {"uid": 1, "gid": 1, "groups": [2]},
    ],
)  # fmt: skip
def test_root_and_halves_are_refused(api: Api, ada: httpx.Client, ids: dict[str, Any]) -> None:
    before = next(user for user in api.http.get("/api/v1/users").json()["items"] if user["name"] == "ada")
    assert change(api, **ids).status_code == 422
    assert api.http.post("/api/v1/users", json={"name": "bea", **ids}).status_code == 422
    assert before in api.http.get("/api/v1/users").json()["items"]


def test_the_service_shares_its_uid_with_nobody(api: Api, ada: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    refused = change(api, uid=4321, gid=5)
    assert (refused.status_code, "uid 4321 runs this service" in refused.text) == (422, True)


def test_a_role_that_changes_leaves_the_uid_as_it_is(api: Api, ada: httpx.Client) -> None:
    change(api, uid=1001, gid=1002, gids=[7])
    changed = change(api, role="viewer").json()
    assert (changed["role"], changed["uid"], changed["gid"], changed["gids"]) == ("viewer", 1001, 1002, [7])
    assert change(api, role="user").json()["uid"] == 1001
    events = api.http.get("/api/v1/events").json()["items"]
    assert "User ada writes on the hosts as uid 1001, gid 1002 and the groups 7." in [
        each["message"] for each in events
    ]
