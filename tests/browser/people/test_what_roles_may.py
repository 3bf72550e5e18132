"""What a role lacks is off, with the reason; the menu of the account; signing in and out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from browsing import ENDLESS, assert_clean, faults, log_in, open_page, visit
from playwright.sync_api import Locator, Page, expect
from services import Service, run

pytestmark = pytest.mark.browser

ROLES = {"boss": "admin", "ada": "user", "vic": "viewer"}
NEEDS_ADMIN = "is user here, and this needs the role admin"


@dataclass
class Lab:
    service: Service
    tokens: dict[str, str]
    hers: str
    his: str

    def open(self, page: Page, name: str, path: str = "") -> None:
        page.context.clear_cookies()
        log_in(page.request, self.service, self.tokens[name])
        visit(page, f"{self.service.url}/ui/{path}")


@pytest.fixture(scope="module")
def lab(shared_guarded_service: Service) -> Iterator[Lab]:
    """One service for all of this module."""
    service = shared_guarded_service
    tokens = {name: service.add_person(name, role) for name, role in ROLES.items()}
    service.call("PUT", "/api/v1/policy", {"algorithm": "las"})
    service.call("PUT", "/api/v1/policy", {"algorithm": "fifo"})
    hers = service.submit(ENDLESS, name="hers", gpus=1, user="ada")
    his = service.submit(ENDLESS, name="his", gpus=1, user="ben", ports={"web": 8000})
    service.call("POST", "/api/v1/hosts", {"address": "tcp://127.0.0.1:9", "name": "gone"})
    service.wait(his, "running")
    yield Lab(service, tokens, hers, his)
    service.empty()


FORCED = """each => {
  for (const name of ["disabled", "data-disabled", "aria-disabled"]) each.removeAttribute(name);
  each.type = "submit";
  each.click();
}"""
"""As somebody does it with the browser's tools."""


def is_off(button: Locator, reason: str) -> None:
    """It can't be pressed, by whatever means, is reached by keyboard, and says why."""
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("aria-description", reason)
    button.focus()
    expect(button).to_be_focused()
    button.hover(force=True)
    expect(button.page.get_by_role("tooltip").filter(has_text=reason).filter(visible=True).first).to_be_visible()
    button.click(force=True)
    for key in ("Enter", "Space"):
        button.press(key)
    button.evaluate(FORCED)
    button.page.wait_for_timeout(100)
    expect(button.page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_visible()


def button_of(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True).first


def test_a_user_is_not_offered_what_only_admins_may(lab: Lab, page: Page) -> None:
    lab.open(page, "ada", "hosts")
    for name in ("Add a host", "Cordon", "Drain"):
        is_off(button_of(page, name), f"ada {NEEDS_ADMIN}")
    page.get_by_role("button", name="More for gone").click()
    remove = page.get_by_role("menuitem", name="Remove")
    expect(remove).to_have_attribute("aria-description", f"ada {NEEDS_ADMIN}")
    remove.click(force=True)
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_have_count(0)  # while it fades, a menu without its items is a fault
    assert faults(page) == []

    visit(page, f"{lab.service.url}/ui/policy")
    is_off(button_of(page, "Undo"), f"ada {NEEDS_ADMIN}")
    page.get_by_role("radio").nth(1).check(force=True)
    is_off(button_of(page, "Apply"), f"ada {NEEDS_ADMIN}")
    page.get_by_role("button", name="Preview").click()  # a look is for everybody
    expect(page.get_by_test_id("preview")).to_be_visible()
    assert lab.service.call("GET", "/api/v1/policy")["algorithm"] == "fifo"

    visit(page, f"{lab.service.url}/ui/settings")
    expect(page.get_by_role("region", name="Tokens")).to_be_visible()
    expect(page.get_by_role("region", name="Webhooks")).to_have_count(0)


def test_a_user_acts_on_their_own_jobs_only(lab: Lab, page: Page) -> None:
    reason = "This job belongs to ben: only the owner and admins may change it"
    lab.open(page, "ada", f"jobs/{lab.his}")
    is_off(button_of(page, "Cancel"), reason)
    expect(page.get_by_role("region", name="Ports").get_by_role("link")).to_have_count(0)
    page.get_by_role("button", name="More", exact=True).click()
    expect(page.get_by_role("menuitem", name="Change the priority")).to_have_attribute("aria-description", reason)
    expect(page.get_by_role("menuitem", name="Resubmit as it is")).to_be_enabled()
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Terminal").click()
    is_off(button_of(page, "Open a shell"), reason)

    visit(page, f"{lab.service.url}/ui/jobs?user=")
    page.get_by_label("Select his").check()
    is_off(button_of(page, "Cancel selected"), reason)
    page.get_by_label("Select all jobs that you can cancel").check()
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.get_by_label("Select his").check()
    button_of(page, "Cancel selected").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("hers")
    expect(dialog).to_contain_text("1 job of other users stays")
    dialog.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_text("Cancelled 1 job.")).to_be_visible()
    lab.service.wait(lab.hers, "cancelled")
    assert lab.service.job(lab.his)["state"] == "running"


def test_a_viewer_is_offered_nothing_that_changes_something(lab: Lab, page: Page) -> None:
    reason = "vic is viewer here, and this needs the role user"
    lab.open(page, "vic")
    submit = page.get_by_role("navigation").locator("a", has_text="Submit")
    expect(submit).to_have_attribute("aria-description", reason)
    submit.click(force=True)
    is_off(button_of(page, "Submit a job"), reason)
    page.keyboard.press("Escape")
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("n")
    expect(page.get_by_role("alert").filter(has_text=reason)).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.keyboard.press("Control+k")
    page.get_by_label("Find jobs, hosts, screens, actions").fill("submit a")
    offered = page.get_by_role("dialog").get_by_role("button", name="Submit a job")
    expect(offered).to_contain_text(reason)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    assert faults(page) == []

    visit(page, f"{lab.service.url}/ui/jobs/{lab.his}")
    for name in ("Clone", "Cancel"):
        is_off(button_of(page, name), reason)
    visit(page, f"{lab.service.url}/ui/sweeps")
    is_off(button_of(page, "Search for a configuration"), reason)

    visit(page, f"{lab.service.url}/ui/submit?from={lab.his}")
    is_off(button_of(page, "Submit"), reason)
    is_off(button_of(page, "What would suit it?"), reason)
    page.get_by_label("Name", exact=True).press("Control+Enter")
    page.wait_for_timeout(300)
    assert len(lab.service.call("GET", "/api/v1/jobs?limit=100")["items"]) == 2, "and no key submits it"
    assert faults(page) == []


def test_the_menu_of_the_account(lab: Lab, page: Page) -> None:
    lab.open(page, "ada")
    account = page.get_by_role("button", name="Account of ada")
    for item, heading, address in (
        ("My jobs", "Jobs", "jobs?user=ada"), ("My tokens", "Settings", "settings"), ("My quota", "People", "people"),
    ):  # fmt: skip
        account.click()
        expect(page.get_by_role("menu")).to_contain_text("ada · user")
        page.get_by_role("menuitem", name=item).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        assert page.url == f"{lab.service.url}/ui/{address}"
    expect(page.get_by_role("menu")).to_have_count(0)  # while it fades, a menu without its items is a fault
    assert faults(page) == []
    account.click()
    page.get_by_role("menuitem", name="Sign out").click()
    field = page.get_by_label("Token", exact=True)
    expect(field).to_be_visible()
    visit(page, f"{lab.service.url}/ui/jobs")
    expect(field).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("An admin of this service creates it")
    assert faults(page) == []
    field.fill(f"export SCHEDULEARN_URL={lab.service.url} SCHEDULEARN_TOKEN={lab.tokens['vic']}")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Account of vic").click()
    expect(page.get_by_role("menu")).to_contain_text("vic · viewer")
    expect(page.get_by_role("menuitem", name="My tokens")).to_have_count(0)


def test_who_runs_the_service_signs_in_as_somebody_and_out_again(service: Service, page: Page) -> None:
    service.call("POST", "/api/v1/users", {"name": "ada"})
    token = service.call("POST", "/api/v1/tokens", {"name": "ada", "user": "ada"})["token"]
    own = service.call("GET", "/api/v1/whoami")["name"]
    watch = open_page(page, service)
    page.get_by_role("button", name=f"Account of {own}").click()
    page.get_by_role("menuitem", name="Sign in with a token").click()
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Account of ada").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("button", name=f"Account of {own}")).to_be_visible()
    assert_clean(watch)


def test_a_token_for_somebody_begins_at_their_row_and_is_no_admins(lab: Lab, page: Page) -> None:
    lab.open(page, "boss", "people")
    page.get_by_role("button", name="Create token for ada").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Owner")).to_have_value("ada")
    expect(dialog.get_by_label("Role")).to_have_value("user")
    assert dialog.get_by_label("Role").locator("option").all_inner_texts() == ["metrics", "viewer", "user"]
    expect(dialog.get_by_label("Expires after")).to_have_value("90")
    dialog.get_by_label("Owner").select_option("vic")
    assert dialog.get_by_label("Role").locator("option").all_inner_texts() == ["metrics", "viewer"]
    dialog.get_by_label("Owner").select_option("boss")
    expect(dialog.get_by_label("Role")).to_have_value("user")
    assert dialog.get_by_label("Role").locator("option").all_inner_texts() == [
        "metrics", "viewer", "user", "admin",
    ]  # fmt: skip
    dialog.get_by_label("Owner").select_option("ada")
    dialog.get_by_label("Name").fill("ada's desk")
    dialog.get_by_role("button", name="Create", exact=True).click()
    token = dialog.get_by_test_id("token").inner_text()
    line = dialog.get_by_test_id("line").inner_text()
    assert line == f"export SCHEDULEARN_URL={lab.service.url} SCHEDULEARN_TOKEN={token}"
    assert faults(page) == []
    dialog.get_by_role("button", name="Done").click()
    [made] = [each for each in lab.service.call("GET", "/api/v1/tokens")["items"] if each["name"] == "ada's desk"]
    assert (made["owner"], made["role"]) == ("ada", "user")
    assert made["expires_at"] is not None
    assert run("whoami", url=lab.service.url, SCHEDULEARN_TOKEN=token).out.startswith("ada (user, until ")
