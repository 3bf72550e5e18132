"""A screen stands still: nothing jumps while it loads, while it is scrolled, or from one screen to the next."""

from __future__ import annotations

import re

import pytest
from browsing import ENDLESS, assert_clean, open_page, until_quiet, visit
from playwright.sync_api import Page, Request, expect
from services import IMAGE, Service

pytestmark = [pytest.mark.long, pytest.mark.browser]

SCREENS = ("", "jobs", "jobs/{job}", "jobs/{job}?tab=training", "jobs/{job}?tab=files", "jobs/{job}?tab=events",
           "compare?jobs={job},{other}", "sweeps", "sweeps/{sweep}", "sweeps/{experiment}", "sweeps/{search}", "submit",
           "submit?from={job}", "timeline", "hosts", "hosts?history=local", "policy", "usage", "events", "people",
           "settings")  # fmt: skip
MOST_SHIFT = 0.05
WATCH_SHIFTS = """
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const shift of list.getEntries()) {
      if (shift.hadRecentInput) continue;
      window.shifts.push([shift.value, shift.sources.map(({ node, previousRect, currentRect }) =>
        `${node?.className || node?.nodeName} ${previousRect.y}+${previousRect.height} -> ${currentRect.y}`)]);
    }
  }).observe({ type: "layout-shift", buffered: true });
"""


def test_nothing_jumps_while_a_slow_line_loads(service_of_eight: Service, page: Page) -> None:
    service = service_of_eight
    job = service.submit(ENDLESS, name="holder", gpus=8, user="ada")
    other = [service.submit(ENDLESS, name=f"waiter-{number}", gpus=2) for number in range(12)][-1]
    tried = {"type": "t", "container_image": IMAGE, "launcher": "none", "command": ENDLESS, "required_gpus": 2}
    grid = {"name": "grid", "job": tried, "grid": {"priority": [1, 2, 3]}}
    sweep = service.call("POST", "/api/v1/sweeps", grid)["id"]
    factors = {"name": "factors", "job": tried, "factors": {"priority": [1, 2]}}
    experiment = service.call("POST", "/api/v1/experiments", factors)["id"]
    search = service.call("POST", "/api/v1/searches", {"name": "search", "job": tried, "gpus": [1, 2]})["id"]
    ids = {"job": job, "other": other, "sweep": sweep, "experiment": experiment, "search": search}
    service.wait(job, "running")
    service.call("POST", "/api/v1/tokens", {"name": "laptop"})
    service.call("POST", "/api/v1/webhooks", {"url": "http://127.0.0.1:9/hook"})
    page.add_init_script(WATCH_SHIFTS)
    open_page(page, service)
    session = page.context.new_cdp_session(page)
    slow = {"offline": False, "latency": 250, "downloadThroughput": 250_000, "uploadThroughput": 250_000}
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", slow)
    for path in SCREENS:
        with until_quiet(page):
            visit(page, f"{service.url}/ui/{path.format(**ids)}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page.get_by_role("status", name="Loading")).to_have_count(0)
            expect(page.get_by_test_id("live")).to_have_text("live")
        shifts = page.evaluate("window.shifts")
        total = sum(value for value, _ in shifts)
        assert total < MOST_SHIFT, f"/ui/{path} shifts by {total:.3f}: {shifts}"


def test_panels_that_are_shown_together_wait_for_each_of_them(service: Service, page: Page) -> None:
    """Each hears of its data by a timer of 0 s. Where that takes a moment, one is drawn while another waits."""
    for number in range(4):
        service.call("POST", "/api/v1/tokens", {"name": f"laptop-{number}"})
    service.call("POST", "/api/v1/webhooks", {"url": "http://127.0.0.1:9/hook"})
    page.add_init_script(WATCH_SHIFTS)
    page.add_init_script(
        "const soon = setTimeout; window.setTimeout = (act, ms = 0, ...more) => soon(act, Math.max(ms, 60), ...more)"
    )
    open_page(page, service)
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    slow = {"offline": False, "latency": 250, "downloadThroughput": 250_000, "uploadThroughput": 250_000}
    session.send("Network.emulateNetworkConditions", slow)
    for _ in range(6):
        with until_quiet(page):
            visit(page, f"{service.url}/ui/settings")
            expect(page.get_by_role("region", name="Tokens").get_by_role("table")).to_be_visible()
        shifts = page.evaluate("window.shifts")
        assert sum(value for value, _ in shifts) < MOST_SHIFT / 2, shifts


def test_nothing_is_fetched_twice(service: Service, page: Page) -> None:
    service.wait(service.submit("sleep 0", name="done"), "succeeded")
    for path in ("", "jobs", "policy", "usage", "settings"):
        asked: list[str] = []

        def note(request: Request, asked: list[str] = asked) -> None:
            if "/api/" in request.url and request.resource_type == "fetch":
                asked.append(request.url)

        page.on("request", note)
        with page.expect_response("**/api/v1/events?after=*"):
            visit(page, f"{service.url}/ui/{path}")
        expect(page.get_by_test_id("live")).to_have_text("live")
        page.wait_for_timeout(4_000)  # nothing tells that nothing more comes
        page.remove_listener("request", note)
        polled = "/api/v1/hosts|/api/v1/cluster|/api/v1/telemetry"
        twice = {url for url in asked if asked.count(url) > 1 and not re.search(polled, url)}
        assert not twice, f"/ui/{path} asks again for {twice}"


def test_the_names_of_the_screens_stay_where_they_are(service: Service, page: Page) -> None:
    watch = open_page(page, service)
    for number in range(40):
        service.submit(ENDLESS, name=f"waiter-{number}", gpus=4)
    places: set[str] = set()
    for name in ("Jobs", "Overview", "Usage", "Settings", "Events"):
        page.get_by_role("navigation").get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        page.wait_for_timeout(300)
        lefts = (
            page.get_by_role("navigation")
            .get_by_role("link")
            .evaluate_all("links => links.map((link) => Math.round(link.getBoundingClientRect().left))")
        )
        places.add(str(lefts))
    assert len(places) == 1, places
    assert_clean(watch)


def test_columns_stay_as_wide_as_they_are_while_the_list_is_scrolled(service: Service, page: Page) -> None:
    for number in range(90):
        service.submit(ENDLESS, name="n" * (3 + number * 7 % 90), gpus=4 if number % 2 else 3, user="u" * (number % 20))
    watch = open_page(page, service, "/ui/jobs")
    heads = page.get_by_role("table").locator("th")
    expect(page.locator("tr[data-index]").first).to_be_visible()
    widths = "heads => heads.map((head) => Math.round(head.getBoundingClientRect().width))"
    before = heads.evaluate_all(widths)
    for _ in range(10):
        page.mouse.move(600, 500)
        page.mouse.wheel(0, 400)
        page.wait_for_timeout(60)
        assert heads.evaluate_all(widths) == before
    assert_clean(watch)


def test_a_wide_screen_is_used(service: Service, page: Page) -> None:
    service.submit(ENDLESS, name="holder")
    page.set_viewport_size({"width": 1920, "height": 1000})
    watch = open_page(page, service, "/ui/jobs")
    for path, part in (("jobs", "table"), ("timeline?span=1h", "[data-testid=timeline]")):
        visit(page, f"{service.url}/ui/{path}")
        box = page.locator(part).first.bounding_box()
        assert box is not None
        assert box["width"] > 1700, f"{path}: {box}"
    assert_clean(watch)
