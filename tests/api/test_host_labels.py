"""Labels of hosts, and jobs that name hosts, over HTTP and by command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apis import FIVE_KEYS, Api, known_by, serve_api, token_for
from clusters import wait_for

LABELS = "/api/v1/hosts/local/labels"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serve_api(tmp_path_factory.mktemp("labels"), token="correct-horse-battery") as served:
        yield served


def test_labels_are_set_and_removed_one_by_one(api: Api) -> None:
    assert api.http.patch(LABELS, json={"labels": {"room": "b2", "rack": "7"}}).json()["labels"] == {
        "room": "b2", "rack": "7",
    }  # fmt: skip
    assert api.http.patch(LABELS, json={"labels": {"rack": None, "none": None}}).json()["labels"] == {"room": "b2"}
    events = api.http.get("/api/v1/events:search", params={"kind": "host.labelled"}).text
    assert "local has room=b2." in events


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({}, "at least 1"),
        ({"": "x"}, "invalid label ''"),
        ({"a b": "x"}, "invalid label 'a b'"),
        ({"room": "b 2"}, "invalid value 'b 2' of the label room"),
        ({"room": "b,2"}, "invalid value"),
        ({"room": "x" * 64}, "invalid value"),
        ({f"k{at}": "v" for at in range(101)}, "at most 100"),
        ({f"k{at}": "v" for at in range(100)}, "at most 100 are allowed"),
    ],
)
def test_invalid_labels_are_refused_and_nothing_is_stored(api: Api, labels: dict[str, str], words: str) -> None:
    api.http.patch(LABELS, json={"labels": {"kept": "yes"}})
    before = api.http.get("/api/v1/hosts/local").json()["labels"]
    refused = api.http.patch(LABELS, json={"labels": labels})
    assert refused.status_code == 422
    assert words in refused.text
    assert api.http.get("/api/v1/hosts/local").json()["labels"] == before


def test_only_admins_label_hosts(api: Api) -> None:
    for role in ("user", "viewer"):
        with known_by(api, token_for(api, f"a-{role}", role)) as somebody:
            assert somebody.patch(LABELS, json={"labels": {"room": "mine"}}).status_code == 403
    assert api.http.patch("/api/v1/hosts/nope/labels", json={"labels": {"a": "b"}}).status_code == 404
    assert api.http.patch(LABELS, json={"labels": {"a": "b"}}, headers={"authorization": ""}).status_code == 401


def test_a_job_is_shown_as_it_was_written_and_its_start_is_foreseen(api: Api) -> None:
    api.http.patch(LABELS, json={"labels": {"room": "b2"}})
    keys = {
        "hosts": {"room": "b2"},
        "exclude_hosts": "gpu-03",
        "gpu_memory_min": "8g",
        "gpu_type": ["sim", "simulated"],
    }
    body = {**FIVE_KEYS, **keys, "required_gpus": 1}
    found = api.http.post("/api/v1/jobs:preview", json=body).json()
    assert found["start"] is not None, found
    there = api.http.post("/api/v1/jobs", json=body).json()
    assert (there["hosts"], there["exclude_hosts"], there["gpu_memory_min"], there["gpu_type"]) == (
        ["room=b2"], ["gpu-03"], 8 << 30, "sim,simulated",
    )  # fmt: skip
    api.wait(there["id"], "running")
    never = {**body, "hosts": "room=b3"}
    assert api.http.post("/api/v1/jobs:preview", json=never).json()["start"] is None
    waits = api.submit(**{**keys, "hosts": "room=b3"})
    wait_for(lambda: api.job(waits)["reason"] == "unsatisfiable_now", what="its reason")
    assert "It needs 2 GPUs" in api.job(waits)["message"]
    assert "Host local has room=b2." in api.job(waits)["message"]


def test_a_refused_job_stores_nothing(api: Api) -> None:
    def stored() -> list[str]:
        return [job["id"] for job in api.http.get("/api/v1/jobs", params={"limit": 100}).json()["items"]]

    before = stored()
    many = [f"x{at}" for at in range(101)]
    for keys in ({"hosts": "!x"}, {"exclusive": True, "elastic": True}, {"hosts": {"a": {"b": 1}}}, {"hosts": many}):
        answer = api.http.post("/api/v1/jobs", json={**FIVE_KEYS, **keys})
        assert answer.status_code == 422, answer.text
    assert stored() == before
