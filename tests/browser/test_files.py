"""A job's files on the page: folders, texts, pictures, downloads."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import assert_clean, open_page
from playwright.sync_api import Page, expect
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser]

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4zwAE/xkgFAAb8gP91pbyKwAAAABJRU5ErkJggg=="
WRITE = f"""cd "$SCHEDULEARN_OUTPUT_DIR"; mkdir plots
printf 'loss 0.5 <b>not bold</b>' > 'notes ü.txt'; head -c 3000000 /dev/zero > model.pt; : > empty.txt
printf %s {PICTURE} | base64 -d > plots/loss.png; seq 100000 > long.log
"""


def test_files_are_shown_in_place_and_come_down_whole(service: Service, page: Page, tmp_path: Path) -> None:
    job = service.submit_shell(WRITE)
    service.wait(job, "succeeded")
    watch = open_page(page, service, f"/ui/jobs/{job}")
    page.get_by_role("tab", name="Files").click()
    table = page.get_by_role("region", name="Files").locator("tbody tr")
    expect(table).to_have_count(5)
    expect(page.get_by_role("row", name="model.pt")).to_contain_text("2.9 MiB")

    page.get_by_role("button", name="notes ü.txt").click()
    expect(page.get_by_role("region", name="notes ü.txt").locator("pre")).to_have_text("loss 0.5 <b>not bold</b>")
    page.get_by_role("button", name="long.log").click()
    expect(page.get_by_text("The first 64 KiB of")).to_be_visible()
    page.get_by_role("button", name="empty.txt").click()
    expect(page.get_by_role("region", name="empty.txt").locator("pre")).to_have_text("")
    page.get_by_role("button", name="model.pt").click()
    expect(page.get_by_text("Not a text or a picture")).to_be_visible()

    with page.expect_download() as coming:
        page.get_by_role("link", name="Download model.pt").click()
    coming.value.save_as(tmp_path / "got.pt")
    assert coming.value.suggested_filename == "model.pt"
    assert (tmp_path / "got.pt").read_bytes() == bytes(3_000_000)

    page.get_by_role("button", name="plots/").click()
    page.get_by_role("button", name="loss.png").click()
    picture = page.get_by_role("img", name="loss.png")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 2
    page.reload()
    expect(page.get_by_role("img", name="loss.png")).to_be_visible()
    page.get_by_role("button", name="outputs").click()
    expect(table).to_have_count(5)
    page.get_by_role("button", name="checkpoints").click()
    expect(page.get_by_text("No files yet")).to_be_visible()
    assert_clean(watch)
