"""The terminal of a job on the page: typed into, resized, ended; closing the tab leaves no process."""

from __future__ import annotations

import re
import signal
import uuid
from pathlib import Path

import pytest
from browsing import assert_clean, faults, open_page
from clusters import wait_for
from playwright.sync_api import Page, expect
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser]


def running(mark: str) -> list[str]:
    """Processes of this machine with these words."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if entry.name.isdigit() and mark in line:
            found.append(line)
    return found


def open_shell(page: Page) -> None:
    page.get_by_role("tab", name="Terminal").click()
    page.get_by_role("button", name="Open a shell").click()
    expect(page.locator(".xterm-helper-textarea")).to_be_focused()


def screen_shows(page: Page, text: str) -> None:
    expect(page.locator(".xterm-rows")).to_contain_text(text)


def test_a_shell_is_typed_into_resized_and_ended(service: Service, page: Page) -> None:
    job = service.submit_shell("sleep 1000", name="looked-into")
    service.wait(job, "running")
    watch = open_page(page, service, f"/ui/jobs/{job}")
    open_shell(page)
    page.keyboard.type("echo $((6*7)) $SCHEDULEARN_TASK\n")
    screen_shows(page, f"42 schedulearn-{job}-1-0")

    page.keyboard.type("printf '\\033[1;38;2;255;200;120mco%s\\033[0m\\n' loured\n")
    screen_shows(page, "coloured")
    colour = page.get_by_text("coloured", exact=True).evaluate("each => getComputedStyle(each).color")
    assert colour == "rgb(255, 200, 120)"

    page.keyboard.type("before=$(stty size); echo no''ted\n")
    screen_shows(page, "noted")  # a busy shell would else note the size that the window has next
    page.set_viewport_size({"width": 900, "height": 560})
    page.keyboard.type('until [ "$(stty size)" != "$before" ]; do sleep 0.1; done; echo re"sized"\n')
    screen_shows(page, "resized")

    page.keyboard.type("sleep 1000 || echo inter''rupted\n")
    wait_for(lambda: running("sleep 1000 "), what="the command")
    page.keyboard.press("Control+c")
    page.keyboard.type("echo st''ill\n")
    screen_shows(page, "still")
    assert faults(page) == []

    page.keyboard.type("exit 3\n")
    expect(page.get_by_text("The shell ended with 3.")).to_be_visible()
    page.get_by_role("button", name="Open another shell").click()
    expect(page.locator(".xterm-helper-textarea")).to_be_focused()
    page.keyboard.type("echo $((7*7*7))\n")
    screen_shows(page, "343")
    page.get_by_role("tab", name="Attempts and events").click()
    expect(page.get_by_text("runs a shell in rank 0").first).to_be_visible()
    assert_clean(watch)


@pytest.mark.parametrize("how", ["close the tab", "leave the job"])
def test_going_leaves_no_process(tmp_path: Path, page: Page, how: str) -> None:
    with Service(tmp_path, env={"SCHEDULEARN_TERMINAL_KEEP": "1"}) as service:
        _goes(service, page, how)


def _goes(service: Service, page: Page, how: str) -> None:
    job = service.submit_shell("sleep 1000")
    service.wait(job, "running")
    open_page(page, service, f"/ui/jobs/{job}")
    open_shell(page)
    mark = f"10{uuid.uuid4().int % 10**12}"
    page.keyboard.type(f"(setsid nohup sleep {mark} >/dev/null 2>&1 &); sleep {mark}\n")
    wait_for(lambda: len(running(f"sleep {mark}")) == 2, what="its processes")
    match how:
        case "close the tab":
            page.close()
        case _:
            page.get_by_role("navigation").get_by_role("link", name="Jobs").click()
    wait_for(lambda: not running(f"sleep {mark}"), what="their end")
    assert service.job(job)["state"] == "running"


def test_a_shell_is_found_again_after_a_reload(service: Service, page: Page) -> None:
    job = service.submit_shell("sleep 1000")
    service.wait(job, "running")
    watch = open_page(page, service, f"/ui/jobs/{job}")
    open_shell(page)
    page.keyboard.type("mine=$((6*7)); echo it is $mine\n")
    screen_shows(page, "it is 42")
    page.reload()
    page.get_by_role("tab", name="Terminal").click()
    screen_shows(page, "it is 42")
    page.locator(".xterm-helper-textarea").focus()
    page.keyboard.type("echo still $mine; exit 3\n")
    expect(page.get_by_text("The shell ended with 3.")).to_be_visible()
    screen_shows(page, "still 42")
    # One that has ended is not looked for.
    page.reload()
    page.get_by_role("tab", name="Terminal").click()
    expect(page.get_by_role("button", name="Open a shell")).to_be_visible()
    assert_clean(watch)


def test_a_shell_goes_on_while_the_log_is_looked_at_and_a_key_leaves_it(service: Service, page: Page) -> None:
    job = service.submit_shell("sleep 1000")
    service.wait(job, "running")
    watch = open_page(page, service, f"/ui/jobs/{job}")
    open_shell(page)
    page.keyboard.type("mine=$((6*7)); stty size\n")
    expect(page.locator(".xterm-rows")).to_contain_text(re.compile(r"\d+ \d\d"))
    page.keyboard.press("Tab")
    expect(page.locator(".xterm-helper-textarea")).to_be_focused()
    page.keyboard.press("F6")
    expect(page.get_by_role("tab", name="Terminal")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Files")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".xterm-rows")).to_be_hidden()
    page.get_by_role("tab", name="Terminal").click()
    page.locator(".xterm-screen").click()
    page.keyboard.press("Control+c")
    page.keyboard.type('echo "still $mine"; [ "$(stty size | cut -d" " -f2)" -gt 20 ] && echo as" "wide\n')
    screen_shows(page, "still 42")
    screen_shows(page, "as wide")
    assert_clean(watch)


def test_a_job_that_does_not_run_says_so(service: Service, page: Page) -> None:
    job = service.submit_shell("true")
    service.wait(job, "succeeded")
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=terminal")
    expect(page.get_by_text("This one is succeeded.")).to_be_visible()
    assert_clean(watch)


def test_the_end_of_the_job_is_told(service: Service, page: Page) -> None:
    job = service.submit_shell("sleep 1000")
    service.wait(job, "running")
    watch = open_page(page, service, f"/ui/jobs/{job}")
    open_shell(page)
    page.keyboard.type("echo li''ves\n")
    screen_shows(page, "lives")
    service.call("POST", f"/api/v1/jobs/{job}/cancel")
    expect(page.get_by_text(f"The shell ended with {128 + signal.SIGHUP}.")).to_be_visible()
    assert_clean(watch)


def test_without_rights_it_says_who_may(guarded_service: Service, page: Page) -> None:
    service = guarded_service
    job = service.submit_shell("sleep 1000")
    service.wait(job, "running")
    service.call("POST", "/api/v1/users", {"name": "vic", "role": "viewer"})
    token = service.call("POST", "/api/v1/tokens", {"name": "vic's", "user": "vic"})["token"]
    watch = open_page(page, service)
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.goto(f"{service.url}/ui/jobs/{job}?tab=terminal")
    button = page.get_by_role("button", name="Open a shell")
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("aria-description", "vic is viewer here, and this needs the role user")
    watch.forget("401")
    assert_clean(watch)
