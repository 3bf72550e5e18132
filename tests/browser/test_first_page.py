"""The page in a real browser against the real service: submit, watch, switch the policy, cancel."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect, sync_playwright

pytestmark = pytest.mark.browser

STATIC = Path(__file__).parents[2] / "api" / "static"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
]
SCRIPT_IN_NAME = "<img src=x onerror=alert(1)>"
IMAGE = "tests/local"
ENDLESS = "sh -c 'while true; do sleep 1; done'"
SERVE = """
import sys
from pathlib import Path
import uvicorn
from schedulearn.api.app import create_app
from schedulearn.api.settings import load_settings
data, port, token, image = sys.argv[1:]
settings = load_settings(
    data=Path(data), runtime="process", simulate_gpus=4, environments={image: Path("/usr")}, token=token or None
)
uvicorn.run(create_app(settings), port=int(port), log_level="warning", timeout_graceful_shutdown=3)
"""


@dataclass
class Service:
    """The service in a process of its own, on a port of its own."""

    data: Path
    token: str = ""
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        if self.port == 0:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
        command = [sys.executable, "-c", SERVE, str(self.data), str(self.port), self.token, IMAGE]
        self.process = subprocess.Popen(command, cwd=self.data)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.url}/healthz", timeout=5).close()
                return
            except (urllib.error.URLError, ConnectionError):
                assert self.process.poll() is None, "the service ended at its start"
                time.sleep(0.1)
        raise AssertionError("the service did not become ready")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"content-type": "application/json", "authorization": f"Bearer {self.token}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def submit(self, name: str, command: str, gpus: int = 1) -> str:
        job = {"name": name, "type": "shell", "container_image": IMAGE, "command": command}
        return str(self.call("POST", "/jobs", {**job, "required_gpus": gpus, "launcher": "none"})["id"])

    def cancel_all(self) -> None:
        """So that no job outlives the test: containers, here processes, outlive the service."""
        live = "&".join(f"state={s}" for s in ("queued", "pulling", "starting", "running", "resizing"))
        for job in self.call("GET", f"/api/v1/jobs?{live}")["items"]:
            self.call("POST", f"/api/v1/jobs/{job['id']}/cancel")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if not any(gpu["jobs"] for gpu in self.call("GET", "/api/v1/gpus")):
                return
            time.sleep(0.1)
        raise AssertionError("cancelled jobs still hold GPUs")


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
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def forget(self, pattern: str) -> None:
        """Drops complaints that the test provoked: browsers report every status of 400 and above."""
        self.complaints = [text for text in self.complaints if not re.search(pattern, text)]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    yield from _running(Service(tmp_path))


@pytest.fixture
def guarded_service(tmp_path: Path) -> Iterator[Service]:
    yield from _running(Service(tmp_path, token="correct horse"))


def _running(service: Service) -> Iterator[Service]:
    if CHROMIUM is None:
        pytest.skip("NO BROWSER: the page is untested; install Debian's chromium")
    if not (STATIC / "index.html").is_file():
        pytest.fail("the page is not built: run `npm ci && npm run build` in ui/")
    service.start()
    try:
        yield service
        service.cancel_all()
    finally:
        service.stop()


@pytest.fixture
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(15_000)
        yield page
        browser.close()


def open_page(page: Page, service: Service, path: str = "/") -> Watch:
    watch = Watch(service.url)
    watch.attach(page)
    page.goto(f"{service.url}{path}")
    return watch


def assert_clean(watch: Watch) -> None:
    assert watch.foreign == []
    assert watch.complaints == []


def test_submit_by_the_form_and_watch_it(service: Service, page: Page) -> None:
    watch = open_page(page, service)
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    expect(page.get_by_test_id("live")).to_have_text("live")

    page.get_by_role("link", name="Submit a job").click()
    page.get_by_label("Name").fill(SCRIPT_IN_NAME)
    page.get_by_label("Command").fill("sh -c 'for i in 1 2 3 4 5 6; do echo line-$i; sleep 0.5; done'")
    page.get_by_role("textbox", name="GPUs").fill("2")
    page.get_by_role("button", name="Submit").click()
    # The service says what is missing, and the page says it at the field.
    expect(page.get_by_label("Type")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Image")).to_have_attribute("aria-invalid", "true")
    watch.forget("status of 422")

    page.get_by_label("Type").fill("shell")
    page.get_by_label("Image").fill(IMAGE)
    page.get_by_role("button", name="More fields").click()
    page.get_by_label("Launcher").select_option("none")
    page.get_by_label("Environment").fill("LR=0.1\nMY_TOKEN=hush")
    page.get_by_role("button", name="Submit", exact=True).click()

    expect(page.get_by_role("heading", name=SCRIPT_IN_NAME)).to_be_visible()
    expect(page.get_by_test_id("state")).to_have_text("running")
    log = page.get_by_role("log")
    expect(log).to_contain_text("line-2")
    seen = log.inner_text()
    assert "line-6" not in seen, "the log came whole, not live"
    expect(log).to_contain_text("line-6")
    expect(page.get_by_test_id("state")).to_have_text("succeeded")
    expect(page.get_by_label("Log", exact=True).get_by_role("status")).to_have_text("complete")
    expect(page.get_by_label("Environment")).not_to_contain_text("hush")

    page.get_by_label("Search the log").fill("LINE-3")
    expect(page.get_by_test_id("log-count")).to_have_text("1 of 6 lines")

    page.get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("link", name=SCRIPT_IN_NAME)).to_be_visible()
    assert_clean(watch)


def test_list_is_live_and_cancels_many(service: Service, page: Page) -> None:
    holder = service.submit("holder", ENDLESS, gpus=4)
    watch = open_page(page, service)
    expect(page.get_by_test_id(f"job-{holder}")).to_contain_text("running")

    waiting = service.submit("waiter", ENDLESS, gpus=3)  # by someone else: the page hears of it
    row = page.get_by_test_id(f"job-{waiting}")
    expect(row).to_contain_text("queued")
    expect(row).to_contain_text(re.compile(r"needs 3 GPUs"), timeout=15_000)
    expect(page.get_by_label("Cluster")).to_contain_text("4 of 4 GPUs in use")

    page.get_by_role("button", name="Waiting").click()
    expect(page.get_by_test_id(f"job-{holder}")).to_be_hidden()
    page.get_by_label("Name or id contains").fill("nothing like it")
    expect(page.get_by_text("No job matches.")).to_be_visible()
    page.get_by_label("Name or id contains").fill("")
    page.get_by_role("button", name="All").click()

    page.get_by_label("Select all jobs that can be cancelled").check()
    page.get_by_role("button", name="Cancel selected").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel 2 jobs").click()
    expect(page.get_by_test_id(f"job-{holder}")).to_contain_text("cancelled")
    expect(page.get_by_test_id(f"job-{waiting}")).to_contain_text("cancelled")
    expect(page.get_by_label("Cluster")).to_contain_text("0 of 4 GPUs in use")
    assert_clean(watch)


def test_policy_is_switched_and_faults_are_shown(service: Service, page: Page) -> None:
    watch = open_page(page, service, "/ui/policy")
    expect(page.get_by_test_id("algorithm")).to_have_text("fifo")
    page.get_by_label("jobs_per_gpu").fill("99")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("jobs_per_gpu must be 1 to 16")).to_be_visible()
    watch.forget("status of 422")
    expect(page.get_by_test_id("algorithm")).to_have_text("fifo")

    page.get_by_role("radio", name="round-robin").click()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_test_id("algorithm")).to_have_text("round-robin")
    assert service.call("GET", "/api/v1/policy")["algorithm"] == "round-robin"

    service.call("PUT", "/api/v1/policy", {"algorithm": "fifo"})  # by someone else
    expect(page.get_by_test_id("algorithm")).to_have_text("fifo")
    assert_clean(watch)


def test_connection_that_breaks_is_shown_and_comes_back(service: Service, page: Page) -> None:
    open_page(page, service)
    badge = page.get_by_test_id("live")
    expect(badge).to_have_text("live")
    service.stop()
    expect(badge).to_have_text(re.compile("reconnecting|stale"))
    service.start()
    expect(badge).to_have_text("live", timeout=30_000)
    job = service.submit("after the break", "sleep 1")
    expect(page.get_by_test_id(f"job-{job}")).to_contain_text("succeeded")


def test_token_is_asked_for_once(guarded_service: Service, page: Page) -> None:
    watch = open_page(page, guarded_service, "/ui/hosts")
    page.get_by_label("Token", exact=True).fill("wrong battery")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("that is not this service's token")).to_be_visible()
    page.get_by_label("Token", exact=True).fill(guarded_service.token)
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_label("Host local")).to_contain_text("4 of 4 GPUs free")
    expect(page.get_by_test_id("live")).to_have_text("live")
    page.reload()
    expect(page.get_by_label("Host local")).to_be_visible()
    watch.forget("status of 401")
    assert_clean(watch)


def test_long_log_stays_fast_and_can_be_read_while_it_grows(service: Service, page: Page) -> None:
    job = service.submit("chatty", "sh -c 'seq 100000; while true; do echo more; sleep 0.2; done'")
    watch = open_page(page, service, f"/ui/jobs/{job}")
    log = page.get_by_role("log")
    expect(page.get_by_test_id("log-count")).to_have_text(re.compile(r"100,0\d\d lines"))
    expect(log).to_contain_text("more")
    assert log.locator("[data-index]").count() < 200, "every line is in the document"

    log.hover()
    page.mouse.wheel(0, -3000)
    status = page.get_by_label("Log", exact=True).get_by_role("status")
    expect(status).to_have_text("paused")
    top = log.evaluate("element => element.scrollTop")
    page.wait_for_timeout(600)
    assert log.evaluate("element => element.scrollTop") == top, "the log moved under its reader"
    page.get_by_role("button", name="Follow the end").click()
    expect(status).to_have_text("following")

    started = time.monotonic()
    page.get_by_label("Search the log").fill("99999")
    expect(page.get_by_test_id("log-count")).to_have_text(re.compile(r"^1 of 100,"))
    assert time.monotonic() - started < 3
    assert_clean(watch)
