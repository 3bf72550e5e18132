"""Ctrl+K finds jobs, hosts, screens and actions; everything goes without a mouse."""

from __future__ import annotations

import re

import pytest
from browsing import ENDLESS, SCRIPT_IN_NAME, assert_clean, faults_in_both_themes, open_page
from playwright.sync_api import Page, expect
from services import IMAGE, Service

pytestmark = [pytest.mark.long, pytest.mark.browser]


def test_anything_is_found_by_its_name(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name=SCRIPT_IN_NAME, user="ada")
    service.wait(job, "running")
    service.submit(ENDLESS, name="needle", gpus=4)
    watch = open_page(page, service, "/ui/submit")
    page.get_by_label("Command").focus()
    page.keyboard.press("Control+k")  # also in a field
    search = page.get_by_label("Find jobs, hosts, screens, actions")
    expect(search).to_be_focused()
    page.keyboard.type("need")
    expect(page.get_by_role("dialog").get_by_text("needle")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("needle")

    for typed, heading in (("timel", "Timeline"), ("local", "Hosts"), ("failed jobs", "Jobs")):
        page.keyboard.press("Control+k")
        expect(search).to_be_focused()
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    expect(page).to_have_url(re.compile("show=failed&ended=24h"))
    page.get_by_role("button", name="Find anything").click()
    expect(search).to_be_focused()
    page.keyboard.type("nothing like it")
    expect(page.get_by_text("No name contains this text.")).to_be_visible()
    page.keyboard.press("Escape")
    expect(search).to_have_count(0)
    assert_clean(watch)


def test_what_lies_over_a_screen_is_accessible(service: Service, page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    watch = open_page(page, service, "/ui/jobs")
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    page.keyboard.press("Control+k")
    expect(page.get_by_label("Find jobs, hosts, screens, actions")).to_be_focused()
    assert faults_in_both_themes(page) == []
    page.keyboard.type("keys")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    assert faults_in_both_themes(page) == []
    assert_clean(watch)


def test_a_job_is_submitted_found_failed_and_its_host_drained_without_a_mouse(service: Service, page: Page) -> None:
    watch = open_page(page, service)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.keyboard.press("n")
    expect(page.get_by_label("Name")).to_be_focused()
    for text in ("by keys", "shell", IMAGE, "sh -c 'echo KeyError: lr; exit 3'"):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    page.get_by_role("button", name="More fields").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Launcher").focus()
    page.keyboard.type("none")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("region", name="Failure")).to_contain_text("KeyError: lr")

    for key in "gj":
        page.keyboard.press(key)
    expect(page.get_by_role("link", name="by keys")).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="by keys")).to_be_focused()
    page.keyboard.press("Enter")
    link = page.get_by_role("link", name="Show in the log")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("log").get_by_text("KeyError: lr")).to_be_in_viewport()

    page.keyboard.press("Control+k")
    expect(page.get_by_label("Find jobs, hosts, screens, actions")).to_be_focused()
    page.keyboard.type("local")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Drain").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Drain the host").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Host local")).to_contain_text(re.compile("Draining|Cordoned"))
    assert_clean(watch)
