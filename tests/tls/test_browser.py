"""The page over TLS, with a certificate that the browser was told to trust by its key."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import ARGUMENTS, CHROMIUM, Watch, assert_clean, visit
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from networks import own_network
from playwright.sync_api import Page, expect, sync_playwright
from services import Service

pytestmark = pytest.mark.browser
expect.set_options(timeout=15_000)  # ms; a service on a busy machine takes its time
TOKEN = "correct horse"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    if CHROMIUM is None:
        pytest.skip("NO BROWSER: the page is untested; install Debian's chromium")
    with own_network(), Service(tmp_path / "data", "--host", "0.0.0.0", token=TOKEN) as running:
        yield running
        running.cancel_all()


@pytest.fixture
def page(service: Service) -> Iterator[Page]:
    """Of a browser of its own: what it trusts is an argument of all of it."""
    certificate = x509.load_pem_x509_certificate((service.data / "tls" / "cert.pem").read_bytes())
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    trusted = base64.b64encode(hashlib.sha256(key).digest()).decode()
    arguments = [*ARGUMENTS, f"--ignore-certificate-errors-spki-list={trusted}"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
            page = context.new_page()
            page.set_default_timeout(60_000)
            yield page
        browser.close()


def test_who_opens_it_without_tls_is_sent_on_logs_in_and_has_streams_and_terminals(
    service: Service, page: Page
) -> None:
    job = service.submit_shell("echo begun; sleep 1000", name="looked-into")
    service.wait(job, "running")
    watch = Watch(service.url)
    visit(page, f"{service.url.replace('https', 'http')}/ui/jobs/{job}?tab=logs")
    expect(page).to_have_url(f"{service.url}/ui/jobs/{job}?tab=logs")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("log")).to_contain_text("begun")
    [cookie] = page.context.cookies()
    assert (cookie["name"], cookie["secure"], cookie["httpOnly"]) == ("__Host-schedulearn_session", True, True)

    watch.attach(page)
    page.get_by_role("tab", name="Terminal").click()
    page.get_by_role("button", name="Open a shell").click()
    expect(page.locator(".xterm-helper-textarea")).to_be_focused()
    page.keyboard.type("echo $((6*7)) $SCHEDULEARN_TASK\n")
    expect(page.locator(".xterm-rows")).to_contain_text(f"42 schedulearn-{job}-1-0")
    assert_clean(watch)
