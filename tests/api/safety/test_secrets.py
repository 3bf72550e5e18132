"""Values of variables are the submitter's own: nobody is shown them, and no mask is ever stored in their place."""

import re
from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, serve_api

from schedulearn.scheduler.core.planning.command_masking import MASK
from schedulearn.scheduler.specs.env_masking import masked

ENV = {"WANDB_API_KEY": "hunter2", "DATABASE": "postgres://ada:hunter3@db", "MY_DIR": "/home/ada", "EPOCHS": "3"}


@pytest.mark.parametrize(
    "name",
    [
        "EPOCHS",
        "OMP_NUM_THREADS",
        "NCCL_DEBUG",
        "HOROVOD_CYCLE_TIME",
        "PYTHONUNBUFFERED",
        "LR",
        "BATCH_SIZE",
        "TZ",
        "SEED",
    ],
)
def test_harmless_names_keep_their_values(name: str) -> None:
    assert masked({name: "1"}) == {name: "1"}


@pytest.mark.parametrize(
    "name",
    [
        "WANDB_API_KEY",
        "PGPASS",
        "FOO",
        "AWS_SESSION",
        "HOROVOD_SECRET",
        "NCCL_TOKEN",
        "EPOCHS_KEY",
        "epochs ",
        "_",
        "SEED_PHRASE",
    ],
)
def test_all_others_are_masked(name: str) -> None:
    assert masked({name: "1"}) == {name: MASK}


def pages(api: Api, job: str) -> list[str]:
    paths = [f"/api/v1/jobs/{job}", "/api/v1/jobs", "/jobs", f"/jobs/{job}", f"/api/v1/jobs/{job}/events", "/metrics",
             "/api/v1/events", "/api/v1/policy/replay", f"/api/v1/jobs/{job}/profile"]  # fmt: skip
    return [api.http.get(path).text for path in paths]


def test_no_answer_shows_a_value_and_the_job_has_them_all(api: Api) -> None:
    answer = api.http.post("/jobs", json={**FIVE_KEYS, "env": ENV})
    job = answer.json()["id"]
    shown = {"WANDB_API_KEY": MASK, "DATABASE": MASK, "MY_DIR": MASK, "EPOCHS": "3"}
    assert answer.json()["env"] == api.job(job)["env"] == shown
    api.wait(job, "running")
    [task] = api.runtime.tasks()
    assert ENV.items() <= task.env.items()
    for page in [answer.text, *pages(api, job)]:
        assert not re.search("hunter|/home/ada", page)


def test_a_mask_is_never_stored(api: Api) -> None:
    for path, body, field in (
        ("/jobs", {**FIVE_KEYS, "env": {"A": MASK}}, "env.A"),
        ("/api/v1/jobs", {**FIVE_KEYS, "env": {"A": MASK}}, "env.A"),
        ("/api/v1/jobs:batch", [FIVE_KEYS, {**FIVE_KEYS, "env": {"B": MASK}}], "1.env.B"),
    ):
        answer = api.http.post(path, json=body)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == field
    assert sum(api.http.get("/api/v1/jobs").json()["counts"].values()) == 0


def clone(api: Api, job: str, **changes: Any) -> dict[str, Any]:
    """What is shown of a job, as the body of a submission."""
    shown = api.job(job)
    keys = ("name", "type", "container_image", "command", "required_gpus", "launcher", "env", "mounts", "labels")
    return {**{key: shown[key] for key in keys}, **changes}


def test_the_same_job_is_submitted_again_with_the_values_that_nobody_is_shown(api: Api) -> None:
    job = api.submit(env=ENV, required_gpus=1)
    for path in ("/jobs", "/api/v1/jobs"):
        body = clone(api, job, name="again", required_gpus=2, labels={"more": "gpus"})
        answer = api.http.post(f"{path}?env_from={job}", json=body)
        assert answer.status_code == 201, answer.text
        assert answer.json()["env"]["WANDB_API_KEY"] == MASK
        again = answer.json()["id"]
        api.wait(again, "running")
        [env] = [task.env for task in api.runtime.tasks() if task.job_id == again]
        assert ENV.items() <= env.items()
        api.http.delete(f"/jobs/{again}")


@pytest.mark.parametrize(
    "changes",
    [
        {"command": "env"},
        {"container_image": "mine/prints-all"},
        {"launcher": "none"},
        {"code": {"digest": f"sha256:{'0' * 64}"}},
        {"env": {**masked(ENV), "LD_PRELOAD": "/data/mine.so"}},
        {"env": {**masked(ENV), "EPOCHS": "4"}},
        {"env": {"WANDB_API_KEY": MASK}},
        {"setup": "env"},
        {"requirements": ["mine"]},
        {"code": "sent"},
        {"code": {"git": "https://github.com/mine/prints-all"}},
    ],
    ids=str,
)
def test_hidden_values_reach_no_other_program(api: Api, changes: dict[str, Any]) -> None:
    job = api.submit(env=ENV)
    if changes.get("code") == "sent":
        tar = {"content-type": "application/x-tar"}
        changes = {"code": api.http.post("/api/v1/code", content=bytes(1024), headers=tar).json()["digest"]}
    before = sum(api.http.get("/api/v1/jobs").json()["counts"].values())
    answer = api.http.post(f"/api/v1/jobs?env_from={job}", json=clone(api, job, **changes))
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == "env_from"
    assert sum(api.http.get("/api/v1/jobs").json()["counts"].values()) == before


def test_a_job_that_is_not_there_has_no_values(api: Api) -> None:
    assert api.http.post("/jobs?env_from=nope", json={**FIVE_KEYS, "env": {"A": MASK}}).status_code == 404


def test_a_webhook_shows_neither_its_secret_nor_what_its_url_hides(api: Api) -> None:
    url = "http://127.0.0.1:9/hooks/T024BE7LD/B0G9QK9NR/4Xk2bVq9Lw7sTz1Yp8Rd?team=x&token=abc"
    answer = api.http.post("/api/v1/webhooks", json={"url": url, "secret": "hunter2hunter2"})
    assert answer.status_code == 201
    for text in (answer.text, api.http.get("/api/v1/webhooks").text, api.http.get("/api/v1/events").text):
        assert not re.search("hunter2|4Xk2bVq9|abc", text)
    assert answer.json()["url"] == f"http://127.0.0.1:9/hooks/T024BE7LD/B0G9QK9NR/{MASK}?{MASK}"


def test_what_an_error_repeats_of_a_request_holds_no_value(api: Api) -> None:
    body = {**FIVE_KEYS, "env": {"TOKEN": "hunter2", "NVIDIA_VISIBLE_DEVICES": "hunter3", "X": ["hunter4"]}}
    answer = api.http.post("/jobs", json=body)
    assert answer.status_code == 422
    assert "hunter" not in answer.text


def test_env_and_labels_are_bounded(tmp_path: Path) -> None:
    with serve_api(tmp_path, gpus=0) as api:
        large = "x" * (127 << 10)
        assert (
            api.http.post("/jobs", json={**FIVE_KEYS, "env": {"A": large}, "labels": {"b": large}}).status_code == 201
        )
        for field in ("env", "labels"):
            pairs = {f"v{number}": large for number in range(9)}
            assert api.http.post("/jobs", json={**FIVE_KEYS, field: pairs}).status_code == 413
        for field, pairs, where in (
            ("env", {"A": "x" * (128 << 10)}, "env"),
            ("env", {"A": "é" * (64 << 10)}, "env"),
            ("labels", {"a": "x" * (128 << 10)}, "labels"),
            ("labels", {"a" * 257: "x"}, "labels"),
            ("env", {f"V{number}": "x" for number in range(1001)}, "env"),
            ("labels", {f"v{number}": "x" for number in range(101)}, "labels"),
        ):
            answer = api.http.post("/jobs", json={**FIVE_KEYS, field: pairs})
            assert answer.status_code == 422
            assert answer.json()["errors"][0]["field"] == where
            assert len(answer.content) < 10_000
        host = api.http.post("/api/v1/hosts", json={"address": "ssh://a", "labels": {"a": "x" * (128 << 10)}})
        assert host.status_code == 422
        assert sum(api.http.get("/api/v1/jobs").json()["counts"].values()) == 1
