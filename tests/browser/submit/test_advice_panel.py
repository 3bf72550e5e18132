"""The panel beside the form to submit: whether a job can meet an objective, by jobs that really ran."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from browsing import assert_clean, faults, open_page
from clusters import wait_for
from playwright.sync_api import Page, expect
from services import IMAGE, Service

pytestmark = [pytest.mark.long, pytest.mark.browser]

SCRIPT = """
import json, os, time, urllib.request
gpus, batch = int(os.environ["SCHEDULEARN_NUM_GPUS"]), int(os.environ["SCHEDULEARN_BATCH_SIZE"])
time.sleep(0.8 / gpus)
accuracy = {"name": "accuracy", "step": 1, "value": 0.99 - batch / 1000, "at": time.time()}
sizes = {"init": batch, "max": batch, "atomic": batch, "accumulation": 0}
body = {"attempt": int(os.environ["SCHEDULEARN_ATTEMPT"]), "batch": sizes, "metrics": [accuracy]}
headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["SCHEDULEARN_JOB_TOKEN"]}
request = urllib.request.Request(os.environ["SCHEDULEARN_REPORT_URL"], json.dumps(body).encode(), headers)
urllib.request.urlopen(request, timeout=60).close()
"""
A_WHILE = 120_000  # ms; what works out advice starts as a process of its own


def test_what_suits_a_job_is_told_and_taken(service: Service, page: Page, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = f"{sys.executable} {script}"
    first = service.submit(command, name="digits", batch_size=64)
    service.wait(first, "succeeded")

    watch = open_page(page, service, "/ui/submit")
    panel = page.get_by_role("region", name="Advice")
    ask = panel.get_by_role("button", name="What would suit it?")
    ask.click()
    expect(page.get_by_label("Type", exact=True)).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Start from").select_option(first)
    expect(page.get_by_label("Command")).to_have_value(command)
    ask.click()
    expect(panel).to_contain_text("No history yet")
    expect(panel).to_contain_text("there are 1")
    expect(panel).to_contain_text("schedulearn search")

    job = {"type": "Pytorch", "container_image": IMAGE, "launcher": "none", "command": command}
    factors = {"required_gpus": [1, 2, 4], "batch_size": [32, 64]}
    body = {"name": "history", "job": job, "factors": factors, "replications": 2, "max_parallel": 4}
    history = service.call("POST", "/api/v1/experiments", body)["id"]
    wait_for(lambda: service.call("GET", f"/api/v1/sweeps/{history}")["finished_at"], seconds=200, what="a history")

    panel.get_by_label("Batches").fill("32, many")
    ask.click()
    expect(panel.get_by_label("Batches")).to_have_attribute("aria-invalid", "true")
    panel.get_by_label("Batches").fill("32, 64")
    panel.get_by_label("GPU counts").fill("64")
    ask.click()
    expect(panel).to_contain_text("no host has the requested number of healthy GPUs")
    expect(panel.get_by_label("GPU counts")).to_have_attribute("aria-invalid", "true")
    panel.get_by_label("GPU counts").fill("")

    panel.get_by_label("Done").select_option("within")
    panel.get_by_role("textbox", name="Within").fill("1")
    panel.get_by_label("Unit").select_option("hours")
    panel.get_by_role("textbox", name="Target").fill("0.942")
    ask.click()
    answer = panel.get_by_test_id("advice")
    expect(answer).to_contain_text("The objective can be met", timeout=A_WHILE)
    expect(answer.get_by_role("status").first).to_contain_text("of simulated, batch 32")
    expect(answer).to_contain_text("From 13 finished jobs of its family; time by")
    rows = answer.get_by_role("row")
    expect(rows).to_have_count(1 + 3 * 2)
    expect(rows.nth(1)).to_contain_text("chosen")
    expect(rows.nth(1)).to_contain_text("met")
    expect(rows.filter(has_text="batch 64").first).to_contain_text("accuracy too low")
    assert faults(page) == []

    answer.get_by_role("button", name="Take it").click()
    expect(answer).to_contain_text("It is in the form.")
    answer.get_by_role("button", name="Take 4 GPUs of simulated, batch 32").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="GPUs")).to_have_value("4")
    page.get_by_role("button", name="More fields").click()
    expect(page.get_by_label("Batch size")).to_have_value("32")
    expect(page.get_by_label("GPU type")).to_have_value("simulated")
    page.get_by_label("Policy metric").select_option("speed")
    expect(answer).to_be_hidden()  # of a job that is decided otherwise it says nothing

    panel.get_by_role("textbox", name="Within").fill("0.001")
    panel.get_by_label("Unit").select_option("seconds")
    ask.click()
    expect(answer).to_contain_text("No configuration is expected to meet it. The fastest:", timeout=A_WHILE)
    expect(rows.nth(1)).to_contain_text("too late")
    assert len(service.call("GET", "/api/v1/jobs?limit=100")["items"]) == 13, "nothing is submitted by asking"
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile("/ui/jobs/"))
    found = service.job(page.url.rsplit("/", 1)[-1])
    assert (found["required_gpus"], found["batch_size"], found["gpu_type"]) == (4, 32, "simulated")
    assert found["metric"] == "speed"
    watch.forget("422")
    assert_clean(watch)
