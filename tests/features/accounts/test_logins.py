"""Logins of command lines: asked for, approved on the page, and taken once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import ROLES, Api, known_by, serve_api, token_for

from schedulearn.api.access.logins import (
    LIFE_S,
    MAX_OF_ADDRESS,
    MAX_REQUESTS,
    MAX_WRONG_CODES,
    LoginRequests,
    plain_code,
)
from schedulearn.features.accounts.routes import logins as routes
from schedulearn.scheduler.core.people import Actor, Role
from schedulearn.scheduler.errors import NotFoundError, QuotaError

TOKEN = "correct-horse-battery"
ADA = Actor("ada", Role.USER)

People = dict[str, httpx.Client]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, token=TOKEN) as served:
        yield served


@pytest.fixture
def people(api: Api) -> Iterator[People]:
    """A client of each role, and an outsider."""
    with ExitStack() as stack:
        found = {role: stack.enter_context(known_by(api, token_for(api, f"some-{role}", role))) for role in ROLES}
        found["outsider"] = stack.enter_context(httpx.Client(base_url=api.http.base_url, timeout=30))
        yield found


def ask(people: People, **wish: str) -> dict[str, Any]:
    answer = people["outsider"].post("/api/v1/logins", json={"host": "laptop", "account": "ada", **wish})
    assert answer.status_code == 201, answer.text
    asked: dict[str, Any] = answer.json()
    return asked


def take(people: People, asked: dict[str, Any]) -> dict[str, Any]:
    answer = people["outsider"].post("/api/v1/logins/token", json={"secret": asked["secret"]})
    assert answer.status_code == 200, answer.text
    taken: dict[str, Any] = answer.json()
    return taken


def approve(people: People, who: str, asked: dict[str, Any], **body: str) -> httpx.Response:
    return people[who].post(f"/api/v1/logins/{asked['code']}/approve", json=body)


def tokens(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.http.get("/api/v1/tokens").json()["items"]
    return found


def test_an_approved_login_gets_a_token_of_the_approver_once(api: Api, people: People) -> None:
    asked = ask(people)
    assert take(people, asked) == {"state": "waiting", "token": None}
    shown = people["user"].get(f"/api/v1/logins/{asked['code'].lower().replace('-', ' ')}").json()
    assert (shown["host"], shown["account"], shown["address"]) == ("laptop", "ada", "127.0.0.1")
    assert (shown["role"], shown["roles"]) == ("user", ["viewer", "user"])
    before = len(tokens(api))
    assert approve(people, "user", asked).json()["state"] == "approved"
    assert len(tokens(api)) == before, "nothing is stored before the command line takes it"
    taken = take(people, asked)["token"]
    assert (taken["owner"], taken["role"], taken["name"]) == ("some-user", "user", f"ada@laptop {asked['code']}")
    assert taken["expires_at"] is not None
    with known_by(api, taken["token"]) as laptop:
        assert laptop.get("/api/v1/whoami").json()["name"] == "some-user"
        assert laptop.delete(f"/api/v1/tokens/{taken['id']}").status_code == 204, "it may end itself"
        assert laptop.get("/api/v1/whoami").status_code == 401
    again = people["outsider"].post("/api/v1/logins/token", json={"secret": asked["secret"]})
    assert again.status_code == 404
    event = next(each for each in api.http.get("/api/v1/events").json()["items"] if asked["code"] in each["message"])
    assert event["actor"] == "some-user"


def test_many_who_take_it_at_once_get_one_token(api: Api, people: People) -> None:
    asked = ask(people)
    approve(people, "user", asked)
    with ThreadPoolExecutor(8) as pool:
        body = {"secret": asked["secret"]}
        answers = list(pool.map(lambda _: people["outsider"].post("/api/v1/logins/token", json=body), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200, *[404] * 7]
    assert sum(asked["code"] in token["name"] for token in tokens(api)) == 1


@pytest.mark.parametrize(("who", "most"), [("viewer", "viewer"), ("user", "user"), ("admin", "user")])
def test_the_role_is_at_most_the_approvers_and_admin_only_if_they_choose_it(
    api: Api, people: People, who: str, most: str
) -> None:
    asked = ask(people)
    assert people[who].get(f"/api/v1/logins/{asked['code']}").json()["role"] == most
    assert approve(people, who, asked).json()["role"] == most
    token = take(people, asked)["token"]
    assert (token["owner"], token["role"]) == (f"some-{who}", most)
    wished = ask(people, role="admin")
    assert people[who].get(f"/api/v1/logins/{wished['code']}").json()["role"] == most, "anybody may ask for admin"
    assert approve(people, who, wished).json()["role"] == most
    chosen = ask(people, role="admin")
    answer = approve(people, who, chosen, role="admin")
    if who == "admin":
        assert take(people, chosen)["token"]["role"] == "admin"
    else:
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "role")
        assert take(people, chosen)["state"] == "waiting"
        assert approve(people, who, chosen, role="viewer").status_code == 200
        assert take(people, chosen)["token"]["role"] == "viewer"


@pytest.mark.parametrize("passed", [["9.9.9.9, 198.51.100.7"], ["9.9.9.9", "198.51.100.7"]], ids=["value", "header"])
def test_the_address_is_what_the_proxy_appended(tmp_path: Path, passed: list[str]) -> None:
    """Who asks may send a header too, to show another address and to ask more often."""
    with serve_api(tmp_path, token=TOKEN, behind_proxy=True) as api:
        with httpx.Client(base_url=api.http.base_url, timeout=30) as outsider:
            headers = [("x-forwarded-for", each) for each in passed]
            asked = outsider.post("/api/v1/logins", json={}, headers=headers).json()
        found = api.http.get(f"/api/v1/logins/{asked['code']}", headers={"x-forwarded-for": "198.51.100.9"})
        assert found.json()["address"] == "198.51.100.7"


def test_a_viewers_token_revokes_itself_and_no_other(api: Api, people: People) -> None:
    first, second = ask(people), ask(people)
    for asked in (first, second):
        approve(people, "viewer", asked)
    one, other = take(people, first)["token"], take(people, second)["token"]
    with known_by(api, one["token"]) as laptop:
        assert laptop.delete(f"/api/v1/tokens/{other['id']}").status_code == 404
        assert laptop.delete(f"/api/v1/tokens/{one['id']}").status_code == 204


def test_outsiders_learn_and_decide_nothing(api: Api, people: People) -> None:
    asked = ask(people)
    outsider = people["outsider"]
    assert outsider.get(f"/api/v1/logins/{asked['code']}").status_code == 401
    for verb in ("approve", "refuse"):
        assert outsider.post(f"/api/v1/logins/{asked['code']}/{verb}", json={}).status_code == 401
    for secret in (asked["code"], "", "x" * 200):
        assert outsider.post("/api/v1/logins/token", json={"secret": secret}).status_code == 404
    assert outsider.post("/api/v1/logins", json={"host": "a\nb"}).status_code == 422
    assert outsider.post("/api/v1/logins", json={"host": "a" * 61}).status_code == 422
    assert outsider.post("/api/v1/logins", content=b"x" * 5000).status_code in (413, 415)
    assert take(people, asked)["state"] == "waiting"
    assert asked["secret"] not in people["admin"].get(f"/api/v1/logins/{asked['code']}").text


def test_pages_of_other_sites_decide_nothing(api: Api, people: People) -> None:
    asked = ask(people)
    browser = people["outsider"]
    browser.post("/api/v1/session", json={"token": TOKEN})
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "http://evil.example"}):
        for verb in ("approve", "refuse"):
            answer = browser.post(f"/api/v1/logins/{asked['code']}/{verb}", json={}, headers=headers)
            assert answer.status_code in (401, 403), headers
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert browser.post(f"/api/v1/logins/{asked['code']}/approve", content=b"a=b", headers=form).status_code == 415
    assert take(people, asked)["state"] == "waiting"


def test_a_refused_login_ends(api: Api, people: People) -> None:
    asked = ask(people)
    assert people["viewer"].post(f"/api/v1/logins/{asked['code']}/refuse").json()["state"] == "refused"
    assert approve(people, "user", asked).status_code == 409
    assert take(people, asked) == {"state": "refused", "token": None}


def test_an_approver_who_has_lost_their_rights_approves_nothing(api: Api, people: People) -> None:
    asked = ask(people)
    approve(people, "user", asked)
    assert people["admin"].patch("/api/v1/users/some-user", json={"role": "viewer"}).status_code == 200
    assert take(people, asked) == {"state": "refused", "token": None}


def test_a_login_that_can_not_be_stored_may_be_taken_later(
    api: Api, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ask(people)
    approve(people, "user", asked)
    with monkeypatch.context() as patch:
        patch.setattr(routes, "MAX_TOKENS", 1)
        refused = people["outsider"].post("/api/v1/logins/token", json={"secret": asked["secret"]})
        assert (refused.status_code, "has 1 tokens" in refused.text) == (409, True)
    assert take(people, asked)["token"]["owner"] == "some-user"


def test_wrong_codes_of_a_user_are_limited(api: Api, people: People) -> None:
    asked = ask(people)
    answers = [people["user"].get("/api/v1/logins/BBBB-BBBB").status_code for _ in range(MAX_WRONG_CODES + 1)]
    assert answers == [*[404] * MAX_WRONG_CODES, 429]
    assert people["user"].get(f"/api/v1/logins/{asked['code']}").status_code == 429, "nor do right ones count now"
    assert people["viewer"].get(f"/api/v1/logins/{asked['code']}").status_code == 200


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_requests_are_few_and_end() -> None:
    clock = Clock()
    logins = LoginRequests(clock)
    first, secret = logins.ask("a", "b", "10.0.0.1", None)
    for _ in range(MAX_OF_ADDRESS - 1):
        logins.ask("a", "b", "10.0.0.1", None)
    with pytest.raises(QuotaError):
        logins.ask("a", "b", "10.0.0.1", None)
    for n in range(MAX_OF_ADDRESS):
        logins.ask("a", "b", f"2001:db8::{n}", None)
    with pytest.raises(QuotaError):
        logins.ask("a", "b", "2001:db8::ffff", None)
    for n in range(MAX_REQUESTS - 2 * MAX_OF_ADDRESS):
        logins.ask("a", "b", f"10.1.0.{n}", None)
    with pytest.raises(QuotaError):
        logins.ask("a", "b", "10.2.0.1", None)
    clock.now += LIFE_S
    for look in (lambda: logins.take(secret), lambda: logins.find(ADA, first.code)):
        with pytest.raises(NotFoundError):
            look()
    assert logins.ask("a", "b", "10.0.0.1", None)[0].code != first.code


def test_a_code_is_found_however_it_is_written() -> None:
    assert plain_code(" kxqd7rmbz ") == "KXQD-RMBZ"
    request, _ = LoginRequests().ask("a", "b", "", None)
    assert plain_code(request.code.replace("-", "").lower()) == request.code
