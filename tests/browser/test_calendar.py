"""Recurring jobs above the list of jobs, and maintenance windows under Hosts and in the timeline."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from apis import FIVE_KEYS
from browsing import assert_clean, open_page, visit
from playwright.sync_api import Page, expect
from services import Service

pytestmark = pytest.mark.browser


def test_schedules_are_listed_paused_and_deleted(service: Service, page: Page) -> None:
    job = {**FIVE_KEYS, "name": "nightly"}
    service.call("POST", "/api/v1/schedules", {"every": "0 3 * * *", "time_zone": "UTC", "job": job})
    watch = open_page(page, service, "/ui/jobs")
    table = page.get_by_role("region", name="Recurring jobs")
    expect(table).to_contain_text("nightly")
    expect(table).to_contain_text("0 3 * * * UTC")
    assert_clean(watch)
    table.get_by_role("button", name="Pause nightly").click()
    expect(table).to_contain_text("Paused.")
    table.get_by_role("button", name="Resume nightly").click()
    expect(table).to_contain_text("active")
    table.get_by_role("button", name="Delete nightly").click()
    page.get_by_role("button", name="Delete the schedule").click()
    expect(table).to_have_count(0)


def test_maintenance_is_listed_and_deleted(service: Service, page: Page) -> None:
    start = (datetime.now(UTC) + timedelta(hours=3)).isoformat()
    body = {"start": start, "duration": 3600, "reason": "new disks"}
    service.call("POST", "/api/v1/maintenance", body)
    watch = open_page(page, service, "/ui/timeline")
    expect(page.get_by_role("list", name="Legend")).to_contain_text("maintenance")
    visit(page, f"{service.url}/ui/hosts")
    table = page.get_by_role("region", name="Maintenance")
    expect(table).to_contain_text("all hosts")
    expect(table).to_contain_text("new disks")
    assert_clean(watch)
    table.get_by_role("button", name="Delete the maintenance of all hosts").click()
    page.get_by_role("button", name="Delete the window").click()
    expect(table).to_have_count(0)
