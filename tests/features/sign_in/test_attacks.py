"""Attacks on sign-in: tokens for others, replays, codes of other browsers, open redirects, a provider that is down."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import Api, known_by, serve_api
from clusters import wait_for
from joserfc.jwk import RSAKey
from providers import (
    CALLBACK,
    CLIENT,
    SECRET,
    START,
    Forger,
    begin,
    browser_of,
    come_back,
    forging_provider,
    query_of,
    settings_for,
)

from schedulearn.api.access.guard import COOKIE, SECURE_COOKIE
from schedulearn.api.outgoing import openid
from schedulearn.api.settings import load_settings
from schedulearn.features.sign_in.attempts import Attempts, page_path
from schedulearn.scheduler.errors import ForbiddenError

TOKEN = "correct-horse-battery"
ADA = {"preferred_username": "ada", "groups": ["vision"]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Forger]]:
    with forging_provider() as forger:
        settings = settings_for(forger.issuer)
        with serve_api(tmp_path_factory.mktemp("attacks"), token=TOKEN, **settings) as api:
            yield api, forger


@pytest.fixture
def forger(served: tuple[Api, Forger]) -> Iterator[Forger]:
    _, found = served
    found.claims, found.userinfo, found.raw_token, found.status = dict(ADA), {}, None, 200
    found.hangs = None
    yield found
    found.hangs = None


@pytest.fixture
def api(served: tuple[Api, Forger]) -> Api:
    return served[0]


@pytest.fixture
def browser(api: Api) -> Iterator[httpx.Client]:
    with browser_of(api) as found:
        yield found


def is_in(browser: httpx.Client) -> bool:
    return browser.get("/api/v1/whoami").status_code == 200


def test_the_forger_lets_people_in_when_it_is_honest(browser: httpx.Client, forger: Forger) -> None:
    assert come_back(browser, forger).status_code == 303
    assert is_in(browser)
    _, form, headers = next(each for each in forger.asked if each[0] == "/token_endpoint")
    assert len(form["code_verifier"]) >= 43
    assert "client_secret" not in form
    assert headers["authorization"] == httpx.BasicAuth(CLIENT, SECRET)._auth_header


FORGED: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://evil.test"},
    "another client": {"aud": "another-service"},
    "another authorized party": {"azp": "another-service"},
    "another client, though we are the authorized party": {"aud": "another-service", "azp": CLIENT},
    "two clients, and no authorized party": {"aud": [CLIENT, "another-service"]},
    "no audience": {"aud": None},
    "an old one": {"exp": 1_000},
    "one without an end": {"exp": None},
    "one of tomorrow": {"iat": 4_000_000_000, "exp": 4_000_000_300},
    "one that is not valid yet": {"nbf": 4_000_000_000},
    "another sign-in's nonce": {"nonce": "of-another-sign-in"},
    "no nonce": {"nonce": None},
    "no subject": {"sub": None},
    "an empty subject": {"sub": ""},
    "a subject that is no text": {"sub": ["7d3c"]},
    "a long subject": {"sub": "x" * 256},
    "a hash of another access token": {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
}


@pytest.mark.parametrize("kind", FORGED)
def test_an_id_token_for_somebody_else_is_refused(browser: httpx.Client, forger: Forger, kind: str) -> None:
    forger.claims |= FORGED[kind]
    answer = come_back(browser, forger)
    assert answer.status_code == 403, answer.text
    assert not is_in(browser)


def _other_key(forger: Forger) -> str:
    mine, forger.key = forger.key, RSAKey.generate_key(2048, {"kid": "one"})
    try:
        return forger.id_token()
    finally:
        forger.key = mine


def _unsigned(forger: Forger) -> str:
    _, body, _ = forger.id_token().split(".")
    return f"eyJhbGciOiJub25lIn0.{body}."


def _changed(forger: Forger) -> str:
    header, body, signature = forger.id_token().split(".")
    return f"{header}.{body[:-4]}AAAA.{signature}"


SIGNED: dict[str, Callable[[Forger], str]] = {
    "not signed": _unsigned,
    "signed by another key": _other_key,
    "changed": _changed,
    "signed by the public key as a secret": lambda forger: forger.signed_by_secret(forger.key.as_pem(private=False)),
    "signed by the client secret": lambda forger: forger.signed_by_secret(SECRET.encode()),
    "no token": lambda forger: "hello",
}


@pytest.mark.parametrize("kind", SIGNED)
def test_a_signature_that_is_not_the_providers_is_refused(browser: httpx.Client, forger: Forger, kind: str) -> None:
    sent = query_of(begin(browser))
    forger.nonce = sent["nonce"]
    forger.raw_token = SIGNED[kind](forger)
    answer = browser.get(CALLBACK, params={"state": sent["state"], "code": "some-code"})
    assert answer.status_code == 403, answer.text
    assert not is_in(browser)


def test_answers_about_two_persons_are_refused(browser: httpx.Client, forger: Forger) -> None:
    forger.userinfo = {"sub": "the-boss", "groups": ["gpu-admins"]}
    assert "two persons" in come_back(browser, forger).text
    assert not is_in(browser)


def test_what_the_id_token_says_goes_before_the_other_answer(browser: httpx.Client, forger: Forger) -> None:
    forger.userinfo = {"groups": ["gpu-admins"], "nonce": "x", "aud": "x"}
    come_back(browser, forger)
    assert browser.get("/api/v1/whoami").json()["role"] == "user"


def test_a_code_serves_only_the_browser_that_began(api: Api, browser: httpx.Client, forger: Forger) -> None:
    """Login CSRF: an attacker has a victim's browser open the way back with the attacker's code."""
    sent = query_of(begin(browser))
    forger.nonce = sent["nonce"]
    way_back = {"state": sent["state"], "code": "of-the-attacker"}
    with browser_of(api) as victim:
        assert victim.get(CALLBACK, params=way_back).status_code == 403
        begin(victim)
        assert "another sign-in" in victim.get(CALLBACK, params=way_back).text
        assert not is_in(victim)
        begin(victim)
        for forged in ("", "x", "\ud800", "ä" * 100):
            assert victim.get(CALLBACK, params={"state": forged.encode("utf-8", "replace"), "code": "x"}).is_error
            begin(victim)


def test_a_state_serves_once_even_for_many_at_once(api: Api, browser: httpx.Client, forger: Forger) -> None:
    sent = query_of(begin(browser))
    forger.nonce = sent["nonce"]
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    way_back = {"state": sent["state"], "code": "some-code"}
    before = len([each for each in forger.asked if each[0] == "/token_endpoint"])

    def replay(_: int) -> int:
        return httpx.get(
            f"{api.http.base_url}{CALLBACK}", params=way_back, headers={"cookie": cookies}, timeout=30
        ).status_code

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(replay, range(8)))
    assert sorted(answers) == [303, *[403] * 7]
    assert len([each for each in forger.asked if each[0] == "/token_endpoint"]) == before + 1


def test_an_attempt_ends_after_its_life_and_with_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts()
    attempt, cookie = attempts.begin("/ui/")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 601)
    with pytest.raises(ForbiddenError, match="longer than 10 minutes"):
        attempts.end(cookie, attempt.state)
    monkeypatch.undo()
    with pytest.raises(ForbiddenError):
        Attempts().end(cookie, attempt.state)
    for forged in (None, "", "x", cookie[:-5], "ä"):
        with pytest.raises(ForbiddenError):
            attempts.end(forged, attempt.state)
    assert attempts.end(cookie, attempt.state) == attempt


def test_a_code_that_the_provider_refuses_is_no_sign_in(browser: httpx.Client, forger: Forger) -> None:
    forger.status = 400
    assert "refuses the code" in come_back(browser, forger).text
    assert not is_in(browser)


def test_an_answer_of_another_provider_is_refused(browser: httpx.Client, forger: Forger) -> None:
    """Mix-up: RFC 9207 names the provider in the answer."""
    assert "does not come from the provider" in come_back(browser, forger, iss="https://evil.test").text
    assert not is_in(browser)
    assert come_back(browser, forger, iss=forger.issuer).status_code == 303


def test_what_the_provider_refuses_is_told_without_a_strangers_words(browser: httpx.Client, forger: Forger) -> None:
    sent = query_of(begin(browser))
    more = {"error": "access_denied", "error_description": "call 555-0100"}
    answer = browser.get(CALLBACK, params={"state": sent["state"], **more})
    assert "access_denied" in answer.text
    assert "555" not in answer.text
    sent = query_of(begin(browser))
    answer = browser.get(CALLBACK, params={"state": sent["state"], "error": "<script>alert(1)</script>"})
    assert "script" not in answer.text


ELSEWHERE = (
    "https://evil.test/", "//evil.test", "/\\evil.test", "/ui//evil.test", "/ui/\r\nset-cookie: a=b", "/ui/\tx",
    "javascript:alert(1)", "ui/", "", "/api/v1/session", "/uix", "/ui/..//evil.test", "http:/ui/", "/ui/#x",
    "/ui/" + "x" * 2000,
)  # fmt: skip


def test_the_way_back_never_leads_elsewhere(browser: httpx.Client, forger: Forger) -> None:
    assert [page_path(to) for to in ELSEWHERE] == ["/ui/"] * len(ELSEWHERE)
    assert page_path("/ui/login?code=ABCD-EFGH") == "/ui/login?code=ABCD-EFGH"
    for to in ELSEWHERE[:4]:
        assert come_back(browser, forger, to).headers["location"] == "/ui/"


def test_a_new_key_of_the_provider_is_found(
    browser: httpx.Client, forger: Forger, monkeypatch: pytest.MonkeyPatch
) -> None:
    come_back(browser, forger)
    forger.key = RSAKey.generate_key(2048, {"kid": "two"})
    monkeypatch.setattr(openid, "KEYS_AGAIN_S", 0.0)
    sent = query_of(begin(browser))
    forger.nonce = sent["nonce"]
    forger.raw_token = forger.id_token(kid="two")
    assert browser.get(CALLBACK, params={"state": sent["state"], "code": "x"}).status_code == 303
    forger.raw_token = None
    forger.key = RSAKey.generate_key(2048, {"kid": "one"})
    assert come_back(browser, forger).status_code == 303


def test_a_slow_provider_holds_few_threads_and_nobody_else_waits(
    api: Api, browser: httpx.Client, forger: Forger
) -> None:
    forger.hangs = threading.Event()
    asked = len(forger.asked)

    def one(_: int) -> int:
        with browser_of(api) as somebody:
            return come_back(somebody, forger).status_code

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(one, number) for number in range(8)]
        wait_for(
            lambda: sum(each[0] == "/token_endpoint" for each in forger.asked[asked:]) == 8, what="eight that wait"
        )
        refused = browser.get(START)
        assert refused.status_code == 503
        assert "try again" in refused.text
        with known_by(api, TOKEN) as admin:
            assert admin.get("/api/v1/whoami").status_code == 200
        forger.hangs.set()
        assert {each.result(60) for each in waiting} <= {303, 403}


def test_a_provider_that_is_down_ends_no_session_and_no_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openid, "FAILURE_S", 0.0)
    with forging_provider() as forger, serve_api(tmp_path, token=TOKEN, **settings_for(forger.issuer)) as api:
        forger.claims = dict(ADA)
        with browser_of(api) as ada, browser_of(api) as ben:
            come_back(ada, forger)
            known, forger.discovery = forger.discovery, {"issuer": "https://evil.test"}
            monkeypatch.setattr(openid, "METADATA_S", 0.0)
            sent = query_of(begin(ben))  # what was found before still counts
            assert sent["state"]
            forger.discovery = known
            forger.status = 500
            with caplog.at_level(logging.WARNING):
                answer = come_back(ben, forger)
            assert answer.status_code == 503
            assert "answered 500" in answer.text
            assert not is_in(ben)
            assert SECRET not in caplog.text
            assert is_in(ada), "a session goes on until it ends"
            assert ben.post("/api/v1/session", json={"token": TOKEN}).status_code == 200, "the service's own token"
            assert ben.get("/api/v1/whoami").json()["role"] == "admin"


def test_over_tls_no_other_host_can_set_the_cookies(tmp_path: Path) -> None:
    with forging_provider() as forger:
        settings = settings_for(forger.issuer, public_url="https://service.test")
        with serve_api(tmp_path, token=TOKEN, **settings) as api, browser_of(api) as browser:
            forger.claims = dict(ADA)
            began = browser.get(START)
            sent = query_of(began.headers["location"])
            assert sent["redirect_uri"] == f"https://service.test{CALLBACK}"
            forger.nonce = sent["nonce"]
            attempt = began.headers["set-cookie"]
            assert attempt.startswith("__Host-schedulearn_sign_in=")
            assert {"HttpOnly", "Path=/", "SameSite=lax", "Secure"} <= {part.strip() for part in attempt.split(";")}
            way_back = {"state": sent["state"], "code": "some-code"}
            plain = attempt.partition(";")[0].removeprefix("__Host-")
            assert browser.get(CALLBACK, params=way_back, headers={"cookie": plain}).status_code == 403
            back = browser.get(CALLBACK, params=way_back, headers={"cookie": attempt.partition(";")[0]})
            session = next(each for each in back.headers.get_list("set-cookie") if each.startswith(SECURE_COOKIE))
            assert {"HttpOnly", "Path=/", "SameSite=strict", "Secure"} <= {part.strip() for part in session.split(";")}
            assert is_in(browser) is False
            cookie = {"cookie": session.partition(";")[0]}
            assert browser.get("/api/v1/whoami", headers=cookie).json()["name"] == "ada"


def test_a_provider_that_does_not_answer_is_told(tmp_path: Path) -> None:
    with serve_api(tmp_path, token=TOKEN, **settings_for("http://127.0.0.1:9")) as api, browser_of(api) as browser:
        answer = browser.get(START)
        assert answer.status_code == 503
        assert "does not answer" in answer.text
        assert "token" in answer.text
        assert browser.get("/api/v1/sign-in").json()["provider"] is not None


def test_a_provider_is_asked_again_soon_after_it_failed_and_seldom_after_it_answered() -> None:
    now = 0.0
    with forging_provider() as forger:
        forger.discovery = {"issuer": "https://evil.test"}
        provider = openid.Provider(load_settings(**settings_for(forger.issuer)), "", clock=lambda: now)
        for _ in range(3):
            with pytest.raises(openid.ProviderDownError, match=r"evil\.test"):
                provider.metadata()
        assert len(forger.asked) == 1, "strangers can't have it asked again and again"
        forger.discovery = {"authorization_response_iss_parameter_supported": True}
        now = openid.FAILURE_S
        assert provider.names_itself(forger.issuer)
        assert not provider.names_itself(None), "it says that it names itself in each answer"
        assert not provider.names_itself("https://evil.test")
        assert len(forger.asked) == 2
        now += openid.METADATA_S
        provider.metadata()
        assert len(forger.asked) == 3


def test_one_account_can_not_push_out_the_sessions_of_others(
    api: Api, browser: httpx.Client, forger: Forger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedulearn.scheduler.store.people.tokens.MAX_SESSIONS_OF_ACCOUNT", 2)
    assert browser.post("/api/v1/session", json={"token": TOKEN}).status_code == 200
    cookies = []
    for _ in range(3):
        with browser_of(api) as somebody:
            come_back(somebody, forger)
            cookies.append(somebody.cookies[COOKIE])
    found = [
        httpx.get(f"{api.http.base_url}/api/v1/whoami", headers={"cookie": f"{COOKIE}={each}"}).status_code
        for each in cookies
    ]
    assert found == [401, 200, 200]
    assert is_in(browser)
