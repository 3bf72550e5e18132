"""The form to submit: JSON both ways, presets, and when a job would start."""

from __future__ import annotations

import json

import pytest
from browsing import ENDLESS, SCRIPT_IN_NAME, assert_clean, open_page
from playwright.sync_api import Page, expect
from services import IMAGE, Service

pytestmark = pytest.mark.browser


def test_a_job_is_written_as_json_and_as_a_form(service: Service, page: Page) -> None:
    watch = open_page(page, service, "/ui/submit")
    page.get_by_label("Name").fill("both ways")
    page.get_by_label("How to fill it in").get_by_text("JSON").click()
    editor = page.get_by_label("The job as JSON")
    body = json.loads(editor.input_value())
    assert body["name"] == "both ways"
    editor.fill('{"nmae": 1}')
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_text("A job has no key nmae.")).to_be_visible()

    job = {**body, "type": "shell", "container_image": IMAGE, "command": "sleep 0", "launcher": "none",
           "env": {"LR": "0.1"}}  # fmt: skip
    editor.fill(json.dumps(job))
    page.get_by_label("How to fill it in").get_by_text("Form").click()
    expect(page.get_by_label("Command")).to_have_value("sleep 0")
    page.get_by_role("button", name="More fields").click()
    expect(page.get_by_label("Environment")).to_have_value("LR=0.1")

    page.get_by_label("How to fill it in").get_by_text("JSON").click()
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="both ways")).to_be_visible()
    expect(page.get_by_test_id("state")).to_have_text("succeeded")
    assert_clean(watch)


def test_a_job_of_before_is_where_the_next_one_starts_from(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name=SCRIPT_IN_NAME, gpus=3, labels={"team": "x"})
    service.wait(job, "running")
    watch = open_page(page, service, "/ui/submit")
    page.get_by_label("Start from").select_option("example")
    expect(page.get_by_label("Command")).to_have_value("python examples/digits/train.py")
    page.get_by_label("Start from").select_option(job)
    expect(page.get_by_label("Name")).to_have_value(SCRIPT_IN_NAME)
    expect(page.get_by_label("Command")).to_have_value(ENDLESS)

    page.get_by_role("button", name="When would it start?").click()
    expect(page.get_by_test_id("outlook")).to_contain_text("It starts in")
    page.get_by_role("textbox", name="GPUs").fill("1")
    expect(page.get_by_test_id("outlook")).to_be_hidden()
    page.get_by_role("button", name="When would it start?").click()
    expect(page.get_by_test_id("outlook")).to_contain_text("It starts now")
    page.get_by_role("textbox", name="GPUs").fill("99")
    page.get_by_role("button", name="When would it start?").click()
    expect(page.get_by_test_id("outlook")).to_contain_text("It would not start")
    assert service.call("GET", "/api/v1/jobs")["next"] is None
    assert_clean(watch)
