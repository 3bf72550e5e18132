"""As whom on the hosts the jobs of users write: set by admins, asked of every way in which a job comes."""

from __future__ import annotations

import os
from collections.abc import Iterator
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
    folders = {"data_sets": {"home": "/home/ada"}, "writable_data_sets": {"home": ["ada"]}}
    with serve_api(tmp_path_factory.mktemp("ids"), token="correct-horse-battery", **folders) as api:
        yield api


@pytest.fixture(scope="module")
def ada(api: Api) -> Iterator[httpx.Client]:
    with known_by(api, token_for(api, "ada", "user")) as client:
        yield client


def change(api: Api, **ids: Any) -> httpx.Response:
    return api.http.patch("/api/v1/users/ada", json=ids)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/jobs", {**FIVE_KEYS, "mounts": ["home"]}),
        ("/jobs", {**FIVE_KEYS, "mounts": ["home"]}),
        ("/api/v1/jobs:batch", [FIVE_KEYS, {**FIVE_KEYS, "mounts": {"home": "/anywhere"}}]),
        ("/api/v1/sweeps", SWEEP),
        ("/api/v1/experiments", EXPERIMENT),
        ("/api/v1/searches", SEARCH),
    ],
)
def test_every_way_in_asks_for_a_uid(api: Api, ada: httpx.Client, path: str, body: Any) -> None:
    assert change(api, uid=None).json()["uid"] is None
    refused = ada.post(path, json=body)
    assert refused.status_code == 403, refused.text
    assert "ada has no uid: an admin sets it (schedulearn users ids ada --uid UID --gid GID)" in refused.text
    assert change(api, uid=1001, gid=1002, gids=[200]).json()["gids"] == [200]
    assert ada.post(path, json=body).status_code == 201


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
