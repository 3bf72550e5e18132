"""Thousands of live updates over a real service: what the page keeps does not grow. They come within 75 seconds; with
`make test-page` over five minutes, as slowly as a browser would meet them at work."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from browsing import ENDLESS, assert_clean, open_page
from playwright.sync_api import Page, expect
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser, pytest.mark.timeout(420)]

ROUNDS = 5
ROUND_S, EVENTS_S = (60, 10) if os.environ.get("SCHEDULEARN_TEST_PAGE") else (15, 40)
GROWTH_BYTES = 1_000_000
"""From the end of the first round to that of the last, which bring some 2,400 events."""
LISTED = 100
"""Jobs of one page of the list: it is full from the beginning, so that what the page shows does not grow either."""
SCREENS = ("Jobs", "Timeline", "Hosts", "Policy", "Usage", "Events", "Settings", "Overview")


@contextmanager
def brisk_updates(service: Service) -> Iterator[None]:
    """EVENTS_S events a second: priorities that change, and every twentieth a job that starts and ends."""
    service.call("PUT", "/api/v1/policy", {"algorithm": "fifo", "params": {"backfill": True}})
    waiting = [service.submit(ENDLESS, name=f"waits-{n}", gpus=4) for n in range(20)]
    over = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            turn = 0
            while not over.wait(1 / EVENTS_S):
                turn += 1
                body = {"priority": turn % 40}
                service.call("PATCH", f"/api/v1/jobs/{waiting[turn % len(waiting)]}", body)
                if turn % 20 == 0:
                    service.submit("sleep 0", name=f"short-{turn}", priority=90)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    over.set()
    thread.join()
    assert failed == []


def test_thousands_of_live_updates_leave_no_garbage(own_service: Service, lone_page: Page) -> None:
    service, page = own_service, lone_page
    holder = service.submit(ENDLESS, name="holder", gpus=3)
    service.wait(holder, "running")
    for number in range(LISTED):
        service.call("DELETE", f"/api/v1/jobs/{service.submit(ENDLESS, name=f'before-{number}', gpus=4)}")
    watch = open_page(page, service)
    expect(page.get_by_test_id("live")).to_have_text("live")
    kept: list[Kept] = []
    first = service.call("GET", "/api/v1/events?limit=1")["items"][0]["id"]
    with brisk_updates(service):
        began = time.monotonic()
        for turn in range(1, ROUNDS + 1):
            for name in SCREENS:  # each is built and thrown away
                page.get_by_role("navigation").get_by_role("link", name=name).click()
                expect(page.get_by_role("heading", level=1)).to_have_text(name)
                page.wait_for_timeout(1000)
            while time.monotonic() < began + ROUND_S * turn:
                page.wait_for_timeout(500)
            expect(page.get_by_test_id("live")).to_have_text("live")
            if turn in (1, ROUNDS):
                kept.append(what_is_kept(page))
    happened = service.call("GET", "/api/v1/events?limit=1")["items"][0]["id"] - first
    assert happened > ROUND_S * ROUNDS * EVENTS_S / 3, "the updates were not brisk"
    print(f"{happened} events; kept by the round: {kept}")
    assert kept[-1].data - kept[0].data < GROWTH_BYTES, kept
    assert kept[-1].nodes < 1.5 * kept[0].nodes, kept
    assert kept[-1].listeners < 1.5 * kept[0].listeners, kept
    assert_clean(watch)


class Kept(NamedTuple):
    """What is still in use after everything else was collected."""

    data: int
    """Bytes of objects, strings and closures. Without compiled code, which grows for as long as the engine finds more
    to optimise, and without what the browser itself keeps for this test, such as bodies of answers."""
    nodes: int
    listeners: int


def what_is_kept(page: Page) -> Kept:
    session = page.context.new_cdp_session(page)
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    counters = session.send("Memory.getDOMCounters")
    chunks: list[str] = []
    session.on("HeapProfiler.addHeapSnapshotChunk", lambda part: chunks.append(part["chunk"]))
    session.send("HeapProfiler.takeHeapSnapshot")
    session.detach()
    return Kept(_data_bytes(json.loads("".join(chunks))), counters["nodes"], counters["jsEventListeners"])


def _data_bytes(heap: dict[str, Any]) -> int:
    fields, (types, *_) = heap["snapshot"]["meta"]["node_fields"], heap["snapshot"]["meta"]["node_types"]
    kinds = heap["nodes"][fields.index("type") :: len(fields)]
    sizes = heap["nodes"][fields.index("self_size") :: len(fields)]
    return sum(size for kind, size in zip(kinds, sizes, strict=True) if types[kind] not in ("code", "native"))
