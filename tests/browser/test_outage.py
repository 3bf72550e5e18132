"""What is shown is never lost: the service stops, code of the page is missing, requests are cut off, a screen fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from browsing import ENDLESS, STATIC, faults, open_page, require_page, visit, wait_for_code
from playwright.sync_api import Browser, Page, Route, expect
from services import IMAGE, Service

pytestmark = [pytest.mark.long, pytest.mark.browser]

POLICIES = re.compile("goodput|fifo")
"""What the service's other tests leave."""

SCREENS = (
    *("Jobs", "Sweeps", "Timeline", "Hosts", "Policy", "Usage", "Events", "Submit", "People", "Settings", "Overview"),
)
CUT_OFF = "internetdisconnected"
"""As good as ERR_NETWORK_CHANGED, which a test can't ask for: the request ends without an answer."""


@pytest.fixture(scope="module")
def stopped_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    require_page()
    with Service(tmp_path_factory.mktemp("outage")) as service:
        yield service


@pytest.fixture
def own_service(stopped_service: Service) -> Iterator[Service]:
    """The one that the tests of this file stop."""
    yield stopped_service
    if stopped_service.process is None:
        stopped_service.start()
    stopped_service.empty()


def go(page: Page, name: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=name, exact=True).click()


def test_an_outage_greys_what_is_shown_and_erases_nothing(own_service: Service, page: Page) -> None:
    holder = own_service.submit(ENDLESS, name="holder", gpus=4)
    waiter = own_service.submit(ENDLESS, name="waiter")  # a list with a job that waits is asked for again and again
    open_page(page, own_service, "/ui/jobs")
    expect(page.get_by_test_id(f"job-{holder}")).to_contain_text("running")
    expect(page.get_by_test_id("live")).to_have_text("live")
    expect(page.get_by_test_id("outage")).to_have_count(0)
    wait_for_code(page)

    own_service.stop()
    outage = page.get_by_test_id("outage")
    expect(outage).to_contain_text(re.compile(r"No connection since \d\d:\d\d:\d\d, retrying in \d+ s"))
    expect(outage).to_contain_text(re.compile(r"retrying in [5-8] s"), timeout=30_000)  # it has tried a few times
    for row in (holder, waiter):
        expect(page.get_by_test_id(f"job-{row}")).to_be_visible()
    assert page.get_by_role("alert").count() == 0, "the outage is told once, by the banner"
    colours = page.get_by_test_id(f"job-{holder}").evaluate("row => getComputedStyle(row.closest('#main > *')).filter")
    assert "grayscale" in colours
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
        assert faults(page) == [], f"greyed, but to be read: {theme}"
    go(page, "Events")  # not seen yet: nothing to show, but the page is there
    expect(page.get_by_role("heading", level=1)).to_have_text("Events")
    expect(page.get_by_role("status", name="Loading")).to_be_visible()
    go(page, "Jobs")
    expect(page.get_by_test_id(f"job-{waiter}")).to_be_visible()
    go(page, "Events")

    everything = re.compile(".*/(api/v1/.*|healthz)")
    page.route(everything, lambda route: route.abort(CUT_OFF))  # the page must not find the service by itself
    own_service.start()
    expect(outage).to_contain_text(re.compile(r"retrying in [5-8] s"), timeout=30_000)
    page.unroute(everything)
    outage.get_by_role("button", name="Try now").click()
    expect(page.get_by_test_id("events").get_by_role("link", name="holder").first).to_be_visible()
    expect(outage).to_have_count(0)
    expect(page.get_by_test_id("live")).to_have_text("live")
    go(page, "Jobs")
    later = own_service.submit(ENDLESS, name="after the outage")
    expect(page.get_by_test_id(f"job-{later}")).to_be_visible()


KEPT = {
    "": "holder", "jobs": "holder", "jobs/{job}": "holder", "jobs/{job}?tab=events": "Events",
    "jobs/{job}?tab=training": "GPUs held over time", "jobs/{job}?tab=spec": "container_image",
    "compare?jobs={job},{other}": "GPU-hours", "sweeps": "grid", "sweeps/{sweep}": "priority",
    "timeline": "holder", "hosts": "holder", "policy": "elastic-fifo", "usage?by=user": "ada", "events": "Submitted",
    "people": "bea", "settings": "laptop",
}  # fmt: skip
"""Each screen, and what on it came from the service."""
TABS = 3
"""Of one browser: it has six connections to one origin, and each tab that is looked at needs one or two."""


def test_each_screen_keeps_what_it_shows_while_the_service_is_away(own_service: Service, browser: Browser) -> None:
    service = own_service
    job = service.submit(ENDLESS, name="holder", gpus=4, user="ada")
    other = service.submit(ENDLESS, name="waiter")
    tried = {"type": "t", "container_image": IMAGE, "launcher": "none", "command": ENDLESS, "required_gpus": 2}
    sweep = service.call("POST", "/api/v1/sweeps", {"name": "grid", "job": tried, "grid": {"priority": [1, 2]}})["id"]
    service.call("POST", "/api/v1/users", {"name": "bea"})
    service.call("POST", "/api/v1/tokens", {"name": "laptop"})
    service.wait(job, "running")
    pages: dict[str, Page] = {}
    with ExitStack() as stack:
        for number, path in enumerate(KEPT):
            if number % TABS == 0:
                context = stack.enter_context(browser.new_context(viewport={"width": 1280, "height": 800}))
            pages[path] = tab = context.new_page()
            visit(tab, f"{service.url}/ui/{path.format(job=job, other=other, sweep=sweep)}")
            expect(tab.get_by_role("status", name="Loading")).to_have_count(0)
            assert_kept(tab, path)
            expect(tab.get_by_test_id("live")).to_have_text("live")
        service.stop()
        for path, tab in pages.items():
            tab.bring_to_front()
            expect(tab.get_by_test_id("outage")).to_be_visible(timeout=60_000)
            assert_kept(tab, path)
            assert tab.get_by_role("alert").count() == 0, f"/ui/{path}: the outage is told once, by the banner"


def assert_kept(page: Page, path: str) -> None:
    if path == "timeline":
        find_bar(page, KEPT[path])
    else:
        expect(page.locator("#main").get_by_text(KEPT[path]).first).to_be_visible()


def find_bar(page: Page, name: str) -> None:
    """The keys go to the job on the timeline, which is a drawing."""
    page.get_by_test_id("timeline").focus()
    for _ in range(8):
        page.keyboard.press("ArrowDown")
        if name in page.get_by_test_id("timeline").get_by_role("tooltip").inner_text():
            return
    raise AssertionError(f"{name} is not on the timeline")


def test_every_screen_opens_after_the_service_has_stopped(own_service: Service, page: Page) -> None:
    open_page(page, own_service)
    wait_for_code(page)
    own_service.stop()
    for name in SCREENS:
        go(page, name)
        expect(page.get_by_role("heading", level=1)).to_have_text(name if name != "Submit" else "Submit a job")
        expect(page.get_by_test_id("outage")).to_be_visible()


def test_code_that_is_wanted_during_an_outage_comes_after_it(own_service: Service, page: Page) -> None:
    page.route("**/assets/PolicyScreen-*.js", lambda route: route.abort(CUT_OFF))
    open_page(page, own_service)
    expect(page.get_by_test_id("live")).to_have_text("live")
    own_service.stop()
    expect(page.get_by_test_id("outage")).to_be_visible()
    go(page, "Policy")
    expect(page.get_by_role("status", name="Loading")).to_be_visible()
    page.unroute_all()
    own_service.start()
    expect(page.get_by_role("heading", level=1)).to_have_text("Policy", timeout=30_000)


def test_a_tab_that_nobody_has_looked_at_holds_no_connection(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name="holder")
    page.add_init_script("Object.defineProperty(document, 'hidden', { get: () => !window.seen });")
    streams: list[str] = []
    page.on("request", lambda request: streams.append(request.url) if request.resource_type == "eventsource" else None)
    open_page(page, service, f"/ui/jobs/{job}")
    expect(page.get_by_test_id("state")).to_be_visible()
    expect(page.get_by_role("log")).to_be_visible()
    assert streams == []
    page.evaluate("window.seen = true; document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_test_id("live")).to_have_text("live")
    assert len(streams) == 2, "the service's events, and the log"


def documents_of(page: Page) -> list[str]:
    """Grows with each load of the page itself."""
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url) if request.is_navigation_request() else None)
    return loaded


def test_missing_code_reloads_the_page_once_and_is_then_told(service: Service, page: Page) -> None:
    page.route("**/assets/PolicyScreen-*.js", lambda route: route.fulfill(status=404, body="gone"))
    loaded = documents_of(page)
    open_page(page, service)
    expect(page.get_by_test_id("live")).to_have_text("live")
    go(page, "Policy")
    told = page.get_by_role("alert")
    expect(told).to_contain_text("This screen's code could not be loaded", timeout=30_000)
    assert len(loaded) == 2, "once when it was opened, once for the code"
    go(page, "Jobs")  # the others go on
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    expect(told).to_have_count(0)
    go(page, "Policy")
    expect(told).to_be_visible(timeout=30_000)
    assert len(loaded) == 2, "no loop"

    page.unroute_all()
    told.get_by_role("button", name="Reload").click()
    expect(page.get_by_test_id("algorithm")).to_have_text(POLICIES)
    assert len(loaded) == 3


def test_a_page_left_open_over_an_upgrade_fetches_the_new_one(service: Service, page: Page) -> None:
    loaded = documents_of(page)

    def answer(route: Route) -> None:
        if len(loaded) == 1:  # the old page asks for code that the new service has not
            route.fulfill(status=404, body="gone")
        else:
            route.continue_()

    page.route("**/assets/*Screen-*.js", answer)
    open_page(page, service)
    go(page, "Policy")
    expect(page.get_by_test_id("algorithm")).to_have_text(POLICIES, timeout=30_000)
    assert len(loaded) == 2


def test_a_chart_without_its_code_takes_nothing_else_away(service: Service, page: Page) -> None:
    service.submit(ENDLESS, name="holder")
    page.route("**/assets/Plot-*.js", lambda route: route.fulfill(status=404, body="gone"))
    loaded = documents_of(page)
    open_page(page, service)
    past = page.get_by_label("GPUs in use over time", exact=True)
    expect(past.get_by_role("alert")).to_contain_text("This chart's code could not be loaded", timeout=30_000)
    expect(page.get_by_test_id("gpu-map")).to_be_visible()
    assert len(loaded) == 1, "only a screen that shows nothing reloads by itself"


def test_a_screen_that_fails_says_so_and_the_others_go_on(service: Service, page: Page) -> None:
    page.route("**/api/v1/usage?*", lambda route: route.fulfill(json=[None]))
    open_page(page, service)
    go(page, "Usage")
    told = page.get_by_role("alert")
    expect(told).to_contain_text("This screen failed")
    expect(told).to_contain_text("TypeError")
    expect(told.get_by_role("button", name="Reload")).to_be_visible()
    go(page, "Jobs")
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()


def test_an_error_of_the_service_erases_nothing_either(service: Service, page: Page) -> None:
    holder = service.submit(ENDLESS, name="holder", gpus=4)
    service.submit(ENDLESS, name="waiter")
    open_page(page, service, "/ui/jobs")
    row = page.get_by_test_id(f"job-{holder}")
    expect(row).to_be_visible()
    page.route("**/api/v1/jobs?*", lambda route: route.fulfill(status=500, json={"detail": "a fault", "code": "x"}))
    expect(page.get_by_role("alert")).to_contain_text("a fault")
    expect(row).to_be_visible()
    page.unroute_all()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_change_that_is_cut_off_is_made_once(service: Service, page: Page) -> None:
    open_page(page, service, "/ui/submit?from=example")
    page.get_by_label("Image").fill("unknown/image")
    away = re.compile(".*/(api/v1/jobs|healthz)$")
    page.route(away, lambda route: route.abort(CUT_OFF))
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Not submitted")
    page.unroute(away)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_text("The service answers again. Submit again")).to_be_visible()
    for path, press in (("/api/v1/jobs", "Submit"), ("/cancel", "Cancel")):
        cut = cut_off_twice(page, f"**{path}")
        page.get_by_role("button", name=press, exact=True).click()
        if press == "Cancel":
            page.get_by_role("button", name="Cancel the job").click()
            expect(page.get_by_test_id("state")).to_have_text("cancelled")
        else:
            expect(page.get_by_test_id("state")).to_be_visible()
        assert len(cut) == 2
        expect(page.get_by_role("alert")).to_have_count(0)
        page.unroute_all()
    assert len(service.call("GET", "/api/v1/jobs")["items"]) == 1


def entry() -> str:
    [found] = re.findall(r'src="/ui/(assets/[^"]+\.js)"', (STATIC / "index.html").read_text())
    return f"**/{found}"


def imported() -> str:
    """Code that the entry needs before it begins."""
    code = (STATIC / entry().removeprefix("**/")).read_text()
    found = re.search(r'from"\./([^"]+\.js)"', code)
    assert found is not None
    return f"**/assets/{found[1]}"


def test_requests_that_a_change_of_the_network_cuts_off_are_made_again(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name="there")
    for what in (entry(), "**/assets/*.css", imported(), "**/assets/JobsScreen-*.js",
                 "**/api/v1/jobs?*", "**/api/v1/events?after=*"):  # fmt: skip
        cut = cut_off_twice(page, what)
        open_page(page, service, "/ui/jobs")
        expect(page.locator("body")).to_have_css("background-color", "rgb(245, 244, 239)")  # its style is there
        expect(page.get_by_test_id(f"job-{job}")).to_be_visible()
        expect(page.get_by_test_id("live")).to_have_text("live")
        expect(page.get_by_role("alert")).to_have_count(0)
        assert len(cut) == 2, what
        page.unroute_all()
        page.evaluate("sessionStorage.clear()")  # as a minute later


def cut_off_twice(page: Page, what: str) -> list[str]:
    """The requests that it has cut off."""
    cut: list[str] = []

    def answer(route: Route) -> None:
        if len(cut) < 2:
            cut.append(route.request.url)
            route.abort(CUT_OFF)
        else:
            route.continue_()

    page.route(what, answer)
    return cut


def test_a_page_whose_code_never_comes_is_not_white(service: Service, page: Page) -> None:
    loaded = documents_of(page)
    page.route(entry(), lambda route: route.fulfill(status=404, body="gone"))
    open_page(page, service)
    told = page.get_by_text("The page's code could not be loaded")
    expect(told).to_be_visible(timeout=30_000)
    tries = len(loaded)
    assert 1 < tries < 6, "some tries, no loop"
    page.unroute_all()
    page.get_by_role("link", name="Reload").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    assert len(loaded) == tries + 1
