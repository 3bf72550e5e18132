"""A failed job offers its next step, and equal failures are told once."""

from __future__ import annotations

import pytest
from browsing import assert_clean, faults_in_both_themes, log_in, open_page, visit
from playwright.sync_api import Page, expect
from services import Service

pytestmark = pytest.mark.browser

OOM = "echo 'CUDA out of memory. Tried to allocate 2 GiB'; exit 1"
MISSING = "echo \"ModuleNotFoundError: No module named 'einops'\"; exit 1"


def test_the_next_step_of_a_failure_is_a_click(service: Service, page: Page) -> None:
    big = service.submit_shell(OOM, name="big", batch_size=64)
    missing = [service.submit_shell(MISSING, name=f"missing-{n}") for n in range(2)]
    for job in (big, *missing):
        service.wait(job, "failed")
    watch = open_page(page, service, "/ui/jobs?show=failed")
    causes = page.get_by_role("region", name="Common causes")
    expect(causes).to_contain_text("2 jobs: ModuleNotFoundError: einops Add einops to requirements")
    expect(causes).not_to_contain_text("out of GPU memory")
    assert faults_in_both_themes(page) == []
    causes.get_by_role("link", name="missing-1").click()
    failure = page.get_by_role("region", name="Failure")
    expect(failure).to_contain_text("Next step: Add einops to requirements")
    failure.get_by_role("link", name="Clone with einops installed").click()
    expect(page.get_by_label("Name")).to_have_value("missing-1")
    visit(page, f"{service.url}/ui/jobs/{big}")
    failure.get_by_role("link", name="Clone with half the batch (32)").click()
    expect(page.get_by_label("Batch size", exact=True)).to_have_value("32")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("big")
    assert {job["batch_size"] for job in service.call("GET", "/api/v1/jobs?q=big")["items"]} == {32, 64}
    assert_clean(watch)


def test_a_viewer_reads_the_next_step_and_may_not_clone(guarded_service: Service, page: Page) -> None:
    service = guarded_service
    job = service.submit_shell(OOM, name="big", batch_size=64)
    service.wait(job, "failed")
    log_in(page.request, service, service.add_person("vera", "viewer"))
    visit(page, f"{service.url}/ui/jobs/{job}")
    failure = page.get_by_role("region", name="Failure")
    expect(failure).to_contain_text("Next step: Use a smaller batch")
    expect(failure.get_by_role("link", name="Clone with")).to_have_count(0)
