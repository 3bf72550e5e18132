"""The form to submit: JSON both ways, presets, and when a job would start."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from browsing import ENDLESS, SCRIPT_IN_NAME, assert_clean, open_page
from playwright.sync_api import Page, Route, expect
from services import IMAGE, Service

pytestmark = pytest.mark.browser


def test_a_job_is_written_as_json_and_as_a_form(service: Service, page: Page) -> None:
    watch = open_page(page, service, "/ui/submit")
    page.get_by_label("Name").fill("both ways")
    page.get_by_label("How to fill it in").get_by_text("JSON").click()
    editor = page.get_by_label("The job as JSON")
    body = json.loads(editor.input_value())
    assert body["name"] == "both ways"
    editor.fill('{"nmae": 1}')
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_text("Unknown key of a job: nmae.")).to_be_visible()

    job = {**body, "type": "shell", "container_image": IMAGE, "command": "sleep 0", "launcher": "none",
           "env": {"LR": "0.1"}}  # fmt: skip
    editor.fill(json.dumps(job))
    page.get_by_label("How to fill it in").get_by_text("Form").click()
    expect(page.get_by_label("Command")).to_have_value("sleep 0")
    page.get_by_role("button", name="More fields").click()
    expect(page.get_by_label("Environment")).to_have_value("LR=0.1")

    page.get_by_label("How to fill it in").get_by_text("JSON").click()
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="both ways")).to_be_visible()
    expect(page.get_by_test_id("state")).to_have_text("succeeded")
    assert_clean(watch)


def test_a_job_of_before_is_where_the_next_one_starts_from(own_service: Service, page: Page) -> None:
    service = own_service  # forecasts rest on all jobs that ever ended there
    job = service.submit(ENDLESS, name=SCRIPT_IN_NAME, gpus=3, labels={"team": "x"})
    service.wait(job, "running")
    watch = open_page(page, service, "/ui/submit")
    page.get_by_label("Start from").select_option("example")
    expect(page.get_by_label("Command")).to_have_value("python examples/digits/train.py")
    page.get_by_label("Start from").select_option(job)
    expect(page.get_by_label("Name")).to_have_value(SCRIPT_IN_NAME)
    expect(page.get_by_label("Command")).to_have_value(ENDLESS)

    page.get_by_role("button", name="When would it start?").click()
    expect(page.get_by_test_id("outlook")).to_contain_text("Expected to start in")
    page.get_by_role("textbox", name="GPUs").fill("1")
    expect(page.get_by_test_id("outlook")).to_be_hidden()
    page.get_by_role("button", name="When would it start?").click()
    expect(page.get_by_test_id("outlook")).to_contain_text("Expected to start now")
    page.get_by_role("textbox", name="GPUs").fill("99")
    page.get_by_role("button", name="When would it start?").click()
    expect(page.get_by_test_id("outlook")).to_contain_text("It can't run with this cluster")
    assert service.call("GET", "/api/v1/jobs")["next"] is None
    assert_clean(watch)


def test_a_folder_is_the_code_of_the_job(service: Service, page: Page, tmp_path: Path) -> None:
    nets = tmp_path / "nets"
    (nets / "lib").mkdir(parents=True)
    (nets / "train.py").write_text("from lib import words\nprint(words.SAID)\n")
    (nets / "lib" / "words.py").write_text("SAID = 'it came along'\n")
    (nets / "lib" / ("long" * 30 + ".txt")).write_text("a name of more than a hundred letters")
    (nets / ".gitignore").write_text("*.pt\n")
    (nets / "model.pt").write_bytes(bytes(100_000))
    watch = open_page(page, service, "/ui/submit")
    page.get_by_test_id("code-folder").set_input_files(nets)
    code = page.get_by_role("group", name="Code")
    expect(code).to_contain_text("nets: 4 files")
    expect(code).to_contain_text("1 skipped by ignore rules")
    expect(page.get_by_label("Name")).to_have_value("nets")
    expect(page.get_by_label("Image")).not_to_have_value("")
    page.get_by_label("Image").fill(IMAGE)
    page.get_by_label("Command").fill(f"{sys.executable} train.py")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile("/ui/jobs/"))
    job = page.url.rsplit("/", 1)[-1]
    service.wait(job, "succeeded")
    assert "it came along" in service.logs(job)
    found = service.job(job)
    assert found["launcher"] == "none", "one GPU needs none, as with `run`"

    page.goto(f"{service.url}/ui/submit?from={job}")
    expect(code).to_contain_text(found["code"]["digest"][:19])
    code.get_by_role("button", name="Remove the code").click()
    expect(code).to_contain_text("Drop a folder or a file here")
    assert_clean(watch)


def test_a_file_that_is_dropped_is_sent_and_what_is_too_much_is_told(service: Service, page: Page) -> None:
    watch = open_page(page, service, "/ui/submit")
    drop = """(zone, [name, size]) => {
      const data = new DataTransfer();
      data.items.add(new File([name === "big.bin" ? new Uint8Array(size) : "print(6 * 7)"], name));
      zone.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }"""
    code = page.get_by_role("group", name="Code")

    def small(route: Route) -> None:
        route.fulfill(json={**route.fetch().json(), "max_bytes": 1000})

    page.route("**/api/v1/code", lambda route: small(route) if route.request.method == "GET" else route.continue_())
    code.evaluate(drop, ["big.bin", 5000])
    expect(code.get_by_role("alert")).to_contain_text("the largest file is big.bin")
    code.evaluate(drop, ["answer.py", 0])
    expect(code).to_contain_text("answer.py: 1 file")
    expect(code.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_label("Command")).to_have_value("python answer.py")
    expect(page.get_by_label("Name")).to_have_value("answer")
    page.unroute_all(behavior="ignoreErrors")
    assert_clean(watch)
