"""What is typed arrives whole, however fast."""

from __future__ import annotations

import re

import pytest
from browsing import ENDLESS, assert_clean, open_page, visit
from playwright.sync_api import Page, expect
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser]

SLOWER = 6
"""Times that the page's processor is slowed down: on a fast machine one types no faster than it draws."""
TEXT = "what somebody types who types fast"


FIELDS = {
    "/ui/jobs": "Name or id contains",
    "/ui/events": "Sentence contains",
    "/ui/usage?by=label": "Label",
}


def test_no_letter_is_lost(service: Service, page: Page) -> None:
    for number in range(30):
        service.submit(ENDLESS, name=f"job-{number}", gpus=4)
    watch = open_page(page, service)
    session = page.context.new_cdp_session(page)
    for path, field in FIELDS.items():
        visit(page, f"{service.url}{path}")
        box = page.get_by_label(field, exact=True)
        box.fill("")
        session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
        box.focus()
        for letter in TEXT:  # each a key of its own, none waits until the page has drawn the one before
            session.send("Input.dispatchKeyEvent", {"type": "keyDown", "text": letter, "key": letter})
        session.send("Emulation.setCPUThrottlingRate", {"rate": 1})
        expect(box).to_have_value(TEXT)
        expect(page).to_have_url(re.compile(TEXT.replace(" ", r"\+")))
        page.reload()
        expect(box).to_have_value(TEXT)
    assert_clean(watch)


def test_letters_typed_as_another_choice_is_made_stay(service: Service, page: Page) -> None:
    service.submit(ENDLESS, name="alpha")
    watch = open_page(page, service, "/ui/jobs")
    box = page.get_by_label("Name or id contains")
    box.press_sequentially("alp")
    page.get_by_role("button", name="Running").click()  # before the address has heard of the letters
    expect(page).to_have_url(re.compile("show=running"))
    expect(page).to_have_url(re.compile("q=alp"))
    expect(box).to_have_value("alp")
    page.get_by_role("navigation").get_by_role("link", name="Jobs").click()  # the address without a filter
    expect(box).to_have_value("")
    assert_clean(watch)
