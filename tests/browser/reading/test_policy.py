"""The policy screen: all policies compared, one chosen, and taken back."""

from __future__ import annotations

import pytest
from browsing import ENDLESS, assert_clean, faults, open_page
from playwright.sync_api import Page, expect
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser]


def test_policies_are_compared_chosen_and_taken_back(service: Service, page: Page) -> None:
    holder = service.submit(ENDLESS, name="holder", gpus=3)
    service.submit(ENDLESS, name="large", gpus=2)
    service.submit(ENDLESS, name="small")
    service.wait(holder, "running")
    service.call("PUT", "/api/v1/policy", {"algorithm": "fifo", "params": {"backfill": "all"}})
    watch = open_page(page, service, "/ui/policy")
    table = page.get_by_role("region", name="Policies compared")
    first = table.locator("tbody tr").first
    expect(first).to_contain_text("fifo")
    expect(first).to_contain_text("active")
    expect(table.locator("[data-best=true]").first).to_be_visible(timeout=120_000)  # twenty simulations
    kinds = service.call("GET", "/api/v1/policy")["available"]
    expect(table.get_by_role("table").get_by_role("radio")).to_have_count(sum(len(kind["metrics"]) for kind in kinds))
    expect(table.get_by_role("group", name="Parameters of fifo").get_by_label("backfill")).to_have_value("all")
    apply = page.get_by_role("button", name="Apply")
    expect(apply).to_be_disabled()

    table.get_by_role("button", name="GPU-hours").click()
    expect(table.get_by_role("columnheader", name="GPU-hours")).to_have_attribute("aria-sort", "ascending")
    expect(table.locator("tbody tr").first).to_contain_text("active")
    table.get_by_role("radio", name="las", exact=True).click()
    expect(table.get_by_role("group", name="Parameters of las")).to_be_visible()
    expect(page.get_by_text("fifo → las")).to_be_visible()
    expect(apply).to_be_in_viewport()
    apply.click()
    undo = page.get_by_role("alert").get_by_role("button", name="Undo").bounding_box()
    preview = page.get_by_role("button", name="Preview").bounding_box()
    assert undo
    assert preview
    beside = undo["x"] + undo["width"] <= preview["x"] or undo["y"] + undo["height"] <= preview["y"]
    assert beside, "the message covers a button"
    expect(page.get_by_test_id("algorithm")).to_have_text("las")
    expect(table.locator("tbody tr").first).to_contain_text("las")

    past = page.get_by_role("region", name="Policy history")
    expect(past.get_by_role("listitem").first).to_contain_text("las")
    past.get_by_role("button", name="Undo").click()
    expect(page.get_by_test_id("algorithm")).to_have_text("fifo")
    assert service.call("GET", "/api/v1/policy")["params"] == {"backfill": "all"}
    assert faults(page) == []
    assert_clean(watch)
