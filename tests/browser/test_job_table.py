"""The list of jobs as a table: rows of one height, orders, filters in the address, keys; failures first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from browsing import CHROMIUM, ENDLESS, SCRIPT_IN_NAME, STATIC, assert_clean, faults, open_page, visit
from playwright.sync_api import Page, Route, expect
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser]

ERROR = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
SCRIPT = f"sleep 2; seq 400; echo 'Traceback (most recent call last):'; echo '{ERROR}'; seq 300; exit 137"


@dataclass(frozen=True)
class Cluster:
    """A service with a job of each kind: the tests of this file only look."""

    service: Service
    failed: str
    holder: str
    waiters: list[str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if CHROMIUM is None:
        pytest.skip("NO BROWSER: the page is untested; install Debian's chromium")
    if not (STATIC / "index.html").is_file():
        pytest.fail("the page is not built: run `npm ci && npm run build` in ui/")
    env = {"SCHEDULEARN_GPU_PRICES": '{"*": 2}', "SCHEDULEARN_CURRENCY": "EUR"}
    with Service(tmp_path_factory.mktemp("table"), env=env) as service:
        failed = service.submit_shell(SCRIPT, 2, name="breaks", user="ada", labels={"team": "vision"})
        service.wait(failed, "failed")
        holder = service.submit(ENDLESS, name=SCRIPT_IN_NAME, gpus=3, user="zoe")
        service.wait(holder, "running")
        waiters = [service.submit(ENDLESS, name=f"waiter-{number}", gpus=2, user="Ben") for number in range(6)]
        yield Cluster(service, failed, holder, waiters)
        service.cancel_all()


def names(page: Page) -> list[str]:
    return page.locator("tr[data-index] td:nth-child(3)").all_inner_texts()


CLIPPED = """(font) => {
  document.body.style.fontFamily = font;
  const badge = document.querySelector("tr[data-index] [data-testid=state]");
  const [word, found] = [badge.lastChild, []];
  for (const state of ["cancelled", "succeeded", "resizing", "stopping"]) {
    word.textContent = state;
    const cell = badge.closest("td");
    const end = cell.getBoundingClientRect().right - parseFloat(getComputedStyle(cell).paddingRight);
    const over = badge.getBoundingClientRect().right - end;
    if (over > 0) found.push(`${state} by ${over} px`);
  }
  return found;
}"""


def test_rows_are_of_one_height_and_each_tells_its_reason(cluster: Cluster, page: Page) -> None:
    watch = open_page(page, cluster.service, "/ui/jobs")
    rows = page.locator("tr[data-index]")
    expect(rows).to_have_count(8)
    reasons = page.locator("tr[data-index] td:last-child")
    expect(reasons.filter(has_text="needs 2 GPUs on one host; 1 is free in total")).to_have_count(6)
    kept = reasons.filter(has_text=f"GPUs are reserved for it: it starts when {SCRIPT_IN_NAME} ends.")
    expect(kept.get_by_role("link")).to_have_attribute("href", f"/ui/jobs/{cluster.holder}")
    heights = rows.evaluate_all("rows => rows.map((row) => Math.round(row.getBoundingClientRect().height))")
    assert set(heights) <= {36, 37}, heights
    assert page.evaluate(CLIPPED, "DejaVu Sans") == []
    assert_clean(watch)


def test_a_columns_name_sorts_and_the_address_keeps_it(cluster: Cluster, page: Page) -> None:
    watch = open_page(page, cluster.service, "/ui/jobs")
    by_name = page.get_by_role("button", name="Name", exact=True)
    by_name.click()
    expect(page).to_have_url(re.compile(r"sort=name"))
    expect(page.locator("tr[data-index] td:nth-child(3)").first).to_have_text(SCRIPT_IN_NAME)
    expect(page.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "ascending")
    by_name.click()
    expect(page.locator("tr[data-index] td:nth-child(3)").first).to_have_text("waiter-5")
    page.reload()
    expect(page.locator("tr[data-index] td:nth-child(3)").first).to_have_text("waiter-5")
    by_name.click()
    expect(page).not_to_have_url(re.compile("sort="))
    assert_clean(watch)


def test_jobs_are_narrowed_by_user_label_host_and_time(cluster: Cluster, page: Page) -> None:
    watch = open_page(page, cluster.service, "/ui/jobs")
    rows = page.locator("tr[data-index]")
    expect(rows).to_have_count(8)
    page.get_by_label("User").select_option("zoe")
    expect(rows).to_have_count(1)
    expect(page.get_by_role("group", name="State").get_by_role("button", name="All")).to_have_text("All 1")
    expect(page.get_by_role("group", name="State").get_by_role("button", name="Failed")).to_have_text("Failed 0")
    page.get_by_label("User").select_option("")
    page.get_by_label("Label").select_option("team=vision")
    expect(rows).to_have_count(1)
    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Clear").click()
    expect(rows).to_have_count(8)
    page.get_by_label("Host", exact=True).select_option("local")
    expect(rows).to_have_count(2)
    page.get_by_label("Host", exact=True).select_option("")
    page.get_by_label("Ended").select_option("yesterday")
    expect(page.get_by_text("No job matches.")).to_be_visible()
    visit(page, f"{cluster.service.url}/ui/jobs?show=failed&ended=today")
    expect(rows).to_have_count(1)
    assert_clean(watch)


def test_keys_go_through_the_list(cluster: Cluster, page: Page) -> None:
    watch = open_page(page, cluster.service, "/ui/jobs?sort=-name")
    expect(page.locator("tr[data-index]")).to_have_count(8)
    for key in "jjjk":
        page.keyboard.press(key)
    expect(page.get_by_role("link", name="waiter-4")).to_be_focused()
    before = page.locator("tr[data-index]").first.bounding_box()
    page.keyboard.press("x")
    expect(page.get_by_label("Select waiter-4")).to_be_checked()
    expect(page.get_by_role("group", name="Selected jobs")).to_be_in_viewport()
    assert page.locator("tr[data-index]").first.bounding_box() == before, "the rows jump as the first is chosen"
    page.keyboard.press("x")
    expect(page.get_by_label("Select waiter-4")).not_to_be_checked()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("waiter-4")
    assert_clean(watch)


def test_a_failure_is_found_first(cluster: Cluster, page: Page) -> None:
    watch = open_page(page, cluster.service)
    page.get_by_role("link", name="Failed in 24 h", exact=False).or_(
        page.locator("a[href='/ui/jobs?show=failed&ended=24h']")
    ).first.click()
    row = page.get_by_test_id(f"job-{cluster.failed}")
    expect(row).to_contain_text(f"exit 137: killed, often for memory · {ERROR}")
    expect(page.locator("tr[data-index]")).to_have_count(1)
    row.get_by_role("link", name="breaks").click()
    failure = page.get_by_role("region", name="Failure")
    expect(failure).to_contain_text(
        re.compile(r"Failed \d\d:\d\d on local GPU \d, \d after \d+ s, exit 137: killed, often for memory")
    )
    expect(failure).to_contain_text(ERROR)
    log = page.get_by_role("log")
    expect(log).to_contain_text("300")
    expect(log.get_by_text(ERROR)).not_to_be_attached()
    failure.get_by_role("link", name="Show in the log").click()
    expect(log.get_by_text(ERROR)).to_be_in_viewport()
    page.reload()
    expect(log.get_by_text(ERROR)).to_be_in_viewport()
    assert_clean(watch)


def test_a_job_that_waits_says_in_the_list_when_it_should_start_and_end(cluster: Cluster, page: Page) -> None:
    def predicted(route: Route) -> None:
        found = route.fetch().json()
        eta = {"start": "2031-01-02T12:00:00Z", "end": "2031-01-02T18:00:00Z", "earliest": None, "latest": None,
               "basis": "guess", "not_before": None, "awaits_image": False}  # fmt: skip
        found["items"] = [{**job, "eta": eta if job["id"] == cluster.waiters[0] else None} for job in found["items"]]
        route.fulfill(json=found)

    page.set_viewport_size({"width": 1440, "height": 900})
    page.route("**/api/v1/jobs?*", predicted)
    watch = open_page(page, cluster.service, "/ui/jobs")
    expected = page.get_by_test_id(f"job-{cluster.waiters[0]}").locator("time")
    expect(expected).to_have_text([re.compile(r"^\d Jan 2031 \d\d:00$")] * 2)
    assert faults(page) == []
    page.unroute_all(behavior="ignoreErrors")
    assert_clean(watch)


def test_progress_is_in_the_list(cluster: Cluster, page: Page) -> None:
    def halfway(route: Route) -> None:
        found = route.fetch().json()
        found["items"] = [{**job, "progress": 0.5 if job["id"] == cluster.holder else None} for job in found["items"]]
        route.fulfill(json=found)

    page.route("**/api/v1/jobs?*", halfway)
    watch = open_page(page, cluster.service, "/ui/jobs")
    expect(page.get_by_test_id(f"job-{cluster.holder}")).to_contain_text("50%")
    page.unroute_all(behavior="ignoreErrors")
    assert_clean(watch)


def test_a_job_that_waits_says_who_is_before_it_and_what_would_help(cluster: Cluster, page: Page) -> None:
    watch = open_page(page, cluster.service, f"/ui/jobs/{cluster.waiters[1]}")
    why = page.get_by_role("region", name="Why it waits")
    expect(why).to_contain_text("local 1 of 4 GPUs free, 1 short")
    expect(why.get_by_role("link", name=SCRIPT_IN_NAME)).to_be_visible()
    expect(why).to_contain_text("2nd of 6 in line by time of submission")
    why.get_by_role("button", name="What would help?").click()
    helps = page.get_by_label("What would help")
    expect(helps).to_be_visible()
    expect(helps).to_contain_text(re.compile("would start|it must wait"))
    visit(page, f"{cluster.service.url}/ui/submit?from={cluster.waiters[1]}&gpus=1")
    expect(page.get_by_role("textbox", name="GPUs")).to_have_value("1")
    assert_clean(watch)


def test_jobs_are_compared(cluster: Cluster, page: Page) -> None:
    curve = {"loss": [[step, 1 / (step + 1), 1_800_000_000 + step] for step in range(0, 50, 5)]}

    def profile(route: Route) -> None:
        route.fulfill(json={**route.fetch().json(), "metrics": curve, "reported_at": "2026-11-22T12:00:00Z"})

    page.route("**/profile", profile)
    watch = open_page(page, cluster.service, "/ui/jobs")
    for name in ("breaks", "waiter-1"):
        page.get_by_label(f"Select {name}").check()
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare jobs")
    came = page.get_by_role("region", name="Results")
    expect(came.get_by_role("row", name="State")).to_contain_text("failed")
    expect(came.get_by_role("row", name="Last loss")).to_contain_text("0.02174")
    expect(came.get_by_role("row", name="Energy")).to_contain_text(re.compile(r"[\d.]+ kWh"))
    expect(came.get_by_role("row", name="Cost")).to_contain_text(re.compile(r"\d\.\d\d EUR"))
    asked = page.get_by_role("region", name="Specifications")
    expect(asked.get_by_role("row", name="user")).to_contain_text("ada")
    expect(asked.get_by_role("row", name="container_image")).to_have_count(0)
    asked.get_by_label("Show equal values").check()
    expect(asked.get_by_role("row", name="container_image")).to_be_visible()
    expect(page.get_by_label(re.compile(r"^loss of .* by step$"))).to_be_visible()
    page.get_by_label("Curves by").get_by_text("by time").click()
    expect(page.get_by_label(re.compile(r"^loss of .* by time$"))).to_be_visible()
    expect(page).to_have_url(re.compile("by=time"))
    assert faults(page) == []
    page.unroute_all(behavior="ignoreErrors")
    assert_clean(watch)
