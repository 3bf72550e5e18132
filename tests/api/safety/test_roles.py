"""What each role may do: every route with every role, then jobs, tokens and accounts."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import FIVE_KEYS, Api, described_routes, known_by, serve_api, token_for
from clusters import wait_for
from matrices import each

from schedulearn.api.access.permissions import ASKED, Permission

OPEN = {
    *(("GET", "/healthz"), ("GET", "/api/v1/client"), ("GET", "/api/v1/sign-in")),
    *(("POST", "/api/v1/session"), ("DELETE", "/api/v1/session")),
    *(("POST", "/api/v1/logins"), ("POST", "/api/v1/logins/token")),
}
OF_JOBS = {("POST", "/api/v1/reports"), ("POST", "/api/v1/reports/membership")}
FOR_USERS = {
    ("POST", "/api/v1/post"),
    *(("POST", path) for path in ("/jobs", "/api/v1/jobs", "/api/v1/jobs:batch", "/api/v1/tokens")),
    *(("GET", "/api/v1/secrets"), ("PUT", "/api/v1/secrets/name"), ("DELETE", "/api/v1/secrets/name")),
    *((method, "/api/v1/registries/name") for method in ("PUT", "DELETE")),
    ("GET", "/api/v1/registries"),
    *((method, "/api/v1/notify/name") for method in ("PUT", "DELETE")),
    *(("GET", "/api/v1/notify"), ("POST", "/api/v1/notify/name/test"), ("GET", "/api/v1/jobs/job_id/notices")),
    *(("GET", "/api/v1/jobs/job_id/processes"), ("GET", "/api/v1/jobs/job_id/ports/name")),
    *(("POST", "/api/v1/code"), ("POST", "/api/v1/sweeps"), ("POST", "/api/v1/experiments")),
    ("POST", "/api/v1/searches"),
    ("POST", "/api/v1/schedules"),
    ("POST", "/api/v1/advise"),
    *(("POST", "/api/v1/content"), ("PUT", "/api/v1/content/sha256")),
    *(("POST", "/api/v1/data/name/versions"), ("DELETE", "/api/v1/data/name")),
    ("GET", "/api/v1/tokens"),
}
ROLES = ("metrics", "viewer", "user", "admin")
OWNED = re.compile(r"(/api/v1)?/(jobs/job_id|sweeps/sweep_id|schedules/schedule_id)(/.*)?")
ROUTES = [route for route in described_routes() if route not in OPEN | OF_JOBS]
FOR_VIEWERS = {
    ("POST", "/api/v1/jobs:preview"),
    *(("POST", f"/api/v1/logins/code/{verb}") for verb in ("approve", "refuse")),
    ("DELETE", "/api/v1/tokens/token_id"),
}
FOR_ADMINS = {
    ("GET", "/api/v1/webhooks"),
    ("GET", "/api/v1/users"),
    ("GET", "/api/v1/quotas"),
    ("GET", "/api/v1/groups"),
}


def least_role(method: str, path: str) -> str:
    """What this suite expects; a route that is added and stands in none of the sets is told apart by its method."""
    if (method, path) == ("GET", "/metrics"):
        return "metrics"
    if (method, path) in FOR_USERS or (method != "GET" and OWNED.fullmatch(path)):
        return "user"
    if (method, path) in FOR_ADMINS:
        return "admin"
    return "viewer" if method == "GET" or (method, path) in FOR_VIEWERS else "admin"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, dict[str, httpx.Client]]]:
    with serve_api(tmp_path_factory.mktemp("roles"), token="correct-horse-battery") as api, ExitStack() as stack:
        tokens = {role: token_for(api, f"some-{role}", role) for role in ROLES}
        yield api, {role: stack.enter_context(known_by(api, token)) for role, token in tokens.items()}


@each(product(ROUTES, ROLES), "route", "role")
def test_every_route_lets_in_whom_it_should(
    served: tuple[Api, dict[str, httpx.Client]], route: tuple[str, str], role: str
) -> None:
    _, people = served
    method, path = route
    enough = ROLES.index(role) >= ROLES.index(least_role(method, path))
    with people[role].stream(method, path) as answer:  # the streams of events among them do not end
        assert (answer.status_code == 403) == (not enough), (answer.status_code, role, method, path)
        assert answer.status_code != 401


def test_the_description_says_what_each_route_asks_for(served: tuple[Api, dict[str, httpx.Client]]) -> None:
    api, _ = served
    document = api.http.get("/api/v1/openapi.json").json()
    assert set(document["components"]["securitySchemes"]) == {"token", "session", "jobToken"}
    for template, methods in document["paths"].items():
        for method, route in methods.items():
            called = (method.upper(), re.sub("[{}]", "", template))
            if called in OPEN:
                assert route["security"] == [], called
            elif called in OF_JOBS:
                assert route["security"] == [{"jobToken": []}], called
            else:
                least = [least_role(*called)]
                assert route["security"] == [{"token": least}, {"session": least}], called


def test_a_path_that_is_no_route_is_no_way_in(served: tuple[Api, dict[str, httpx.Client]]) -> None:
    _, people = served
    for path in ("/no/such/route", "/api/v1/jobs/", "/api/v1//users", "/api/v1/users/"):
        assert people["viewer"].post(path, json={}).status_code == 403
    for path in ("/no/such/route", "/api/v1//users", "/api/v1/users/"):
        assert people["user"].put(path, json={}).status_code == 403
    assert people["user"].get("/api/v1/webhooks%0A").status_code == 403, "which the router takes for the one without"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, token="correct-horse-battery") as served:
        yield served


def test_a_job_is_whose_who_sent_it_and_they_act_on_it(api: Api) -> None:
    with known_by(api, token_for(api, "ada", "user")) as ada, known_by(api, token_for(api, "ben", "user")) as ben:
        job = ada.post("/jobs", json={**FIVE_KEYS, "user": "ben"}).json()
        assert job["user"] == "ada", "only an admin may name another"
        for path in (f"/api/v1/jobs/{job['id']}", f"/jobs/{job['id']}"):
            refused = ben.delete(path)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
            assert "ada" in refused.json()["detail"]
        assert ben.get(f"/api/v1/jobs/{job['id']}").json()["state"] not in ("cancelled", "stopping")
        assert ben.patch(f"/api/v1/jobs/{job['id']}", json={"priority": 1}).status_code == 403
        assert ada.patch(f"/api/v1/jobs/{job['id']}", json={"priority": 60}).json()["priority"] == 60
        assert ben.post("/api/v1/jobs/nothing/cancel").status_code == 404
        assert ada.post(f"/api/v1/jobs/{job['id']}/cancel").status_code == 200
        of_ben = api.submit(user="ben")
        assert ada.post(f"/api/v1/jobs/{of_ben}/cancel").status_code == 403
        assert ben.post(f"/api/v1/jobs/{of_ben}/cancel").status_code == 200


def test_a_sweep_and_its_runs_belong_to_who_sent_it(api: Api) -> None:
    sweep = {"name": "lr", "grid": {"lr": [1, 2]}, "max_parallel": 2}
    job = {**{key: value for key, value in FIVE_KEYS.items() if key != "name"}, "user": "ben"}
    job["command"] = "python train.py --lr {lr}"
    metric = {"name": "loss", "goal": "min"}
    with known_by(api, token_for(api, "ada", "user")) as ada, known_by(api, token_for(api, "ben", "user")) as ben:
        made = ada.post("/api/v1/sweeps", json={**sweep, "job": job, "metric": metric})
        assert made.status_code == 201, made.text
        mine = f"/api/v1/sweeps/{made.json()['id']}"
        wait_for(lambda: len(ada.get("/api/v1/jobs?user=ada").json()["items"]) == 2, what="the runs")
        assert ben.post(f"{mine}/cancel").status_code == 403
        assert ada.post(f"{mine}/cancel").status_code == 200
        assert ben.get(mine).json()["user"] == "ada"


def test_batches_belong_to_who_sent_them_too(api: Api) -> None:
    with known_by(api, token_for(api, "ada", "user")) as ada:
        items = ada.post("/api/v1/jobs:batch", json=[FIVE_KEYS, {**FIVE_KEYS, "user": "root"}]).json()["items"]
        assert [job["user"] for job in items] == ["ada", "ada"]


def test_hidden_values_of_others_can_not_be_used(api: Api) -> None:
    theirs = api.submit(user="ben", env={"WANDB_API_KEY": "hush"})
    spec = {**FIVE_KEYS, "env": {"WANDB_API_KEY": "********"}}
    with known_by(api, token_for(api, "ada", "user")) as ada:
        assert ada.post(f"/api/v1/jobs?env_from={theirs}", json=spec).status_code == 403
    assert api.http.post(f"/api/v1/jobs?env_from={theirs}", json=spec).status_code == 201


def test_every_event_says_who(api: Api) -> None:
    with known_by(api, token_for(api, "ada", "user")) as ada:
        job = ada.post("/jobs", json=FIVE_KEYS).json()["id"]
        api.wait(job, "running")
        ada.patch(f"/api/v1/jobs/{job}", json={"priority": 60})
    api.http.put("/api/v1/policy", json={"algorithm": "las"})
    events = api.http.get("/api/v1/events").json()["items"]
    who = {event["kind"]: event["actor"] for event in events}
    own = api.http.get("/api/v1/whoami").json()["name"]
    assert who["job.queued"] == who["job.priority"] == "ada"
    assert who["policy.changed"] == who["user.created"] == own
    assert who["job.running"] == "", "the service itself"


def make(client: httpx.Client, name: str, **more: Any) -> httpx.Response:
    return client.post("/api/v1/tokens", json={"name": name, **more})


def test_a_token_is_good_for_no_more_than_its_owner_and_its_maker(api: Api) -> None:
    with known_by(api, token_for(api, "ada", "user")) as ada:
        assert make(ada, "more", role="admin").status_code == 422
        assert make(ada, "for another", user="ben").status_code == 403
        assert make(api.http, "for nobody", user="ben").status_code == 404
        made = make(ada, "dashboard", role="viewer").json()
        assert (made["owner"], made["role"]) == ("ada", "viewer")
        with known_by(api, made["token"]) as dashboard:
            assert dashboard.get("/api/v1/whoami").json()["role"] == "viewer"
            assert dashboard.post("/jobs", json=FIVE_KEYS).status_code == 403
            assert make(dashboard, "another").status_code == 403
        api.http.patch("/api/v1/users/ada", json={"role": "viewer"})
        assert ada.post("/jobs", json=FIVE_KEYS).status_code == 403, "less, at once, with the token that there is"
        assert ada.get("/api/v1/jobs").status_code == 200


def test_a_token_dies_with_the_one_that_it_was_made_with(api: Api) -> None:
    with known_by(api, token_for(api, "ada", "user")) as ada:
        child = make(ada, "child").json()
        with known_by(api, child["token"]) as by_child:
            grandchild = make(by_child, "grandchild").json()
        first = next(item for item in ada.get("/api/v1/tokens").json()["items"] if item["name"] == "ada's")
        assert api.http.delete(f"/api/v1/tokens/{first['id']}").status_code == 204
        for token in (child["token"], grandchild["token"]):
            with known_by(api, token) as gone:
                assert gone.get("/api/v1/jobs").status_code == 401
    assert api.http.get("/api/v1/tokens").json()["items"] == []


def test_a_token_dies_with_its_owner_and_so_do_those_made_with_it(api: Api) -> None:
    with known_by(api, token_for(api, "ada", "admin")) as ada:
        for_ben = (ada.post("/api/v1/users", json={"name": "ben"}), make(ada, "ben's", user="ben"))[1].json()["token"]
        assert api.http.delete("/api/v1/users/ada").status_code == 204
        assert ada.get("/api/v1/jobs").status_code == 401
        with known_by(api, for_ben) as ben:
            assert ben.get("/api/v1/jobs").status_code == 401
    assert api.http.delete("/api/v1/users/ada").status_code == 404


def test_a_token_is_seen_and_revoked_by_its_owner_and_admins_only(api: Api) -> None:
    with known_by(api, token_for(api, "ada", "user")) as ada, known_by(api, token_for(api, "ben", "user")) as ben:
        [of_ada] = ada.get("/api/v1/tokens").json()["items"]
        assert ben.delete(f"/api/v1/tokens/{of_ada['id']}").status_code == 404
        assert {item["owner"] for item in ben.get("/api/v1/tokens").json()["items"]} == {"ben"}
        assert len(api.http.get("/api/v1/tokens").json()["items"]) == 2
        assert ada.delete(f"/api/v1/tokens/{of_ada['id']}").status_code == 204


def test_a_token_ends_when_it_said_and_so_does_what_was_made_with_it(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    with known_by(api, token_for(api, "ada", "user", expires_in_days=1)) as ada:
        child = make(ada, "child", expires_in_days=30).json()
        [first] = [each for each in ada.get("/api/v1/tokens").json()["items"] if each["name"] == "ada's"]
        assert child["expires_at"] == first["expires_at"]
        assert make(ada, "never").json()["expires_at"] == first["expires_at"]
    for days in (0, -1, 1e9, "NaN"):
        assert make(api.http, "odd", expires_in_days=days).status_code == 422


def test_names_of_accounts(api: Api) -> None:
    own = api.http.get("/api/v1/whoami").json()
    assert own["role"] == "admin"
    for name, status in ((own["name"], 409), ("", 422), ("a b", 422), ("x" * 101, 422), ("*", 422)):
        assert api.http.post("/api/v1/users", json={"name": name}).status_code == status, name
    token_for(api, "ada", "user")
    assert api.http.post("/api/v1/users", json={"name": "ada"}).status_code == 409
    assert api.http.patch("/api/v1/users/ben", json={"role": "user"}).status_code == 404
    assert [user["name"] for user in api.http.get("/api/v1/users").json()["items"]] == ["ada"]


def test_people_and_their_tokens_outlive_the_service(tmp_path: Path) -> None:
    with serve_api(tmp_path, token="correct-horse-battery") as api:
        token = token_for(api, "ada", "user")
    with serve_api(tmp_path, token="another-horse-battery") as api, known_by(api, token) as ada:
        assert ada.get("/api/v1/whoami").json()["name"] == "ada"


def test_on_loopback_other_accounts_of_this_machine_need_a_token(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    with serve_api(tmp_path) as api:
        assert api.http.post("/jobs", json=FIVE_KEYS).status_code == 201, "our own account needs none"
        assert as_nobody(api, "GET /api/v1/jobs") == 401
        assert as_nobody(api, "POST /jobs") == 401
        assert as_nobody(api, "POST /api/v1/tokens") == 401
        assert as_nobody(api, "GET /healthz") == 200
        token = token_for(api, "ada", "user")
        assert as_nobody(api, "GET /api/v1/jobs", f"Authorization: Bearer {token}") == 200
        assert as_nobody(api, "PUT /api/v1/policy", f"Authorization: Bearer {token}") == 403
        [item] = api.http.get("/api/v1/tokens").json()["items"]
        api.http.delete(f"/api/v1/tokens/{item['id']}")
        assert as_nobody(api, "GET /api/v1/jobs", f"Authorization: Bearer {token}") == 401


def as_nobody(api: Api, request: str, header: str = "Accept: */*") -> int:
    """The status that a process of another account is answered with."""
    host, port = api.http.base_url.host, api.http.base_url.port
    head = f"{request} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n{header}\\r\\nConnection: close\\r\\n\\r\\n"
    program = f"exec 3<>/dev/tcp/{host}/{port}; printf '{head}' >&3; head -n 1 <&3"
    said = subprocess.run(["/bin/bash", "-c", program], user=65534, cwd="/", capture_output=True, timeout=20, text=True)
    return int(said.stdout.split()[1])


def test_what_one_may_not_do_is_told_and_true(served: tuple[Api, dict[str, httpx.Client]]) -> None:
    api, people = served
    for role, client in people.items():
        if role == "metrics":
            assert client.get("/api/v1/whoami").status_code == 403
            continue
        me = client.get("/api/v1/whoami").json()
        assert me["logged_in"] is True
        for permission, asked in ASKED.items():
            method, path = asked.split(" ", 1)
            answer = client.request(method, path.replace("ID", "nothing"))
            assert (answer.status_code == 403) == (permission in me["refused"]), (role, permission, answer.text)
            if answer.status_code == 403:
                assert answer.json()["detail"] == me["refused"][permission]
        assert ("change_all_jobs" in me["refused"]) == (role != "admin")
    assert set(people["viewer"].get("/api/v1/whoami").json()["refused"]) == set(Permission)
    job = api.submit(user="nobody-else")
    assert people["user"].post(f"/api/v1/jobs/{job}/cancel").status_code == 403
    assert people["admin"].post(f"/api/v1/jobs/{job}/cancel").status_code == 200


def test_a_token_without_a_role_or_an_end_is_no_admins_and_ends(api: Api) -> None:
    made = make(api.http, "zoe laptop").json()
    assert made["role"] == "user", "an admin's own token is an admin's only by name"
    days = (datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])).days
    assert days in (89, 90)
    with known_by(api, made["token"]) as laptop:
        assert laptop.put("/api/v1/policy", json={"algorithm": "las"}).status_code == 403
    boss = token_for(api, "boss", "admin")
    with known_by(api, boss) as client:
        assert make(client, "boss phone").json()["role"] == "user"
        assert make(client, "boss desk", role="admin").json()["role"] == "admin"
    token_for(api, "wall", "viewer")
    assert make(api.http, "screen", user="wall").json()["role"] == "viewer"
    assert make(api.http, "screen 2", user="wall", role="user").status_code == 422
    assert make(api.http, "never ends", expires_in_days=None).json()["expires_at"] is None


def test_a_token_for_metrics_reads_metrics_only(api: Api) -> None:
    made = make(api.http, "prometheus", role="metrics", expires_in_days=None).json()
    assert made["role"] == "metrics"
    with known_by(api, made["token"]) as prometheus:
        assert "schedulearn_jobs" in prometheus.get("/metrics").text
        assert prometheus.get("/api/v1/events", headers={"accept": "text/event-stream"}).status_code == 403
        assert make(prometheus, "another", role="metrics").status_code == 403
        assert prometheus.delete(f"/api/v1/tokens/{made['id']}").status_code == 403
        refused = prometheus.post("/api/v1/session", json={"token": made["token"]})
        assert (refused.status_code, "only reads /metrics" in refused.json()["detail"]) == (403, True)
        assert "set-cookie" not in refused.headers
    token_for(api, "probe", "metrics")
    assert make(api.http, "more", user="probe", role="viewer").status_code == 422


def test_metrics_of_hidden_jobs_are_for_tokens_of_admins(tmp_path: Path) -> None:
    with serve_api(tmp_path, token="correct-horse-battery", hide_jobs=True) as api:
        job = api.submit(user="ben", required_gpus=2)
        api.wait(job, "running")
        operators = make(api.http, "prometheus", role="metrics").json()["token"]
        with known_by(api, token_for(api, "ada", "user")) as ada:
            own = make(ada, "mine", role="metrics").json()["token"]
        with known_by(api, operators) as counted, known_by(api, own) as hidden:
            assert 'schedulearn_user_gpus{user="ben"} 2.0' in counted.get("/metrics").text
            assert "ben" not in hidden.get("/metrics").text
