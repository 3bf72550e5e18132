"""A log: matches in their context, regular expressions, errors, and lines that have addresses."""

from __future__ import annotations

import re

import pytest
from browsing import assert_clean, faults, open_page
from playwright.sync_api import Page, expect
from services import Service

pytestmark = pytest.mark.browser

SCRIPT = (
    'for i in $(seq 1 400); do echo step $i; if [ $i = 100 ] || [ $i = 300 ]; then echo "ERROR no disk at $i"; fi; done'
)


def test_a_log_is_searched_in_context_and_its_lines_have_addresses(service: Service, page: Page) -> None:
    job = service.submit_shell(SCRIPT, name="talker")
    service.wait(job, "succeeded")
    watch = open_page(page, service, f"/ui/jobs/{job}")
    log = page.get_by_role("log")
    count = page.get_by_test_id("log-count")
    expect(count).to_have_text("402 lines")
    search = page.get_by_label("Search the log")
    search.fill("no disk")
    expect(count).to_have_text("2 of 402 lines")
    expect(log.get_by_text("step 99", exact=True)).to_have_count(0)
    search.press("Enter")
    expect(page.get_by_text("1 of 2", exact=True)).to_be_visible()
    expect(log.locator("[data-marked=true]")).to_have_text("ERROR no disk at 100")
    expect(log.get_by_text("step 99", exact=True)).to_be_in_viewport()
    search.press("Enter")
    expect(log.locator("[data-marked=true]")).to_have_text("ERROR no disk at 300")
    search.press("Shift+Enter")
    expect(page.get_by_text("1 of 2", exact=True)).to_be_visible()
    page.get_by_role("button", name="Only matches").click()
    expect(count).to_have_text("2 of 402 lines")

    search.fill("^step [12]00$")
    expect(count).to_have_text("0 of 402 lines")
    page.get_by_role("button", name="Regular expression").click()
    expect(count).to_have_text("2 of 402 lines")
    search.fill("(")
    expect(search).to_have_attribute("aria-invalid", "true")
    search.fill("")

    expect(page.get_by_test_id("error-ticks").locator("i")).to_have_count(2)
    page.get_by_role("button", name="2 errors").click()  # after the line that is marked
    expect(log.locator("[data-marked=true]")).to_have_text("ERROR no disk at 300")
    page.get_by_role("button", name="2 errors").click()
    expect(log.locator("[data-marked=true]")).to_have_text("ERROR no disk at 100")

    log.get_by_role("link", name="Line 101", exact=True).click()
    expect(page).to_have_url(re.compile("#L101$"))
    page.reload()
    expect(log.locator("[data-marked=true]")).to_have_text("ERROR no disk at 100")
    expect(log.locator("[data-marked=true]")).to_be_in_viewport()
    assert faults(page) == []
    assert_clean(watch)
