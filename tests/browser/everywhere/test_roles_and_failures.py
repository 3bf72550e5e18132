"""Every screen in every role, and every screen with each of its queries failing: none waits, loops or asks in vain."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from browsing import ENDLESS, require_page
from playwright.sync_api import Browser, BrowserContext, Page, Request, Response, Route, expect
from services import IMAGE, Service

pytestmark = pytest.mark.browser

SCREENS = {
    "overview": "", "jobs": "jobs?user=", "own job": "jobs/{ada}", "another's job": "jobs/{ben}",
    "training": "jobs/{ada}?tab=training", "files": "jobs/{ada}?tab=files", "terminal": "jobs/{ada}?tab=terminal",
    "events of a job": "jobs/{ben}?tab=events", "spec": "jobs/{ada}?tab=spec", "submit": "submit",
    "submit again": "submit?from={ada}", "sweeps": "sweeps", "sweep": "sweeps/{sweep}",
    "experiment": "sweeps/{experiment}", "search": "sweeps/{search}", "timeline": "timeline", "hosts": "hosts",
    "history": "hosts?history=local", "policy": "policy", "usage": "usage", "compare": "compare?jobs={ada},{ben}",
    "events": "events", "people": "people", "settings": "settings", "nothing": "nowhere",
}  # fmt: skip
ROLES = {"admin": "boss", "user": "ada", "viewer": "vic"}
WATCHED_MS = 700
"""A page that asks in a loop asks some 20 times in this time."""
TABS = 6
SHELL = {"/api/v1/policy", "/api/v1/whoami"}
"""What the page's head asks for on every screen."""


GO = "url => { history.pushState(null, '', url); dispatchEvent(new PopStateEvent('popstate')); }"
"""Goes to a screen as a link does: the page is not loaded again."""


@dataclass
class Seeded:
    service: Service
    ids: dict[str, str]
    tokens: dict[str, str]

    def url(self, screen: str) -> str:
        return f"{self.service.url}/ui/{SCREENS[screen].format(**self.ids)}"


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeded]:
    """One service for all of this module; each role has a token."""
    require_page()
    with Service(tmp_path_factory.mktemp("roles"), token="correct horse") as service:
        tokens = {role: service.add_person(name, role) for role, name in ROLES.items()}
        tried = {"type": "t", "container_image": IMAGE, "launcher": "none", "command": ENDLESS, "required_gpus": 4}
        sweep = {"name": "sweep", "job": tried, "grid": {"priority": [1, 2]}}
        experiment = {"name": "experiment", "job": tried, "factors": {"env.A": ["1", "2"]}}
        search = {"name": "search", "job": tried, "gpus": [1, 2]}
        ids = {
            "ada": service.submit(ENDLESS, name="of ada", gpus=2, user="ada", max_duration=3600),
            "ben": service.submit(ENDLESS, name="of ben", gpus=4, user="ben"),
            "sweep": service.call("POST", "/api/v1/sweeps", sweep)["id"],
            "experiment": service.call("POST", "/api/v1/experiments", experiment)["id"],
            "search": service.call("POST", "/api/v1/searches", search)["id"],
        }
        service.call("PUT", "/api/v1/quotas/ada", {"gpus": 2, "waiting": 10})
        service.call("PUT", "/api/v1/groups/vision", {"gpus": 5})
        service.call("PUT", "/api/v1/groups/vision/members/ada")
        service.call("POST", "/api/v1/webhooks", {"url": "http://127.0.0.1:9/"})
        service.wait(ids["ada"], "running")
        yield Seeded(service, ids, tokens)
        service.cancel_all()


@dataclass
class Asked:
    """What a page asked the service for since the last visit, and what went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def attach(self, page: Page) -> None:
        page.on("request", self._request)
        page.on("response", self._response)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _request(self, request: Request) -> None:
        if path := path_of(request.url):
            self.counts[path] += 1

    def _response(self, response: Response) -> None:
        if response.status == 403:
            self.refused.append(response.url)


def path_of(url: str) -> str:
    """The path of a question to the API, '' for anything else: files of the page, and the stream of events."""
    path = urlsplit(url).path
    return path if path.startswith("/api/v1/") and path != "/api/v1/events" else ""


def log_in(browser: Browser, seeded: Seeded, role: str) -> BrowserContext:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    answer = context.request.post(f"{seeded.service.url}/api/v1/session", data={"token": seeded.tokens[role]})
    assert answer.ok, answer.text()
    return context


def settled(page: Page) -> None:
    """No screen waits longer than five seconds for anything."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0, timeout=5_000)


@pytest.mark.parametrize("role", ROLES)
def test_every_screen_opens_in_every_role(seeded: Seeded, browser: Browser, role: str) -> None:
    with log_in(browser, seeded, role) as context:
        page, asked = context.new_page(), Asked()
        asked.attach(page)
        page.goto(seeded.url("overview"))
        for screen in SCREENS:
            asked.counts.clear()
            page.evaluate(GO, seeded.url(screen))
            settled(page)
            page.wait_for_timeout(150)
            often = {path: count for path, count in asked.counts.items() if count > 4}
            assert (often, asked.refused, asked.errors) == ({}, [], []), (screen, role)


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
    for page, asked, _ in batch:
        settled(page)
        asked.counts.clear()
    batch[0][0].wait_for_timeout(WATCHED_MS)
    for page, asked, case in batch:
        often = {path: count for path, count in asked.counts.items() if count > 3}
        assert (often, asked.errors) == ({}, []), (case, status)
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
