"""One job's screen: what it reports, and what can be done with it."""

from __future__ import annotations

import re

import pytest
from browsing import REPORTING, SCRIPT_IN_NAME, assert_clean, measured, open_page, report
from playwright.sync_api import Page, expect
from services import Service

pytestmark = pytest.mark.browser


def test_what_a_job_reports_is_drawn(service: Service, page: Page) -> None:
    job = service.submit(REPORTING, name=SCRIPT_IN_NAME, elastic=True)
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=training")
    expect(page.get_by_label("GPUs held over time", exact=True)).to_be_visible()
    expect(page.get_by_text("No loss: no reports, and nothing like")).to_be_visible()

    report(service, job, measured())
    expect(page.get_by_role("application", name="loss by step")).to_be_visible(timeout=15_000)
    expect(page.get_by_role("application", name="val_acc by step")).to_be_visible()
    expect(page.get_by_text("epoch 4 of 10, 35%")).to_be_visible()
    steps = page.get_by_label("Step time by part")
    expect(steps.get_by_role("row")).to_have_count(3)
    expect(steps).to_contain_text("42 ms + 10 ms")
    expect(page.get_by_role("application", name=re.compile("the knee is at"))).to_be_visible(timeout=15_000)
    expect(page.get_by_label("Batch and noise")).to_contain_text(SCRIPT_IN_NAME)

    page.get_by_role("tab", name="Attempts and events").click()
    expect(page.get_by_role("region", name="Events")).to_contain_text("running")
    expect(page).to_have_url(re.compile("tab=events"))
    assert_clean(watch)


def test_a_job_is_held_released_paused_and_resumed(service: Service, page: Page) -> None:
    holder = service.submit(REPORTING, name="holder", gpus=4, elastic=True)
    service.wait(holder, "running")
    waiter = service.submit("sleep 60", name="waiter", gpus=4)
    watch = open_page(page, service, f"/ui/jobs/{waiter}")
    page.get_by_role("button", name="Hold", exact=True).click()
    expect(page.get_by_text(re.compile("Held by .* since"))).to_be_visible()
    expect(page.get_by_text("Why it waits")).to_be_hidden()
    page.get_by_role("button", name="Release", exact=True).click()
    expect(page.get_by_role("button", name="Hold", exact=True)).to_be_visible()
    assert service.job(waiter)["held_at"] is None

    page.goto(f"{service.url}/ui/jobs/{holder}")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
    service.wait(holder, "queued")
    service.wait(waiter, "running")
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("button", name="Hold", exact=True)).to_be_visible()
    assert_clean(watch)


def test_priority_is_changed_and_a_job_is_submitted_again(service: Service, page: Page) -> None:
    holder = service.submit(REPORTING, name="holder", gpus=4)
    waiter = service.submit("sleep 0", name="waiter", gpus=1)
    service.wait(holder, "running")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=service.url)
    watch = open_page(page, service, f"/ui/jobs/{waiter}")
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Change the priority").click()
    page.get_by_role("slider", name="Priority").press("End")
    page.get_by_role("button", name="Set 100").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert service.job(waiter)["priority"] == 100

    for name, words in {"as curl": "curl http", "as a command": "schedulearn submit -", "as Python": "Client("}.items():
        page.get_by_role("button", name="More").click()
        page.get_by_role("menuitem", name=name).click()
        expect(page.get_by_text(f"Copied {name}.")).to_be_visible()
        assert words in page.evaluate("navigator.clipboard.readText()")

    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Resubmit as it is").click()
    expect(page).not_to_have_url(re.compile(waiter))
    again = page.url.rpartition("/")[2]
    assert service.job(again)["command"] == "sleep 0"
    assert_clean(watch)
