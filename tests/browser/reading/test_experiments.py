"""Experiments and searches: what each is called, what came of its runs, and a job from what was found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from browsing import ENDLESS, assert_clean, faults, open_page, visit
from clusters import wait_for
from playwright.sync_api import Page, expect
from services import IMAGE, Service

pytestmark = [pytest.mark.long, pytest.mark.browser]

JOB = {"type": "t", "container_image": IMAGE, "launcher": "none", "command": "sleep {s}", "required_gpus": 1}
FACTORS = {"required_gpus": [1, 2], "s": [0, 0.2]}
SECONDS = 240.0


def start(service: Service, kind: str, **body: Any) -> str:
    return str(service.call("POST", f"/api/v1/{kind}", {"name": "digits", "job": JOB, **body})["id"])


def ended(service: Service, sweep: str) -> dict[str, Any]:
    """It with its runs, once each has ended and what it came to is kept."""
    wait_for(lambda: service.call("GET", f"/api/v1/sweeps/{sweep}")["finished_at"], seconds=SECONDS, what="its end")

    def measured() -> dict[str, Any] | None:
        found: dict[str, Any] = service.call("GET", f"/api/v1/experiments/{sweep}")
        return found if all(run["results"] for run in found["table"]) else None

    return wait_for(measured, seconds=SECONDS, what="what its runs came to")


def test_an_experiment_shows_what_its_factors_do(service: Service, page: Page, tmp_path: Path) -> None:
    design = {"design": "2k", "factors": FACTORS, "replications": 2, "max_parallel": 2}
    experiment = start(service, "experiments", **design)
    assert len(ended(service, experiment)["table"]) == 8
    watch = open_page(page, service, "/ui/sweeps")
    expect(page.get_by_role("row").nth(1)).to_contain_text("experiment: 2k, 2 replications")
    page.get_by_role("link", name="digits").click()
    expect(page.get_by_label("Response")).to_have_value("run_time")
    # The service loads SciPy for its first analysis.
    expect(page.get_by_text("All runs are included.")).to_be_visible(timeout=60_000)

    terms = page.get_by_role("region", name="Analysis of variance").get_by_role("row")
    expect(terms).to_have_text(
        [re.compile(start) for start in ("^termdf.*effect$", "^required_gpus1", "^s1", "^required_gpus × s1", "^error4",
                                         "^total7")]
    )  # fmt: skip
    points = page.get_by_role("region", name="Points").get_by_role("row")
    expect(points).to_have_count(5)
    expect(points.nth(1)).to_have_text(re.compile(r"^102[\d.e-]+ \(-?[\d.e-]+ to [\d.e-]+\)$"))
    drawn = {"Main effects": 2, "Interactions": 1, "Distribution": 2}
    for name, count in drawn.items():
        expect(page.get_by_role("region", name=name).get_by_role("img")).to_have_count(count)
    expect(page.get_by_role("region", name="Distribution").locator("[data-box]")).to_have_count(4)
    said = re.compile(r"^Mean of run_time by s: 0 [\d.e-]+, 0\.2 [\d.e-]+$")
    expect(page.get_by_role("img", name=said)).to_be_visible()

    page.get_by_label("Response").select_option("response_time")
    expect(page).to_have_url(re.compile("response=response_time"))
    expect(page.get_by_role("region", name="Main effects")).to_contain_text("The mean of response_time")
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV of all runs").click()
    saved.value.save_as(tmp_path / "runs.csv")
    head, *lines = (tmp_path / "runs.csv").read_text().splitlines()
    assert head.startswith("run,required_gpus,s,job,state,")
    assert [line.split(",")[4] for line in lines] == ["succeeded"] * 8
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
        assert faults(page) == [], scheme

    page.get_by_role("tab", name="Runs").click()
    expect(page.get_by_role("region", name="Runs").get_by_role("row")).to_have_count(9)
    assert_clean(watch)


def test_an_experiment_that_runs_says_what_is_missing_and_is_cancelled(service: Service, page: Page) -> None:
    endless = {**JOB, "command": ENDLESS}
    experiment = start(service, "experiments", job=endless, factors={"required_gpus": [1, 2]}, max_parallel=2)
    watch = open_page(page, service, f"/ui/sweeps/{experiment}")
    expect(page.get_by_text("so far 0 of 2 have run_time")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the experiment").click()
    expect(page.get_by_test_id("state").first).to_have_text("cancelled")
    expect(page.get_by_text("so far 0 of 2 have run_time")).to_be_visible()
    assert_clean(watch)


def test_a_search_shows_its_curve_and_its_answer_fills_the_form(service: Service, page: Page) -> None:
    job = {**JOB, "command": "sleep 0.{batch_size}"}
    search = start(service, "searches", job=job, gpus=[1, 2], batch_sizes=[1, 4], trials=3)
    watch = open_page(page, service, f"/ui/sweeps/{search}")
    expect(page.get_by_text("It continues until the next trial")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    ended(service, search)
    found = service.call("GET", f"/api/v1/searches/{search}")
    assert found["why"] == "3 trials were made, the maximum of this search."
    expect(page.get_by_role("region", name="Found")).to_contain_text(found["why"])
    expect(page.get_by_text("3 of 3")).to_be_visible()
    trials = page.get_by_role("region", name="Trials").get_by_role("row")
    expect(trials).to_have_count(4)
    best = found["best"]
    [number] = [
        each["number"] for each in found["tried"] if all(each[key] == value for key, value in best.items())
    ]  # fmt: skip
    expect(trials.nth(number)).to_contain_text("best")
    drawing = page.get_by_role("region", name="Time and cost")
    expect(drawing.locator("[data-trial]")).to_have_count(3)
    expect(drawing.locator("[data-curved=true]")).to_have_count(len(found["curve"]))
    expect(drawing.locator(f"[data-trial='{number}']")).to_contain_text("best")
    expect(drawing.get_by_role("status")).to_contain_text(f"Best: trial {number}")
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
        assert faults(page) == [], scheme

    page.get_by_role("link", name="Submit a job with it").click()
    expect(page.get_by_label("Name")).to_have_value("digits")
    expect(page.get_by_role("textbox", name="GPUs", exact=True)).to_have_value(str(best["required_gpus"]))
    expect(page.get_by_label("Command")).to_have_value(f"sleep 0.{best['batch_size']}")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile(r"/ui/jobs/\w+$"))
    made = service.job(page.url.rpartition("/")[2])
    assert (made["name"], made["required_gpus"], made["max_duration"]) == ("digits", best["required_gpus"], None)
    assert made["priority"] == 50, "not as low as a trial's"
    visit(page, f"{service.url}/ui/sweeps")
    expect(page.get_by_role("row").nth(1)).to_contain_text("search")
    assert_clean(watch)


def test_a_search_is_started_from_a_job_of_before(service: Service, page: Page) -> None:
    job = service.submit("sleep 0", name="net", labels={"team": "x"})
    service.wait(job, "succeeded")
    watch = open_page(page, service, "/ui/sweeps")
    page.get_by_role("button", name="Search for a configuration").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Start from job").select_option(job)
    expect(dialog.get_by_label("Name")).to_have_value("net")
    expect(dialog.get_by_label("Job as JSON")).to_have_value(re.compile('"command": "sleep 0"'))
    dialog.get_by_label("Numbers of GPUs").fill("1, two")
    dialog.get_by_label("Minimize").select_option("time")
    dialog.get_by_label("Maximum trials").fill("1")
    dialog.get_by_role("button", name="Start").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Numbers of GPUs: two is not a whole number.")
    dialog.get_by_label("Numbers of GPUs").fill("1 2")
    dialog.get_by_role("button", name="Start").click()
    expect(page).to_have_url(re.compile(r"/ui/sweeps/\w+$"))
    expect(page.get_by_text("of 2 configurations")).to_be_visible()
    search = page.url.rpartition("/")[2]
    found = service.call("GET", f"/api/v1/searches/{search}")
    assert (found["name"], found["goal"], found["trials"]) == ("net", "time", 1)
    assert service.call("GET", f"/api/v1/sweeps/{search}")["job"]["labels"] == {"team": "x"}
    assert_clean(watch)
