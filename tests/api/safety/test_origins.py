"""What a page of another site can make a browser send, and what comes through a proxy that nobody named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import FIVE_KEYS, Api, described_routes, serve_api
from matrices import each
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

TOKEN = "correct-horse-battery"
UNSAFE = [(method, path) for method, path in described_routes() if method not in ("GET", "HEAD", "OPTIONS")]
FORWARDED = [
    {"forwarded": "for=198.51.100.7"}, {"x-forwarded-for": "198.51.100.7"}, {"x-forwarded-host": "gpu.example"},
    {"x-forwarded-proto": "https"}, {"x-real-ip": "198.51.100.7"}, {"X-Forwarded-For": ""},
]  # fmt: skip


@pytest.fixture(scope="module", params=[{}, {"token": TOKEN}], ids=["loopback", "token"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serve_api(tmp_path_factory.mktemp("origins"), **request.param) as api:
        yield api


def stored(api: Api) -> list[Any]:
    """What requests store. Jobs run meanwhile."""
    jobs = api.http.get("/api/v1/jobs").json()["items"]
    others = [api.http.get(f"/api/v1/{name}").json() for name in ("webhooks", "tokens", "policy")]
    return [[(job["id"], job["priority"]) for job in jobs], *others]


@pytest.fixture
def before(served: Api) -> list[Any]:
    """Stored state at the start of the test."""
    return stored(served)


@each(UNSAFE, "method", "path")
def test_no_change_by_a_page_of_another_site_without_an_origin(
    served: Api, before: list[Any], method: str, path: str
) -> None:
    for site in ("cross-site", "same-site", "Cross-Site"):
        answer = served.http.request(method, path, json=FIVE_KEYS, headers={"sec-fetch-site": site})
        assert (site, answer.status_code, answer.json()["code"]) == (site, 403, "foreign_origin")
    assert stored(served) == before


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_services_own_page_and_what_a_person_types_may(served: Api, site: str) -> None:
    headers = {"sec-fetch-site": site}
    assert served.http.post("/api/v1/jobs", json=FIVE_KEYS, headers=headers).status_code == 201
    assert served.http.get("/api/v1/jobs", headers={"sec-fetch-site": "cross-site"}).status_code == 200


def test_no_socket_for_a_page_of_another_site(served: Api) -> None:
    url = str(served.http.base_url).replace("http", "ws") + f"/jobs/{served.submit()}/logs"
    headers = dict(served.http.headers)
    with connect(url, additional_headers={"authorization": headers.get("authorization", "")}):
        pass
    with (
        pytest.raises(InvalidStatus),
        connect(
            url, additional_headers={"authorization": headers.get("authorization", ""), "sec-fetch-site": "cross-site"}
        ),
    ):
        pass


KINDS = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
CONTENT = httpx.Request("POST", "http://x", json=FIVE_KEYS).content


@each([route for route in UNSAFE if route[1].startswith("/api/")], "method", "path")
def test_a_body_says_that_it_is_json(served: Api, before: list[Any], method: str, path: str) -> None:
    for kind in KINDS:
        answer = served.http.request(method, path, content=CONTENT, headers={"content-type": kind})
        assert (kind, answer.status_code, answer.json()["code"]) == (kind, 415, "unsupported_media_type")
    assert stored(served) == before


@each(KINDS, "kind")
def test_a_body_of_the_originals_routes_need_not_say_what_it_is(served: Api, kind: str) -> None:
    assert served.http.post("/jobs", content=CONTENT, headers={"content-type": kind}).status_code == 201


def test_what_has_no_body_needs_no_kind_of_it(served: Api) -> None:
    assert served.http.post(f"/api/v1/jobs/{served.submit()}/cancel").status_code == 200
    assert served.http.put("/algorithm/fifo").status_code == 200


@pytest.mark.parametrize("headers", FORWARDED, ids=lambda headers: next(iter(headers)))
def test_what_came_through_a_proxy_is_refused_unless_the_settings_name_one(
    served: Api, headers: dict[str, str]
) -> None:
    for method, path in [("GET", "/api/v1/jobs"), ("POST", "/jobs"), ("GET", "/ui/"), ("GET", "/metrics")]:
        answer = served.http.request(method, path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "through_a_proxy")
        assert "behind_proxy" in answer.json()["detail"]


def test_a_proxy_that_the_settings_name_is_let_in_where_a_token_is_asked_for(tmp_path: Path) -> None:
    headers = {"x-forwarded-for": "198.51.100.7", "x-forwarded-proto": "https"}
    with serve_api(tmp_path / "a", token=TOKEN, behind_proxy=True) as api:
        assert api.http.get("/api/v1/jobs", headers=headers).status_code == 200
        assert httpx.get(f"{api.http.base_url}/api/v1/jobs", headers=headers).status_code == 401
    with serve_api(tmp_path / "b", behind_proxy=True) as api:
        assert api.http.get("/api/v1/jobs").status_code == 200
        assert api.http.get("/api/v1/jobs", headers=headers).status_code == 403
