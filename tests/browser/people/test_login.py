"""A command line's login on the page: installed, asked for, approved."""

from __future__ import annotations

import pytest
from browsing import SCRIPT_IN_NAME, assert_clean, faults_in_both_themes, open_page
from playwright.sync_api import Page, expect
from services import Service

pytestmark = pytest.mark.browser


def test_a_viewer_signs_in_and_approves_a_login(guarded_service: Service, page: Page) -> None:
    service = guarded_service
    token = service.add_person("vic", "viewer")
    wish = {"host": "laptop", "account": SCRIPT_IN_NAME[:20], "role": "user"}
    asked = service.call("POST", "/api/v1/logins", wish)
    watch = open_page(page, service, asked["path"])
    page.get_by_text("Command line for your laptop").click()
    wheel = service.call("GET", "/api/v1/client")["path"]
    expect(page.get_by_text(f'uv tool install "schedulearn[cli] @ {service.url}{wheel}"')).to_be_visible()
    expect(page.get_by_text(f"schedulearn login {service.url}")).to_be_visible()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    panel = page.get_by_role("region", name="A command line asks for a token of yours")
    for text in (asked["code"], "laptop", SCRIPT_IN_NAME[:20], "127.0.0.1"):
        expect(panel).to_contain_text(text)
    expect(panel.get_by_label("Role").get_by_role("option")).to_have_text(["viewer"])
    assert faults_in_both_themes(page) == []
    panel.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status").filter(has_text="Approved")).to_be_visible()
    taken = service.call("POST", "/api/v1/logins/token", {"secret": asked["secret"]})
    assert (taken["token"]["owner"], taken["token"]["role"]) == ("vic", "viewer")
    watch.forget("401")
    assert_clean(watch)


def test_a_login_is_refused_and_a_wrong_code_explained(service: Service, page: Page) -> None:
    asked = service.call("POST", "/api/v1/logins", {})
    watch = open_page(page, service, "/ui/login")
    page.get_by_label("Code").fill("bbbb bbbb")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("alert")).to_contain_text("no login waits with this code")
    open_code = f"{service.url}/ui/login?code={asked['code'].lower()}"
    page.goto(open_code)
    page.get_by_role("button", name="Refuse").click()
    expect(page.get_by_role("status").filter(has_text="Refused")).to_be_visible()
    assert service.call("POST", "/api/v1/logins/token", {"secret": asked["secret"]})["state"] == "refused"
    watch.forget("404")
    assert_clean(watch)
