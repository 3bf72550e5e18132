"""Secrets in commands are shown to the job's user and to admins only; the job itself gets them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from apis import FIVE_KEYS, Api, serve_api
from clusters import wait_for

from schedulearn.api.cli.service.server import _WithoutSecrets
from schedulearn.scheduler.core.planning.command_masking import MASK
from schedulearn.scheduler.errors import StartRefused

SECRET = "hunter2hunter2"
SPEC = {
    **FIVE_KEYS,
    "command": f"python train.py --lr 0.1 --password={SECRET} https://ada:{SECRET}@lab/x",
    "setup": f"env HF_TOKEN={SECRET} sh prepare.sh",
    "requirements": ["numpy"],
    "required_gpus": 1,
    "launcher": "none",
}
SHOWN = f"python train.py --lr 0.1 --password={MASK} https://ada:{MASK}@lab/x"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, token="correct-horse-battery") as served:
        yield served


@pytest.fixture
def people(api: Api) -> Iterator[dict[str, httpx.Client]]:
    found = {}
    for name, role in (("ada", "user"), ("ben", "user"), ("eve", "viewer"), ("ira", "admin")):
        assert api.http.post("/api/v1/users", json={"name": name, "role": role}).status_code == 201
        token = api.http.post("/api/v1/tokens", json={"name": name, "user": name, "role": role}).json()["token"]
        found[name] = httpx.Client(base_url=api.http.base_url, headers={"authorization": f"Bearer {token}"}, timeout=10)
    yield found
    for client in found.values():
        client.close()


def test_others_see_no_secret_of_a_command_wherever_it_is_shown(api: Api, people: dict[str, httpx.Client]) -> None:
    made = people["ada"].post("/api/v1/jobs", json=SPEC)
    assert made.status_code == 201, made.text
    job = made.json()["id"]
    assert made.json()["command"] == SPEC["command"]
    api.wait(job, "running")
    [task] = api.runtime.tasks()
    assert SECRET in " ".join(task.argv), "the job gets the true command"
    paths = [f"/api/v1/jobs/{job}", f"/jobs/{job}", "/api/v1/jobs", "/jobs", f"/api/v1/jobs/{job}/spec",
             f"/api/v1/jobs/{job}/events", "/api/v1/policy/replay", "/api/v1/timeline", "/api/v1/events",
             f"/api/v1/jobs/{job}/profile", "/metrics"]  # fmt: skip
    for name, client in people.items():
        texts = {path: client.get(path).text for path in paths}
        if name in ("ben", "eve"):
            assert [path for path, text in texts.items() if SECRET in text] == []
            assert client.get(f"/api/v1/jobs/{job}").json()["command"] == SHOWN
            assert client.get(f"/api/v1/jobs/{job}").json()["setup"] == f"env HF_TOKEN={MASK} sh prepare.sh"
        else:
            assert client.get(f"/api/v1/jobs/{job}").json()["command"] == SPEC["command"]
            assert json.loads(texts[f"/api/v1/jobs/{job}/spec"])["setup"] == SPEC["setup"]


def test_a_job_is_submitted_again_by_its_user_and_a_hidden_command_by_nobody(
    api: Api, people: dict[str, httpx.Client]
) -> None:
    spec = {**SPEC, "env": {"WANDB_API_KEY": SECRET}}
    job = people["ada"].post("/api/v1/jobs", json=spec).json()["id"]
    again = people["ada"].get(f"/api/v1/jobs/{job}/spec").json()
    made = people["ada"].post(f"/api/v1/jobs?env_from={job}", json=again)
    assert made.status_code == 201, made.text
    copied = people["ben"].get(f"/api/v1/jobs/{job}/spec").json()
    copied["env"] = {}
    refused = people["ben"].post("/api/v1/jobs", json=copied)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "command"
    del copied["command"]
    refused = people["ben"].post("/api/v1/jobs", json={**copied, "command": "true"})
    assert refused.json()["errors"][0]["field"] == "setup"
    assert sum(api.http.get("/api/v1/jobs").json()["counts"].values()) == 2


def test_the_job_of_a_sweep_is_shown_likewise(people: dict[str, httpx.Client]) -> None:
    job = {key: SPEC[key] for key in ("type", "container_image", "required_gpus", "launcher")}
    job["command"] = f"python t.py --lr {{lr}} --token {SECRET}"
    body = {"name": "lr", "grid": {"lr": [1, 2]}, "job": job, "metric": {"name": "loss", "goal": "min"}}
    made = people["ada"].post("/api/v1/sweeps", json=body)
    assert made.status_code == 201, made.text
    path = f"/api/v1/sweeps/{made.json()['id']}"
    assert people["ada"].get(path).json()["job"]["command"] == job["command"]
    assert people["ben"].get(path).json()["job"]["command"] == f"python t.py --lr {{lr}} --token {MASK}"
    wait_for(lambda: len(people["ben"].get("/api/v1/jobs?user=ada").json()["items"]) == 2, what="the runs")
    assert SECRET not in people["ben"].get("/api/v1/jobs?user=ada").text
    people["ada"].post(f"{path}/cancel")


@pytest.mark.slow
def test_an_engines_words_lose_it_in_events_and_in_the_log(api: Api, people: dict[str, httpx.Client]) -> None:
    api.runtime.fail_next("start", StartRefused(f"exec train.py --password={SECRET}: no such file"))
    job = people["ada"].post("/api/v1/jobs", json=SPEC).json()["id"]
    api.wait(job, "failed")
    told = people["ben"].get(f"/api/v1/jobs/{job}").text + people["ben"].get(f"/api/v1/jobs/{job}/events").text
    assert f"--password={MASK} no such file" in told
    assert SECRET not in told
    record = logging.LogRecord("x", logging.ERROR, "", 1, "no answer of %s", (f"https://a:{SECRET}@h",), None)
    assert _WithoutSecrets(None).format(record) == f"no answer of https://a:{MASK}@h"
