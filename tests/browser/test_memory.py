"""Five minutes of brisk live updates over a real service: what the page keeps does not grow."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from browsing import ENDLESS, Service, assert_clean, open_page
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.timeout(420)]

MINUTES = 5
GROWTH_BYTES = 2_000_000
"""From the first minute to the last: what the history of so many more jobs weighs, and no more."""
EVENTS_S = 10
SCREENS = ("Jobs", "Timeline", "Hosts", "Policy", "Usage", "Events", "Settings", "Overview")


@contextmanager
def brisk_updates(service: Service) -> Iterator[None]:
    """Some ten events a second: priorities that change, and every other second a job that starts and ends."""
    service.call("PUT", "/api/v1/policy", {"algorithm": "fifo", "params": {"backfill": True}})
    waiting = [service.submit(f"waits-{n}", ENDLESS, gpus=4) for n in range(20)]
    over = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            turn = 0
            while not over.wait(1 / EVENTS_S):
                turn += 1
                body = {"priority": turn % 40}
                service.call("PATCH", f"/api/v1/jobs/{waiting[turn % len(waiting)]}", body)
                if turn % (2 * EVENTS_S) == 0:
                    service.submit(f"short-{turn}", "sleep 0", priority=90)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    over.set()
    thread.join()
    assert failed == []


def test_five_minutes_of_live_updates_leave_no_garbage(service: Service, page: Page) -> None:
    holder = service.submit("holder", ENDLESS, gpus=3)
    service.wait(holder, "running")
    watch = open_page(page, service)
    expect(page.get_by_test_id("live")).to_have_text("live")
    heaps: list[int] = []
    first = service.call("GET", "/api/v1/events?limit=1")["items"][0]["id"]
    with brisk_updates(service):
        began = time.monotonic()
        for minute in range(1, MINUTES + 1):
            for name in SCREENS:  # each is built and thrown away
                page.get_by_role("navigation").get_by_role("link", name=name).click()
                expect(page.get_by_role("heading", level=1)).to_have_text(name)
                page.wait_for_timeout(1000)
            while time.monotonic() < began + 60 * minute:
                page.wait_for_timeout(500)
            expect(page.get_by_test_id("live")).to_have_text("live")
            heaps.append(heap(page))
    happened = service.call("GET", "/api/v1/events?limit=1")["items"][0]["id"] - first
    assert happened > 60 * MINUTES * EVENTS_S / 3, "the updates were not brisk"
    print(f"{happened} events, heap by the minute: {[f'{size / 1e6:.1f} MB' for size in heaps]}")
    assert heaps[-1] - heaps[0] < GROWTH_BYTES, heaps
    assert_clean(watch)


def heap(page: Page) -> int:
    """Bytes that are still in use after everything else was collected."""
    session = page.context.new_cdp_session(page)
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    used = int(session.send("Runtime.getHeapUsage")["usedSize"])
    session.detach()
    return used
