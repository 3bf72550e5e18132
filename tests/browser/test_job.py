"""One job's screen: what it reports, and what can be done with it."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from typing import Any

import pytest
from browsing import SCRIPT_IN_NAME, assert_clean, open_page
from playwright.sync_api import Page, expect
from services import Service

pytestmark = pytest.mark.browser

REPORTING = "sh -c 'echo token=$SCHEDULEARN_JOB_TOKEN; while true; do sleep 1; done'"


def report(service: Service, job: str, body: dict[str, Any]) -> None:
    """As its worker SDK would, with the token that its container was given."""
    deadline = time.monotonic() + 20
    while not (found := re.search(r"token=(\S+)", log_of(service, job))):
        assert time.monotonic() < deadline, "the job did not print its token"
        time.sleep(0.1)
    headers = {"content-type": "application/json", "authorization": f"Bearer {found[1]}"}
    request = urllib.request.Request(f"{service.url}/api/v1/reports", json.dumps(body).encode(), headers)
    urllib.request.urlopen(request, timeout=10).close()


def log_of(service: Service, job: str) -> str:
    with urllib.request.urlopen(f"{service.url}/api/v1/jobs/{job}/logs", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def measured() -> dict[str, Any]:
    seen = [
        {"num_nodes": 1, "num_gpus": gpus, "atomic_batch": batch, "passes": 50, "grad_time": 0.01 + 0.001 * batch,
         "iter_time": 0.01 + 0.001 * batch + (0.01 if gpus > 1 else 0)}
        for gpus in (1, 2) for batch in (16, 32)
    ]  # fmt: skip
    return {
        "attempt": 1,
        "batch": {"init": 64, "max": 1024, "min_local": 8, "max_local": 256, "atomic": 32, "accumulation": 0,
                  "why": SCRIPT_IN_NAME},
        "observations": seen,
        "noise_scale": 500.0,
        "progress": {"epoch": 3, "epochs": 10, "position": 500, "epoch_samples": 1000, "steps": 20},
        "metrics": [{"name": name, "step": step, "value": 1 / step, "at": time.time()}
                    for name in ("loss", "val_acc") for step in range(1, 20)],
    }  # fmt: skip


def test_what_a_job_reports_is_drawn(service: Service, page: Page) -> None:
    job = service.submit(REPORTING, name=SCRIPT_IN_NAME, elastic=True)
    watch = open_page(page, service, f"/ui/jobs/{job}?tab=training")
    expect(page.get_by_label("GPUs held over time", exact=True)).to_be_visible()
    expect(page.get_by_text("It has reported nothing")).to_be_visible()

    report(service, job, measured())
    expect(page.get_by_role("img", name="loss by step")).to_be_visible(timeout=15_000)
    expect(page.get_by_role("img", name="val_acc by step")).to_be_visible()
    expect(page.get_by_text("epoch 4 of 10, 35%")).to_be_visible()
    steps = page.get_by_label("Where a step's time goes")
    expect(steps.get_by_role("row")).to_have_count(3)
    expect(steps).to_contain_text("42 ms + 10 ms")
    expect(page.get_by_role("img", name=re.compile("the knee is at"))).to_be_visible(timeout=15_000)
    expect(page.get_by_label("Batch and noise")).to_contain_text(SCRIPT_IN_NAME)

    page.get_by_role("tab", name="Attempts and events").click()
    expect(page.get_by_role("region", name="Events")).to_contain_text("running")
    expect(page).to_have_url(re.compile("tab=events"))
    assert_clean(watch)


def test_priority_is_changed_and_a_job_is_submitted_again(service: Service, page: Page) -> None:
    holder = service.submit(REPORTING, name="holder", gpus=4)
    waiter = service.submit("sleep 0", name="waiter", gpus=1)
    service.wait(holder, "running")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=service.url)
    watch = open_page(page, service, f"/ui/jobs/{waiter}")
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Change the priority").click()
    page.get_by_role("slider", name="Priority").press("End")
    page.get_by_role("button", name="Set 100").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert service.job(waiter)["priority"] == 100

    for name, words in {"as curl": "curl http", "as a command": "schedulearn submit -", "as Python": "Client("}.items():
        page.get_by_role("button", name="More").click()
        page.get_by_role("menuitem", name=name).click()
        expect(page.get_by_text(f"Copied {name}.")).to_be_visible()
        assert words in page.evaluate("navigator.clipboard.readText()")

    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Resubmit as it is").click()
    expect(page).not_to_have_url(re.compile(waiter))
    again = page.url.rpartition("/")[2]
    assert service.job(again)["command"] == "sleep 0"
    assert_clean(watch)
