"""By keyboard alone: a job is submitted, a failure found, two jobs compared, a host drained."""

from __future__ import annotations

import re

import pytest
from browsing import ENDLESS, assert_clean, open_page
from playwright.sync_api import Page, expect
from services import IMAGE, Service

pytestmark = [pytest.mark.long, pytest.mark.browser]

MOST_TABS = 80


def tab_to(page: Page, name: str, key: str = "Tab") -> None:
    """Presses Tab until the focus is on what has this text or name."""
    for _ in range(MOST_TABS):
        page.keyboard.press(key)
        focused = page.evaluate(
            "() => { const on = document.activeElement; return on.getAttribute('aria-label') || on.innerText || ''; }"
        )
        if focused.strip() == name:
            return
    raise AssertionError(f"Tab does not lead to {name!r}")


def test_a_job_is_submitted(service: Service, page: Page) -> None:
    watch = open_page(page, service)
    expect(page.get_by_test_id("live")).to_have_text("live")
    page.keyboard.press("n")
    expect(page.get_by_label("Name")).to_be_focused()
    for text in ("by keys", "shell", IMAGE, "sleep 0"):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    expect(page.get_by_label("GPUs", exact=True)).to_be_focused()
    tab_to(page, "More fields")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Launcher")).to_be_visible()  # it opens in a moment
    page.keyboard.press("Tab")
    expect(page.get_by_label("Launcher")).to_be_focused()
    page.keyboard.type("none")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="by keys")).to_be_visible()
    expect(page.get_by_test_id("state")).to_have_text("succeeded")
    assert_clean(watch)


def test_the_first_of_two_keys_counts_also_at_the_moment_a_screen_appears(service: Service, page: Page) -> None:
    """Its listener is replaced after a screen is drawn: this presses "g" just before that, and "s" after it."""
    page.add_init_script(
        """
        const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        const remove = document.removeEventListener;
        document.removeEventListener = function (type, ...rest) {
          if (type === "keydown" && location.pathname === "/ui/people") {
            document.removeEventListener = remove;
            press("g");
            setTimeout(press, 300, "s");
          }
          remove.call(document, type, ...rest);
        };
        """
    )
    watch = open_page(page, service)
    expect(page.get_by_test_id("live")).to_have_text("live")
    page.keyboard.type("gm")
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")
    assert_clean(watch)


def test_a_failure_is_found_and_jobs_are_compared(service: Service, page: Page) -> None:
    service.wait(service.submit("sleep 0", name="works"), "succeeded")
    failed = service.submit_shell("echo 'RuntimeError: no such thing'; exit 3", name="breaks")
    service.wait(failed, "failed")
    watch = open_page(page, service)
    tab_to(page, "1")  # the figure of those that failed
    page.keyboard.press("Enter")
    expect(page.get_by_test_id(f"job-{failed}")).to_contain_text("no such thing")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{service.url}/ui/jobs/{failed}")
    expect(page.locator("#main")).to_contain_text("RuntimeError: no such thing")

    for key in "gj":
        page.keyboard.press(key)
    expect(page.locator("tr[data-index]")).to_have_count(2)
    for key in "jxjx":
        page.keyboard.press(key)
    expect(page.get_by_text("2 selected")).to_be_visible()
    tab_to(page, "Compare", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/ui/compare"))
    expect(page.locator("#main")).to_contain_text("breaks")
    assert_clean(watch)


def test_a_host_is_drained(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name="holder", gpus=2)
    service.wait(job, "running")
    watch = open_page(page, service)
    expect(page.get_by_test_id("live")).to_have_text("live")
    for key in "gh":
        page.keyboard.press(key)
    host = page.get_by_label("Host local")
    expect(host).to_be_visible()
    tab_to(page, "Drain")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Keep")).to_be_focused()  # what changes nothing comes first
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(
        re.compile(r"1 job leaves it:\s*holder.*: is stopped after 1 h and starts elsewhere")
    )
    tab_to(page, "Drain the host")
    page.keyboard.press("Enter")
    expect(host).to_contain_text("Draining")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert_clean(watch)
