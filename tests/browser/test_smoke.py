"""Every screen in every role on one service: it shows what it is for, keeps to itself, and axe finds nothing."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlsplit

import pytest
from browsing import faults, open_page
from playwright.sync_api import Locator, Page, expect
from screens import GO, ROLES, SCREENS, Seeded, settled

pytestmark = pytest.mark.browser


def main_thing(page: Page, screen: str, role: str, ids: dict[str, str]) -> Locator:
    """What a screen is there for. It comes from the service, but for the form and the screen that does not exist."""
    main = page.locator("#main")
    return {
        "overview": main.get_by_test_id("gpu-map").get_by_role("link", name="of ada"),
        "jobs": main.get_by_test_id(f"job-{ids['ben']}"),
        "own job": main.get_by_role("region", name="Facts"),
        "another's job": main.get_by_role("region", name="Why it waits"),
        "training": main.get_by_label("GPUs held over time", exact=True),
        "files": main.get_by_role("region", name="Files"),
        "terminal": main.get_by_role("button", name="Open a shell"),
        "events of a job": main.get_by_role("region", name="Events").get_by_role("time"),
        "spec": main.get_by_text("container_image"),
        "submit": main.get_by_label("Command"),
        "submit again": main.get_by_label("Command"),
        "sweeps": main.get_by_role("link", name="sweep", exact=True),
        "sweep": main.get_by_role("region", name="Runs").get_by_role("row"),
        "experiment": main.get_by_text("so far 0 of 2"),
        "search": main.get_by_role("region", name="Trials").get_by_role("row"),
        "timeline": main.get_by_test_id("timeline"),
        "hosts": main.get_by_label("Host local"),
        "history": main.get_by_label("Utilisation of the GPUs of local over time"),
        "policy": main.get_by_role("region", name="Policies compared").get_by_role("row"),
        "usage": main.get_by_role("rowheader", name="Together"),
        "compare": main.get_by_role("region", name="Results").get_by_role("row"),
        "events": main.get_by_test_id("events").get_by_role("link", name="of ben"),
        "people": main.get_by_role("region", name="You"),
        "login": main.get_by_label("Code"),
        "settings": main.get_by_role("region", name="Keys" if role == "viewer" else "Tokens"),
        "nothing": main.get_by_role("heading", level=1),
    }[screen].first


@pytest.mark.parametrize("role", ROLES)
def test_every_screen_opens_in_every_role(seeded: Seeded, page: Page, role: str) -> None:
    seeded.log_in(page.context, role)
    page.emulate_media(reduced_motion="reduce")
    asked: Counter[str] = Counter()
    page.on("request", lambda request: asked.update([urlsplit(request.url).path]))
    watch = open_page(page, seeded.service)
    wrong = {}
    for screen in SCREENS:
        asked.clear()
        page.evaluate(GO, seeded.url(screen))
        settled(page)
        expect(main_thing(page, screen, role, seeded.ids)).to_be_visible()
        page.wait_for_timeout(150)
        often = [f"asked {count} times for {path}" for path, count in asked.items() if count > 4 and "/api/" in path]
        if found := [*often, *watch.complaints, *watch.foreign, *faults(page)]:
            wrong[screen] = found
            watch.complaints, watch.foreign = [], []
    assert wrong == {}
