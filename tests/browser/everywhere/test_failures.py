"""Every screen with each of its queries failing: none waits, loops or asks in vain."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Page
from screens import GO, SCREENS, Seeded, settled

pytestmark = [pytest.mark.long, pytest.mark.browser]

WATCHED_MS = 700
"""A page that asks in a loop asks some 20 times in this time."""
TABS = 6
SHELL = {"/api/v1/policy", "/api/v1/whoami"}
"""What the page's head asks for on every screen."""
FAILING = """
  window.asked = {};
  const ask = window.fetch.bind(window);
  window.fetch = async (input, init) => {
    const { pathname } = new URL(input.url ?? input, location.href);
    if (pathname.startsWith("/api/v1/") && pathname !== "/api/v1/events")
      window.asked[pathname] = (window.asked[pathname] ?? 0) + 1;
    const [path, status] = JSON.parse(sessionStorage.getItem("failing") ?? "[]");
    if (pathname !== path) return ask(input, init);
    await new Promise((done) => setTimeout(done, 20));
    const body = { status, code: "made_up", title: "Made up", detail: "This was made to fail." };
    return new Response(JSON.stringify(body), { status, headers: { "content-type": "application/problem+json" } });
  };
"""
"""Counts what the page asks for, and answers one path with an error. A route of Playwright's would do it too, but has
the browser fetch and compile the whole page at each load."""


@dataclass
class Tab:
    page: Page
    errors: list[str] = field(default_factory=list)

    def asked(self) -> dict[str, int]:
        """Paths of the API, and how often it was asked for each since the last load or reset."""
        counts: dict[str, int] = self.page.evaluate("window.asked")
        return counts

    def fail(self, path: str, status: int) -> None:
        self.page.evaluate("failing => sessionStorage.setItem('failing', failing)", json.dumps([path, status]))


def open_tab(browser: Browser, seeded: Seeded, stack: ExitStack) -> Tab:
    """In a context of its own: a browser opens six connections for one, and each page keeps one of them."""
    looks = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"}
    context = stack.enter_context(browser.new_context(**looks))  # type: ignore[arg-type]
    seeded.log_in(context, "admin")
    tab = Tab(context.new_page())
    tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
    tab.page.add_init_script(FAILING)
    tab.page.goto(seeded.url("nothing"))
    return tab


def test_every_screen_bears_that_each_of_its_queries_fails(seeded: Seeded, browser: Browser) -> None:
    with ExitStack() as stack:
        tabs = [open_tab(browser, seeded, stack) for _ in range(TABS)]
        cases = questions(tabs[0], seeded)
        assert {("settings", "/api/v1/tokens"), ("people", "/api/v1/quotas"), ("policy", "/api/v1/policy")} < set(cases)
        for at in range(0, len(cases), TABS):
            batch = list(zip(tabs, cases[at : at + TABS], strict=False))
            for tab, (screen, path) in batch:
                tab.errors.clear()
                tab.fail(path, 500)
                tab.page.goto(seeded.url(screen), wait_until="commit")
            watch(batch, 500)
            for tab, (screen, path) in batch:
                tab.fail(path, 403)
                tab.page.evaluate(GO, seeded.url("nothing"))
                tab.page.evaluate(GO, seeded.url(screen))
            watch(batch, 403)


def watch(batch: list[tuple[Tab, tuple[str, str]]], status: int) -> None:
    """None of these pages waits, asks in a loop or breaks."""
    for tab, _ in batch:
        settled(tab.page)
    for tab, _ in batch:  # all at once: a page that polls goes on while the others are looked at
        tab.page.evaluate("window.asked = {}")
    batch[0][0].page.wait_for_timeout(WATCHED_MS)
    counts = [tab.asked() for tab, _ in batch]
    for (tab, case), asked in zip(batch, counts, strict=True):
        often = {path: count for path, count in asked.items() if count > 3}
        assert (often, tab.errors) == ({}, []), (case, status)
    for tab, _ in batch:
        settled(tab.page)


def questions(tab: Tab, seeded: Seeded) -> list[tuple[str, str]]:
    """What each screen asks for, as far as none before it has the same frame: the screen and a path of the API."""
    found: list[tuple[str, str]] = []
    frames: dict[str, set[str]] = {}
    for screen, address in SCREENS.items():
        tab.page.goto(seeded.url(screen), wait_until="commit")
        settled(tab.page)
        tab.page.wait_for_timeout(150)
        known = frames.setdefault(address.partition("?")[0], set()) | (SHELL if found else set())
        asked = tab.asked()
        frames[address.partition("?")[0]] |= asked.keys()
        found += [(screen, path) for path in asked if path not in known]
    return [*found, ("policy", "/api/v1/policy"), ("people", "/api/v1/whoami"), ("settings", "/api/v1/whoami")]
