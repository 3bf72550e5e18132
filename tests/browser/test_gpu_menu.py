"""What can be done to a single GPU on the Hosts page, with its effects named before it is done."""

from __future__ import annotations

import pytest
from browsing import ENDLESS, assert_clean, open_page
from playwright.sync_api import Page, Route, expect
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser]


def test_a_gpu_is_closed_emptied_and_returned_by_its_menu(service: Service, page: Page) -> None:
    job = service.submit(ENDLESS, name="holder", gpus=1)
    service.wait(job, "running")
    [index] = [gpu["index"] for gpu in service.call("GET", "/api/v1/gpus") if gpu["jobs"] == [job]]
    watch = open_page(page, service, "/ui/hosts")
    row = page.get_by_role("region", name="GPUs of local").get_by_role("row", name="holder")

    def choose(name: str) -> None:
        row.get_by_role("button", name=f"More for GPU {index} of local").click()
        page.get_by_role("menuitem", name=name).click()

    choose("Cordon")
    expect(row).to_contain_text("cordoned")
    expect(page.get_by_text(f"GPU {index} of local takes no new jobs.")).to_be_visible()
    choose("Return to service")
    expect(row).not_to_contain_text("cordoned")

    choose("Drain")
    dialog = page.get_by_role("dialog", name=f"Drain GPU {index} of local?")
    expect(dialog).to_contain_text("1 job leaves it:")
    expect(dialog).to_contain_text("holder")
    expect(dialog).to_contain_text("and starts elsewhere. Without its own checkpoints")
    dialog.get_by_role("button", name="Drain the GPU").click()
    expect(row).to_contain_text("draining")
    assert service.call("GET", "/api/v1/gpus")[index]["drain_until"]

    row.get_by_role("button", name=f"More for GPU {index} of local").click()
    reset = page.get_by_role("menuitem", name="Reset")
    expect(reset).to_have_attribute("aria-description", "It is simulated: there is nothing to reset.")
    page.keyboard.press("Escape")
    choose("Return to service")
    expect(row).not_to_contain_text("draining")
    assert_clean(watch)


def test_a_reset_says_what_it_does_and_why_it_was_not_done(service: Service, page: Page) -> None:
    def real(route: Route) -> None:
        hosts = route.fetch().json()
        for gpu in hosts[0]["gpus"]:
            gpu |= {"simulated": False, "pci": "00000000:3B:00.0", "numa": 1}
        route.fulfill(json=hosts)

    page.route("**/api/v1/hosts", real)
    open_page(page, service, "/ui/hosts")
    gpus = page.get_by_role("region", name="GPUs of local")
    expect(gpus).to_contain_text("0000:3B:00.0, NUMA 1")
    gpus.get_by_role("button", name="More for GPU 0 of local").click()
    page.get_by_role("menuitem", name="Reset").click()
    dialog = page.get_by_role("dialog", name="Reset GPU 0 of local?")
    expect(dialog).to_contain_text("its errors are cleared")
    dialog.get_by_role("button", name="Reset the GPU").click()
    expect(page.get_by_text("GPU 0 of local is simulated: there is nothing to reset")).to_be_visible()
