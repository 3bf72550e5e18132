"""What must hold on every screen: nothing for axe to complain of, no other origin, names that are only text, keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from browsing import ENDLESS, SCRIPT_IN_NAME, STATIC, assert_clean, faults_in_both_themes, open_page
from playwright.sync_api import Page, expect
from screens import GO
from services import IMAGE, Service

pytestmark = [pytest.mark.long, pytest.mark.browser]

SCREENS = {
    "overview": "", "jobs": "jobs", "job": "jobs/{job}", "training": "jobs/{job}?tab=training",
    "files of a job": "jobs/{job}?tab=files", "events of a job": "jobs/{job}?tab=events",
    "spec": "jobs/{job}?tab=spec", "submit": "submit?from={job}",
    "sweeps": "sweeps", "sweep": "sweeps/{sweep}", "experiment": "sweeps/{experiment}", "search": "sweeps/{search}",
    "timeline": "timeline?span=1h", "hosts": "hosts", "history": "hosts?history=local",
    "policy": "policy", "usage": "usage?by=user", "compare": "compare?jobs={job},{other}",
    "events": "events", "people": "people", "login": "login", "settings": "settings", "nothing": "nowhere",
}  # fmt: skip

NARROWEST = 320
"""px, of WCAG's reflow."""


@pytest.fixture(scope="module")
def hostile(shared_service: Service) -> Iterator[tuple[Service, dict[str, str]]]:
    """The shared service with names that are markup or too long, and the ids of what has them."""
    service = shared_service
    job = service.submit(ENDLESS, name=SCRIPT_IN_NAME, gpus=3, user=SCRIPT_IN_NAME)
    other = service.submit(ENDLESS, name=SCRIPT_IN_NAME, gpus=2)
    service.wait(job, "running")
    tried = {"type": "t", "container_image": IMAGE, "launcher": "none", "command": ENDLESS, "required_gpus": 2}
    body = {"name": SCRIPT_IN_NAME, "job": tried, "grid": {"env.WHAT": [SCRIPT_IN_NAME, "x" * 300], "priority": [1, 2]}}
    sweep = service.call("POST", "/api/v1/sweeps", body)["id"]
    factors = {"name": SCRIPT_IN_NAME, "job": tried, "factors": {"env.WHAT": [SCRIPT_IN_NAME, "x" * 300]}}
    experiment = service.call("POST", "/api/v1/experiments", factors)["id"]
    among = {"name": SCRIPT_IN_NAME, "job": tried, "gpus": [1, 2], "gpu_types": [SCRIPT_IN_NAME]}
    search = service.call("POST", "/api/v1/searches", among)["id"]
    service.call("POST", "/api/v1/tokens", {"name": SCRIPT_IN_NAME})
    service.call("POST", "/api/v1/users", {"name": "n" * 100})
    service.call("PUT", f"/api/v1/quotas/{'n' * 100}", {"gpus": 2})
    hook = service.call("POST", "/api/v1/webhooks", {"url": "http://127.0.0.1:9/?<img%20src=x>" + "x" * 300})
    service.call("POST", f"/api/v1/webhooks/{hook['id']}/test")
    yield service, {"job": job, "other": other, "sweep": sweep, "experiment": experiment, "search": search}
    service.empty()


@pytest.mark.parametrize("width", [1280, 390])
def test_every_screen_is_accessible_fits_and_keeps_to_itself(
    hostile: tuple[Service, dict[str, str]], page: Page, width: int
) -> None:
    service, ids = hostile
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 800})
    watch = open_page(page, service)
    for name, path in SCREENS.items():
        page.evaluate(GO, f"{service.url}/ui/{path.format(**ids)}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_role("status", name="Loading")).to_have_count(0)
        page.wait_for_timeout(300)
        assert faults_in_both_themes(page) == [], f"{name} of {width} px"
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, f"{name} is {over} px too wide for {width}"
        if width < NARROWEST + 100:
            page.set_viewport_size({"width": NARROWEST, "height": 800})
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert over <= 0, f"{name} is {over} px too wide for {NARROWEST}"
            page.set_viewport_size({"width": width, "height": 800})
        assert page.locator("img[src='x']").count() == 0, f"a job's name became an element on {name}"
    for screen, button in (
        ("settings", "Add a webhook"), ("settings", "Create a token"), ("people", "Add a user"),
        ("people", "Set a quota"), ("hosts", "Add a host"), ("sweeps", "Search for a configuration"),
    ):  # fmt: skip
        page.evaluate(GO, f"{service.url}/ui/{screen}")
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert faults_in_both_themes(page) == [], f"{button} at {width} px"
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
    assert_clean(watch)


def test_style_and_script_of_others_count_for_nothing(shared_service: Service, page: Page) -> None:
    watch = open_page(page, shared_service)
    expect(page.get_by_test_id("live")).to_have_text("live")
    answer = page.request.get(f"{shared_service.url}/ui/")
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    [nonce] = re.findall(r"'nonce-([^']+)'", policy)
    assert nonce in answer.text()
    assert nonce not in page.request.get(f"{shared_service.url}/ui/").text(), "a nonce is used once"
    assert "STYLE_NONCE" in (STATIC / "index.html").read_text()
    page.evaluate(
        """() => {
          const style = document.createElement("style");
          style.textContent = "body { display: none }";
          const script = document.createElement("script");
          script.textContent = "window.stolen = true";
          document.head.append(style, script);
        }"""
    )
    assert page.evaluate("getComputedStyle(document.body).display") != "none"
    assert page.evaluate("window.stolen") is None
    assert len(watch.complaints) == 2, "the browser tells of both"
    assert watch.foreign == []


def test_everything_is_reached_by_keys(shared_service: Service, page: Page) -> None:
    watch = open_page(page, shared_service)
    expect(page.get_by_test_id("live")).to_have_text("live")
    for keys, heading in {"gj": "Jobs", "gw": "Sweeps", "gt": "Timeline", "gh": "Hosts", "gp": "Policy", "gu": "Usage",
                          "ge": "Events", "gm": "People", "gs": "Settings", "go": "Overview",
                          "n": "Submit a job"}.items():  # fmt: skip
        for key in keys:
            page.keyboard.press(key)
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    page.get_by_label("Name").fill("g j n")  # in a field they are letters
    expect(page.get_by_role("heading", level=1)).to_have_text("Submit a job")
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    assert_clean(watch)
