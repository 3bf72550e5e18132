"""Sign-in by a proxy that names the user: only from its own address, and only while it names them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import FIVE_KEYS, Api, known_by, serve_api, token_for
from providers import RULES, browser_of
from services import Service
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from schedulearn.api.access.guard import COOKIE
from schedulearn.api.access.sign_in import ProxyUsers, SignInProxy

TOKEN = "correct-horse-battery"
WAY = "/api/v1/sign-in/proxy"
USER, GROUPS = "X-Forwarded-User", "X-Forwarded-Groups"
ADA = {USER: "Ada", GROUPS: "vision, staff", "X-Forwarded-For": "10.1.2.3"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """Service behind a proxy at 127.0.0.1. Others of this machine are at 127.0.0.2."""
    settings: dict[str, Any] = {"behind_proxy": True, "sign_in_rules": RULES, "sign_in_name": "Lab proxy"}
    with serve_api(tmp_path, token=TOKEN, sign_in_proxy={"networks": ["127.0.0.1/32"]}, **settings) as served:
        yield served


@pytest.fixture
def browser(api: Api) -> Iterator[httpx.Client]:
    """Browser whose requests the proxy passes on."""
    with browser_of(api) as found:
        yield found


@pytest.fixture
def outsider(api: Api) -> Iterator[httpx.Client]:
    """Somebody who reaches the service without the proxy."""
    transport = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(base_url=api.http.base_url, transport=transport, timeout=30) as found:
        yield found


def whoami(browser: httpx.Client, headers: Any = None) -> httpx.Response:
    return browser.get("/api/v1/whoami", headers=headers)


def test_the_user_of_the_header_signs_in_and_stays_so_while_the_proxy_names_them(
    api: Api, browser: httpx.Client
) -> None:
    assert browser.get("/api/v1/sign-in").json()["proxy"] is None
    ways = browser.get("/api/v1/sign-in", headers=ADA).json()
    assert ways == {"provider": None, "proxy": {"name": "Lab proxy", "path": WAY}}
    answer = browser.get(WAY, params={"to": "/ui/jobs"}, headers=ADA)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/jobs")
    found = whoami(browser, ADA).json()
    assert (found["name"], found["role"], found["group"]["name"]) == ("ada", "user", "vision")
    assert whoami(browser).status_code == 401, "who signs out at the proxy is named no more"
    assert whoami(browser, {**ADA, USER: "ben"}).status_code == 401, "nor does the next user of the browser get in"
    assert whoami(browser, ADA).status_code == 200
    job = browser.post("/api/v1/jobs", json=FIVE_KEYS, headers=ADA).json()["id"]
    url = str(api.http.base_url).replace("http", "ws") + f"/jobs/{job}/logs"
    cookie = {"cookie": f"{COOKIE}={browser.cookies[COOKIE]}"}
    with connect(url, additional_headers={**cookie, **ADA}):
        pass
    with pytest.raises(InvalidStatus), connect(url, additional_headers=cookie):
        pass
    assert browser.delete("/api/v1/session", headers=ADA).status_code == 204
    assert whoami(browser, ADA).status_code == 401


def test_a_header_from_anybody_else_is_ignored_and_told(
    api: Api, browser: httpx.Client, outsider: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    boss = {USER: "boss", GROUPS: "gpu-admins", "X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1"}
    with caplog.at_level(logging.WARNING):
        refused = outsider.get(WAY, headers=boss)
    assert refused.status_code == 403
    assert "sign_in_proxy.networks" in refused.text
    assert "127.0.0.2, which sent it, is not in sign_in_proxy.networks" in caplog.text
    assert COOKIE not in outsider.cookies
    assert whoami(outsider, boss).status_code == 401
    assert outsider.get("/api/v1/sign-in", headers=boss).json()["proxy"] is None
    assert api.http.get("/api/v1/users").json()["items"] == []
    browser.get(WAY, headers=ADA)
    stolen = {**ADA, "cookie": f"{COOKIE}={browser.cookies[COOKIE]}"}
    assert whoami(outsider, stolen).status_code == 401, "a session of the proxy serves only behind it"
    assert whoami(browser, ADA).status_code == 200


def test_a_header_that_comes_twice_names_nobody(api: Api, browser: httpx.Client) -> None:
    """A proxy that adds its header instead of replacing it passes on what the client itself wrote."""
    twice = [(USER, "boss"), (GROUPS, "vision"), (USER, "ada"), ("X-Forwarded-For", "10.1.2.3")]
    assert "names no user, or two" in browser.get(WAY, headers=twice).text
    groups = [(USER, "ada"), (GROUPS, "gpu-admins"), (GROUPS, "vision")]
    assert browser.get(WAY, headers=groups).status_code == 403, "then there are no groups"
    for empty in ("", "x" * 256, "a\tb"):
        assert browser.get(WAY, headers={USER: empty, GROUPS: "vision"}).status_code == 403
    assert browser.get(WAY).status_code == 403
    assert api.http.get("/api/v1/users").json()["items"] == []


def test_names_of_the_proxy_lead_into_no_account_of_another_origin(api: Api, browser: httpx.Client) -> None:
    with known_by(api, token_for(api, "boss", "admin")) as boss:
        for name in ("boss", "BOSS", "böss"):
            refused = browser.get(WAY, headers={USER: name.encode(), GROUPS: b"vision"})
            assert refused.status_code == 403, name
            assert "users link boss" in refused.text
        assert whoami(boss).json()["role"] == "admin"
        linked = api.http.put("/api/v1/users/boss/identities", json={"issuer": "proxy", "subject": "boss"})
        assert linked.status_code == 200
        assert browser.get(WAY, headers={USER: "boss", GROUPS: "vision"}).status_code == 303
        assert whoami(boss).json()["role"] == "user", "the rules decide once a person signs in so"


def test_a_user_can_not_raise_their_own_role_by_headers(browser: httpx.Client, outsider: httpx.Client) -> None:
    browser.get(WAY, headers=ADA)
    raised = {**ADA, GROUPS: "gpu-admins"}
    assert browser.put("/api/v1/policy", json={"algorithm": "las"}, headers=raised).status_code == 403
    made = browser.post("/api/v1/tokens", json={"name": "mine"}, headers=ADA).json()
    outsider.headers["authorization"] = f"Bearer {made['token']}"
    assert outsider.get(WAY, headers=raised).status_code == 403
    assert whoami(outsider, raised).json()["role"] == "user"


@pytest.mark.process
def test_a_service_with_sign_in_needs_a_token_even_on_loopback(tmp_path: Path) -> None:
    """Else a proxy of the service's own account, which names no forwarding, would make everybody an admin."""
    settings = {"behind_proxy": True, "sign_in_rules": RULES, "sign_in_proxy": {"networks": ["127.0.0.1/32"]}}
    env = {f"SCHEDULEARN_{name.upper()}": json.dumps(value) for name, value in settings.items()}
    with Service(tmp_path / "data", env=env) as service:
        assert httpx.get(f"{service.url}/api/v1/jobs").status_code == 401
        assert httpx.get(f"{service.url}/api/v1/jobs", headers={USER: "ada"}).status_code == 401
        token = (tmp_path / "data/token").read_text()
        assert httpx.get(f"{service.url}/api/v1/jobs", headers={"authorization": f"Bearer {token}"}).is_success


@pytest.mark.parametrize(
    ("client", "trusted"),
    [
        (("10.0.0.5", 1), True), (("::ffff:10.0.0.5", 1), True), (("fd00::7", 1), True), (("10.0.1.5", 1), False),
        (("::ffff:10.0.1.5", 1), False), (None, False), (("", 0), False), (("testclient", 1), False),
    ],
)  # fmt: skip
def test_only_the_address_of_the_connection_counts(client: tuple[str, int] | None, trusted: bool) -> None:
    users = ProxyUsers(SignInProxy(networks=["10.0.0.0/24", "fd00::/64"]))
    scope = {"client": client, "headers": [(b"x-forwarded-user", b"ada"), (b"x-forwarded-for", b"10.0.0.5")]}
    assert users.trusts(scope) is trusted
    assert users.user_of(scope) == ("ada" if trusted else "")
