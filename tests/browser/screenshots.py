"""Pictures of every screen in both themes and widths, of a made-up cluster, into docs/screens.

python tests/browser/screenshots.py [--out FOLDER] [--url URL] [SCREEN ...]
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

from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
SHOWCASE = ROOT / "tests" / "support" / "showcase.py"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"]
WIDTHS = {"wide": (1280, 860), "narrow": (390, 844)}
THEMES = ("light", "dark")
SCREENS = {
    "overview": "/ui/",
    "past": "/ui/#Utility over time",
    "jobs": "/ui/jobs",
    "job": "/ui/jobs/{reporter}",
    "training": "/ui/jobs/{reporter}?tab=training",
    "submit": "/ui/submit",
    "timeline": "/ui/timeline?span=7d",
    "hosts": "/ui/hosts?history=atlas&back=24+h",
    "policy": "/ui/policy",
    "usage": "/ui/usage",
    "events": "/ui/events",
    "settings": "/ui/settings",
}
PORT = 8799


@contextmanager
def showcase() -> Iterator[str]:
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
            yield url
        finally:
            service.terminate()
            service.wait(30)


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
    if file.suffix == ".png":
        page.screenshot(path=file)
        return
    session = page.context.new_cdp_session(page)
    taken: dict[str, Any] = session.send("Page.captureScreenshot", {"format": "webp", "quality": 80})
    file.write_bytes(base64.b64decode(taken["data"]))


def take(url: str, out: Path, names: list[str], suffix: str = ".webp") -> None:
    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for theme in THEMES:
            for width, (w, h) in WIDTHS.items():
                page = browser.new_page(viewport={"width": w, "height": h}, color_scheme=theme)  # type: ignore[arg-type]
                found = page.request.get(f"{url}/api/v1/jobs?q=resnet50&state=running&limit=100").json()["items"]
                [reporter, *_] = [job["id"] for job in found if job["elastic"]]
                for name in names:
                    shoot(page, url, SCREENS[name].format(reporter=reporter), out / f"{name}-{width}-{theme}{suffix}")
                page.close()
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "screens")
    parser.add_argument("--url", help="of a service that runs already, filled by the showcase")
    parser.add_argument("--png", action="store_true")
    parser.add_argument("screens", nargs="*", help="default: all")
    given = parser.parse_args()
    names, suffix = given.screens or list(SCREENS), ".png" if given.png else ".webp"
    if given.url:
        take(given.url, given.out, names, suffix)
        return
    with showcase() as url:
        take(url, given.out, names, suffix)


if __name__ == "__main__":
    main()
