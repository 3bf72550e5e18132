"""Every screen with each of its queries failing: none waits, loops or asks in vain."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route
from screens import GO, SCREENS, Asked, Seeded, path_of, settled

pytestmark = pytest.mark.browser

WATCHED_MS = 700
"""A page that asks in a loop asks some 20 times in this time."""
TABS = 6
SHELL = {"/api/v1/policy", "/api/v1/whoami"}
"""What the page's head asks for on every screen."""


def log_in(browser: Browser, seeded: Seeded, role: str) -> BrowserContext:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    seeded.log_in(context, role)
    return context


def test_every_screen_bears_that_each_of_its_queries_fails(seeded: Seeded, browser: Browser) -> None:
    with ExitStack() as stack:
        # Each has a context of its own: a browser opens six connections for one, and each page keeps one of them.
        tabs = [stack.enter_context(log_in(browser, seeded, "admin")).new_page() for _ in range(TABS)]
        seen = [Asked() for _ in tabs]
        for page, asked in zip(tabs, seen, strict=True):
            asked.attach(page)
        cases = questions(tabs[0], seen[0], seeded)
        assert {("settings", "/api/v1/tokens"), ("people", "/api/v1/quotas"), ("policy", "/api/v1/policy")} < set(cases)
        for at in range(0, len(cases), TABS):
            batch = list(zip(tabs, seen, cases[at : at + TABS], strict=False))
            for page, asked, (screen, path) in batch:
                asked.errors.clear()
                fail(page, path, 500)
                page.goto(seeded.url(screen), wait_until="commit")
            watch(batch, 500)
            for page, _, (screen, path) in batch:
                fail(page, path, 403)
                page.evaluate(GO, seeded.url("nothing"))
                page.evaluate(GO, seeded.url(screen))
            watch(batch, 403)


def watch(batch: list[tuple[Page, Asked, tuple[str, str]]], status: int) -> None:
    """None of these pages waits, asks in a loop or breaks."""
    for page, _, _ in batch:
        settled(page)
    for _, asked, _ in batch:  # all at once: a page that polls goes on while the others are looked at
        asked.counts.clear()
    batch[0][0].wait_for_timeout(WATCHED_MS)
    for _, asked, case in batch:
        often = {path: count for path, count in asked.counts.items() if count > 3}
        assert (often, asked.errors) == ({}, []), (case, status)
    for page, _, _ in batch:
        settled(page)


def questions(page: Page, asked: Asked, seeded: Seeded) -> list[tuple[str, str]]:
    """What each screen asks for, as far as none before it has the same frame: the screen and a path of the API."""
    found: list[tuple[str, str]] = []
    frames: dict[str, set[str]] = {}
    for screen, address in SCREENS.items():
        asked.counts.clear()
        page.goto(seeded.url(screen), wait_until="commit")
        settled(page)
        page.wait_for_timeout(150)
        known = frames.setdefault(address.partition("?")[0], set()) | (SHELL if found else set())
        frames[address.partition("?")[0]] |= asked.counts.keys()
        found += [(screen, path) for path in asked.counts if path not in known]
    return [*found, ("policy", "/api/v1/policy"), ("people", "/api/v1/whoami"), ("settings", "/api/v1/whoami")]


def fail(page: Page, path: str, status: int) -> None:
    """Let the browser answer all that this page asks of a path with an error."""
    body = {"status": status, "code": "made_up", "title": "Made up", "detail": "This was made to fail."}

    def refuse(route: Route) -> None:
        route.fulfill(status=status, content_type="application/problem+json", body=json.dumps(body))

    page.unroute_all()
    page.route(lambda url: path_of(url) == path, refuse)
