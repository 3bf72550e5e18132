"""Charts: what the pointer and the keys do with them, and what is taken away from them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import REPORTING, assert_clean, faults_in_both_themes, measured, open_page, report, visit
from clusters import wait_for
from playwright.sync_api import Locator, Page, expect
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser]

EPOCHS = [{"name": "epoch", "step": step, "value": step / 4, "at": 1_790_000_000 + step} for step in range(20)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """A service with one job that has reported 19 steps and their epochs; shared, for no test changes it."""
    with Service(tmp_path_factory.mktemp("charts")) as service:
        job = service.submit(REPORTING, name="reporter", elastic=True)
        body = measured()
        body["metrics"] += EPOCHS
        report(service, job, body)
        yield service, job
        service.cancel_all()


def chart(page: Page, name: str) -> Locator:
    return page.get_by_role("application", name=re.compile(name))


def move_to(page: Page, where: Locator, share: float) -> None:
    """The pointer, to a share of the way from the left to the right end of what is drawn."""
    where.scroll_into_view_if_needed()
    box = where.bounding_box()
    assert box is not None
    left, right = box["x"] + 56, box["x"] + box["width"] - 32  # between the axis and half a label
    page.mouse.move(left + (right - left) * share, box["y"] + box["height"] / 2, steps=4)


def read_at(page: Page, where: Locator, share: float, text: str) -> None:
    """Points there until the chart's tip says `text`: a chart that has just got another width or another part of its
    axis has no crosshair until the pointer moves again."""
    tip = where.get_by_test_id("chart-tip")

    def says() -> bool:
        move_to(page, where, share - 0.004)
        move_to(page, where, share)
        return tip.count() == 1 and text in (tip.text_content() or "")

    wait_for(says, what=f"the chart to tell {text!r}", pause=0.2)


def test_the_crosshair_is_shared_and_says_what_it_is_on(trained: tuple[Service, str], page: Page) -> None:
    service, job = trained
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=training")
    loss = chart(page, "^loss by step")
    expect(loss).to_be_visible()
    expect(page.get_by_role("region", name="loss", exact=True).get_by_test_id("last-value")).to_have_text("0.05263")
    read_at(page, loss, 0.5, "Step 10")
    expect(loss.get_by_test_id("chart-tip")).to_contain_text("0.1")
    other = chart(page, "^val_acc by step")
    expect(other.get_by_test_id("chart-tip")).to_contain_text("Step 10")
    expect(chart(page, "^Predicted throughput").get_by_test_id("chart-tip")).to_have_count(0)
    expect(page.get_by_role("region", name="loss", exact=True).get_by_test_id("legend")).to_have_count(0)
    page.mouse.move(5, 5)
    expect(other.get_by_test_id("chart-tip")).to_have_count(0)
    assert_clean(watch)


def test_a_part_is_dragged_out_and_given_back(trained: tuple[Service, str], page: Page) -> None:
    service, job = trained
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=training")
    loss, other = chart(page, "^loss by step"), chart(page, "^val_acc by step")
    expect(loss.locator("canvas")).to_be_visible()
    move_to(page, loss, 0.5)
    page.mouse.down()
    move_to(page, loss, 0.99)
    page.mouse.up()
    resets = page.get_by_role("button", name="Reset zoom")
    expect(resets).to_have_count(3)  # the noise scale is drawn by step too
    read_at(page, other, 0.02, "Step 10")
    resets.first.click()
    expect(resets).to_have_count(0)
    read_at(page, other, 0.02, "Step 1val_acc")  # not step 10
    assert_clean(watch)


def test_a_chart_is_read_by_keys(trained: tuple[Service, str], page: Page) -> None:
    service, job = trained
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=training")
    loss = chart(page, "^loss by step")
    expect(loss.locator("canvas")).to_be_visible()
    loss.focus()
    page.keyboard.press("Home")
    expect(loss.locator("[aria-live]")).to_have_text("Step 1: loss 1")
    page.keyboard.press("ArrowRight")
    expect(loss.locator("[aria-live]")).to_have_text("Step 2: loss 0.5")
    expect(chart(page, "^val_acc by step").get_by_test_id("chart-tip")).to_contain_text("Step 2")
    page.keyboard.press("+")
    expect(page.get_by_role("button", name="Reset zoom").first).to_be_visible()
    page.keyboard.press("0")
    expect(page.get_by_role("button", name="Reset zoom")).to_have_count(0)
    page.keyboard.press("End")
    expect(loss.locator("[aria-live]")).to_have_text("Step 19: loss 0.05263")
    expect(page).to_have_url(re.compile(job))  # no key went to the page's own
    assert_clean(watch)


def test_curves_are_drawn_by_time_and_epoch_and_smoothed(trained: tuple[Service, str], page: Page) -> None:
    service, job = trained
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=training")
    page.get_by_text("by epoch", exact=True).click()
    loss = chart(page, "^loss by epoch")
    read_at(page, loss, 0.99, "Epoch 4.75")
    expect(chart(page, "^epoch by")).to_have_count(0)
    page.get_by_role("slider", name="Smoothing").press("End")
    expect(page).to_have_url(re.compile("by=epoch.*smooth=0.99"))
    read_at(page, loss, 0.99, "(0.05263)")
    page.reload()
    expect(page.get_by_role("slider", name="Smoothing")).to_have_attribute("aria-valuenow", "0.99")
    page.get_by_text("by time", exact=True).click()
    expect(chart(page, "^loss by time")).to_be_visible()
    assert_clean(watch)


def test_a_chart_is_taken_away_as_numbers_and_as_a_picture(trained: tuple[Service, str], page: Page) -> None:
    service, job = trained
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=training")
    menu = page.get_by_role("button", name="Menu of loss")
    menu.click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Download CSV").click()
    assert download.value.suggested_filename == "loss.csv"
    rows = list(csv.reader(download.value.path().read_text().splitlines()))
    assert rows[0] == ["Step", "loss"]
    assert rows[4] == ["4", "0.25"]
    assert len(rows) == 20
    menu.click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Download PNG").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    assert_clean(watch)


def test_a_picture_is_offered_once_the_chart_is_drawn(trained: tuple[Service, str], page: Page) -> None:
    service, job = trained
    page.route("**/assets/Plot-*.js", lambda route: None)  # held back, as by a slow line
    open_page(page, service, f"/ui/jobs/{job}?tab=training")
    page.get_by_role("button", name="Menu of loss").click()
    picture = page.get_by_role("menuitem", name="Download PNG")
    expect(page.get_by_role("menuitem", name="Download CSV")).to_be_enabled()
    expect(picture).to_be_disabled()
    page.unroute_all()  # which lets go what is held
    # Not by the click: one that waits for a disabled item scrolls at its later tries, and a menu whose button has left
    # the window closes.
    expect(picture).to_be_enabled()
    with page.expect_download() as download:
        picture.click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_a_chart_fills_the_window_on_a_logarithmic_axis(trained: tuple[Service, str], page: Page) -> None:
    service, job = trained
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=training")
    page.get_by_role("button", name="loss in full screen").click()
    dialog = page.get_by_role("dialog")
    large = dialog.get_by_role("application")
    expect(large.locator("canvas")).to_be_visible()
    box = large.bounding_box()
    assert box is not None
    assert box["height"] > 500
    dialog.get_by_role("button", name="Menu of loss").click()
    page.get_by_role("menuitem", name="Logarithmic axis").click()
    expect(large.locator("canvas")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert_clean(watch)


def test_a_line_is_hidden_by_its_name(trained: tuple[Service, str], page: Page) -> None:
    service, job = trained
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=training")
    scaling = page.get_by_role("region", name="Predicted gain of more GPUs")
    goodput = scaling.get_by_role("button", name="goodput")
    read_at(page, scaling.get_by_role("application"), 0.0, "goodput")
    goodput.click()
    expect(goodput).to_have_attribute("aria-pressed", "false")
    move_to(page, scaling.get_by_role("application"), 0.0)
    expect(scaling.get_by_test_id("chart-tip")).not_to_contain_text("goodput")
    assert_clean(watch)


NOTE_LABELS = """
  const [clear, fill] = [CanvasRenderingContext2D.prototype.clearRect, CanvasRenderingContext2D.prototype.fillText];
  CanvasRenderingContext2D.prototype.clearRect = function (...box) {
    this.canvas.labels = [];
    return clear.apply(this, box);
  };
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const [wide, { e, f }] = [this.measureText(text).width, this.getTransform()];
    const left = x + e - (this.textAlign === "center" ? wide / 2 : this.textAlign === "right" ? wide : 0);
    this.canvas.labels?.push({ text, left, right: left + wide, y: Math.round(y + f) });
    return fill.call(this, text, x, y);
  };
"""
COLLISIONS = """() => [...document.querySelectorAll(".uplot canvas")].flatMap((canvas) => {
  const labels = (canvas.labels ?? []).toSorted((a, b) => a.left - b.left);
  const found = labels.length < 4 ? ["only " + labels.length] : [];
  for (const [index, one] of labels.entries()) {
    if (one.left < -1 || one.right > canvas.width + 1) found.push(one.text + " is cut off");
    for (const next of labels.slice(index + 1))
      if (next.y === one.y && next.left - one.right < 4) found.push(one.text + " touches " + next.text);
  }
  return found;
})"""


def test_labels_never_touch_at_any_width(trained: tuple[Service, str], page: Page) -> None:
    service, job = trained
    page.add_init_script(NOTE_LABELS)
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=training")
    for path, name in ((f"jobs/{job}?tab=training", "^loss by step"), ("", "^GPUs in use"), ("usage", "GPU-hours")):
        visit(page, f"{service.url}/ui/{path}")
        expect(chart(page, name).first.locator("canvas")).to_be_visible()
        for width in (320, 390, 500, 640, 768, 900, 1024, 1280, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(
                """() => [...document.querySelectorAll(".uplot")].every((plot) =>
                  plot.offsetWidth === plot.parentElement.clientWidth)"""
            )
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")
            assert page.evaluate(COLLISIONS) == [], f"/ui/{path} at {width} px"
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert over <= 0, f"/ui/{path} is {over} px too wide for {width}"
    assert_clean(watch)


def test_charts_shut_nobody_out(trained: tuple[Service, str], page: Page) -> None:
    service, job = trained
    page.set_viewport_size({"width": 390, "height": 844})
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=training")
    expect(chart(page, "^loss by step").locator("canvas")).to_be_visible()
    chart(page, "^loss by step").focus()
    page.keyboard.press("Home")
    assert faults_in_both_themes(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    visit(page, f"{service.url}/ui/")
    expect(chart(page, "^GPUs in use").locator("canvas")).to_be_visible()
    assert faults_in_both_themes(page) == []
    assert_clean(watch)
