"""A job that has ended is deleted with all that it left; what it used and what happened stays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from apis import Api, serve_api
from clusters import wait_for

from schedulearn.api.routes import jobs


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path) as served:
        yield served


def ended(api: Api, **fields: object) -> str:
    job_id = api.submit(**fields)
    api.wait(job_id, "running")
    api.runtime.write_checkpoint(job_id, b"x")
    api.write_log(job_id, b"secret\n", end=True)
    api.runtime.finish(f"schedulearn-{job_id}-1-0")
    api.wait(job_id, "succeeded")
    return job_id


def purge(api: Api, job_id: str) -> int:
    return api.http.post(f"/api/v1/jobs/{job_id}/purge").status_code


def test_nothing_is_left_but_what_happened_and_what_it_used(api: Api) -> None:
    job_id, other = ended(api, user="ada", required_gpus=2), ended(api, user="bob")
    before = {row["user"]: row["gpu_hours"] for row in api.http.get("/api/v1/usage").json()}
    assert before["ada"] > 0
    assert purge(api, job_id) == 200
    for path in ("", "/logs", "/events", "/spec", "/profile"):
        assert api.http.get(f"/api/v1/jobs/{job_id}{path}").status_code == 404
    assert [job["id"] for job in api.http.get("/api/v1/jobs").json()["items"]] == [other]
    logs = api.directory / "logs"
    wait_for(lambda: [entry.name for entry in logs.iterdir()] == [f"schedulearn-{other}-1-0"])
    wait_for(lambda: list(api.runtime.checkpoints.jobs()) == [other], what="its checkpoints to go")
    assert {row["user"]: row["gpu_hours"] for row in api.http.get("/api/v1/usage").json()} == before
    [told] = api.http.get("/api/v1/events:search", params={"kind": "job.deleted"}).json()["items"]
    assert (told["job_id"], told["data"]["user"], told["data"]["state"]) == (job_id, "ada", "succeeded")
    assert purge(api, job_id) == 404


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_job_that_has_not_ended_is_refused_and_left_alone(api: Api, state: str) -> None:
    job_id = api.submit(required_gpus=4 if state == "running" else 64)
    api.wait(job_id, state)
    answer = api.http.post(f"/api/v1/jobs/{job_id}/purge")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert "cancel it" in answer.json()["detail"]
    assert api.job(job_id)["state"] == state


@pytest.fixture
def slow(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """No container is removed before it is set."""
    remove, go_on = api.runtime.remove, threading.Event()
    monkeypatch.setattr(api.runtime, "remove", lambda task_id: go_on.wait(30) and remove(task_id))
    yield go_on
    go_on.set()


@pytest.mark.parametrize("how", [("POST", "/api/v1/jobs/{}/purge"), ("DELETE", "/jobs/{}")])
def test_a_deletion_waits_for_containers_that_are_being_removed(
    api: Api, slow: threading.Event, how: tuple[str, str]
) -> None:
    job_id = ended(api)
    with ThreadPoolExecutor() as pool:
        deletion = pool.submit(api.http.request, how[0], how[1].format(job_id))
        assert api.job(job_id)["state"] == "succeeded"
        slow.set()
        assert deletion.result().status_code == 200
    assert api.http.get(f"/api/v1/jobs/{job_id}").status_code == 404


def test_a_deletion_does_not_wait_for_ever(api: Api, slow: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "REMOVED_S", 0.1)
    job_id = ended(api)
    answer = api.http.post(f"/api/v1/jobs/{job_id}/purge")
    assert (answer.status_code, answer.json()["code"]) == (409, "containers_remain")
    assert api.job(job_id)["state"] == "succeeded"


def test_delete_goes_on_to_cancel_as_it_always_did(api: Api) -> None:
    for path in ("/jobs/{}", "/api/v1/jobs/{}"):
        job_id = api.submit()
        assert api.http.delete(path.format(job_id)).status_code == 200
        api.wait(job_id, "cancelled")
        assert api.http.get(f"/api/v1/jobs/{job_id}").status_code == 200


def test_logs_of_a_job_that_was_deleted_just_before_the_end_of_the_service_go_at_its_next_start(tmp_path: Path) -> None:
    with serve_api(tmp_path) as api:
        kept = ended(api)
    untracked = tmp_path / "logs" / "schedulearn-0000000000-1-0"
    untracked.mkdir()
    (untracked / "0").write_bytes(b"left")
    with serve_api(tmp_path) as api:
        wait_for(lambda: not untracked.exists())
        assert api.http.get(f"/api/v1/jobs/{kept}/logs").text == "secret\n"
