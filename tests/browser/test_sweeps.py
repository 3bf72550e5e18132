"""Sweeps: what there is, one of them with its runs, cancelled and tried again."""

from __future__ import annotations

import re

import pytest
from browsing import assert_clean, faults, open_page
from playwright.sync_api import Page, Route, expect
from services import IMAGE, Service

pytestmark = [pytest.mark.long, pytest.mark.browser]


def test_a_sweep_is_looked_at_cancelled_and_tried_again(service: Service, page: Page) -> None:
    job = {"type": "t", "container_image": IMAGE, "launcher": "none", "command": "sleep {s}", "required_gpus": 1}
    body = {"name": "sleepers", "job": job, "list": [{"s": 0}, {"s": 600}, {"s": 601}], "max_parallel": 2}
    sweep = service.call("POST", "/api/v1/sweeps", body)["id"]
    watch = open_page(page, service, "/ui/sweeps")
    page.get_by_role("link", name="sleepers").click()
    expect(page).to_have_url(f"{service.url}/ui/sweeps/{sweep}")
    runs = page.get_by_role("region", name="Runs").get_by_role("row")
    expect(runs).to_have_count(4)
    expect(runs.nth(1)).to_contain_text("succeeded")
    expect(runs.nth(3)).to_contain_text("running")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the sweep").click()
    expect(runs.nth(3)).to_contain_text("cancelled")
    page.get_by_role("button", name="Retry 2").click()
    expect(runs.nth(2)).to_contain_text("running")
    expect(runs.nth(1)).to_contain_text("succeeded")
    runs.nth(2).get_by_role("link", name="2").click()
    expect(page).to_have_url(re.compile("/ui/jobs/"))
    assert_clean(watch)


def test_runs_of_a_sweep_are_one_line_of_the_jobs_that_opens(service: Service, page: Page) -> None:
    alone = service.submit("sleep 0", name="alone")
    job = {"type": "t", "container_image": IMAGE, "launcher": "none", "command": "sleep {s}", "required_gpus": 1}
    body = {"name": "sleepers", "job": job, "list": [{"s": 0}, {"s": 600}, {"s": 601}], "max_parallel": 3}
    sweep = service.call("POST", "/api/v1/sweeps", body)["id"]
    watch = open_page(page, service, "/ui/jobs")
    group = page.get_by_test_id(f"sweep-{sweep}")
    expect(group).to_contain_text("3 runs: 2 active, 1 succeeded")
    expect(page.locator("tr[data-index]")).to_have_count(2)
    expect(page.get_by_test_id(f"job-{alone}")).to_be_visible()
    group.get_by_role("button", name="Runs of sleepers").click()
    expect(page.locator("tr[data-index]")).to_have_count(5)
    expect(page.get_by_role("table")).to_contain_text("s=601")
    page.keyboard.press("k")
    page.keyboard.press("x")  # by keys the line is all its runs
    expect(page.get_by_text("3 selected")).to_be_visible()
    page.get_by_role("button", name="Duration").click()  # in another order each stands for itself
    expect(group).to_have_count(0)
    expect(page.locator("tr[data-index]")).to_have_count(4)
    page.get_by_role("button", name="Duration").click()
    page.get_by_role("button", name="Duration").click()
    expect(group).to_be_visible()
    assert faults(page) == []
    assert_clean(watch)


def test_parameters_are_drawn_against_what_came_of_them(service: Service, page: Page) -> None:
    job = {"type": "t", "container_image": IMAGE, "launcher": "none", "command": "sleep 0", "required_gpus": 1}
    body = {"name": "rates", "job": job, "grid": {"env.LR": [0.001, 0.1], "env.OPT": ["sgd", "adam"]}}
    sweep = service.call("POST", "/api/v1/sweeps", body)["id"]

    def logged(route: Route) -> None:
        """As if the runs had logged something: 0.9, 0.7, 0.5 and nothing."""
        found = route.fetch().json()
        for run, best in zip(found["table"], (0.9, 0.7, 0.5, None), strict=True):
            run["best"] = run["last"] = best
        route.fulfill(json={**found, "best": found["table"][2]})

    page.route(f"**/api/v1/sweeps/{sweep}*", logged)
    watch = open_page(page, service, f"/ui/sweeps/{sweep}")
    drawing = page.get_by_role("region", name="Parameters and results")
    expect(drawing).to_contain_text("Best: run 3")
    expect(drawing.locator("[data-run]")).to_have_count(4)
    expect(drawing.locator("[data-best=true]")).to_have_attribute("data-run", "3")
    expect(drawing.get_by_role("img")).to_contain_text("adam")
    x, y = drawing.locator("[data-run='1'] path").first.evaluate(
        """line => {
          const point = line.getPointAtLength(line.getTotalLength() * 0.6).matrixTransform(line.getScreenCTM());
          return [point.x, point.y];
        }"""
    )
    page.mouse.move(x, y)
    expect(drawing.get_by_role("status")).to_contain_text(re.compile(r"Run \d: .*LR 0\.\d+.*best loss 0\.\d"))
    page.unroute_all(behavior="ignoreErrors")
    assert faults(page) == []
    assert_clean(watch)
