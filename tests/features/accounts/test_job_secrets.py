"""Secrets by name: given to jobs, and shown nowhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from apis import FIVE_KEYS, Api, known_by, read_sse, serve_api, token_for

VALUE = "correct horse battery staple"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, token="correct-horse-battery") as served:
        yield served


def own_name(api: Api) -> str:
    return str(api.http.get("/api/v1/whoami").json()["name"])


def put(api: Api, name: str, value: str = VALUE, **query: object) -> None:
    answer = api.http.put(f"/api/v1/secrets/{name}", json={"value": value}, params=query)
    assert answer.status_code == 200, answer.text


def test_a_job_gets_it_and_nobody_is_shown_it(api: Api, tmp_path: Path) -> None:
    put(api, "wandb")
    job = api.submit(secrets={"WANDB_API_KEY": "wandb"}, user=own_name(api))
    api.wait(job, "running")
    assert api.runtime.env(f"schedulearn-{job}-1-0")["WANDB_API_KEY"] == VALUE
    assert api.job(job)["secrets"] == {"WANDB_API_KEY": "wandb"}
    for path in (f"jobs/{job}", "secrets", "events", f"jobs/{job}/events"):
        assert VALUE not in api.http.get(f"/api/v1/{path}").text
    with closing(sqlite3.connect(tmp_path / "schedulearn.db")) as connection:
        assert VALUE not in "\n".join(connection.iterdump())
    assert (tmp_path / "secrets.key").stat().st_mode & 0o777 == 0o600


def test_logs_hide_it_however_they_come(api: Api) -> None:
    put(api, "wandb")
    job = api.submit(secrets={"WANDB_API_KEY": "wandb"}, user=own_name(api))
    api.wait(job, "running")
    half = len(VALUE) // 2
    api.write_log(job, f"key {VALUE[:half]}".encode())
    shown = api.http.get(f"/api/v1/jobs/{job}/logs").text
    assert shown == "key ", "what may be its beginning is not shown yet"
    api.write_log(job, f"{VALUE[half:]} and {VALUE}!\nlast {VALUE[:5]}".encode(), end=True)
    hidden = "*" * len(VALUE)
    expected = f"key {hidden} and {hidden}!\nlast {VALUE[:5]}"
    assert api.http.get(f"/api/v1/jobs/{job}/logs").text == expected
    for offset in range(len(expected)):
        assert api.http.get(f"/api/v1/jobs/{job}/logs?offset={offset}").text == expected[offset:], "no offset shows it"
    api.runtime.finish(f"schedulearn-{job}-1-0")
    api.wait(job, "succeeded")
    with api.http.stream("GET", f"/api/v1/jobs/{job}/logs", headers={"accept": "text/event-stream"}) as stream:
        streamed = "".join(event["data"].get("text", "") for event in read_sse(stream))
    assert streamed == expected


def test_what_is_told_of_a_failure_hides_it(api: Api) -> None:
    put(api, "wandb")
    job = api.submit(secrets={"WANDB_API_KEY": "wandb"}, user=own_name(api))
    api.wait(job, "running")
    api.write_log(job, f"ValueError: bad key {VALUE}\n".encode(), end=True)
    api.runtime.finish(f"schedulearn-{job}-1-0", code=1)
    failed = api.wait(job, "failed")
    assert failed["failure"]["line"] == f"ValueError: bad key {'*' * len(VALUE)}"
    assert VALUE not in api.http.get("/api/v1/jobs").text


def test_it_is_for_the_jobs_of_its_owner(api: Api) -> None:
    put(api, "everybodys", shared=True)
    with known_by(api, token_for(api, "ada", "user")) as ada, known_by(api, token_for(api, "ben", "user")) as ben:
        assert ada.put("/api/v1/secrets/wandb", json={"value": VALUE}).status_code == 200
        job = {**FIVE_KEYS, "secrets": {"A": "wandb", "B": "everybodys"}}
        refused = ben.post("/jobs", json=job)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "secrets.A")
        assert ada.post("/jobs", json=job).status_code == 201
        assert [each["name"] for each in ben.get("/api/v1/secrets").json()["items"]] == ["everybodys"]
        assert ben.put("/api/v1/secrets/everybodys?shared=true", json={"value": VALUE}).status_code == 403
        assert ben.delete("/api/v1/secrets/everybodys?shared=true").status_code == 403
        assert ben.delete("/api/v1/secrets/wandb").status_code == 404
        assert ada.delete("/api/v1/secrets/wandb").status_code == 204
        assert ada.post("/jobs", json=job).status_code == 422


def test_ones_own_goes_before_that_of_everybody(api: Api) -> None:
    put(api, "wandb", "that of everybody", shared=True)
    put(api, "wandb", "that of my own")
    job = api.submit(secrets={"KEY": "wandb"}, user=own_name(api))
    api.wait(job, "running")
    assert api.runtime.env(f"schedulearn-{job}-1-0")["KEY"] == "that of my own"


def test_nonsense_is_refused(api: Api) -> None:
    for value in ("short", "x" * 20_000, "a nul \0 in it", None):
        assert api.http.put("/api/v1/secrets/wandb", json={"value": value}).status_code == 422
    assert api.http.put("/api/v1/secrets/-odd", json={"value": VALUE}).status_code == 422
    put(api, "wandb")
    for keys in ({"secrets": {"NVIDIA_VISIBLE_DEVICES": "wandb"}}, {"secrets": {"A": "wandb"}, "env": {"A": "1"}}):
        assert api.http.post("/jobs", json={**FIVE_KEYS, **keys}).status_code == 422


def test_they_outlive_the_service_and_another_key_is_told(tmp_path: Path) -> None:
    with serve_api(tmp_path) as api:
        put(api, "wandb")
    with serve_api(tmp_path) as api:
        job = api.submit(secrets={"KEY": "wandb"})
        api.wait(job, "running")
        assert api.runtime.env(f"schedulearn-{job}-1-0")["KEY"] == VALUE
