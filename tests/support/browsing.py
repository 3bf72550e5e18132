"""The page in a real browser: the real service in a process of its own, and a watch over what a page must not do."""

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Error, Page

STATIC = Path(__file__).parents[2] / "api" / "static"
AXE = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
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
data, port, token, image, gpus = sys.argv[1:]
settings = load_settings(
    data=Path(data), runtime="process", simulate_gpus=int(gpus), environments={image: Path("/usr")}, token=token or None
)
uvicorn.run(create_app(settings), port=int(port), log_level="warning", timeout_graceful_shutdown=3)
"""


@dataclass
class Service:
    """The service in a process of its own, on a port of its own."""

    data: Path
    token: str = ""
    port: int = 0
    gpus: int = 4
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        if self.port == 0:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
        command = [sys.executable, "-c", SERVE, str(self.data), str(self.port), self.token, IMAGE, str(self.gpus)]
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

    def submit(self, name: str, command: str, gpus: int = 1, **fields: Any) -> str:
        job = {"name": name, "type": "shell", "container_image": IMAGE, "command": command}
        return str(self.call("POST", "/jobs", {**job, "required_gpus": gpus, "launcher": "none", **fields})["id"])

    def job(self, job_id: str) -> Any:
        return self.call("GET", f"/api/v1/jobs/{job_id}")

    def wait(self, job_id: str, state: str) -> None:
        deadline = time.monotonic() + 30
        while (found := self.job(job_id)["state"]) != state:
            assert time.monotonic() < deadline, f"{job_id} is {found}, not {state}"
            time.sleep(0.1)

    def cancel_all(self) -> None:
        """So that no job outlives the test: containers, here processes, outlive the service."""
        live = "&".join(f"state={s}" for s in ("queued", "pulling", "starting", "running", "resizing"))
        for job in self.call("GET", f"/api/v1/jobs?limit=1000&{live}")["items"]:
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


def open_page(page: Page, service: Service, path: str = "/ui/") -> Watch:
    watch = Watch(service.url)
    watch.attach(page)
    visit(page, f"{service.url}{path}")
    return watch


def visit(page: Page, url: str) -> None:
    """Opens an address. Chromium cuts off what it loads when a network appears beside it, as those of containers do all
    the time where other tests run. The page makes its requests again; the document itself only its reader can."""
    try:
        page.goto(url)
    except Error as error:
        if "ERR_NETWORK_CHANGED" not in error.message:
            raise
        page.goto(url)


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


def faults(page: Page) -> list[str]:
    """Serious and critical violations that axe finds, each with where."""
    page.evaluate(AXE.read_text())
    found: list[dict[str, Any]] = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [
        f"{each['id']}: {each['help']} at {[node['target'] for node in each['nodes']][:4]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
