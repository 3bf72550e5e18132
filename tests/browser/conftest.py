from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import ARGUMENTS, CHROMIUM, require_page
from playwright.sync_api import Browser, Page, expect, sync_playwright
from services import Service

expect.set_options(timeout=15_000)  # ms; a service on a busy machine takes its time


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    yield from _running(Service(tmp_path, env={"SCHEDULEARN_WEBHOOK_NETWORKS": '["127.0.0.0/8"]'}))


@pytest.fixture
def guarded_service(tmp_path: Path) -> Iterator[Service]:
    yield from _running(Service(tmp_path, token="correct horse"))


@pytest.fixture
def service_of_eight(tmp_path: Path) -> Iterator[Service]:
    yield from _running(Service(tmp_path, gpus=8))


def _running(service: Service) -> Iterator[Service]:
    require_page()
    with service:
        yield service
        service.cancel_all()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each file: each test has a context of its own in it, with its own storage and cache."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        page.set_default_timeout(15_000)
        yield page
