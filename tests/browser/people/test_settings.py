"""Settings: webhooks and tokens, against a real receiver and a service that asks for a token."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from browsing import SCRIPT_IN_NAME, assert_clean, open_page
from playwright.sync_api import Page, expect
from services import Service

pytestmark = pytest.mark.browser


class Receiver:
    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_webhook_is_added_tested_paused_and_removed(service: Service, page: Page, receiver: Receiver) -> None:
    watch = open_page(page, service, "/ui/settings")
    hooks = page.get_by_label("Webhooks").first
    expect(hooks).to_contain_text("None yet. Add an incoming webhook")
    page.get_by_role("button", name="Add a webhook").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("URL").fill("ftp://nowhere")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog).to_contain_text("must begin with http:// or https://")
    watch.forget("status of 422")
    dialog.get_by_label("URL").fill(receiver.url)
    dialog.get_by_label("job.running").check()
    dialog.get_by_role("textbox", name="Secret").fill("hush hush")
    dialog.get_by_role("button", name="Add", exact=True).click()
    row = page.get_by_test_id(re.compile("^webhook-"))
    expect(row).to_contain_text("job.ended, host.lost, gpu.unhealthy, job.running · signed")
    expect(row).to_contain_text("No deliveries yet")

    page.get_by_role("button", name="Send a test to").click()
    expect(page.get_by_text("Delivered: 200")).to_be_visible()
    assert receiver.got[0]["event"] == "test"
    service.submit("sleep 3", name=SCRIPT_IN_NAME)  # long enough to be seen running
    expect(row).to_contain_text("2 delivered", timeout=20_000)
    assert SCRIPT_IN_NAME in {told["job"]["name"] for told in receiver.got[1:]}

    receiver.status = 500
    page.get_by_role("button", name="Send a test to").click()
    expect(row).to_contain_text("test was not delivered just now: it answered 500.")
    page.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("Paused")
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove the webhook").click()
    expect(hooks).to_contain_text("None yet")
    assert service.call("GET", "/api/v1/webhooks")["items"] == []
    assert_clean(watch)


def test_an_address_for_notices_is_added_tried_and_removed(service: Service, page: Page, receiver: Receiver) -> None:
    watch = open_page(page, service, "/ui/settings")
    panel = page.get_by_label("Notices").first
    expect(panel).to_contain_text("None yet.")
    page.get_by_role("button", name="Add an address").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name").fill("own")
    dialog.get_by_role("textbox", name="Address").fill("syslog://")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog).to_contain_text("has an unknown scheme")
    watch.forget("status of 422")
    dialog.get_by_role("textbox", name="Address").fill(f"{receiver.url}?key=hush")
    dialog.get_by_role("checkbox", name="failure").check()
    dialog.get_by_role("button", name="Add", exact=True).click()
    row = page.get_by_test_id("address-own")
    expect(row).to_contain_text("end, hang, failure")
    expect(row).to_contain_text("Nothing was sent yet.")
    expect(row).not_to_contain_text("hush")
    page.get_by_role("button", name="Send a trial to own").click()
    expect(row).to_contain_text("accepted just now")
    expect(row).not_to_contain_text("not accepted")
    assert receiver.got[0]["event"] == "test"
    page.get_by_role("button", name="Remove own").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove the address").click()
    expect(panel).to_contain_text("None yet.")
    assert_clean(watch)


def test_a_registry_login_is_added_and_removed(service: Service, page: Page) -> None:
    watch = open_page(page, service, "/ui/settings")
    panel = page.get_by_label("Registry logins").first
    expect(panel).to_contain_text("None yet.")
    page.get_by_role("button", name="Add a login").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Registry").fill("nowhere")
    dialog.get_by_role("textbox", name="Username").fill("robot")
    dialog.get_by_label("Password", exact=True).fill("hush hush")
    dialog.get_by_role("button", name="Log in", exact=True).click()
    expect(dialog).to_contain_text("no image can be of the registry 'nowhere'")
    watch.forget("status of 422")
    dialog.get_by_role("textbox", name="Registry").fill("reg.lab:5000")
    dialog.get_by_label("For the jobs of").select_option("everybody")
    dialog.get_by_role("button", name="Log in", exact=True).click()
    row = page.get_by_test_id("registry-reg.lab:5000")
    expect(row).to_contain_text("as robot · for everybody")
    expect(page.get_by_text("The login is stored unchecked.")).to_be_visible()
    assert "hush" not in page.content()
    page.get_by_role("button", name="Log out of reg.lab:5000").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove the login").click()
    expect(panel).to_contain_text("None yet.")
    assert service.call("GET", "/api/v1/registries")["items"] == []
    assert_clean(watch)


def test_a_token_is_made_shown_once_used_and_revoked(guarded_service: Service, page: Page) -> None:
    service = guarded_service
    watch = open_page(page, service, "/ui/settings")
    page.get_by_label("Token", exact=True).fill("correct horse")
    page.get_by_role("button", name="Sign in").click()
    watch.forget("status of 401")
    page.get_by_role("button", name="Create a token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(SCRIPT_IN_NAME)
    dialog.get_by_role("button", name="Create", exact=True).click()
    token = dialog.get_by_test_id("token").inner_text()
    assert token.startswith("sl_")
    dialog.get_by_role("button", name="Done").click()
    tokens = page.get_by_label("Tokens")
    expect(tokens).to_contain_text(SCRIPT_IN_NAME)
    expect(tokens).to_contain_text("never")
    assert token not in page.content()

    page.context.clear_cookies()
    page.reload()
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_role("button", name="Sign in").click()
    watch.forget("status of 401")
    expect(page.get_by_test_id("live")).to_have_text("live")
    page.get_by_role("button", name=f"Revoke {SCRIPT_IN_NAME}").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke the token").click()
    expect(page.get_by_label("Token", exact=True)).to_be_visible()  # it was this one: the page asks for another
    assert service.call("GET", "/api/v1/tokens")["items"] == []
    watch.forget("status of 401")
    assert_clean(watch)
