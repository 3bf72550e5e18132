"""The page in a real browser, and a watch over what a page must not do."""

from __future__ import annotations

import json
import re
import shutil
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import APIRequestContext, ConsoleMessage, Error, Page, Request, expect
from services import Service

STATIC = Path(__file__).parents[2] / "api" / "static"
AXE = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
]
COLOUR_RULES = ("color-contrast", "link-in-text-block")
"""Of axe."""
SCRIPT_IN_NAME = "<img src=x onerror=alert(1)>"
REPORTING = "sh -c 'echo token=$SCHEDULEARN_JOB_TOKEN; while true; do sleep 1; done'"
"""A job that prints the token with which it may report."""
ENDLESS = "sh -c 'while true; do sleep 1; done'"


def require_page() -> None:
    """Skip without a browser; fail where the page is not built."""
    if CHROMIUM is None:
        pytest.skip("NO BROWSER: the page is untested; install Debian's chromium")
    if not (STATIC / "index.html").is_file():
        pytest.fail("the page is not built: run `npm ci && npm run build` in ui/")


@dataclass
class Watch:
    """What a page must not do."""

    origin: str
    foreign: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def attach(self, page: Page) -> None:
        page.on("request", lambda request: self._request(request.url))
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def _request(self, url: str) -> None:
        if not url.startswith((f"{self.origin}/", "data:", "blob:")):
            self.foreign.append(url)

    def _console(self, message: ConsoleMessage) -> None:
        # The browser's word on what a network that comes or goes beside it cut off: the page asks again, and tests
        # see by what it shows that it did.
        if message.type in ("error", "warning") and "ERR_NETWORK_CHANGED" not in message.text:
            self.complaints.append(message.text)

    def forget(self, pattern: str) -> None:
        """Drops complaints that the test provoked: browsers report every status of 400 and above."""
        self.complaints = [text for text in self.complaints if not re.search(pattern, text)]


def log_in(requests: APIRequestContext, service: Service, token: str) -> None:
    """As somebody who has this token."""
    answer = requests.post(f"{service.url}/api/v1/session", data={"token": token})
    assert answer.ok, answer.text()


def open_page(page: Page, service: Service, path: str = "/ui/") -> Watch:
    watch = Watch(service.url)
    watch.attach(page)
    visit(page, f"{service.url}{path}")
    return watch


def visit(page: Page, url: str) -> None:
    """Opens an address. Chromium cuts off what it loads when a network appears beside it, as those of containers do all
    the time where other tests run. The page makes its requests again; the document itself only its reader can. The
    browser's own page about that may still be on its way then, and cut off the next try."""
    for _ in range(4):
        try:
            page.goto(url)
            return
        except Error as error:
            if "ERR_NETWORK_CHANGED" not in error.message and "chrome-error://" not in error.message:
                raise
    page.goto(url)


def set_clocks(page: Page, at: datetime) -> None:
    """The page's machine and the service have one clock from now on, as the page sees it; the test moves it."""
    page.add_init_script("""
      const get = Headers.prototype.get;
      Headers.prototype.get = function (name) {
        return name.toLowerCase() === "date" ? new Date().toUTCString() : get.call(this, name);
      };
    """)
    page.clock.install(time=at)


@contextmanager
def until_quiet(page: Page) -> Iterator[None]:
    """Ends when nothing that the page fetches was under way for half a second, but for streams, which never end."""
    open_requests: set[Request] = set()
    last = [time.monotonic()]

    def begun(request: Request) -> None:
        if request.resource_type != "eventsource":
            open_requests.add(request)

    def ended(request: Request) -> None:
        open_requests.discard(request)
        last[0] = time.monotonic()

    page.on("request", begun)
    page.on("requestfinished", ended)
    page.on("requestfailed", ended)
    yield
    end = time.monotonic() + 30
    while open_requests or time.monotonic() - last[0] < 0.5:
        assert time.monotonic() < end, f"it goes on: {[request.url for request in open_requests]}"
        page.wait_for_timeout(50)
    page.remove_listener("request", begun)
    page.remove_listener("requestfinished", ended)
    page.remove_listener("requestfailed", ended)


def wait_for_code(page: Page) -> None:
    """Until the code of every screen is there, which the page fetches when it has nothing else to do."""
    chunks = sorted(file.name for file in (STATIC / "assets").glob("*Screen-*.js"))
    page.wait_for_function(
        """chunks => {
          const loaded = performance.getEntriesByType("resource").map((each) => each.name);
          return chunks.every((chunk) => loaded.some((url) => url.endsWith(chunk)));
        }""",
        arg=chunks,
    )


def assert_clean(watch: Watch) -> None:
    assert watch.foreign == []
    assert watch.complaints == []


def faults(page: Page, *rules: str) -> list[str]:
    """Serious and critical violations that axe finds, by all of its rules or by these, each with where."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found: list[dict[str, Any]] = page.evaluate("options => axe.run(document, options)", options)["violations"]
    return [
        f"{each['id']}: {each['help']} at {[node['target'] for node in each['nodes']][:4]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def faults_in_both_themes(page: Page) -> list[str]:
    """All that axe finds in the light theme, and in the dark one what depends on colours: the rest is the same."""
    found = []
    for theme, rules in (("light", ()), ("dark", COLOUR_RULES)):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
        expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", theme)
        page.wait_for_function("() => !document.getAnimations().some((each) => each instanceof CSSTransition)")
        found += [f"{theme}: {each}" for each in faults(page, *rules)]
    return found


def report(service: Service, job: str, body: dict[str, Any]) -> None:
    """As its worker SDK would, with the token that its container was given."""
    deadline = time.monotonic() + 20
    while not (found := re.search(r"token=(\S+)", log_of(service, job))):
        assert time.monotonic() < deadline, "the job did not print its token"
        time.sleep(0.1)
    headers = {"content-type": "application/json", "authorization": f"Bearer {found[1]}"}
    request = urllib.request.Request(f"{service.url}/api/v1/reports", json.dumps(body).encode(), headers)
    urllib.request.urlopen(request, timeout=10).close()


def log_of(service: Service, job: str) -> str:
    with urllib.request.urlopen(f"{service.url}/api/v1/jobs/{job}/logs", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def measured() -> dict[str, Any]:
    seen = [
        {"num_nodes": 1, "num_gpus": gpus, "atomic_batch": batch, "passes": 50, "grad_time": 0.01 + 0.001 * batch,
         "iter_time": 0.01 + 0.001 * batch + (0.01 if gpus > 1 else 0)}
        for gpus in (1, 2) for batch in (16, 32)
    ]  # fmt: skip
    return {
        "attempt": 1,
        "batch": {"init": 64, "max": 1024, "min_local": 8, "max_local": 256, "atomic": 32, "accumulation": 0,
                  "why": SCRIPT_IN_NAME},
        "observations": seen,
        "noise_scale": 500.0,
        "progress": {"epoch": 3, "epochs": 10, "position": 500, "epoch_samples": 1000, "steps": 20},
        "metrics": [{"name": name, "step": step, "value": 1 / step, "at": time.time()}
                    for name in ("loss", "val_acc") for step in range(1, 20)],
    }  # fmt: skip
