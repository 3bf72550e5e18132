"""Timeline, events, usage and hosts."""

from __future__ import annotations

import re
import time

import pytest
from browsing import ENDLESS, SCRIPT_IN_NAME, assert_clean, open_page, visit
from playwright.sync_api import Page, expect
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser]


def test_timeline_tells_what_is_under_the_pointer_and_leads_to_it(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name=SCRIPT_IN_NAME, gpus=4)
    service.wait(job, "running")
    watch = open_page(page, service, "/ui/timeline?span=1h")
    timeline = page.get_by_test_id("timeline")
    for _ in range(6):  # until the few seconds that it has run are wide enough to point at
        page.get_by_role("button", name="Show less time").click()
    page.wait_for_timeout(600)
    expect(page).to_have_url(re.compile("from=.*&to="))
    hit = find_bar(page)
    expect(timeline.get_by_role("tooltip")).to_contain_text(SCRIPT_IN_NAME)
    expect(timeline.get_by_role("tooltip")).to_contain_text("one of 4")

    page.reload()  # the address is that of what was shown
    expect(timeline).to_be_visible()
    page.wait_for_timeout(600)
    page.mouse.click(*hit)
    expect(page).to_have_url(f"{service.url}/ui/jobs/{job}")
    assert_clean(watch)


def find_bar(page: Page) -> tuple[float, float]:
    """Points along the first lane until something is hit."""
    timeline = page.get_by_test_id("timeline")
    box = timeline.bounding_box()
    assert box is not None
    for x in range(int(box["width"]) - 4, 120, -4):
        point = box["x"] + x, box["y"] + 34 + 10
        page.mouse.move(*point)
        if timeline.get_by_role("tooltip").count():
            return point
    raise AssertionError("no bar in the first lane")


def test_timeline_drags_and_zooms_by_keyboard(service: Service, page: Page) -> None:
    watch = open_page(page, service, "/ui/timeline")
    timeline = page.get_by_test_id("timeline")
    timeline.focus()
    page.keyboard.press("+")
    expect(page.get_by_text(re.compile(r"^13 h 48 m up to"))).to_be_visible()
    before = page.get_by_text(" up to ").inner_text()
    box = timeline.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 600, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 900, box["y"] + 60, steps=5)
    page.mouse.up()
    expect(page.get_by_text(" up to ")).not_to_have_text(before)
    assert_clean(watch)


def test_events_are_live_and_searched(own_service: Service, page: Page) -> None:
    service = own_service  # events of the shared one tell of jobs that are gone
    watch = open_page(page, service, "/ui/events")
    job = service.submit("sleep 0", name=SCRIPT_IN_NAME)
    events = page.get_by_test_id("events")
    expect(events.get_by_role("link", name=SCRIPT_IN_NAME).first).to_be_visible(timeout=15_000)
    expect(events.get_by_title(f"Job {job}").first).to_be_visible()
    before = len(service.call("GET", "/api/v1/events:search?q=is+now+LAS")["items"])
    service.call("PUT", "/api/v1/policy", {"algorithm": "las"})
    page.get_by_label("Sentence contains").fill("is now LAS")
    expect(events.get_by_role("listitem")).to_have_count(before + 1)
    page.get_by_label("By user").fill("nobody")
    expect(page.get_by_text("No event matches.")).to_be_visible()
    page.get_by_label("By user").fill("*")
    expect(events.get_by_role("listitem").first).to_be_visible()
    events.get_by_role("button", name="by ").first.click()
    expect(page).to_have_url(re.compile(r"actor=\w"))
    expect(events.get_by_role("listitem")).to_have_count(before + 1)
    expect(page).to_have_url(re.compile(r"q=is\+now\+LAS"))
    page.get_by_label("Sentence contains").fill("nothing like it")
    expect(page.get_by_text("No event matches.")).to_be_visible()
    assert_clean(watch)


def test_usage_is_summed_and_comes_as_a_file(service: Service, page: Page) -> None:
    job = service.submit("sleep 1", name="trainer", gpus=2, user="sums-up")
    service.wait(job, "succeeded")
    watch = open_page(page, service, "/ui/usage")
    expect(page.get_by_role("rowheader", name="Together")).to_be_visible()
    page.get_by_label("By", exact=True).select_option("day,user")
    expect(page.get_by_role("columnheader", name="day")).to_be_visible()
    page.get_by_label("Price of a GPU-hour").fill("2")
    expect(page.get_by_role("columnheader", name="cost")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    text = download.value.path().read_text()
    assert text.splitlines()[0].startswith("day,user,label,gpu_hours")
    assert len([line for line in text.splitlines() if ",sums-up," in line]) == 1
    assert_clean(watch)


def test_a_host_is_cordoned_drained_and_returned_to_service(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name="holder", gpus=2)
    service.wait(job, "running")
    watch = open_page(page, service, "/ui/hosts")
    host = page.get_by_label("Host local")
    expect(host).to_contain_text("2 of 4 GPUs free")
    host.get_by_role("button", name="Cordon").click()
    expect(host).to_contain_text("its jobs continue")
    host.get_by_role("button", name="Uncordon").click()
    expect(host).not_to_contain_text("its jobs continue")

    host.get_by_role("button", name="Drain").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 job leaves it")
    expect(dialog.get_by_role("link", name="holder")).to_be_visible()
    dialog.get_by_label("Minutes until").fill("0")
    dialog.get_by_role("button", name="Drain the host").click()
    expect(host).to_contain_text("Draining")
    expect(host).to_contain_text("4 of 4 GPUs free", timeout=30_000)
    host.get_by_role("button", name="Uncordon").click()
    service.wait(job, "running")

    page.get_by_role("button", name="Add a host").click()
    dialog.get_by_label("Address").fill("http://nowhere")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog).to_contain_text("must be like ssh://user@gpu2")
    watch.forget("status of 422")
    assert_clean(watch)


def test_what_the_gpus_of_a_host_and_of_a_job_did_is_drawn(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name=SCRIPT_IN_NAME, gpus=2)
    service.wait(job, "running")
    watch = open_page(page, service, "/ui/hosts")
    host = page.get_by_label("Host local")
    host.get_by_role("button", name="History").click()
    expect(page).to_have_url(re.compile("history=local"))
    expect(host.get_by_label("Utilisation of the GPUs of local over time")).to_be_visible()
    expect(host.locator("canvas")).to_be_visible()
    expect(host.get_by_test_id("legend")).to_contain_text("GPU 3")
    host.get_by_label("Metric of the GPUs").get_by_text("Power", exact=True).click()
    expect(host.get_by_label("Power of the GPUs of local over time")).to_be_visible()
    host.get_by_text("7 d", exact=True).click()
    page.reload()  # the address is that of what was shown
    expect(page).to_have_url(re.compile("history=local.*metric=power_w.*back=7"))
    host.get_by_role("button", name="Hide history").click()
    expect(host.locator("canvas")).to_have_count(0)

    visit(page, f"{service.url}/ui/jobs/{job}?tab=training")
    utilisation = page.get_by_label("GPU utilisation", exact=True)
    expect(utilisation.locator("canvas")).to_be_visible()
    expect(utilisation.get_by_test_id("legend")).to_contain_text("GPU 1")
    expect(page.get_by_label("GPU memory", exact=True).locator("canvas")).to_be_visible()
    assert_clean(watch)


def test_what_a_host_and_the_containers_of_a_job_take_is_drawn(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name=SCRIPT_IN_NAME, gpus=1)
    service.wait(job, "running")
    watch = open_page(page, service, "/ui/hosts?history=local&metric=host_memory")
    host = page.get_by_label("Host local")
    load = host.get_by_label("Load of local")
    expect(load.locator("[data-metric=cpus]")).to_have_text(re.compile(r"^\d+\.\d of \d+$"), timeout=40_000)
    expect(load.locator("[data-metric=memory]")).to_have_text(re.compile(r"^[\d.]+ \wiB of [\d.]+ \wiB$"))
    expect(load.locator("[data-metric=disk]")).to_have_text(re.compile(r"^[\d.]+ \wiB of [\d.]+ \wiB$"))
    expect(host.get_by_label("Memory of local over time")).to_be_visible()
    host.get_by_label("Metric of the host").get_by_text("Host CPU", exact=True).click()
    expect(host.get_by_label("Processors of local over time")).to_be_visible()
    through = host.get_by_label("Throughput of the host")
    for choice, drawn in (("Host network", "Network"), ("Host disk I/O", "Disk")):
        through.get_by_text(choice, exact=True).click()
        expect(host.get_by_label(f"{drawn} of local over time")).to_be_visible()
    expect(host.get_by_test_id("legend")).to_contain_text("written")

    visit(page, f"{service.url}/ui/jobs/{job}?tab=training")
    for name in ("Processors", "Memory", "Disk"):
        expect(page.get_by_label(name, exact=True).locator("canvas")).to_be_visible(timeout=40_000)
    expect(page.get_by_label("Memory", exact=True)).to_contain_text(re.compile(r"The most seen at once is [\d.]+ \wiB"))
    expect(page.get_by_label("Network", exact=True)).to_contain_text("Local processes have no network measurements")
    assert_clean(watch)


def test_the_timeline_shows_what_comes_and_is_gone_through_by_keys(service: Service, page: Page) -> None:
    holder = service.submit(ENDLESS, name="holder", gpus=4)
    service.wait(holder, "running")
    waiter = service.submit(ENDLESS, name="waiter", gpus=3, user="ann")
    predicted = page.request.get

    def starts() -> list[str]:
        found = predicted(f"{service.url}/api/v1/timeline/expected").json()["items"]
        return [item["job"] for item in found if item["start"]]

    end = time.monotonic() + 60
    while starts() != [waiter]:
        assert time.monotonic() < end, "nothing is predicted"
        time.sleep(0.2)
    watch = open_page(page, service, "/ui/timeline?span=1h")
    timeline = page.get_by_test_id("timeline")
    timeline.focus()
    page.keyboard.press("ArrowDown")
    told = timeline.get_by_role("tooltip")
    expect(told).to_contain_text("waiter")
    expect(told).to_contain_text("3 GPUs · ann")
    expect(told).to_contain_text("expected to start")
    page.keyboard.press("ArrowDown")
    expect(told).to_contain_text("local GPU 0, one of 4")
    expect(told).to_contain_text("expected to end")
    page.keyboard.press("Escape")
    expect(told).to_have_count(0)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{service.url}/ui/jobs/{holder}")
    assert_clean(watch)


def test_the_timeline_is_narrowed_to_what_is_looked_for(service: Service, page: Page) -> None:
    failed = service.submit_shell("exit 3", 2, name="breaks")
    service.wait(failed, "failed")
    good = service.submit("sleep 0", name="works")
    service.wait(good, "succeeded")
    watch = open_page(page, service, "/ui/timeline?span=1h")
    expect(page.get_by_role("list", name="Legend")).to_contain_text("failed")
    timeline = page.get_by_test_id("timeline")
    page.get_by_label("State").select_option("failed")
    expect(page).to_have_url(re.compile("show=failed"))
    timeline.focus()
    page.keyboard.press("ArrowDown")
    told = timeline.get_by_role("tooltip")
    expect(told).to_contain_text("breaks")
    expect(told).to_contain_text("failed")
    page.keyboard.press("ArrowDown")
    expect(told).to_contain_text("GPU 1")
    page.get_by_label("State").select_option("")
    page.get_by_label("Job, user or host contains").fill("works")
    expect(page).to_have_url(re.compile("span=1h.*q=works"))
    timeline.focus()
    page.keyboard.press("ArrowDown")
    expect(told).to_contain_text("works")
    page.get_by_label("Job, user or host contains").fill("nothing like it")
    expect(page.get_by_text("Nothing in this time matches.")).to_be_visible()
    assert_clean(watch)
