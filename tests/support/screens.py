"""Every screen of the page, on a service where each has something to show, for people of each role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from browsing import ENDLESS, log_in
from playwright.sync_api import BrowserContext, Page, expect
from services import IMAGE, Service

SCREENS = {
    "overview": "", "jobs": "jobs?user=", "own job": "jobs/{ada}", "another's job": "jobs/{ben}",
    "training": "jobs/{ada}?tab=training", "files": "jobs/{ada}?tab=files", "terminal": "jobs/{ada}?tab=terminal",
    "events of a job": "jobs/{ben}?tab=events", "spec": "jobs/{ada}?tab=spec", "submit": "submit",
    "submit again": "submit?from={ada}", "sweeps": "sweeps", "sweep": "sweeps/{sweep}",
    "experiment": "sweeps/{experiment}", "search": "sweeps/{search}", "timeline": "timeline", "hosts": "hosts",
    "history": "hosts?history=local", "policy": "policy", "usage": "usage", "compare": "compare?jobs={ada},{ben}",
    "events": "events", "people": "people", "login": "login", "settings": "settings", "nothing": "nowhere",
}  # fmt: skip
ROLES = {"admin": "boss", "user": "ada", "viewer": "vic"}
GO = "url => { history.pushState(null, '', url); dispatchEvent(new PopStateEvent('popstate')); }"
"""Goes to a screen as a link does: the page is not loaded again."""


@dataclass
class Seeded:
    service: Service
    ids: dict[str, str]
    tokens: dict[str, str]

    def url(self, screen: str) -> str:
        return f"{self.service.url}/ui/{SCREENS[screen].format(**self.ids)}"

    def log_in(self, context: BrowserContext, role: str) -> None:
        log_in(context.request, self.service, self.tokens[role])


def seeded_service(data: Path) -> Iterator[Seeded]:
    with Service(data, token="correct horse") as service:
        tokens = {role: service.add_person(name, role) for role, name in ROLES.items()}
        tried = {"type": "t", "container_image": IMAGE, "launcher": "none", "command": ENDLESS, "required_gpus": 4}
        sweep = {"name": "sweep", "job": tried, "grid": {"priority": [1, 2]}}
        experiment = {"name": "experiment", "job": tried, "factors": {"env.A": ["1", "2"]}}
        search = {"name": "search", "job": tried, "gpus": [1, 2]}
        ids = {
            "ada": service.submit(ENDLESS, name="of ada", gpus=2, user="ada", max_duration=3600),
            "ben": service.submit(ENDLESS, name="of ben", gpus=4, user="ben"),
            "sweep": service.call("POST", "/api/v1/sweeps", sweep)["id"],
            "experiment": service.call("POST", "/api/v1/experiments", experiment)["id"],
            "search": service.call("POST", "/api/v1/searches", search)["id"],
        }
        service.call("PUT", "/api/v1/quotas/ada", {"gpus": 2, "waiting": 10})
        service.call("PUT", "/api/v1/groups/vision", {"gpus": 5})
        service.call("PUT", "/api/v1/groups/vision/members/ada")
        service.call("POST", "/api/v1/webhooks", {"url": "http://127.0.0.1:9/"})
        service.wait(ids["ada"], "running")
        yield Seeded(service, ids, tokens)
        service.cancel_all()


def settled(page: Page) -> None:
    """No screen waits longer than five seconds for anything."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0, timeout=5_000)
