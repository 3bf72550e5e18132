"""Maintenance windows through the real application: routes, commands, reasons, notices, the timeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from apis import Api, known_by, serve_api, token_for
from clusters import wait_for
from services import invoke

from schedulearn.features.maintenance.spec import WindowSpec, values_of
from schedulearn.scheduler.control.windows import next_start
from schedulearn.scheduler.core.cluster_state import MaintenanceWindow
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.windows import add_window

PATH = "/api/v1/maintenance"
TOKEN = "a-token-for-the-service"
NOON = 1_780_315_200.0
"""2026-06-01 12:00 UTC."""


@pytest.fixture
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serve_api(tmp_path_factory.mktemp("maintenance"), token=TOKEN, gpus=2) as served:
        yield served


def soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def add(api: Api, **fields: Any) -> dict[str, Any]:
    answer = api.http.post(PATH, json=fields)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def host(api: Api) -> dict[str, Any]:
    [found] = api.http.get("/api/v1/hosts").json()
    state: dict[str, Any] = found
    return state


def test_a_job_waits_with_a_reason_and_starts_once_the_window_is_deleted(api: Api) -> None:
    window = add(api, start=soon(3600), duration=3600, reason="new disks")
    late = api.submit(required_gpus=1, max_duration=7200)
    waits = wait_for(lambda: job if (job := api.job(late))["reason"] == "maintenance" else None, what="the reason")
    assert "Host local is in maintenance from " in str(waits)
    early = api.submit(required_gpus=1, max_duration=600)
    api.wait(early, "running")
    assert api.job(late)["state"] == "queued"
    assert api.http.get("/api/v1/timeline").json()["windows"] == [window]
    assert api.http.delete(f"{PATH}/{window['id']}").status_code == 204
    api.wait(late, "running")


def test_a_job_that_fits_between_no_two_times_of_a_window_says_so(api: Api) -> None:
    add(api, every="*/30 * * * *", duration=1200, time_zone="UTC")
    late = api.submit(required_gpus=1, max_duration=7200)
    waits = wait_for(lambda: job if (job := api.job(late))["reason"] == "unsatisfiable_now" else None, what="why")
    assert "this job could run for 2 hours, and maintenance repeats after 10 minutes: it never" in str(waits)


def test_the_longest_time_between_two_windows_is_that_of_any_pair(database_url: str) -> None:
    """Weekends leave more room than weekdays."""
    db = Database(database_url)
    values = values_of(WindowSpec(every="0 4 * * MON-FRI", duration=3600), "UTC", NOON)
    assert db.write(lambda conn: add_window(conn, values, NOON)).longest_gap == 71 * 3600
    once = values_of(WindowSpec(duration=3600), "UTC", NOON)
    assert db.write(lambda conn: add_window(conn, once, NOON)).longest_gap == float("inf")
    db.close()


def test_a_window_drains_its_host_tells_jobs_and_returns_the_host(api: Api) -> None:
    running = api.submit(required_gpus=1)
    api.wait(running, "running")
    planned = add(api, start=soon(600), duration=600, reason="new disks")
    told = wait_for(lambda: job if "maintenance" in (job := api.job(running))["message"] else None, what="the word")
    assert "new disks. If the job still runs at" in told["message"]
    api.http.delete(f"{PATH}/{planned['id']}")
    window = add(api, duration=600, deadline=600)
    wait_for(lambda: host(api)["state"] != "active", what="the drain")
    refused = api.http.post("/api/v1/hosts/local/uncordon")
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        f"local is in maintenance: delete the window first, `schedulearn maintenance rm {window['id']}`",
    )
    assert api.job(running)["state"] == "running", "rigid jobs run on until the deadline"
    api.http.delete(f"{PATH}/{window['id']}")
    assert host(api)["state"] == "active"
    kinds = [event["kind"] for event in api.http.get("/api/v1/events:search", params={"limit": 100}).json()["items"]]
    assert kinds.count("job.maintenance") == 1
    assert {"host.window_added", "host.window_deleted", "host.maintenance", "host.active"} <= set(kinds)


def test_a_host_that_an_operator_drains_during_a_window_stays_drained(api: Api) -> None:
    window = add(api, duration=600)
    wait_for(lambda: host(api)["state"] != "active", what="the drain")
    api.http.post("/api/v1/hosts/local/cordon")
    api.http.delete(f"{PATH}/{window['id']}")
    assert host(api)["state"] == "cordoned"
    assert api.http.post("/api/v1/hosts/local/uncordon").status_code == 200


def test_only_admins_change_windows_and_everybody_sees_them(api: Api) -> None:
    made = add(api, start=soon(3600), duration=60)
    with ExitStack() as stack:
        for role in ("user", "viewer"):
            client = stack.enter_context(known_by(api, token_for(api, f"some-{role}", role)))
            assert client.get(PATH).json()["items"] == [made]
            assert client.post(PATH, json={"duration": 60}).status_code == 403
            assert client.delete(f"{PATH}/{made['id']}").status_code == 403
        outsider = stack.enter_context(httpx.Client(base_url=api.http.base_url))
        assert [outsider.request(each, PATH).status_code for each in ("GET", "POST")] == [401, 401]
    assert api.http.delete(f"{PATH}/99").status_code == 404
    assert api.http.get(PATH).json()["items"] == [made]


def test_a_notice_goes_to_those_who_want_to_know_of_preemption(api: Api) -> None:
    made = api.http.put("/api/v1/notify/hook", json={"address": "http://192.0.2.1/", "events": ["preemption"]})
    assert made.status_code == 200, made.text
    job = api.submit(required_gpus=1, notify=["hook"])
    api.wait(job, "running")
    add(api, start=soon(3600), duration=60)
    path = f"/api/v1/jobs/{job}/notices"
    [notice] = wait_for(lambda: api.http.get(path).json()["items"], what="the notice")
    assert notice["event"] == "preemption"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "end"),
        ({"end": "2020-01-01T00:00Z"}, "end"),
        ({"start": "2030-01-01T00:00Z", "end": "2029-01-01T00:00Z"}, "end"),
        ({"start": "2030-01-01T00:00Z", "end": "2030-01-01T00:00:01Z"}, "end"),
        ({"start": "2030-01-01T00:00Z", "end": "2031-01-01T00:00Z"}, "end"),
        ({"end": "2030-01-01T00:00Z", "duration": 60}, "end"),
        ({"every": "0 3 * * *"}, "duration"),
        ({"every": "0 3 * * *", "duration": 86_400}, "duration"),
        ({"every": "0 3 * * *", "duration": 60, "start": "2030-01-01T00:00Z"}, "every"),
        ({"every": "* * */20 * 1L", "duration": 60}, "every"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused_by_its_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError) as error:
        values_of(WindowSpec.model_validate(body), "UTC", NOON)
    assert error.value.field == field


def test_an_unknown_host_is_refused_and_nothing_is_stored(api: Api) -> None:
    answer = api.http.post(PATH, json={"hosts": ["ada-1"], "duration": 60})
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "there is no host 'ada-1': `schedulearn hosts ls` lists them",
    )
    assert api.http.get(PATH).json()["items"] == []


def test_a_repeated_window_moves_to_its_next_occurrence_that_is_not_over() -> None:
    values = values_of(WindowSpec(every="0 4 * * SUN", duration=7200), "Europe/Berlin", NOON)
    window = MaintenanceWindow(id=1, told=[], **values)
    week = 7 * 86_400.0
    assert (window.starts_at, window.ends_at) == (NOON + 5 * 86_400 + 14 * 3600, window.starts_at + 7200)
    assert next_start(window, window.ends_at) == window.starts_at + week
    assert next_start(window, window.starts_at + 3 * week + 3600) == window.starts_at + 3 * week, "it has begun"
    assert next_start(window, window.starts_at + 3 * week + 7200) == window.starts_at + 4 * week
    assert next_start(window._replace(cron=""), window.ends_at) is None


def test_the_commands_do_what_the_routes_do(api: Api) -> None:
    def command(*args: str) -> str:
        return str(invoke(*args, url=str(api.http.base_url), SCHEDULEARN_TOKEN=TOKEN).out)

    said = command("maintenance", "add", "--host", "local", "--from", "2h", "--for", "1h", "--reason", "new disks")
    assert said.startswith("Window 1 of local: from ")
    assert "every week" in command("maintenance", "add", "--every", "0 4 * * SUN", "--for", "2h", "--reason",
                                   "every week") + command("maintenance", "ls")  # fmt: skip
    assert "new disks" in command("maintenance", "ls")
    assert command("maintenance", "rm", "1") == "window 1 is deleted\n"
    assert len(api.http.get(PATH).json()["items"]) == 1
