"""Sign-in by a provider on the page, across two sites, as a browser's rules for cookies allow."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from browsing import faults_in_both_themes, open_page
from playwright.sync_api import Page, expect
from providers import know, real_provider, settings_for
from servers.ports import free_port
from services import Service

pytestmark = pytest.mark.browser

TOKEN = "correct horse battery"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with real_provider() as found:
        yield found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, issuer: str) -> Iterator[Service]:
    port = free_port()
    settings = settings_for(issuer, public_url=f"http://127.0.0.1:{port}")
    env = {
        f"SCHEDULEARN_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in settings.items()
    }
    made = Service(tmp_path_factory.mktemp("sign-in"), token=TOKEN, env=env)
    made.port = port
    with made:
        yield made


def test_a_person_approves_a_login_after_signing_in_at_the_provider(service: Service, issuer: str, page: Page) -> None:
    know(issuer, "7d3c", preferred_username="ada", groups=["vision"])
    asked = service.call("POST", "/api/v1/logins", {"host": "laptop", "account": "ada"})
    open_page(page, service, asked["path"])
    link = page.get_by_role("link", name="Sign in with Lab ID")
    expect(link).to_be_visible()
    assert faults_in_both_themes(page) == []
    link.click()
    page.get_by_placeholder("sub").fill("7d3c")
    page.get_by_role("button", name="Authorize").click()
    page.get_by_role("region", name="A command line asks for a token of yours").get_by_role(
        "button", name="Approve"
    ).click()
    expect(page.get_by_role("status").filter(has_text="Approved")).to_be_visible()
    taken = service.call("POST", "/api/v1/logins/token", {"secret": asked["secret"]})
    assert (taken["token"]["owner"], taken["token"]["role"]) == ("ada", "user")
    page.goto(f"{service.url}/ui/people")
    expect(page.get_by_role("region", name="You")).to_contain_text("your sign-in")
    page.reload()
    expect(page.get_by_test_id("live")).to_have_text("live")
    page.get_by_role("button", name="Account of ada").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(link).to_be_visible()


def test_an_admin_disables_a_user_and_enables_them(service: Service, issuer: str, page: Page) -> None:
    service.add_person("ben", "user")
    know(issuer, "1", preferred_username="eve", groups=["gpu-admins"])
    open_page(page, service, "/ui/people")
    page.get_by_role("link", name="Sign in with Lab ID").click()
    page.get_by_placeholder("sub").fill("1")
    page.get_by_role("button", name="Authorize").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="ben"))
    row.get_by_role("button", name="Disable ben").click()
    expect(row).to_contain_text("disabled")
    assert faults_in_both_themes(page) == []
    row.get_by_role("button", name="Enable ben").click()
    expect(row).not_to_contain_text("disabled")
