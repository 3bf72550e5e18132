"""One browser and one service for all tests of the page: each finds them as if they were new."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import ARGUMENTS, CHROMIUM, require_page
from networks import own_network
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect, sync_playwright
from screens import Seeded, seeded_service
from services import Service

expect.set_options(timeout=15_000)  # ms; a service on a busy machine takes its time

HERE = '["127.0.0.0/8"]'
LOCAL_RECEIVERS = {"SCHEDULEARN_WEBHOOK_NETWORKS": HERE, "SCHEDULEARN_NOTICE_NETWORKS": HERE}
NOTHING: StorageState = {"cookies": [], "origins": []}


@pytest.fixture(scope="package", autouse=True)
def network() -> Iterator[None]:
    with own_network():
        yield


@pytest.fixture(scope="package")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    yield from _running(Service(tmp_path_factory.mktemp("shared"), env=LOCAL_RECEIVERS))


@pytest.fixture(scope="package")
def shared_guarded_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    yield from _running(Service(tmp_path_factory.mktemp("guarded"), token="correct horse"))


@pytest.fixture(scope="package")
def shared_service_of_eight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    yield from _running(Service(tmp_path_factory.mktemp("eight"), gpus=8, env=LOCAL_RECEIVERS))


@pytest.fixture
def service(shared_service: Service) -> Iterator[Service]:
    """Of 4 GPUs, without users: who asks from this machine is its admin. Tests that stop it take `own_service`."""
    yield shared_service
    shared_service.empty()


@pytest.fixture
def guarded_service(shared_guarded_service: Service) -> Iterator[Service]:
    yield shared_guarded_service
    shared_guarded_service.empty()


@pytest.fixture
def service_of_eight(shared_service_of_eight: Service) -> Iterator[Service]:
    yield shared_service_of_eight
    shared_service_of_eight.empty()


@pytest.fixture
def own_service(tmp_path: Path) -> Iterator[Service]:
    """For a test that stops it, or looks at all that ever happened there."""
    yield from _running(Service(tmp_path))


@pytest.fixture(scope="package")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeded]:
    """A service with something for each screen to show; its tests only look."""
    require_page()
    yield from seeded_service(tmp_path_factory.mktemp("seeded"))


def _running(service: Service) -> Iterator[Service]:
    require_page()
    with service:
        yield service
        service.cancel_all()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Not for the whole session: its event loop would be in the way of tests that run one."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """The code of the page is fetched and compiled once, as by people who come back."""
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A new tab. What it stores, such as logins, goes with it."""
    yield _new_page(context)
    for each in context.pages:
        each.close()
    context.clear_permissions()
    context.set_storage_state(NOTHING)


@pytest.fixture
def lone_page(browser: Browser) -> Iterator[Page]:
    """In a context of its own: for tests that set the clock, which is that of all tabs, or measure memory."""
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        yield _new_page(context)


def _new_page(context: BrowserContext) -> Page:
    page = context.new_page()
    page.set_default_timeout(15_000)
    return page
