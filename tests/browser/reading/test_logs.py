"""A log: matches in their context, regular expressions, errors, and lines that have addresses."""

from __future__ import annotations

import re

import pytest
from browsing import assert_clean, faults, open_page
from playwright.sync_api import Page, expect
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.browser]

SCRIPT = (
    'for i in $(seq 1 400); do echo step $i; if [ $i = 100 ] || [ $i = 300 ]; then echo "ERROR no disk at $i"; fi; done'
)


def test_a_log_is_searched_in_context_and_its_lines_have_addresses(service: Service, page: Page) -> None:
    job = service.submit_shell(SCRIPT, name="talker")
    service.wait(job, "succeeded")
    watch = open_page(page, service, f"/ui/jobs/{job}")
    log = page.get_by_role("log")
    count = page.get_by_test_id("log-count")
    expect(count).to_have_text("402 lines")
    search = page.get_by_label("Search the log")
    search.fill("no disk")
    expect(count).to_have_text("2 of 402 lines")
    expect(log.get_by_text("step 99", exact=True)).to_have_count(0)
    search.press("Enter")
    expect(page.get_by_text("1 of 2", exact=True)).to_be_visible()
    expect(log.locator("[data-marked=true]")).to_have_text("ERROR no disk at 100")
    expect(log.get_by_text("step 99", exact=True)).to_be_in_viewport()
    search.press("Enter")
    expect(log.locator("[data-marked=true]")).to_have_text("ERROR no disk at 300")
    search.press("Shift+Enter")
    expect(page.get_by_text("1 of 2", exact=True)).to_be_visible()
    page.get_by_role("button", name="Only matches").click()
    expect(count).to_have_text("2 of 402 lines")

    search.fill("^step [12]00$")
    expect(count).to_have_text("0 of 402 lines")
    page.get_by_role("button", name="Regular expression").click()
    expect(count).to_have_text("2 of 402 lines")
    search.fill("(")
    expect(search).to_have_attribute("aria-invalid", "true")
    search.fill("")

    expect(page.get_by_test_id("error-ticks").locator("i")).to_have_count(2)
    page.get_by_role("button", name="2 errors").click()  # after the line that is marked
    expect(log.locator("[data-marked=true]")).to_have_text("ERROR no disk at 300")
    page.get_by_role("button", name="2 errors").click()
    expect(log.locator("[data-marked=true]")).to_have_text("ERROR no disk at 100")

    log.get_by_role("link", name="Line 101", exact=True).click()
    expect(page).to_have_url(re.compile("#L101$"))
    page.reload()
    expect(log.locator("[data-marked=true]")).to_have_text("ERROR no disk at 100")
    expect(log.locator("[data-marked=true]")).to_be_in_viewport()
    assert faults(page) == []
    assert_clean(watch)


WORKERS = r"""
printf 'plain words\n'
printf '[0]<stdout>:\033[1;31mred\033[0m \033[33myellow\033[0m \033[37mwhite\033[0m \033[7minverse\033[0m\n'
printf '[1]<stderr>:\033[38;5;226mlemon\033[0m \033[44mon blue\033[0m \033[2mdim\033[0m\n'
[ $SCHEDULEARN_ATTEMPT = 2 ]
"""


def test_attempts_times_ranks_and_colours_are_shown(service: Service, page: Page) -> None:
    job = service.submit_shell(WORKERS, gpus=1, name="workers", max_restarts=1)
    service.wait(job, "succeeded")
    page.emulate_media(color_scheme="dark")
    watch = open_page(page, service, f"/ui/jobs/{job}")
    log = page.get_by_role("log")
    expect(page.get_by_test_id("log-count")).to_have_text("6 lines")
    dividers = log.get_by_test_id("log-divider")
    expect(dividers).to_have_text([re.compile(rf"^Attempt {n}, \d\d:\d\d, 1 GPU on local$") for n in (1, 2)])
    expect(log.locator("time")).to_have_count(6)
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", text) for text in log.locator("time").all_inner_texts())
    expect(log.locator("[title^=Rank]")).to_have_text(["[0]", "[1]", "[0]", "[1]"])
    expect(log.get_by_text("red", exact=True).first).to_have_css("font-weight", "700")
    expect(log).not_to_contain_text("stdout")
    dark = log.get_by_text("lemon").first.evaluate("word => getComputedStyle(word).color")
    assert dark == "rgb(255, 255, 0)"
    assert faults(page) == []
    page.emulate_media(color_scheme="light")
    expect(log.get_by_text("lemon").first).not_to_have_css("color", dark)
    assert faults(page) == []

    search = page.get_by_label("Search the log")
    search.fill("d yell")
    expect(log.locator("mark")).to_have_text(["d", " ", "yell"] * 2)
    expect(dividers).to_have_count(2)
    search.fill("")

    page.get_by_role("button", name="Columns").click()
    page.get_by_label("Time").uncheck()
    expect(log.locator("time")).to_have_count(0)
    page.get_by_label("Rank").uncheck()
    expect(log.locator("[title^=Rank]")).to_have_count(0)
    page.reload()
    expect(dividers).to_have_count(2)
    expect(log.locator("time")).to_have_count(0)
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("Time").check()
    expect(log.locator("time")).to_have_count(6)
    assert_clean(watch)


def test_an_expression_that_takes_for_ever_stops_and_the_page_goes_on(service: Service, page: Page) -> None:
    job = service.submit_shell(f"echo {'a' * 60}; echo step 1; echo step 2")
    service.wait(job, "succeeded")
    watch = open_page(page, service, f"/ui/jobs/{job}")
    count = page.get_by_test_id("log-count")
    expect(count).to_have_text("3 lines")
    page.get_by_role("button", name="Regular expression").click()
    search = page.get_by_label("Search the log")
    search.fill("^(a+)+$b")
    # The page answers before the expression is given up: a frame comes, and what is typed is there.
    page.evaluate("() => new Promise(requestAnimationFrame)")
    expect(page.get_by_role("alert")).to_contain_text("this expression takes too long")
    expect(search).to_have_attribute("aria-invalid", "true")
    search.fill("^step \\d$")
    expect(count).to_have_text("2 of 3 lines")
    expect(page.get_by_role("log").locator("mark")).to_have_text(["step 1", "step 2"])
    expect(page.get_by_role("alert")).to_have_count(0)
    search.fill("^(a|aa)+$b")
    search.fill("step 2")  # what was begun is ended by what follows
    expect(count).to_have_text("1 of 3 lines")
    assert_clean(watch)


def test_a_search_whose_code_is_gone_says_so_and_words_are_still_found(service: Service, page: Page) -> None:
    job = service.submit_shell("echo step 1")
    service.wait(job, "succeeded")
    watch = open_page(page, service, f"/ui/jobs/{job}")
    page.route("**/pattern.worker*", lambda route: route.fulfill(status=404))
    page.get_by_role("button", name="Regular expression").click()
    page.get_by_label("Search the log").fill("step .")
    expect(page.get_by_role("alert")).to_contain_text("could not be started")
    page.get_by_role("button", name="Regular expression").click()
    page.get_by_label("Search the log").fill("step")
    expect(page.get_by_test_id("log-count")).to_have_text("1 of 1 line")
    watch.forget("404|worker")
    assert_clean(watch)


def test_a_click_on_a_lines_number_copies_its_link(service: Service, page: Page) -> None:
    job = service.submit_shell(SCRIPT)
    service.wait(job, "succeeded")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    watch = open_page(page, service, f"/ui/jobs/{job}#L101")
    log = page.get_by_role("log")
    expect(log.locator("[data-marked=true]")).to_have_text("ERROR no disk at 100")
    log.get_by_role("link", name="Line 104", exact=True).click()
    expect(page.get_by_text("Copied the link to line 104.")).to_be_visible()
    link = page.evaluate("() => navigator.clipboard.readText()")
    assert link == f"{service.url}/ui/jobs/{job}#L104"
    page.goto("about:blank")
    page.goto(link)
    expect(log.locator("[data-marked=true]")).to_have_text("step 103")
    expect(log.locator("[data-marked=true]")).to_be_in_viewport()
    page.get_by_label("Wrap").check()
    page.get_by_role("button", name="2 errors").click()
    expect(log.locator("[data-marked=true]")).to_have_text("ERROR no disk at 300")
    expect(log.locator("[data-marked=true]")).to_be_in_viewport()
    log.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Copied the link to line 302.")).to_be_visible()
    assert_clean(watch)
