"""Sign-in by a real OpenID Connect provider: accounts, roles, groups, quotas, IDs, sessions and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import FIVE_KEYS, Api, known_by, serve_api, token_for
from providers import (
    CALLBACK,
    CLIENT,
    NAME,
    PUBLIC,
    SECRET,
    START,
    approve,
    begin,
    browser_of,
    know,
    query_of,
    real_provider,
    settings_for,
    sign_in,
)

from schedulearn.api.access.guard import COOKIE

pytestmark = pytest.mark.process

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with real_provider() as found:
        yield found


@pytest.fixture
def api(tmp_path: Path, issuer: str) -> Iterator[Api]:
    claims = {"uid": "uid", "gid": "gid", "gids": "gids"}
    with serve_api(tmp_path, token=TOKEN, **settings_for(issuer, sign_in_claims=claims)) as served:
        yield served


@pytest.fixture
def browser(api: Api) -> Iterator[httpx.Client]:
    with browser_of(api) as found:
        yield found


def me(browser: httpx.Client) -> dict[str, Any]:
    answer = browser.get("/api/v1/whoami")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def user(api: Api, name: str) -> dict[str, Any]:
    [found] = [each for each in api.http.get("/api/v1/users").json()["items"] if each["name"] == name]
    return dict(found)


def names(api: Api) -> list[str]:
    return [each["name"] for each in api.http.get("/api/v1/users").json()["items"]]


def test_a_first_sign_in_makes_an_account_by_the_first_rule_that_applies(
    api: Api, browser: httpx.Client, issuer: str
) -> None:
    know(issuer, "1001", preferred_username="Ada Lövelace", groups=["speech", "x"], uid=1001, gid=200, gids=[27])
    ways = browser.get("/api/v1/sign-in").json()
    assert ways == {"provider": {"name": NAME, "path": START}, "proxy": None}
    url = begin(browser)
    sent = query_of(url)
    assert url.startswith(f"{issuer}/oauth2/authorize?")
    assert sent["redirect_uri"] == f"{PUBLIC}{CALLBACK}"
    assert sent["code_challenge_method"] == "S256"
    assert len(sent["code_challenge"]) == 43
    assert {"state", "nonce"} <= sent.keys()
    answer = browser.get(approve(url, "1001"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/jobs")
    cookie = next(line for line in answer.headers.get_list("set-cookie") if line.startswith(COOKIE))
    assert {"HttpOnly", "SameSite=strict", "Max-Age=43200"} <= {part.strip() for part in cookie.split(";")}
    found = me(browser)
    assert (found["name"], found["role"], found["signed_in"], found["token_id"]) == ("ada-lovelace", "user", True, None)
    assert found["quota"]["gpus"] == 2
    assert found["group"]["members"] == ["ada-lovelace"]
    made = user(api, "ada-lovelace")
    assert (made["uid"], made["gid"], made["gids"]) == (1001, 200, [27])
    [identity] = made["identities"]
    assert (identity["issuer"], identity["subject"]) == (issuer, "1001")
    assert identity["signed_in_at"] is not None
    assert browser.post("/api/v1/jobs", json=FIVE_KEYS).json()["user"] == "ada-lovelace"
    assert browser.put("/api/v1/policy", json={"algorithm": "las"}).status_code == 403


def test_roles_groups_and_quotas_follow_the_provider_at_every_sign_in(
    api: Api, browser: httpx.Client, issuer: str
) -> None:
    know(issuer, "1", preferred_username="ada", groups=["gpu-admins"])
    sign_in(browser, "1")
    assert me(browser)["role"] == "admin"
    made = browser.post("/api/v1/tokens", json={"name": "ci", "role": "admin"}).json()
    know(issuer, "1", preferred_username="renamed-there", groups=["vision"])
    sign_in(browser, "1")
    found = me(browser)
    assert (found["name"], found["role"], found["group"]["name"]) == ("ada", "user", "vision")
    with known_by(api, made["token"]) as ci:
        assert ci.get("/api/v1/whoami").json()["role"] == "user", "a token never has more than its owner"
    know(issuer, "1", preferred_username="ada", groups=["guests"], uid=1001, gid=200, gids=["27"])
    sign_in(browser, "1")
    found = me(browser)
    assert (found["role"], found["group"], found["quota"]) == ("viewer", None, None)
    before = api.http.get("/api/v1/events").json()["items"]
    sign_in(browser, "1")
    [added] = api.http.get("/api/v1/events", params={"after": before[-1]["id"]}).json()["items"]
    assert (added["kind"], added["actor"]) == ("login.started", "ada"), "a sign-in changes nothing else"


def test_whom_no_rule_lets_in_gets_no_account_and_loses_the_use_of_an_earlier_one(
    api: Api, browser: httpx.Client, issuer: str
) -> None:
    know(issuer, "1", preferred_username="ada", groups=["elsewhere"])
    refused = sign_in(browser, "1")
    assert refused.status_code == 403
    assert "no rule lets ada sign in" in refused.text
    assert COOKIE not in browser.cookies
    assert names(api) == []
    know(issuer, "1", preferred_username="ada", groups=["vision"])
    sign_in(browser, "1")
    made = browser.post("/api/v1/tokens", json={"name": "ci"}).json()
    with known_by(api, made["token"]) as ci, browser_of(api) as other:
        know(issuer, "1", preferred_username="ada", groups=["vision", "alumni"])
        assert sign_in(other, "1").status_code == 403, "the rule of alumni comes first"
        assert ci.get("/api/v1/whoami").status_code == 401
        assert browser.get("/api/v1/whoami").status_code == 401
        assert user(api, "ada")["disabled_by"] == "rules"
        know(issuer, "1", preferred_username="ada", groups=["vision"])
        sign_in(other, "1")
        assert me(other)["name"] == "ada"
        assert ci.get("/api/v1/whoami").status_code == 200, "tokens stay, and work again"


def test_a_name_never_leads_into_an_account_of_somebody_else(api: Api, browser: httpx.Client, issuer: str) -> None:
    token_for(api, "Boss", "admin")
    know(issuer, "evil", preferred_username="boss", groups=["vision"])
    refused = sign_in(browser, "evil")
    assert refused.status_code == 403
    assert f"schedulearn users link Boss --issuer {issuer} --subject evil" in refused.text
    know(issuer, "first", preferred_username="ada", groups=["vision"])
    sign_in(browser, "first")
    know(issuer, "second", preferred_username="ADA", groups=["vision"])
    with browser_of(api) as other:
        assert sign_in(other, "second").status_code == 403
        assert other.get("/api/v1/whoami").status_code == 401
    own = api.http.get("/api/v1/whoami").json()["name"]
    know(issuer, "third", preferred_username=own, groups=["vision"])
    with browser_of(api) as other:
        assert "the account that runs this service" in sign_in(other, "third").text
    api.submit(user="carol")
    know(issuer, "fourth", preferred_username="carol", groups=["vision"])
    with browser_of(api) as other:
        assert "belong to the name carol" in sign_in(other, "fourth").text, "nor to jobs of a name without an account"
    assert names(api) == ["Boss", "ada"]


def test_a_subject_can_not_smuggle_a_command_into_what_an_admin_copies(
    api: Api, browser: httpx.Client, issuer: str
) -> None:
    token_for(api, "ada", "user")
    subject = "x; touch pwned <b>"
    know(issuer, subject, preferred_username="ada", groups=["vision"])
    refused = sign_in(browser, subject)
    assert refused.status_code == 403
    assert "--subject &#x27;x; touch pwned &lt;b&gt;&#x27;" in refused.text


def test_an_admin_links_a_person_to_an_account_and_others_can_not(api: Api, browser: httpx.Client, issuer: str) -> None:
    with known_by(api, token_for(api, "ada", "user")) as ada, known_by(api, token_for(api, "wall", "viewer")) as wall:
        body = {"issuer": issuer, "subject": "9"}
        for somebody in (ada, wall):
            assert somebody.put("/api/v1/users/ada/identities", json=body).status_code == 403
            assert somebody.delete("/api/v1/users/ada/identities").status_code == 403
            assert somebody.patch("/api/v1/users/ada", json={"disabled": False}).status_code == 403
        assert browser.put("/api/v1/users/ada/identities", json=body).status_code == 401
        linked = api.http.put("/api/v1/users/ada/identities", json=body)
        assert linked.json()["identities"][0]["subject"] == "9"
        assert api.http.put("/api/v1/users/ada/identities", json=body).status_code == 200
        assert api.http.put("/api/v1/users/wall/identities", json=body).status_code == 409
        assert api.http.put("/api/v1/users/nobody/identities", json=body).status_code == 404
        know(issuer, "9", preferred_username="somebody-else", groups=["guests"])
        sign_in(browser, "9")
        assert (me(browser)["name"], me(browser)["role"]) == ("ada", "viewer")
        assert api.http.delete("/api/v1/users/ada/identities").status_code == 204
        assert browser.get("/api/v1/whoami").status_code == 401, "their sessions end"
        assert ada.get("/api/v1/whoami").status_code == 200, "tokens stay"
        assert api.http.delete("/api/v1/users/ada/identities").status_code == 404


def test_a_disabled_account_has_no_way_in(api: Api, browser: httpx.Client, issuer: str) -> None:
    know(issuer, "1", preferred_username="ada", groups=["vision"])
    sign_in(browser, "1")
    made = browser.post("/api/v1/tokens", json={"name": "ci"}).json()
    job = browser.post("/api/v1/jobs", json=FIVE_KEYS).json()["id"]
    assert api.http.patch("/api/v1/users/ada", json={"disabled": True}).json()["disabled_by"] == "admin"
    assert browser.get("/api/v1/whoami").status_code == 401
    with known_by(api, made["token"]) as ci, browser_of(api) as other:
        assert ci.get("/api/v1/whoami").status_code == 401
        assert other.post("/api/v1/session", json={"token": made["token"]}).status_code == 401
        assert "disabled" in sign_in(other, "1").text
        assert user(api, "ada")["disabled_by"] == "admin", "the rules don't lift it"
        assert api.job(job)["state"] != "cancelled", "jobs go on"
        api.http.patch("/api/v1/users/ada", json={"disabled": False})
        assert ci.get("/api/v1/whoami").status_code == 200
        sign_in(other, "1")
        assert me(other)["name"] == "ada"


def test_who_is_removed_comes_back_as_somebody_new(api: Api, browser: httpx.Client, issuer: str) -> None:
    know(issuer, "1", preferred_username="ada", groups=["vision"])
    sign_in(browser, "1")
    first = user(api, "ada")["id"]
    assert api.http.delete("/api/v1/users/ada").status_code == 204
    assert browser.get("/api/v1/whoami").status_code == 401
    sign_in(browser, "1")
    assert user(api, "ada")["id"] > first


def test_signing_out_ends_the_session(api: Api, browser: httpx.Client, issuer: str) -> None:
    know(issuer, "1", preferred_username="ada", groups=["vision"])
    sign_in(browser, "1")
    kept = browser.cookies[COOKIE]
    assert browser.delete("/api/v1/session").status_code == 204
    assert browser.get("/api/v1/whoami", headers={"cookie": f"{COOKIE}={kept}"}).status_code == 401


def test_a_command_line_gets_a_token_that_outlasts_the_session_of_its_approver(
    api: Api, browser: httpx.Client, issuer: str
) -> None:
    know(issuer, "1", preferred_username="ada", groups=["vision"])
    asked = api.http.post("/api/v1/logins", json={"host": "laptop", "account": "ada"}).json()
    to = asked["path"]
    assert sign_in(browser, "1", to).headers["location"] == to, "the page that approves it"
    assert browser.post(f"/api/v1/logins/{asked['code']}/approve", json={}).status_code == 200
    token = api.http.post("/api/v1/logins/token", json={"secret": asked["secret"]}).json()["token"]
    assert (token["owner"], token["role"]) == ("ada", "user")
    assert token["expires_at"] > me(browser)["expires_at"]
    browser.delete("/api/v1/session")
    with known_by(api, token["token"]) as laptop:
        assert laptop.get("/api/v1/whoami").json()["name"] == "ada"


def test_ids_with_which_a_job_runs_stay_and_nobody_is_locked_out(tmp_path: Path, issuer: str) -> None:
    folders = {"data_sets": {"home": "/home/ada"}, "writable_data_sets": {"home": ["ada"]}}
    settings = settings_for(issuer, sign_in_claims={"uid": "uid", "gid": "gid"}, **folders)
    with serve_api(tmp_path, token=TOKEN, **settings) as api, browser_of(api) as browser:
        know(issuer, "1", preferred_username="ada", groups=["guests", "gpu-admins"], uid=1001, gid=1001)
        sign_in(browser, "1")
        job = browser.post("/api/v1/jobs", json={**FIVE_KEYS, "mounts": ["home"]}).json()["id"]
        api.wait(job, "running")
        know(issuer, "1", preferred_username="ada", groups=["gpu-admins"], uid=1002, gid=1002)
        sign_in(browser, "1")
        assert user(api, "ada")["uid"] == 1001
        [told] = [each for each in api.http.get("/api/v1/events").json()["items"] if each["code"] == "ids_stay"]
        assert job in told["message"]
        assert browser.post(f"/api/v1/jobs/{job}/cancel").status_code == 200
        api.runtime.finish(f"schedulearn-{job}-1-0")
        api.wait(job, "cancelled")
        sign_in(browser, "1")
        assert user(api, "ada")["uid"] == 1002


def test_ids_that_can_not_be_are_refused(api: Api, browser: httpx.Client, issuer: str) -> None:
    for number, bad in enumerate((0, -1, "0", True, "1e3", 1.5, [5], 2**40)):
        know(issuer, f"bad-{number}", preferred_username=f"bad-{number}", groups=["vision"], uid=bad, gid=5)
        assert sign_in(browser, f"bad-{number}").status_code == 403, bad
    assert names(api) == []
    know(issuer, "none", preferred_username="none", groups=["vision"])
    sign_in(browser, "none")
    assert user(api, "none")["uid"] is None


def test_the_secret_is_never_shown(api: Api, browser: httpx.Client, issuer: str, tmp_path: Path) -> None:
    know(issuer, "1", preferred_username="ada", groups=["gpu-admins"])
    sign_in(browser, "1")
    shown = [browser.get(path).text for path in ("/api/v1/sign-in", "/api/v1/events", "/api/v1/users", "/ui/")]
    assert SECRET not in "".join(shown)
    assert SECRET.encode() not in (tmp_path / "schedulearn.db").read_bytes()
    assert CLIENT == "schedulearn"
