"""The overview, and the policy's preview before it is switched."""

from __future__ import annotations

import re

import pytest
from browsing import ENDLESS, SCRIPT_IN_NAME, assert_clean, open_page
from playwright.sync_api import Page, Route, expect
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser]


def test_overview_shows_who_has_which_gpu_and_why_others_wait(service: Service, page: Page) -> None:
    watch = open_page(page, service)
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    holder = service.submit(ENDLESS, name=SCRIPT_IN_NAME, gpus=3)  # by someone else: the page hears of it
    tiles = page.get_by_test_id("gpu-map").get_by_role("link", name=SCRIPT_IN_NAME)
    expect(tiles).to_have_count(3)
    expect(page.get_by_test_id("gpu-map").get_by_label("free")).to_have_count(1)

    measured = page.get_by_test_id("gpu-map").get_by_role("link", name=re.compile(r"% busy, [\d.]+ GiB, \d+ W"))
    expect(measured).to_have_count(3, timeout=15_000)  # what is measured is announced by no event
    by = page.get_by_label("GPUs are filled by")
    filled = {}
    for measure in ("memory", "power", "busy"):
        by.get_by_text(measure, exact=True).click()
        filled[measure] = tiles.first.evaluate("tile => parseFloat(tile.style.getPropertyValue('--fill'))")
    assert len(set(filled.values())) > 1, filled
    assert all(0 < fill <= 100 for fill in filled.values()), filled

    service.call("PUT", "/api/v1/policy", {"algorithm": "fifo"})
    service.submit(ENDLESS, name="waiter", gpus=2)
    queue = page.get_by_label("Queue")
    expect(queue).to_contain_text("waiter")
    expect(queue).to_contain_text("needs 2 GPUs", timeout=15_000)
    expect(page.get_by_label("GPUs in use over time", exact=True)).to_be_visible()

    utility = page.get_by_label("Utility over time", exact=True)
    expect(utility).to_contain_text("Under fifo there is no utility")
    service.call("PUT", "/api/v1/policy", {"algorithm": "goodput"})
    expect(utility).to_contain_text("one point is stored per minute")

    tiles.first.click()
    expect(page).to_have_url(f"{service.url}/ui/jobs/{holder}")
    expect(page.get_by_role("heading", name=SCRIPT_IN_NAME)).to_be_visible()
    assert_clean(watch)


def test_the_map_names_jobs_tells_of_a_gpu_and_lights_what_a_job_could_have(service: Service, page: Page) -> None:
    holder = service.submit(ENDLESS, name=SCRIPT_IN_NAME, gpus=3)
    service.wait(holder, "running")
    service.submit(ENDLESS, name="waiter", gpus=2)

    def three_hosts(route: Route) -> None:
        [host] = route.fetch().json()
        small = {**host, "id": "small", "gpus": host["gpus"][3:]}
        route.fulfill(json=[host, small, {**host, "id": "closed", "state": "cordoned"}])

    page.route("**/api/v1/hosts", three_hosts)
    watch = open_page(page, service)
    gpus = page.get_by_test_id("gpu-map")
    local = gpus.get_by_role("listitem").filter(has=page.get_by_role("link", name="local"))
    expect(local.get_by_text(SCRIPT_IN_NAME, exact=True)).to_have_count(1)  # one name over its three tiles
    expect(local.locator("[data-uuid]")).to_have_text(["0", "1", "2", "3"])
    tile = local.locator("[data-uuid]").nth(1)
    tile.hover()
    card = page.get_by_role("tooltip")
    expect(card).to_contain_text(SCRIPT_IN_NAME)
    expect(card).to_contain_text("local GPU 1")
    colour = tile.evaluate("tile => tile.style.getPropertyValue('--job')")

    page.get_by_label("Queue").get_by_text("waiter").hover()
    expect(card).to_have_count(0)
    candidates = gpus.locator("[data-candidate=true]")
    expect(candidates).to_have_count(1)
    expect(candidates).to_contain_text("local · 1 of 4 free")
    page.mouse.move(5, 5)
    expect(candidates).to_have_count(0)
    page.get_by_label("Queue").get_by_role("link", name="waiter").focus()
    expect(candidates).to_have_count(1)

    page.get_by_role("navigation").get_by_role("link", name="Timeline").click()
    expect(page.get_by_test_id("timeline")).to_be_visible()
    page.go_back()
    expect(tile).to_be_visible()
    assert tile.evaluate("tile => tile.style.getPropertyValue('--job')") == colour
    page.unroute_all(behavior="ignoreErrors")
    assert_clean(watch)


def test_policy_is_previewed_before_it_is_switched(service: Service, page: Page) -> None:
    service.call("PUT", "/api/v1/policy", {"algorithm": "fifo", "params": {"backfill": "none"}})
    holder = service.submit(ENDLESS, name="holder", gpus=3)
    service.submit(ENDLESS, name="large", gpus=2)
    small = service.submit(ENDLESS, name="small")
    service.wait(holder, "running")
    watch = open_page(page, service, "/ui/policy")
    page.get_by_label("backfill").select_option("all")
    page.get_by_role("button", name="Preview").click()
    preview = page.get_by_test_id("preview")
    expect(preview).to_contain_text("Mean completion time")
    expect(preview.get_by_role("listitem")).to_contain_text("start")
    expect(preview.get_by_role("link", name="small")).to_be_visible()
    assert service.job(small)["state"] == "queued", "a preview changes nothing"

    page.get_by_role("button", name="Apply").click()
    expect(preview).to_be_hidden()
    service.wait(small, "running")
    assert_clean(watch)
