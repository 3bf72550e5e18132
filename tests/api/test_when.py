"""When a job may start: `start_after`, hold and release, pause and resume, over the API on the fake runtime."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import FIVE_KEYS, Api, known_by, serve_api, token_for
from clusters import wait_for
from matrices import each

ELASTIC: dict[str, Any] = {"elastic": True, "required_gpus": 2, "max_gpus": 4}


def do(api: Api, what: str, job: str, code: int = 200) -> dict[str, Any]:
    answer = api.http.post(f"/api/v1/jobs/{job}/{what}")
    assert answer.status_code == code, answer.text
    found: dict[str, Any] = answer.json()
    return found


def codes(api: Api, job: str) -> list[tuple[str, str]]:
    return [(e["kind"], e["code"]) for e in api.http.get(f"/api/v1/jobs/{job}/events").json()["items"]]


def to_the_second(instant: str) -> str:
    return f"{datetime.fromisoformat(instant):%Y-%m-%d %H:%M:%S} UTC"


def decided(api: Api) -> None:
    """Waits for a decision on all jobs submitted so far: the last of them, which fits, runs."""
    job = api.submit(required_gpus=0, command="sleep 1", name="marker")
    api.wait(job, "running")
    do(api, "cancel", job)


def test_a_job_waits_for_its_time_and_the_loop_wakes_for_it(api: Api) -> None:
    """The setting `interval` is longer than the delay."""
    at = datetime.now(UTC) + timedelta(hours=3)
    later = api.submit(required_gpus=4, start_after=at.astimezone().isoformat())
    soon = api.submit(start_after="2s")
    shown = api.job(soon)
    assert (shown["state"], shown["reason"]) == ("queued", "start_after")
    assert shown["message"] == f"It may start from {to_the_second(shown['start_after'])}."
    began = datetime.fromisoformat(api.wait(soon, "running")["started_at"])
    assert began >= datetime.fromisoformat(shown["start_after"]) > datetime.fromisoformat(shown["submitted_at"])
    found = api.job(later)
    assert (found["state"], found["reason"]) == ("queued", "start_after")
    assert abs(datetime.fromisoformat(found["start_after"]) - at) < timedelta(milliseconds=1)
    assert api.http.get("/api/v1/cluster").json()["gpus_wanted"] == 0
    assert do(api, "cancel", later)["state"] == "cancelled"


def test_a_delay_is_repeated_with_its_key_and_submitted_again_as_written(api: Api) -> None:
    body, key = {**FIVE_KEYS, "start_after": "1.5h"}, {"Idempotency-Key": "k"}
    first, second = (api.http.post("/api/v1/jobs", json=body, headers=key).json() for _ in range(2))
    assert first["id"] == second["id"]
    assert "It may start from" in first["message"]
    assert api.http.get(f"/api/v1/jobs/{first['id']}/spec").json()["start_after"] == "5400s"
    absolute = api.submit(start_after="2100-01-01T01:00:00+01:00", hold=True)
    spec = api.http.get(f"/api/v1/jobs/{absolute}/spec").json()
    assert (spec["start_after"], spec["hold"]) == ("2100-01-01T00:00:00.000Z", True)
    passed = api.submit(start_after="2020-01-01T00:00Z")
    api.wait(passed, "running")


@each(
    ["2026-12-24T18:00", "2026-12-24", "soon", "", "2 h", "-1h", "1h30m", "99999d", 7200, True, ["2h"],
     "9999-12-31T00:00Z", "0001-01-01T00:00+14:00", "1e3s", "nan", "2h" * 100],
    "start_after",
)  # fmt: skip
def test_what_is_no_start_is_refused_and_nothing_stored(api: Api, start_after: Any) -> None:
    refused = api.http.post("/api/v1/jobs", json={**FIVE_KEYS, "start_after": start_after})
    assert refused.status_code == 422, refused.text
    assert [error["field"] for error in refused.json()["errors"]] == ["start_after"]
    assert api.http.get("/api/v1/jobs").json()["items"] == []


def test_a_held_job_lets_others_pass_and_keeps_its_place(api: Api) -> None:
    first = api.submit(required_gpus=4)
    api.wait(first, "running")
    held, behind = api.submit(required_gpus=4), api.submit(required_gpus=4)
    shown = do(api, "hold", held)
    assert (shown["state"], shown["reason"], shown["eta"]) == ("queued", "held", None)
    assert shown["message"].startswith(f"Held by {shown['held_by']} since {to_the_second(shown['held_at'])}.")
    again = do(api, "hold", held)
    assert again["held_at"] == shown["held_at"], "who held it first stays"
    assert api.http.get("/api/v1/cluster").json()["gpus_wanted"] == 4
    api.runtime.finish(f"schedulearn-{first}-1-0", 0)
    api.wait(behind, "running")
    last = api.submit(required_gpus=4)
    released = do(api, "release", held)
    assert (released["held_at"], released["held_by"]) == (None, "")
    api.runtime.finish(f"schedulearn-{behind}-1-0", 0)
    api.wait(held, "running")
    assert api.job(last)["state"] == "queued"
    assert [kind for kind, _ in codes(api, held) if kind in ("job.held", "job.released")] == [
        "job.held",
        "job.released",
    ]
    assert do(api, "release", held)["state"] == "running", "a second release changes nothing"


def test_a_job_is_submitted_held(api: Api) -> None:
    job = api.submit(hold=True)
    decided(api)
    found = api.job(job)
    assert (found["state"], found["reason"], found["hold"]) == ("queued", "held", True)
    do(api, "release", job)
    api.wait(job, "running")


def test_a_paused_job_saves_a_checkpoint_gives_its_gpus_back_and_goes_on(api: Api) -> None:
    api.runtime.stop_code = 75
    job = api.submit(**ELASTIC)
    api.wait(job, "running")
    behind = api.submit(required_gpus=4)
    do(api, "pause", job)
    paused = api.wait(job, "queued")
    assert (paused["reason"], paused["gpus"], paused["eta"]) == ("held", [], None)
    assert [task["outcome"] for task in paused["tasks"]] == ["paused"]
    api.wait(behind, "running")
    do(api, "resume", job)
    assert api.job(job)["held_at"] is None
    api.runtime.finish(f"schedulearn-{behind}-1-0", 0)
    api.wait(job, "running")
    assert api.job(job)["attempt"] == 2
    told = codes(api, job)
    assert ("job.resizing", "pause_requested") in told
    assert ("job.queued", "paused") in told
    assert api.job(job)["retries"] == 0


def test_a_job_says_once_that_it_is_held_and_not_while_it_ends(api: Api) -> None:
    api.runtime.stubborn = True
    job = api.submit(**ELASTIC)
    api.wait(job, "running")
    do(api, "pause", job)
    message = api.wait(job, "resizing")["message"]
    assert message.count("Held by") == 1, message
    api.http.post(f"/api/v1/jobs/{job}/cancel")
    assert "Held by" not in api.wait(job, "stopping")["message"]


def test_a_resume_before_the_containers_have_stopped_loses_nothing(api: Api) -> None:
    api.runtime.stubborn = True
    job = api.submit(**ELASTIC)
    api.wait(job, "running")
    do(api, "pause", job)
    stopping = api.wait(job, "resizing")
    assert (stopping["reason"], stopping["held_at"] is not None) == ("pause_requested", True)
    do(api, "resume", job)
    api.runtime.finish(f"schedulearn-{job}-1-0", 75)
    wait_for(lambda: api.job(job)["attempt"] == 2 and api.job(job)["state"] == "running", what="its second attempt")


def test_a_job_that_completes_while_it_is_paused_has_succeeded(api: Api) -> None:
    api.runtime.stubborn = True
    job = api.submit(**ELASTIC)
    api.wait(job, "running")
    do(api, "pause", job)
    api.wait(job, "resizing")
    api.runtime.finish(f"schedulearn-{job}-1-0", 0)
    assert api.wait(job, "succeeded")["held_at"] is None


def test_what_can_not_be_held_or_paused_says_why_and_stays(api: Api) -> None:
    rigid = api.submit()
    api.wait(rigid, "running")
    assert "only elastic jobs can be paused" in do(api, "pause", rigid, 409)["detail"]
    assert "cancel it" in do(api, "hold", rigid, 409)["detail"]
    elastic = api.submit(**ELASTIC)
    api.wait(elastic, "running")
    assert "pause it" in do(api, "hold", elastic, 409)["detail"]
    waiting = api.submit(required_gpus=4)
    assert do(api, "pause", waiting)["reason"] == "held", "it never started"
    api.runtime.stubborn = True
    do(api, "cancel", rigid)
    assert "it will not start again" in do(api, "pause", rigid, 409)["detail"]
    api.runtime.finish(f"schedulearn-{rigid}-1-0", 143)
    api.wait(rigid, "cancelled")
    for what in ("hold", "pause", "release", "resume"):
        assert "has ended already" in do(api, what, rigid, 409)["detail"]
        do(api, what, "nothing", 404)
    assert api.job(elastic)["state"] == "running"
    assert api.job(elastic)["held_at"] is None


@each(["queued", "paused", "resizing"], "when")
def test_a_held_job_can_be_cancelled(api: Api, when: str) -> None:
    job = api.submit(**ELASTIC, hold=when == "queued")
    if when != "queued":
        api.wait(job, "running")
        api.runtime.stubborn = when == "resizing"
        do(api, "pause", job)
        api.wait(job, "queued" if when == "paused" else "resizing")
    do(api, "cancel", job)
    if when == "resizing":
        api.runtime.finish(f"schedulearn-{job}-1-0", 75)
        api.runtime.stubborn = False
    ended = api.wait(job, "cancelled")
    assert (ended["held_at"], ended["gpus"]) == (None, [])


def test_what_is_held_or_later_is_foreseen_so(api: Api) -> None:
    running = api.submit(required_gpus=4, max_duration=600.0)
    api.wait(running, "running")
    at = datetime.now(UTC) + timedelta(hours=2)
    held, later, next_one = api.submit(hold=True), api.submit(start_after=at.isoformat()), api.submit()
    eta = wait_for(lambda: api.job(later)["eta"] and api.job(next_one)["eta"] and api.job(later)["eta"], seconds=30)
    assert datetime.fromisoformat(eta["start"]) >= at - timedelta(milliseconds=1)
    assert datetime.fromisoformat(api.job(next_one)["eta"]["start"]) < at
    assert api.job(held)["eta"] is None
    expected = {each["job"]: each for each in api.http.get("/api/v1/timeline/expected").json()["items"]}
    assert expected.keys() == {running, later, next_one}
    assert expected[later]["start"] == eta["start"]
    preview = api.http.get("/api/v1/policy/preview", params={"algorithm": "fifo"}).json()
    assert {each["job"] for each in preview["jobs"]} == {running, later, next_one}
    assert preview["changes"] == []
    for start, most in (("2h", 7205), ("1s", 7195)):
        seen = api.http.post(
            "/api/v1/jobs:preview", json={**FIVE_KEYS, "required_gpus": 0, "start_after": start}
        ).json()
        begins = datetime.fromisoformat(seen["start"]) - datetime.now(UTC)
        assert (begins.total_seconds() > 7190) == (most > 7200)
    do(api, "hold", later)
    assert later not in {each["job"] for each in api.http.get("/api/v1/timeline/expected").json()["items"]}


def test_all_of_it_survives_restarts(tmp_path: Path) -> None:
    with serve_api(tmp_path) as api:
        api.runtime.stop_code = 75
        held, later = api.submit(hold=True), api.submit(start_after="2h")
        paused = api.submit(**ELASTIC)
        api.wait(paused, "running")
        do(api, "pause", paused)
        api.wait(paused, "queued")
        before = {job: api.job(job)["message"] for job in (held, later, paused)}
    with serve_api(tmp_path) as api:
        decided(api)
        assert {job: api.job(job)["message"] for job in before} == before
        assert [api.job(job)["attempt"] for job in (held, later, paused)] == [0, 0, 1]
        do(api, "release", held)
        do(api, "resume", paused)
        api.wait(held, "running")
        api.wait(paused, "running")


def test_a_delay_of_a_sweep_counts_from_its_own_submission(api: Api) -> None:
    job = {key: value for key, value in FIVE_KEYS.items() if key != "name"}
    body = {"name": "s", "job": {**job, "command": "{n}", "start_after": "2h"}, "grid": {"n": [1, 2]}}
    sweep = api.http.post("/api/v1/sweeps", json=body).json()
    runs = wait_for(lambda: found if len(found := api.http.get("/api/v1/jobs").json()["items"]) == 2 else None)
    starts = {run["start_after"] for run in runs}
    assert len(starts) == 1
    left = datetime.fromisoformat(starts.pop()) - datetime.fromisoformat(sweep["created_at"])
    assert left.total_seconds() == pytest.approx(7200, abs=0.01)


@pytest.fixture
def people(tmp_path: Path) -> Iterator[tuple[Api, dict[str, httpx.Client]]]:
    with serve_api(tmp_path, token="correct-horse-battery") as api:
        tokens = {
            name: token_for(api, name, role) for name, role in (("ada", "user"), ("ben", "user"), ("eva", "viewer"))
        }
        with (
            known_by(api, tokens["ada"]) as ada,
            known_by(api, tokens["ben"]) as ben,
            known_by(api, tokens["eva"]) as eva,
        ):
            yield api, {"ada": ada, "ben": ben, "eva": eva}


def test_only_the_owner_and_admins_hold_and_release(people: tuple[Api, dict[str, httpx.Client]]) -> None:
    api, clients = people
    job = clients["ada"].post("/api/v1/jobs", json={**FIVE_KEYS, "hold": True}).json()["id"]
    outsider = httpx.Client(base_url=api.http.base_url)
    for what in ("hold", "release", "pause", "resume"):
        for client, code in ((clients["ben"], 403), (clients["eva"], 403), (outsider, 401)):
            assert client.post(f"/api/v1/jobs/{job}/{what}").status_code == code
    outsider.close()
    assert api.job(job)["held_by"] == "ada"
    assert clients["ada"].post(f"/api/v1/jobs/{job}/release").json()["held_by"] == ""
    api.wait(job, "running")
    other = clients["ada"].post("/api/v1/jobs", json={**FIVE_KEYS, "required_gpus": 4}).json()["id"]
    admin = do(api, "hold", other)
    assert admin["held_by"] not in ("", "ada")
    [event] = [e for e in api.http.get(f"/api/v1/jobs/{other}/events").json()["items"] if e["kind"] == "job.held"]
    assert event["actor"] == admin["held_by"]
