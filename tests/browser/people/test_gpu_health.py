"""Real GPUs that are broken or slowed, as each role sees them: over a stand-in for the driver's library."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsing import log_in, visit
from clusters import wait_for
from gpu_probes.nvml_library import build_library
from playwright.sync_api import Page, expect
from services import Service

pytestmark = pytest.mark.browser

ADMIN = "correct horse"
VERBS = (
    "Return to service",
    "Cordon: its job continues, no others start",
    "Drain: its job moves to other GPUs",
    "Reset",
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("sick")
    (folder / "state").write_text("xid 0 79\nlimit 1 200\nslow 1 64\n")
    library = build_library(folder / "library")
    env = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_GPUS": "3", "FAKE_NVML_STATE": str(folder / "state")}
    with Service(folder / "data", gpus=None, token=ADMIN, env=env) as service:

        def told() -> bool:
            gpus = service.call("GET", "/api/v1/gpus")
            return len(gpus) == 3 and bool(gpus[0]["fault"]) and len(gpus[1]["warnings"]) == 2

        wait_for(told, seconds=120, what="a fault and two warnings")
        yield service


@pytest.mark.parametrize("role", ["admin", "user", "viewer"])
def test_a_fault_and_warnings_are_told_to_all_and_mended_by_admins(lab: Service, page: Page, role: str) -> None:
    token = ADMIN if role == "admin" else lab.add_person(f"the-{role}", role)
    page.context.clear_cookies()
    log_in(page.request, lab, token)
    visit(page, f"{lab.url}/ui/hosts")
    rows = page.get_by_role("region", name="GPUs of local").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("Xid 79")
    expect(rows.nth(2)).to_contain_text("it is too hot, its hardware has lowered its clocks")
    expect(rows.nth(2)).to_contain_text("its power limit is 200 W, 400 W is usual")
    rows.nth(1).get_by_role("button", name="More for GPU 0 of local").click()
    for verb in VERBS:
        item = page.get_by_role("menuitem", name=verb)
        if role == "admin":
            expect(item).to_be_enabled()
        else:
            expect(item).to_be_disabled()
            expect(item).to_have_attribute(
                "aria-description", f"the-{role} is {role} here, and this needs the role admin"
            )
