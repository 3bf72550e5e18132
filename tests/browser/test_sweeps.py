"""Sweeps: what there is, one of them with its runs, cancelled and tried again."""

from __future__ import annotations

import re

import pytest
from browsing import assert_clean, open_page
from playwright.sync_api import Page, expect
from services import IMAGE, Service

pytestmark = pytest.mark.browser


def test_a_sweep_is_looked_at_cancelled_and_tried_again(service: Service, page: Page) -> None:
    job = {"type": "t", "container_image": IMAGE, "launcher": "none", "command": "sleep {s}", "required_gpus": 1}
    body = {"name": "sleepers", "job": job, "list": [{"s": 0}, {"s": 600}, {"s": 601}], "max_parallel": 2}
    sweep = service.call("POST", "/api/v1/sweeps", body)["id"]
    watch = open_page(page, service, "/ui/sweeps")
    page.get_by_role("link", name="sleepers").click()
    expect(page).to_have_url(f"{service.url}/ui/sweeps/{sweep}")
    runs = page.get_by_role("region", name="Runs").get_by_role("row")
    expect(runs).to_have_count(4)
    expect(runs.nth(1)).to_contain_text("succeeded")
    expect(runs.nth(3)).to_contain_text("running")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the sweep").click()
    expect(runs.nth(3)).to_contain_text("cancelled")
    page.get_by_role("button", name="Retry 2").click()
    expect(runs.nth(2)).to_contain_text("running")
    expect(runs.nth(1)).to_contain_text("succeeded")
    runs.nth(2).get_by_role("link", name="2").click()
    expect(page).to_have_url(re.compile("/ui/jobs/"))
    assert_clean(watch)
