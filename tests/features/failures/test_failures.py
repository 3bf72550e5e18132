"""Failed jobs by cause: the route and the command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apis import Api, known_by, serve_api, token_for
from services import invoke

from schedulearn.scheduler.runtimes.log_masking import SHORTEST

MISSING = b"Traceback (most recent call last):\nModuleNotFoundError: No module named 'einops'\n"


def known(api: Api) -> dict[str, str]:
    return {"url": str(api.http.base_url), "SCHEDULEARN_TOKEN": "correct-horse-battery"}


def failed(api: Api, log: bytes, code: int = 1, **fields: object) -> str:
    job = api.submit(required_gpus=1, launcher="none", **fields)
    api.wait(job, "running")
    if log:
        api.write_log(job, log, end=True)
    api.runtime.finish(f"schedulearn-{job}-1-0", code=code)
    api.wait(job, "failed")
    return job


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serve_api(tmp_path_factory.mktemp("failures"), token="correct-horse-battery") as api:
        yield api


@pytest.fixture(scope="module")
def jobs(api: Api) -> list[str]:
    missing = [failed(api, MISSING, name=f"run-{n}", user="ann") for n in range(7)]
    return [*missing, failed(api, b"CUDA out of memory\n", user="ben", batch_size=64), failed(api, b"", code=3)]


def test_equal_failures_are_one_group(api: Api, jobs: list[str]) -> None:
    found = api.http.get("/api/v1/failures").json()
    assert (found["jobs"], found["complete"]) == (9, True)
    first, *others = found["items"]
    assert (first["kind"], first["cause"], first["count"]) == ("module_missing", "ModuleNotFoundError: einops", 7)
    assert first["step"].startswith("Add `einops` to `requirements`")
    assert [job["id"] for job in first["newest"]] == jobs[6:1:-1]
    assert {group["kind"]: group["count"] for group in others} == {"gpu_memory": 1, "other": 1}


def test_groups_of_one_user_and_period(api: Api, jobs: list[str]) -> None:
    def counts(**query: str) -> list[int]:
        return [group["count"] for group in api.http.get("/api/v1/failures", params=query).json()["items"]]

    assert counts(user="ben") == [1]
    assert counts(user="nobody") == []
    assert counts(since="2200-01-01T00:00:00Z") == []
    assert api.http.get("/api/v1/failures", params={"since": "soon"}).status_code == 422


def test_viewers_see_them_and_strangers_do_not(api: Api, jobs: list[str]) -> None:
    with known_by(api, token_for(api, "eve", "viewer")) as eve:
        assert eve.get("/api/v1/failures").json()["jobs"] == len(jobs)
    with known_by(api, "wrong-token-of-a-stranger") as stranger:
        assert stranger.get("/api/v1/failures").status_code == 401


def test_a_failed_job_offers_a_clone_that_is_accepted(api: Api, jobs: list[str]) -> None:
    failure = api.job(jobs[7])["failure"]
    assert failure["clone"] == {"label": "Clone with half the batch (32)", "changes": {"batch_size": 32}}
    again = invoke("resubmit", jobs[7], "--advised", "-d", **known(api))
    assert "Clone with half the batch (32)" in again.err
    assert api.job(again.out.split()[-1])["batch_size"] == 32


def test_a_failure_without_a_clone_is_not_submitted_again(api: Api, jobs: list[str]) -> None:
    told = invoke("resubmit", jobs[8], "--advised", code=2, **known(api)).err
    assert "no change is known" in told


def test_a_secret_in_the_log_is_in_no_cause(api: Api) -> None:
    secret = "s3cret-of-ann"
    assert len(secret) >= SHORTEST
    assert api.http.put("/api/v1/secrets/key", json={"value": secret}).status_code in (200, 201, 204)
    job = failed(api, f"KeyError: {secret}\n".encode(), secrets={"KEY": "key"})
    assert secret not in api.http.get("/api/v1/failures").text
    assert secret not in api.http.get(f"/api/v1/jobs/{job}").text


def test_the_command_shows_causes_and_next_steps(api: Api, jobs: list[str]) -> None:
    shown = invoke("failures", **known(api)).out
    [line] = [line for line in shown.splitlines() if "einops" in line]
    assert line.split()[0] == "7"
    assert jobs[6] in line
    shown = invoke("show", jobs[7], **known(api)).out
    assert "Use a smaller batch" in shown
