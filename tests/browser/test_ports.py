"""A port of a job, opened from its page in a real browser: a tab of its own, whose origin can't touch the service."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browsing import ARGUMENTS, CHROMIUM, assert_clean, open_page
from clusters import wait_for
from playwright.sync_api import Browser, Page, expect
from servers.ports import begin_notebook, free_port, relays
from servers.tls import tls_proxy
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser]

ATTACK = """async ([service, job]) => {
  const attempt = async (path, options) => {
    try { return (await fetch(service + path, { credentials: "include", ...options })).type; }
    catch { return "refused"; }
  };
  return {
    read: await attempt("/api/v1/jobs"),
    cancel: await attempt(`/api/v1/jobs/${job}/cancel`, { method: "POST" }),
    blind: await attempt(`/api/v1/jobs/${job}/cancel`, { method: "POST", mode: "no-cors" }),
    opener: window.opener,
    cookies: document.cookie,
    here: (await fetch("/api/v1/jobs")).headers.get("content-type"),
  };
}"""
SOCKET = """([service, job]) => new Promise((ended) => {
  const socket = new WebSocket(service.replace("http", "ws") + `/api/v1/jobs/${job}/exec`);
  socket.onmessage = () => ended("heard");
  socket.onerror = socket.onclose = () => ended("refused");
})"""


def open_port(page: Page, name: str = "notebook") -> Page:
    with page.expect_popup() as opened:
        page.get_by_role("region", name="Ports").get_by_role("link", name=name).click()
    return opened.value


def test_it_opens_in_a_tab_of_its_own(service: Service, page: Page) -> None:
    job = begin_notebook(service, name="explore", idle_timeout=3600)
    watch = open_page(page, service, f"/ui/jobs/{job}")
    expect(page.get_by_test_id("idle")).to_contain_text("without a connection")
    tab = open_port(page)
    expect(tab.locator("#fetched")).to_have_text("got 100000")
    expect(tab.locator("#heard")).to_have_text("hello again ")
    assert tab.url == f"http://notebook-{job}.localhost:{service.port}/"
    tab.reload()
    expect(tab.locator("#heard")).to_have_text("hello again ")

    tried = tab.evaluate(ATTACK, [service.url, job])
    assert tried == {
        "read": "refused", "cancel": "refused", "blind": "opaque", "opener": None, "cookies": "", "here": "text/html",
    }  # fmt: skip
    assert tab.evaluate(SOCKET, [service.url, job]) == "refused"
    assert service.job(job)["state"] == "running"
    assert service.job(job)["idle_ends_at"] is None
    page.reload()
    expect(page.get_by_test_id("idle")).to_have_text("Ends 1 h after the last connection.")
    tab.close()
    wait_for(lambda: not relays(service, job), seconds=60, what="the end of all relays")
    wait_for(lambda: service.job(job)["idle_ends_at"], seconds=60, what="to be told when it ends")
    assert_clean(watch)


def test_behind_tls_its_login_is_a_cookie_that_no_other_host_can_set(tmp_path: Path, browser: Browser) -> None:
    """As people have it who share a service: a proxy that ends TLS, and names below a domain for the ports."""
    env = {
        "SCHEDULEARN_BEHIND_PROXY": "1",
        "SCHEDULEARN_PUBLIC_URL": "https://service.test",
        "SCHEDULEARN_PORTS_DOMAIN": "jobs.test",
    }
    service = Service(tmp_path / "data", token="correct horse", env=env)
    service.port = free_port()
    with service, tls_proxy(tmp_path, service.port) as at:
        job = begin_notebook(service)
        rules = f"--host-resolver-rules=MAP *.test 127.0.0.1:{at}"
        with (
            browser.browser_type.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, rules]) as other,
            other.new_context(ignore_https_errors=True) as context,
        ):
            page = context.new_page()
            page.goto(f"https://service.test/ui/jobs/{job}")
            page.get_by_label("Token").fill("correct horse")
            page.keyboard.press("Enter")
            tab = open_port(page)
            expect(tab.locator("#fetched")).to_have_text("got 100000")
            expect(tab.locator("#heard")).to_have_text("hello again ")
            assert tab.url == f"https://notebook-{job}.jobs.test/"
            [cookie] = context.cookies(tab.url)
            assert cookie["name"] == "__Host-schedulearn_port"
            assert (cookie["domain"], cookie["path"]) == (f"notebook-{job}.jobs.test", "/")
            assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Lax")
            assert tab.evaluate("document.cookie") == ""
        service.cancel_all()


def test_it_ends_with_the_login(guarded_service: Service, page: Page) -> None:
    service = guarded_service
    job = begin_notebook(service)
    page.goto(f"{service.url}/ui/jobs/{job}")
    page.get_by_label("Token").fill("correct horse")
    page.keyboard.press("Enter")
    tab = open_port(page)
    expect(tab.locator("#fetched")).to_have_text("got 100000")
    page.request.delete(f"{service.url}/api/v1/session")
    tab.reload()
    expect(tab.get_by_text("you are not logged in here")).to_be_visible()
    expect(tab.get_by_role("link", name="The page of the job")).to_be_visible()


def test_before_it_listens_the_tab_waits(service: Service, page: Page) -> None:
    job = service.submit_shell("sleep 1000", ports={"web": 9})
    service.wait(job, "running")
    open_page(page, service, f"/ui/jobs/{job}")
    tab = open_port(page, "web")
    expect(tab.get_by_text("nothing listens on port 9")).to_be_visible()
    service.run("cancel", job)
    expect(tab.get_by_text("has ended")).to_be_visible()


def test_presets_fill_in_the_form(service: Service, page: Page) -> None:
    watch = open_page(page, service, "/ui/submit")
    page.get_by_label("Start from").select_option("notebook")
    expect(page.get_by_label("Command")).to_have_value(re.compile("jupyter lab"))
    assert_clean(watch)
