"""Schedules through the real application: who may do what, and what is shown to whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import FIVE_KEYS, Api, known_by, serve_api, token_for
from services import invoke

TOKEN = "a-token-for-the-service"
SECRET = "hunter2hunter2"
BODY = {"every": "0 3 * * *", "time_zone": "Europe/Berlin", "job": {**FIVE_KEYS, "env": {"API_KEY": SECRET}}}
PATH = "/api/v1/schedules"


class People:
    def __init__(self, api: Api, stack: ExitStack) -> None:
        self.api = api
        self.tokens = {name: token_for(api, name, role) for name, role in (("ada", "user"), ("ben", "user"),
                                                                            ("vic", "viewer"))}  # fmt: skip
        self.ada, self.ben, self.vic = (stack.enter_context(known_by(api, token)) for token in self.tokens.values())

    def command(self, *args: str, name: str = "ada", code: int = 0) -> str:
        url, token = str(self.api.http.base_url), self.tokens[name]
        done = invoke(*args, code=code, url=url, SCHEDULEARN_TOKEN=token)
        return str(done.out if code == 0 else done.err)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    folder = tmp_path_factory.mktemp("schedules")
    with serve_api(folder, token=TOKEN, time_zone="Asia/Tokyo") as api, ExitStack() as stack:
        yield People(api, stack)


@pytest.fixture(autouse=True)
def emptied(people: People) -> Iterator[None]:
    yield
    for each in people.api.http.get(PATH).json()["items"]:
        people.api.http.delete(f"{PATH}/{each['id']}")


def create(client: httpx.Client, body: dict[str, Any] = BODY, code: int = 201, **headers: str) -> dict[str, Any]:
    answer = client.post(PATH, json=body, headers=headers)
    assert answer.status_code == code, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_schedule_says_when_it_runs_and_hides_values(people: People) -> None:
    made = create(people.ada)
    assert (made["user"], made["name"], made["every"]) == ("ada", "digits", "0 3 * * *")
    assert (made["overlap"], made["runs"], made["missed"], made["last_job"]) == ("skip", 0, 0, None)
    assert len(made["times"]) == 5
    assert made["times"][0] == made["next_at"]
    assert made["next_at"][11:16] in ("01:00", "02:00"), "3:00 in Berlin"
    listed = people.ada.get(PATH).text
    shown = people.ada.get(f"{PATH}/{made['id']}").text
    events = people.api.http.get("/api/v1/events:search").text
    assert SECRET not in json.dumps(made) + listed + shown + events
    assert people.vic.get(f"{PATH}/{made['id']}").json()["job"]["env"] == {"API_KEY": "********"}


def test_the_services_zone_is_the_default_and_is_told(people: People) -> None:
    made = create(people.ada, {"every": "30 9 * * *", "job": FIVE_KEYS})
    assert made["time_zone"] == "Asia/Tokyo"
    assert made["next_at"][11:16] == "00:30"


def test_only_its_user_and_admins_change_a_schedule(people: People) -> None:
    path = f"{PATH}/{create(people.ada)['id']}"
    for other in (people.ben, people.vic):
        assert other.get(path).status_code == 200
        assert other.post(f"{path}/pause").status_code == 403
        assert other.post(f"{path}/resume").status_code == 403
        assert other.delete(path).status_code == 403
    assert people.vic.post(PATH, json=BODY).status_code == 403
    with httpx.Client(base_url=people.api.http.base_url) as outsider:
        for method, where in (
            ("GET", PATH),
            ("POST", PATH),
            ("GET", path),
            ("DELETE", path),
            ("POST", f"{path}/pause"),
        ):
            assert outsider.request(method, where).status_code == 401
    paused = people.ada.post(f"{path}/pause").json()
    assert (paused["message"], paused["next_at"], paused["times"]) == ("Paused.", None, [])
    assert people.ada.post(f"{path}/pause").json()["paused_at"] == paused["paused_at"]
    resumed = people.api.http.post(f"{path}/resume").json()
    assert (resumed["paused_at"], len(resumed["times"])) == (None, 5)
    assert people.ada.delete(path).status_code == 204
    assert people.ada.delete(path).status_code == 404


def test_a_user_creates_schedules_for_nobody_else(people: People) -> None:
    body = {**BODY, "job": {**FIVE_KEYS, "user": "ben"}}
    assert create(people.ada, body)["user"] == "ada"
    assert create(people.api.http, body)["user"] == "ben"
    refused = create(people.api.http, {**BODY, "job": {**FIVE_KEYS, "user": "vic"}}, 422)
    assert "vic is viewer" in refused["detail"]


def test_the_same_request_sent_twice_makes_one_schedule(people: People) -> None:
    first, again = (create(people.ada, **{"Idempotency-Key": "once"}) for _ in range(2))
    assert first["id"] == again["id"]
    assert create(people.ada, {**BODY, "every": "1 * * * *"}, 409, **{"Idempotency-Key": "once"})["code"]
    assert create(people.ben, BODY, 409, **{"Idempotency-Key": "once"})["code"], "another user's"
    assert len(people.api.http.get(PATH).json()["items"]) == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"every": "sometimes"}, "every"),
        ({"time_zone": "../../etc/passwd"}, "time_zone"),
        ({"overlap": "burst"}, "overlap"),
        ({"job": {**FIVE_KEYS, "required_gpus": "many"}}, "job.required_gpus"),
        ({"job": {**FIVE_KEYS, "after": ["0000000000"]}}, "job.after"),
        ({"job": {**FIVE_KEYS, "user": 5}}, ""),
        ({"job": []}, "job"),
        ({"job": {**FIVE_KEYS, "comand": "x"}}, "job.comand"),
    ],
)
def test_a_bad_schedule_is_refused_by_its_field(people: People, change: dict[str, Any], field: str) -> None:
    refused = people.api.http.post(PATH, json={**BODY, **change})
    assert refused.status_code == 422, refused.text
    assert field in json.dumps(refused.json())
    assert people.api.http.get(PATH).json()["items"] == []


def test_lists_have_pages(people: People) -> None:
    ids = [create(people.ada)["id"] for _ in range(3)]
    first = people.vic.get(PATH, params={"limit": 2}).json()
    rest = people.vic.get(PATH, params={"limit": 2, "cursor": first["next"]}).json()
    assert [each["id"] for each in first["items"] + rest["items"]] == ids[::-1]
    assert rest["next"] is None
    assert people.vic.get(PATH, params={"user": "ben"}).json()["items"] == []


def test_the_commands_do_what_the_routes_do(people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)")
    made = people.command("run", "--every", "0 3 * * *", "--time-zone", "UTC", "--overlap", "queue", "--", "python",
                          "train.py").strip().splitlines()[-1]  # fmt: skip
    assert people.ada.get(f"{PATH}/{made}").json()["overlap"] == "queue"
    assert made in people.command("schedule", "ls")
    assert "0 3 * * * in UTC" in people.command("schedule", "show", made)
    assert people.command("schedule", "pause", made) == f"{made} is paused\n"
    assert "paused" in people.command("schedule", "ls", "--user", "ada")
    assert people.command("schedule", "resume", made).startswith(f"{made} runs next at ")
    assert people.command("ls", "--all", "--schedule", made, "--json")
    assert people.command("schedule", "rm", made) == f"{made} is deleted\n"
    assert "--every" in people.command("run", "--overlap", "skip", "--", "true", code=2)
    job = tmp_path / "job.json"
    job.write_text(json.dumps(FIVE_KEYS))
    assert "is not a cron expression" in people.command("submit", "--every", "@yearlong", str(job), code=1)
    assert people.api.http.get(PATH).json()["items"] == []


def test_with_hidden_jobs_others_find_no_trace_of_a_schedule(tmp_path: Path) -> None:
    with serve_api(tmp_path, token=TOKEN, hide_jobs=True) as api, ExitStack() as stack:
        people = People(api, stack)
        made = create(people.ada)
        path = f"{PATH}/{made['id']}"
        assert people.ben.get(PATH).json()["items"] == []
        assert people.ben.get(path).status_code == 404
        assert people.ben.post(f"{path}/pause").status_code == 404
        assert people.ben.delete(path).status_code == 404
        assert made["id"] not in people.ben.get("/api/v1/events:search").text
        assert made["id"] in people.ada.get("/api/v1/events:search").text
        assert people.ada.get(path).status_code == 200
