"""Pictures of every screen in both themes and three widths, of a made-up cluster, into build/screens. Those that the
documents show are copied to docs/screens.

python tests/browser/screenshots.py [--out FOLDER] [--png] [SCREEN ...]
"""

from __future__ import annotations

import argparse
import base64
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
SHOWCASE = ROOT / "tests" / "support" / "showcase.py"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"]
WIDTHS = {"wide": (1440, 900), "middle": (768, 1024), "narrow": (390, 844)}
THEMES = ("light", "dark")
SCREENS = {
    "overview": "/ui/",
    "past": "/ui/#Utility over time",
    "jobs": "/ui/jobs",
    "failed": "/ui/jobs?show=failed",
    "job": "/ui/jobs/{reporter}",
    "failure": "/ui/jobs/{failed}",
    "waiting": "/ui/jobs/{waiting}",
    "training": "/ui/jobs/{reporter}?tab=training",
    "compare": "/ui/compare?jobs={tried}",
    "sweeps": "/ui/sweeps",
    "sweep": "/ui/sweeps/{sweep}",
    "submit": "/ui/submit",
    "timeline": "/ui/timeline?span=7d",
    "hosts": "/ui/hosts?history=atlas&back=24+h",
    "policy": "/ui/policy",
    "usage": "/ui/usage",
    "events": "/ui/events",
    "people": "/ui/people",
    "settings": "/ui/settings",
}
SHOWN = ("overview-wide-light", "timeline-wide-light", "training-wide-dark", "hosts-wide-light")
"""In the documents. All others are to be looked at, and are not kept."""
LONG = "a-name-as-long-as-a-script-makes-it-" * 4
PORT = 8799


@contextmanager
def showcase() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with tempfile.TemporaryDirectory() as folder:
        service = subprocess.Popen([sys.executable, str(SHOWCASE), folder, str(PORT)])
        url = f"http://127.0.0.1:{PORT}"
        try:
            for _ in range(300):
                try:
                    urllib.request.urlopen(f"{url}/healthz", timeout=5).close()
                    break
                except (urllib.error.URLError, ConnectionError):
                    time.sleep(0.1)
            time.sleep(10)  # jobs start, and their ends are predicted
            yield url, service
        finally:
            service.kill()
            service.wait(30)


def fill(http: httpx.Client) -> dict[str, str]:
    """What the showcase lacks: people, and names that are too long. Returns what the screens' addresses name."""
    for name, role in (("ada", "admin"), ("ben", "user"), ("chiara", "user"), (LONG[:100], "viewer")):
        http.post("/api/v1/users", json={"name": name, "role": role})
    quotas: dict[str, dict[str, float]] = {
        "ben": {"gpus": 4, "waiting": 20}, "chiara": {"gpu_hours": 200, "weight": 2}, "*": {"gpus": 16},
    }  # fmt: skip
    for name, quota in quotas.items():
        http.put(f"/api/v1/quotas/{name}", json=quota)
    long = {"name": LONG, "type": "Pytorch", "container_image": "schedulearn/pytorch", "command": f"python {LONG}.py",
            "required_gpus": 8, "user": LONG[:100], "labels": {"project": LONG[:60]}}  # fmt: skip
    waiting = http.post("/api/v1/jobs", json=long).raise_for_status().json()["id"]
    running = _jobs(http, q="resnet50", state="running")
    sweep = http.get("/api/v1/sweeps").json()["items"][0]["id"]
    runs = http.get(f"/api/v1/sweeps/{sweep}").json()["table"]
    return {
        "reporter": next(job["id"] for job in running if job["elastic"]),
        "failed": _jobs(http, state="failed")[0]["id"],
        "waiting": waiting,
        "tried": ",".join(run["job"] for run in runs[:4]),
        "sweep": sweep,
    }


def _jobs(http: httpx.Client, **wanted: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get("/api/v1/jobs", params={**wanted, "limit": "100"}).json()["items"]
    return found


def shoot(page: Page, url: str, path: str, file: Path) -> None:
    """A part of the screen may be named behind a #: it is scrolled to."""
    path, _, part = path.partition("#")
    page.goto(url + path)
    page.wait_for_load_state("load")
    page.wait_for_timeout(1500)
    expect(page.locator(".mantine-Skeleton-root")).to_have_count(0, timeout=15_000)
    if part:
        page.get_by_label(part, exact=True).evaluate("part => part.scrollIntoView({ block: 'end' })")
        page.wait_for_timeout(500)
    save(page, file)


def save(page: Page, file: Path) -> None:
    if file.suffix == ".png":
        page.screenshot(path=file)
        return
    session = page.context.new_cdp_session(page)
    taken: dict[str, Any] = session.send("Page.captureScreenshot", {"format": "webp", "quality": 80})
    file.write_bytes(base64.b64decode(taken["data"]))


def take(browser: Browser, url: str, names: dict[str, str], screens: list[str], out: Path, suffix: str) -> None:
    for theme in THEMES:
        for width, (w, h) in WIDTHS.items():
            page = browser.new_page(viewport={"width": w, "height": h}, color_scheme=theme)  # type: ignore[arg-type]
            for screen in screens:
                shoot(page, url, SCREENS[screen].format(**names), out / f"{screen}-{width}-{theme}{suffix}")
            page.close()


def take_outage(browser: Browser, url: str, service: subprocess.Popen[bytes], out: Path, suffix: str) -> None:
    """What was read stays, under a banner."""
    pages = {width: browser.new_page(viewport={"width": w, "height": h}) for width, (w, h) in WIDTHS.items()}
    for page in pages.values():
        page.goto(f"{url}/ui/jobs")
        expect(page.locator("tr[data-index]").first).to_be_visible()
    service.kill()
    for width, page in pages.items():
        expect(page.get_by_text("No connection")).to_be_visible(timeout=30_000)
        save(page, out / f"outage-{width}-light{suffix}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "screens")
    parser.add_argument("--png", action="store_true")
    parser.add_argument("screens", nargs="*", help="default: all, and an outage")
    given = parser.parse_args()
    screens, suffix = given.screens or list(SCREENS), ".png" if given.png else ".webp"
    given.out.mkdir(parents=True, exist_ok=True)
    with showcase() as (url, service), sync_playwright() as playwright, httpx.Client(base_url=url) as http:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        take(browser, url, fill(http), screens, given.out, suffix)
        if not given.screens:
            take_outage(browser, url, service, given.out, suffix)
        browser.close()
    for name in SHOWN:
        if (taken := given.out / f"{name}.webp").is_file():
            shutil.copy(taken, ROOT / "docs" / "screens")


if __name__ == "__main__":
    main()
