"""Who one is, users and quotas; whose jobs are shown first."""

from __future__ import annotations

import pytest
from browsing import ENDLESS, assert_clean, faults, log_in, open_page, visit
from playwright.sync_api import Page, expect
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser]


def test_an_admin_adds_users_and_bounds_them(service: Service, page: Page) -> None:
    watch = open_page(page, service, "/ui/people")
    users = page.get_by_role("region", name="Users")
    expect(page.get_by_role("region", name="You")).to_contain_text("you run this service")
    users.get_by_role("button", name="Add a user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("no name!")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog).to_contain_text("must begin with a letter or a digit")
    dialog.get_by_label("Name").fill("ada")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog).to_have_count(0)
    role = users.get_by_label("Role of ada")
    expect(role).to_have_value("user")
    role.select_option("viewer")
    expect(role).to_have_value("viewer")
    assert service.call("GET", "/api/v1/users")["items"][0]["role"] == "viewer"

    quotas = page.get_by_role("region", name="Quotas")
    quotas.get_by_role("button", name="Set a quota").click()
    dialog.get_by_label("User", exact=True).fill("ada")
    dialog.get_by_label("Maximum GPUs").fill("2")
    dialog.get_by_role("button", name="Set", exact=True).click()
    expect(quotas).to_contain_text("0 of 2")
    quotas.get_by_role("button", name="Change the quota of ada").click()
    dialog.get_by_label("Maximum GPUs").fill("3")
    dialog.get_by_role("button", name="Set", exact=True).click()
    expect(quotas).to_contain_text("0 of 3")
    quotas.get_by_role("button", name="Remove the quota of ada").click()
    expect(quotas).to_contain_text("all users may use all free GPUs")

    groups = page.get_by_role("region", name="Groups")
    groups.get_by_role("button", name="Add a group").click()
    dialog.get_by_label("Name").fill("vision")
    dialog.get_by_label("Users").fill("ada, ben")
    dialog.get_by_label("Maximum GPUs").fill("4")
    dialog.get_by_label("Guaranteed GPUs").fill("one")
    expect(dialog.get_by_role("button", name="Set", exact=True)).to_be_disabled()
    dialog.get_by_label("Guaranteed GPUs").fill("1")
    dialog.get_by_role("button", name="Set", exact=True).click()
    expect(groups).to_contain_text("ada, ben")
    assert service.call("GET", "/api/v1/groups")["items"][0]["guarantee"] == {"any": 1}
    expect(groups).to_contain_text("0 of 4")
    groups.get_by_role("button", name="Change the group vision").click()
    dialog.get_by_label("Users").fill("ada")
    dialog.get_by_role("button", name="Set", exact=True).click()
    expect(groups).not_to_contain_text("ben")
    assert service.call("GET", "/api/v1/groups")["items"][0]["members"] == ["ada"]
    groups.get_by_role("button", name="Remove the group vision").click()
    expect(groups).to_contain_text("None yet")

    users.get_by_role("button", name="Remove ada").click()
    dialog.get_by_role("button", name="Remove the user").click()
    expect(users).to_contain_text("None yet")
    watch.forget("status of 422")
    assert_clean(watch)


def test_a_user_sees_their_own_jobs_first_and_what_they_may_have(guarded_service: Service, page: Page) -> None:
    service = guarded_service
    service.call("POST", "/api/v1/users", {"name": "ada", "role": "user"})
    service.call("PUT", "/api/v1/quotas/ada", {"gpus": 2, "waiting": 10})
    service.call("PUT", "/api/v1/groups/vision", {"gpus": 5, "guarantee": {"any": 1}})
    service.call("PUT", "/api/v1/groups/vision/members/ada")
    token = service.call("POST", "/api/v1/tokens", {"name": "laptop", "user": "ada"})["token"]
    hers = service.submit(ENDLESS, name="hers", gpus=1, user="ada")
    his = service.submit(ENDLESS, name="his", gpus=1, user="ben")
    service.wait(hers, "running")
    log_in(page.request, service, token)
    watch = open_page(page, service, "/ui/jobs")
    row = page.get_by_test_id
    expect(row(f"job-{hers}")).to_be_visible()
    expect(row(f"job-{his}")).to_have_count(0)
    yours = page.get_by_role("button", name="Your jobs")
    expect(yours).to_have_attribute("aria-pressed", "true")
    yours.click()
    expect(row(f"job-{his}")).to_be_visible()
    page.reload()  # the address says so
    expect(row(f"job-{his}")).to_be_visible()
    visit(page, f"{service.url}/ui/jobs?q=nothing")
    page.get_by_role("button", name="Show all users' jobs").click()
    expect(page.get_by_text("No job matches.")).to_be_visible()

    visit(page, f"{service.url}/ui/people")
    you = page.get_by_role("region", name="You")
    expect(you).to_contain_text("ada")
    expect(you).to_contain_text("submit jobs, and change your own")
    expect(you.get_by_label("Your quota")).to_contain_text("GPUs at once: 1 of 2")
    expect(you).to_contain_text("With the group vision: 1 GPU held, 1 guaranteed, 0 borrowed")
    expect(you.get_by_label("The quota of your group")).to_contain_text("GPUs at once: 1 of 5")
    expect(page.get_by_role("region", name="Users")).to_have_count(0)
    assert faults(page) == []
    assert_clean(watch)


def test_who_runs_the_service_sees_all_jobs(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name="somebody's", user="ben")
    watch = open_page(page, service, "/ui/jobs")
    expect(page.get_by_test_id(f"job-{job}")).to_be_visible()
    page.get_by_role("button", name="Your jobs").click()
    expect(page.get_by_text("None of your jobs match.")).to_be_visible()
    assert_clean(watch)
