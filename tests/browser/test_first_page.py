"""The page in a real browser against the real service: submit, watch, switch the policy, cancel."""

from __future__ import annotations

import re
import time

import pytest
from browsing import ENDLESS, SCRIPT_IN_NAME, assert_clean, open_page
from playwright.sync_api import APIResponse, Page, Route, expect
from services import IMAGE, Service

pytestmark = pytest.mark.browser


def test_submit_by_the_form_and_watch_it(service: Service, page: Page) -> None:
    watch = open_page(page, service, "/ui/jobs")
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    expect(page.get_by_test_id("live")).to_have_text("live")

    page.get_by_role("link", name="Submit a job").click()
    page.get_by_label("Name").fill(SCRIPT_IN_NAME)
    page.get_by_label("Command").fill("sh -c 'for i in 1 2 3 4 5 6; do echo line-$i; sleep 0.5; done'")
    page.get_by_role("textbox", name="GPUs").fill("2")
    page.get_by_role("button", name="Submit").click()
    # The service says what is missing, and the page says it at the field.
    expect(page.get_by_label("Type", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Image")).to_have_attribute("aria-invalid", "true")
    watch.forget("status of 422")

    page.get_by_label("Type", exact=True).fill("shell")
    page.get_by_label("Image").fill(IMAGE)
    page.get_by_role("button", name="More fields").click()
    page.get_by_label("Launcher").select_option("none")
    page.get_by_label("Environment").fill("LR=0.1\nMY_TOKEN=hush")
    page.get_by_role("button", name="Submit", exact=True).click()

    expect(page.get_by_role("heading", name=SCRIPT_IN_NAME)).to_be_visible()
    expect(page.get_by_test_id("state")).to_have_text("running")
    log = page.get_by_role("log")
    expect(log).to_contain_text("line-2")
    seen = log.inner_text()
    assert "line-6" not in seen, "the log came whole, not live"
    expect(log).to_contain_text("line-6")
    expect(page.get_by_test_id("state")).to_have_text("succeeded")
    expect(page.get_by_label("Log", exact=True).get_by_role("status")).to_have_text("complete")
    expect(page.get_by_label("Environment")).not_to_contain_text("hush")

    page.get_by_label("Search the log").fill("LINE-3")
    expect(page.get_by_test_id("log-count")).to_have_text("1 of 6 lines")

    page.get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("link", name=SCRIPT_IN_NAME)).to_be_visible()
    assert_clean(watch)


def test_list_is_live_and_cancels_many(service: Service, page: Page) -> None:
    holder = service.submit(ENDLESS, name="holder", gpus=4)
    watch = open_page(page, service, "/ui/jobs")
    expect(page.get_by_test_id(f"job-{holder}")).to_contain_text("running")

    waiting = service.submit(ENDLESS, name="waiter", gpus=3)  # by someone else: the page hears of it
    row = page.get_by_test_id(f"job-{waiting}")
    expect(row).to_contain_text("queued")
    expect(row).to_contain_text(re.compile(r"needs 3 GPUs"), timeout=15_000)
    expect(page.get_by_label("Cluster")).to_contain_text("4 of 4 GPUs in use")

    page.get_by_role("button", name="Waiting").click()
    expect(page.get_by_test_id(f"job-{holder}")).to_be_hidden()
    page.get_by_label("Name or id contains").fill("nothing like it")
    expect(page.get_by_text("No job matches.")).to_be_visible()
    page.get_by_label("Name or id contains").fill("")
    page.get_by_role("button", name="All").click()

    page.get_by_label("Select all jobs that you can cancel").check()
    page.get_by_role("button", name="Cancel selected").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel 2 jobs").click()
    expect(page.get_by_test_id(f"job-{holder}")).to_contain_text("cancelled")
    expect(page.get_by_test_id(f"job-{waiting}")).to_contain_text("cancelled")
    expect(page.get_by_label("Cluster")).to_contain_text("0 of 4 GPUs in use")
    assert_clean(watch)


def test_a_change_while_the_list_is_read_first_is_shown(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name="holder", gpus=4)
    service.wait(job, "running")
    held: list[tuple[Route, APIResponse]] = []

    def hold_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))  # read now, delivered later, as by a slow line

    page.route("**/api/v1/jobs?*limit=100", hold_first)
    watch = open_page(page, service, "/ui/jobs")
    expect(page.get_by_label("Cluster")).to_contain_text("4 of 4 GPUs in use")
    while not held:
        page.wait_for_timeout(20)
    service.call("POST", f"/api/v1/jobs/{job}/cancel")
    service.wait(job, "cancelled")
    expect(page.get_by_label("Cluster")).to_contain_text("0 of 4 GPUs in use")  # the page knows of the end
    route, answer = held[0]
    route.fulfill(response=answer)
    expect(page.get_by_test_id(f"job-{job}")).to_contain_text("cancelled")
    assert_clean(watch)


def test_policy_is_switched_and_faults_are_shown(service: Service, page: Page) -> None:
    service.call("PUT", "/api/v1/policy", {"algorithm": "fifo"})
    watch = open_page(page, service, "/ui/policy")
    expect(page.get_by_test_id("algorithm")).to_have_text("fifo")
    page.get_by_label("jobs_per_gpu").fill("99")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("jobs_per_gpu must be 1 to 16")).to_be_visible()
    watch.forget("status of 422")
    expect(page.get_by_test_id("algorithm")).to_have_text("fifo")

    page.get_by_role("radio", name="round-robin", exact=True).click()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_test_id("algorithm")).to_have_text("round-robin")
    assert service.call("GET", "/api/v1/policy")["algorithm"] == "round-robin"

    service.call("PUT", "/api/v1/policy", {"algorithm": "fifo"})  # by someone else
    expect(page.get_by_test_id("algorithm")).to_have_text("fifo")
    assert_clean(watch)


def test_connection_that_breaks_is_shown_and_comes_back(own_service: Service, page: Page) -> None:
    open_page(page, own_service, "/ui/jobs")
    badge = page.get_by_test_id("live")
    expect(badge).to_have_text("live")
    own_service.stop()
    expect(badge).to_have_text(re.compile("reconnecting|stale"))
    own_service.start()
    expect(badge).to_have_text("live", timeout=30_000)
    job = own_service.submit("sleep 1", name="after the break")
    expect(page.get_by_test_id(f"job-{job}")).to_contain_text("succeeded")


def test_token_is_asked_for_once(guarded_service: Service, page: Page) -> None:
    watch = open_page(page, guarded_service, "/ui/hosts")
    page.get_by_label("Token", exact=True).fill("wrong battery")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("invalid token")).to_be_visible()
    page.get_by_label("Token", exact=True).fill(guarded_service.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("Host local")).to_contain_text("4 of 4 GPUs free")
    expect(page.get_by_test_id("live")).to_have_text("live")
    page.reload()
    expect(page.get_by_label("Host local")).to_be_visible()
    watch.forget("status of 401")
    assert_clean(watch)


def test_long_log_stays_fast_and_can_be_read_while_it_grows(service: Service, page: Page) -> None:
    job = service.submit("sh -c 'seq 100000; while true; do echo more; sleep 0.2; done'", name="chatty")
    watch = open_page(page, service, f"/ui/jobs/{job}")
    log = page.get_by_role("log")
    expect(page.get_by_test_id("log-count")).to_have_text(re.compile(r"100,0\d\d lines"))
    expect(log).to_contain_text("more")
    assert log.locator("[data-index]").count() < 200, "every line is in the document"

    log.hover()
    page.mouse.wheel(0, -3000)
    status = page.get_by_label("Log", exact=True).get_by_role("status")
    expect(status).to_have_text("paused")
    top = log.evaluate("element => element.scrollTop")
    page.wait_for_timeout(600)
    assert log.evaluate("element => element.scrollTop") == top, "the log moved under its reader"
    page.get_by_role("button", name="Follow the end").click()
    expect(status).to_have_text("following")

    started = time.monotonic()
    page.get_by_label("Search the log").fill("99999")
    expect(page.get_by_test_id("log-count")).to_have_text(re.compile(r"^1 of 100,"))
    assert time.monotonic() - started < 3
    assert_clean(watch)
