"""Details of the page that were wrong once: spans, dates, keys, widths."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from browsing import ENDLESS, assert_clean, open_page
from playwright.sync_api import Page, Request, Route, expect
from services import Service

pytestmark = pytest.mark.browser


def test_an_hour_is_an_hour_and_today_is_today_on_a_page_that_stays_open(service: Service, page: Page) -> None:
    service.submit(ENDLESS, name="holder")
    now = datetime.now(UTC)

    def since(route: str, expected: datetime) -> Callable[[Request], bool]:
        def asks(request: Request) -> bool:
            [asked] = parse_qs(urlsplit(request.url).query).get("since", [""]) if route in request.url else [""]
            return bool(asked) and abs(datetime.fromisoformat(asked) - expected) < timedelta(minutes=5)

        return asks

    page.clock.install(time=now - timedelta(hours=5))
    open_page(page, service)
    page.get_by_label("How far back").get_by_text("1 h", exact=True).click()
    expect(page.get_by_label("GPUs in use over the last 1 h")).to_be_visible()
    with page.expect_request(since("/api/v1/timeline", now - timedelta(hours=1))):
        page.clock.fast_forward("05:00:00")

    open_page(page, service, "/ui/usage?days=7")
    expect(page.get_by_role("heading", level=1)).to_have_text("Usage")
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    with page.expect_request(since("/api/v1/usage", midnight + timedelta(days=1 - 6))):
        page.clock.fast_forward("24:00:00")


def test_events_of_a_job_have_their_date(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name="holder")
    service.wait(job, "running")
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=events")
    events = page.get_by_role("region", name="Events")
    day = page.evaluate("new Date().toLocaleDateString('sv')")
    expect(events.get_by_role("row").nth(1)).to_contain_text(re.compile(rf"{day} \d\d:\d\d:\d\d"))
    assert_clean(watch)


def test_numbers_in_sentences_are_for_people(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name="waiter", gpus=99)

    def one_gpu(route: Route) -> None:
        route.fulfill(json=[{**host, "gpus": host["gpus"][:1]} for host in route.fetch().json()])

    def exponent(route: Route) -> None:
        found = route.fetch().json()
        found["items"] = [{**each, "message": "A goodput of 1.033e+04 instead of 2e-05."} for each in found["items"]]
        route.fulfill(json=found)

    page.route("**/api/v1/hosts", one_gpu)
    page.route("**/api/v1/jobs?*", exponent)
    watch = open_page(page, service, "/ui/jobs")
    expect(page.get_by_label("Cluster")).to_contain_text("0 of 1 GPU in use")
    expect(page.get_by_test_id(f"job-{job}")).to_contain_text("A goodput of 10,330 instead of 0.00002.")
    page.unroute_all(behavior="ignoreErrors")
    assert_clean(watch)


def test_the_keys_are_shown_where_one_is(service: Service, page: Page) -> None:
    watch = open_page(page, service, "/ui/jobs")
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys.get_by_text("submit a job")).to_be_in_viewport()
    expect(keys.get_by_text("settings")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    assert_clean(watch)


def test_a_key_that_opens_a_screen_goes_into_it(service: Service, page: Page) -> None:
    watch = open_page(page, service)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.get_by_role("navigation").get_by_role("link", name="Overview").focus()
    page.keyboard.press("n")
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type("typed at once")
    expect(page.get_by_label("Name")).to_have_value("typed at once")
    page.get_by_role("heading", level=1).click()
    for keys in ("gu", "gj"):
        for key in keys:
            page.keyboard.press(key)
        expect(page.locator("#main")).to_be_focused()
    assert_clean(watch)


def four_hosts(route: Route) -> None:
    """As many as make the strip of the jobs narrow."""
    [host] = route.fetch().json()
    route.fulfill(json=[{**host, "id": f"{host['id']}-{number}"} for number in range(4)])


def test_eight_gpus_of_a_host_stand_on_one_line(service_of_eight: Service, page: Page) -> None:
    page.route("**/api/v1/hosts", four_hosts)
    for path, tiles in (("", "[data-testid=gpu-map] [data-kind]"), ("jobs", "[aria-label=Cluster] [data-used]")):
        open_page(page, service_of_eight, f"/ui/{path}")
        expect(page.locator(tiles)).to_have_count(32)
        for width in (390, *range(700, 801, 4), 1024, 1280, 1440):
            page.set_viewport_size({"width": width, "height": 800})
            tops = page.locator(tiles).evaluate_all("tiles => tiles.map((tile) => tile.getBoundingClientRect().top)")
            for host in range(4):
                lines = len(set(tops[8 * host : 8 * host + 8]))
                assert lines == 1, f"at {width} px they stand on {lines} lines of /ui/{path}"
