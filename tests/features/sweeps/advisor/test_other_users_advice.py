"""Advice and found defaults rest on the jobs of one's own user or group, whatever others do with the family."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import FIVE_KEYS, Api, known_by, run_experiment, serve_api, token_for

JOB = {**{key: value for key, value in FIVE_KEYS.items() if key != "name"}, "required_gpus": 1, "family": "f"}
TRIALS = {
    "name": "t", "job": {**JOB, "command": "train"}, "design": "2k", "max_parallel": 4,
    "factors": {"batch_size": [32, 64], "required_gpus": [1, 2]}, "replications": 3,
}  # fmt: skip
SEARCH = {
    "name": "s",
    "job": {**JOB, "command": "train {batch_size}"},
    "gpus": [1, 2],
    "batch_sizes": [32],
    "trials": 2,
}
RUNS = 12


class Lab:
    def __init__(self, api: Api, ada: httpx.Client) -> None:
        self.api, self.ada = api, ada

    def run(self, user: str, body: dict[str, Any], kind: str = "experiments") -> str:
        return run_experiment(self.api, {**body, "job": {**body["job"], "user": user}}, kind)

    def advice(self, **keys: Any) -> dict[str, Any]:
        body = {"job": {**JOB, "command": "train", **keys}, "batch_sizes": [32], "gpus": [1]}
        found: dict[str, Any] = self.ada.post("/api/v1/advise", json=body, timeout=120).json()
        return found

    def default(self) -> httpx.Response:
        return self.ada.get("/api/v1/searches/default", params={"family": "f"})

    def join(self, *users: str) -> None:
        self.api.http.put("/api/v1/groups/vision", json={}).raise_for_status()
        for user in users:
            self.api.http.put(f"/api/v1/groups/vision/members/{user}").raise_for_status()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with serve_api(tmp_path, token="correct-horse-battery") as api, ExitStack() as stack:
        token_for(api, "ben", "user")
        yield Lab(api, stack.enter_context(known_by(api, token_for(api, "ada", "user"))))


@pytest.mark.slow
def test_advice_learns_of_ones_own_jobs_and_those_of_ones_group(lab: Lab) -> None:
    lab.run("ben", TRIALS)
    refused = lab.advice()
    assert (refused["status"], refused["code"]) == (422, "no_history")
    assert "of ada or their group (there are 0)" in refused["detail"]
    assert lab.advice(user="ben")["code"] == "no_history", "only admins ask in another's name"
    lab.run("ada", TRIALS)
    assert lab.advice()["samples"] == RUNS
    lab.join("ada", "ben")
    assert lab.advice()["samples"] == 2 * RUNS


def test_the_default_of_a_family_is_what_ones_own_search_found(lab: Lab) -> None:
    theirs = lab.run("ben", SEARCH, "searches")
    assert lab.default().status_code == 404
    lab.join("ada", "ben")
    assert lab.default().json()["search"] == theirs


def test_no_user_has_the_name_of_a_group(lab: Lab) -> None:
    """What is learned of a group is kept under its name with a slash."""
    named = {"user": "/vision"}
    for path, body in (
        ("jobs", {**FIVE_KEYS, **named}),
        ("jobs:preview", {**FIVE_KEYS, **named}),
        ("sweeps", {"name": "s", "job": {**JOB, "command": "x {a}", **named}, "grid": {"a": [1]}}),
        ("advise", {"job": {**JOB, **named}}),
    ):
        answer = lab.api.http.post(f"/api/v1/{path}", json=body)
        assert (answer.status_code, "can't begin with '/'" in answer.text) == (422, True), (path, answer.text)
