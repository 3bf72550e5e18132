"""Usage as pictures: who used how much, and how much was left."""

from __future__ import annotations

import csv
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from browsing import assert_clean, faults_in_both_themes, open_page, visit
from playwright.sync_api import Locator, Page, expect
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser]

DAY = 86_400.0
LONG = "speech-recognition-" * 5 + "group@example.org"
SECOND_COLOUR = [181, 82, 15]  # of the second series, in the light scheme
IS_DRAWN = """
  ([canvas, [red, green, blue], wanted]) => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    let found = 0;
    for (let at = 0; at < data.length; at += 4)
      if (data[at] === red && data[at + 1] === green && data[at + 2] === blue) found++;
    return wanted ? found > 100 : found === 0;
  }
"""


def used(service: Service, user: str, gpus: int, begin: float, hours: float, **labels: str) -> None:
    """What a job used that has been deleted since: the shortest way to a past."""
    label = "{}" if not labels else "{" + ", ".join(f'"{key}": "{value}"' for key, value in labels.items()) + "}"
    uuids = "[" + ", ".join(f'"{user}-{index}"' for index in range(gpus)) + "]"
    row = (f"{user} {begin}", user, user, label, begin, begin + hours * 3600, uuids, hours * 3.6e6)
    with closing(sqlite3.connect(service.data / "schedulearn.db", timeout=10)) as db, db:
        db.execute("INSERT INTO deleted_task VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, float]]:
    """A service of 4 GPUs with a price, and noon of the day before yesterday, when two users began. No test changes
    it."""
    env = {"SCHEDULEARN_GPU_PRICES": '{"*": 2}', "SCHEDULEARN_CURRENCY": "EUR"}
    with Service(tmp_path_factory.mktemp("usage") / "data", env=env) as service:
        noon = (time.time() // DAY - 2) * DAY + DAY / 2
        used(service, LONG, 2, noon, 24, project="x")
        used(service, "ben", 1, noon, 6)
        with closing(sqlite3.connect(service.data / "schedulearn.db", timeout=10)) as db, db:
            db.execute("DELETE FROM capacity")
            db.execute("INSERT INTO capacity VALUES (?, 4)", [noon])
        yield service, noon


def chart(page: Page, name: str) -> Locator:
    return page.get_by_role("application", name=re.compile(name))


def day_of(at: float) -> str:
    return time.strftime("%d %b", time.gmtime(at)).lstrip("0")


def test_bars_say_who_used_how_much_on_which_day(past: tuple[Service, float], page: Page) -> None:
    service, noon = past
    watch = open_page(page, service, "/ui/usage?days=7")
    bars = chart(page, f"^GPU-hours by user, one bar per day; most by {LONG}")
    panel = page.get_by_role("region", name="GPU-hours by user", exact=True)
    legend = panel.get_by_test_id("legend")
    expect(legend.get_by_role("button")).to_have_text([f"{LONG}48", "ben6"])
    expect(bars.locator("canvas")).to_be_visible()
    tip = bars.get_by_test_id("chart-tip")
    bars.focus()
    page.keyboard.press("Home")
    for _ in range(8):  # to the first day that anybody used
        if tip.count():
            break
        page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text(day_of(noon))
    expect(tip.get_by_text("together")).to_be_visible()
    expect(tip).to_contain_text(re.compile(r"24.*ben6together30", re.DOTALL))
    other = chart(page, "^GPU-hours that jobs held and that were idle")
    expect(other.get_by_test_id("chart-tip")).to_contain_text(re.compile(r"held by jobs30idle18", re.DOTALL))
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text(day_of(noon + DAY))
    expect(tip).not_to_contain_text("ben")
    assert_clean(watch)


def test_a_part_of_the_bars_is_drawn_hidden_and_taken_away_as_a_file(past: tuple[Service, float], page: Page) -> None:
    service, noon = past
    watch = open_page(page, service, "/ui/usage?days=7")
    panel = page.get_by_role("region", name="GPU-hours by user", exact=True)
    canvas = panel.locator("canvas")
    expect(canvas).to_be_visible()
    page.wait_for_function(IS_DRAWN, arg=[canvas.element_handle(), SECOND_COLOUR, True])
    ben = panel.get_by_test_id("legend").get_by_role("button", name="ben")
    ben.click()
    expect(ben).to_have_attribute("aria-pressed", "false")
    page.wait_for_function(IS_DRAWN, arg=[canvas.element_handle(), SECOND_COLOUR, False])
    panel.get_by_role("button", name="Menu of GPU-hours by user").click()
    expect(page.get_by_role("menuitem", name="Logarithmic axis")).to_be_disabled()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Download CSV").click()
    rows = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert list(rows[0]) == ["Day", LONG, "ben"]
    assert [row["ben"] for row in rows if row["ben"]] == ["6"]
    assert [row["Day"] for row in rows if row["ben"]] == [day_of(noon)]
    assert_clean(watch)


def test_what_was_left_and_what_it_cost_is_said(past: tuple[Service, float], page: Page) -> None:
    service, noon = past
    watch = open_page(page, service, "/ui/usage?days=7")
    there = 4 * (time.time() - noon) / 3600
    share = page.locator("dl > div", has_text="Share of capacity")
    expect(share).to_contain_text(re.compile(rf"{54 / there:.0%}|{54 / (there + 1):.0%}"))
    cost = page.locator("dl > div", has_text="Cost")
    expect(cost).to_contain_text("108.00 EUR")
    table = page.get_by_role("region", name="Usage", exact=True)
    expect(table.get_by_role("row", name=re.compile("^ben"))).to_contain_text("12.00 EUR")
    page.get_by_label("Price of a GPU-hour").fill("0.5")
    expect(cost).to_contain_text("27.00 EUR")
    expect(page).to_have_url(re.compile("price=0.5"))
    page.get_by_label("By", exact=True).select_option("label")
    expect(chart(page, "^GPU-hours by label, one bar per day; most by x")).to_be_visible()
    expect(page.get_by_role("region", name="GPU-hours by label").get_by_test_id("legend")).to_contain_text("no label")
    page.get_by_text("90 d", exact=True).click()
    expect(chart(page, "^GPU-hours by label, one bar per week")).to_be_visible()
    assert_clean(watch)


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_long_names_fit_and_nothing_is_hard_to_see(past: tuple[Service, float], page: Page, width: int) -> None:
    service, _ = past
    page.set_viewport_size({"width": width, "height": 900})
    watch = open_page(page, service, "/ui/usage?by=day,user&days=30")
    expect(page.locator("canvas")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    numbers = page.get_by_role("columnheader", name="GPU-hours").bounding_box()
    assert numbers is not None
    assert numbers["x"] < width, "the name leaves no room for the numbers"
    assert faults_in_both_themes(page) == []
    assert_clean(watch)


def test_of_very_many_users_the_largest_are_shown(own_service: Service, page: Page) -> None:
    service = own_service
    now = time.time()
    for number in range(600):
        used(service, f"user-{number:03}", 1, now - 7200, 1 + number / 1000)
    watch = open_page(page, service, "/ui/usage")
    expect(page.get_by_text("The first 500 of 600 rows. The CSV has all.")).to_be_visible()
    expect(page.get_by_role("region", name="Usage", exact=True).get_by_role("row")).to_have_count(502)
    legend = page.get_by_role("region", name="GPU-hours by user").get_by_test_id("legend")
    expect(legend.get_by_role("button")).to_have_count(8)
    expect(legend).to_contain_text("593 others")
    visit(page, f"{service.url}/ui/usage?by=label&label=")
    expect(page.get_by_text("Enter a label")).to_be_visible()
    assert_clean(watch)
