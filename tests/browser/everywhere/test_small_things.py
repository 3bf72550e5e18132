"""Details of the page that were wrong once: spans, dates, keys, widths."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from browsing import ENDLESS, assert_clean, faults, open_page, set_clocks, visit
from playwright.sync_api import Page, Request, Route, expect
from services import IMAGE, Service

pytestmark = [pytest.mark.long, pytest.mark.browser]


def test_an_hour_is_an_hour_and_today_is_today_on_a_page_that_stays_open(service: Service, lone_page: Page) -> None:
    page = lone_page
    service.submit(ENDLESS, name="holder")
    now = datetime.now(UTC)

    def since(route: str, expected: datetime) -> Callable[[Request], bool]:
        def asks(request: Request) -> bool:
            [asked] = parse_qs(urlsplit(request.url).query).get("since", [""]) if route in request.url else [""]
            return bool(asked) and abs(datetime.fromisoformat(asked) - expected) < timedelta(minutes=5)

        return asks

    def asked_after(span: str, asks: Callable[[Request], bool]) -> bool:
        """A timer that the page was about to set when its clock leapt is due a minute later."""
        seen: list[Request] = []
        page.on("request", lambda request: seen.append(request) if asks(request) else None)
        for leap in (span, "00:01:00", "00:01:00", "00:01:00"):
            page.clock.fast_forward(leap)
            for _ in range(40):
                if seen:
                    return True
                page.wait_for_timeout(100)
        return False

    set_clocks(page, now - timedelta(hours=5))
    open_page(page, service)
    page.get_by_label("Time range").get_by_text("1 h", exact=True).click()
    expect(page.get_by_label("GPUs in use over the last 1 h")).to_be_visible()
    assert asked_after("05:00:00", since("/api/v1/timeline", now - timedelta(hours=1)))

    open_page(page, service, "/ui/usage?days=7")
    expect(page.get_by_role("heading", level=1)).to_have_text("Usage")
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    assert asked_after("24:00:00", since("/api/v1/usage", midnight + timedelta(days=1 - 6)))


def test_a_time_names_its_day_unless_it_is_todays(service: Service, lone_page: Page) -> None:
    page = lone_page
    job = service.submit(ENDLESS, name="holder")
    service.wait(job, "running")
    set_clocks(page, datetime.now(UTC))
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=events")
    time = page.get_by_role("region", name="Events").get_by_role("time").first
    expect(time).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    expect(time).to_have_attribute("title", re.compile(r"^(just now|\d+ s ago), \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$"))
    page.clock.fast_forward("24:00:00")  # without a reload
    expect(time).to_have_text(re.compile(r"^yesterday \d\d:\d\d:\d\d$"))
    page.clock.fast_forward("24:00:00")
    expect(time).to_have_text(re.compile(r"^\d+ \w{3} \d\d:\d\d:\d\d$"))
    watch.forget("ERR_")
    assert_clean(watch)


@pytest.mark.parametrize("hours", [3, -3])
def test_times_are_those_of_the_service_where_the_machines_clock_is_wrong(
    service: Service, lone_page: Page, hours: int
) -> None:
    page = lone_page
    job = service.submit(ENDLESS, name="holder")
    service.wait(job, "running")
    page.clock.install(time=datetime.now(UTC) + timedelta(hours=hours))
    watch = open_page(page, service, f"/ui/jobs/{job}")
    page.clock.fast_forward("00:02")  # what is drawn each second
    facts = page.get_by_role("region", name="Facts")
    expect(facts).to_contain_text(re.compile(r"Duration(\d m )?\d+ s"))
    page.get_by_role("tab", name="Attempts and events").click()
    time = page.get_by_role("region", name="Events").get_by_role("time").first
    expect(time).to_have_attribute("title", re.compile(r"^(just now|\d+ s ago|\d m ago), "))
    with page.expect_request("**/api/v1/timeline?*") as asked:
        visit(page, f"{service.url}/ui/")
        page.clock.fast_forward("00:02")
    [since] = parse_qs(urlsplit(asked.value.url).query)["since"]
    assert abs(datetime.fromisoformat(since) - datetime.now(UTC) + timedelta(hours=24)) < timedelta(minutes=10)
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


def test_the_names_of_all_screens_are_in_sight(service: Service, page: Page) -> None:
    """With a policy whose name is long: it stands beside them."""
    service.call("PUT", "/api/v1/policy", {"algorithm": "goodput", "metric": "speed"})
    watch = open_page(page, service)
    bar = page.get_by_role("navigation")
    hidden = {}
    for width in (768, 1024, 1240, 1265, 1280, 1320, 1393, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        expect(bar.get_by_role("link")).to_have_count(11)
        if width > 768:
            expect(page.get_by_role("banner").get_by_role("link", name="goodput")).to_be_visible()
        if (over := bar.evaluate("bar => bar.scrollWidth - bar.clientWidth")) > 0:
            hidden[width] = over
    assert hidden == {}, "at these widths so many pixels have to be scrolled to"
    assert_clean(watch)


def test_the_chart_ends_with_what_the_figure_says(service: Service, page: Page) -> None:
    page.route("**/api/v1/timeline?*", lambda route: route.fulfill(json={**route.fetch().json(), "spans": []}))
    job = service.submit(ENDLESS, name="holder", gpus=3)  # for the second that a day's chart has 360 of in each point
    service.wait(job, "running")
    watch = open_page(page, service)
    expect(page.get_by_text("of 4, 1 free")).to_be_visible()
    expect(page.get_by_label("GPUs in use over the last 24 h, now 3 of 4")).to_be_visible()
    page.unroute_all(behavior="ignoreErrors")
    assert_clean(watch)


def test_jobs_that_run_beside_each_other_differ_in_colour(service_of_eight: Service, page: Page) -> None:
    jobs = [service_of_eight.submit(ENDLESS, name=f"job-{number}") for number in range(8)]
    for job in jobs:
        service_of_eight.wait(job, "running")
    watch = open_page(page, service_of_eight)
    tiles = page.get_by_test_id("gpu-map").locator("[data-kind=job]")
    expect(tiles).to_have_count(8)
    colors = tiles.evaluate_all("tiles => tiles.map((tile) => tile.style.getPropertyValue('--job'))")
    assert len(set(colors)) == 8, colors
    assert_clean(watch)


def test_ctrl_enter_in_the_command_submits(service: Service, page: Page) -> None:
    watch = open_page(page, service, "/ui/submit?from=example")
    page.get_by_label("Command").fill("sleep 0")
    page.get_by_label("Image").fill(IMAGE)
    page.get_by_role("button", name="More fields").click()
    page.get_by_label("Launcher").select_option("none")
    page.get_by_label("Command").press("Control+Enter")
    expect(page.get_by_test_id("state")).to_have_text("succeeded")
    assert_clean(watch)


def test_what_is_expected_reads_as_a_sentence(service: Service, page: Page) -> None:
    holder = service.submit(ENDLESS, name="holder", gpus=4)
    service.wait(holder, "running")
    job = service.submit(ENDLESS, name="waiter")

    def predicted(route: Route) -> None:
        now = datetime.now(UTC)
        minutes = {"start": 9.5, "end": 19.5, "earliest": 6.5, "latest": 59.5}
        times = {name: (now + timedelta(minutes=each)).isoformat() for name, each in minutes.items()}
        eta = {**times, "basis": "guess", "not_before": None, "awaits_image": False}
        route.fulfill(json={**route.fetch().json(), "eta": eta})

    page.route(f"**/api/v1/jobs/{job}", predicted)
    watch = open_page(page, service, f"/ui/jobs/{job}")
    expect(page.get_by_test_id("expected")).to_have_text(
        re.compile(r"^Expected to start in 9 m and to end in 19 m \(6 m to 59 m\), a guess: it reports no progress")
    )
    page.unroute_all(behavior="ignoreErrors")
    assert_clean(watch)


def test_a_change_is_taken_back_by_the_message_that_tells_of_it(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name="holder")
    service.wait(job, "running")
    watch = open_page(page, service, "/ui/hosts")
    host = page.get_by_label("Host local")
    undo = page.get_by_role("button", name="Undo")
    host.get_by_role("button", name="Cordon").click()
    expect(host).to_contain_text("its jobs continue")
    undo.click()
    expect(host).not_to_contain_text("its jobs continue")
    visit(page, f"{service.url}/ui/jobs/{job}")
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Change the priority").click()
    page.get_by_role("slider").press("End")
    page.get_by_role("button", name="Set 100").click()
    expect(page.get_by_text("Its priority is 100.")).to_be_visible()
    undo.click()
    expect(page.get_by_text("Its priority is 50.")).to_be_visible()
    assert service.job(job)["priority"] == 50
    assert faults(page) == []
    assert_clean(watch)
