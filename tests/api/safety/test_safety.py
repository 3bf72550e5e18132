"""Who may use the service: nobody without the token, on no route, once there is one; no foreign page, ever."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from apis import FIVE_KEYS, Api, described_routes, serve_api
from matrices import each
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from schedulearn.api.access.credentials import Credentials
from schedulearn.api.access.guard import COOKIE, stored_token
from schedulearn.scheduler.errors import InvalidError

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serve_api(tmp_path_factory.mktemp("guarded"), token=TOKEN) as served:
        yield served


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serve_api(tmp_path_factory.mktemp("open")) as served:
        yield served


def all_routes() -> list[tuple[str, str]]:
    open_to_all = (
        *("/healthz", "/api/v1/session", "/api/v1/client", "/api/v1/sign-in"),
        *("/api/v1/logins", "/api/v1/logins/token"),
    )
    return [(method, path) for method, path in described_routes() if path not in open_to_all]


def test_there_are_routes_to_check() -> None:
    assert len(all_routes()) > 20


@each([{}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}, {"cookie": f"{COOKIE}=x"}], "headers")
def test_every_route_needs_the_token(guarded: Api, headers: dict[str, str]) -> None:
    with httpx.Client(base_url=guarded.http.base_url, headers=headers) as stranger:
        for method, path in [*all_routes(), ("GET", "/api/v1/openapi.json"), ("GET", "/no/such/route")]:
            answer = stranger.request(method, path)
            assert answer.status_code == 401, (method, path)
            assert answer.json()["code"] == "unauthorized"
        for path in ("/api/v1/events", "/api/v1/jobs/x/logs"):
            assert stranger.get(path, headers={"accept": "text/event-stream"}).status_code == 401
        assert stranger.get("/healthz").status_code == 200


def test_a_method_that_no_route_has_is_said_to_be_none_whoever_asks(guarded: Api) -> None:
    with httpx.Client(base_url=guarded.http.base_url) as stranger:
        for path in {path for _, path in described_routes()}:
            answer = stranger.request("TRACE", path)
            assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed"), path
            assert answer.headers["allow"]
        assert stranger.request("TRACE", "/no/such/route").status_code == 404
        for method, path in (("PUT", "/healthz"), ("GET", "/api/v1/session"), ("POST", "/ui/"), ("DELETE", "/")):
            assert stranger.request(method, path).status_code == 405, path


def test_the_token_opens_rest_streams_and_sockets(guarded: Api) -> None:
    job = guarded.submit()
    with guarded.http.stream("GET", "/api/v1/events", headers={"accept": "text/event-stream"}) as response:
        assert response.status_code == 200
    url = str(guarded.http.base_url).replace("http", "ws") + f"/jobs/{job}/logs"
    with connect(url, additional_headers={"authorization": f"Bearer {TOKEN}"}):
        pass
    with pytest.raises(InvalidStatus), connect(url):
        pass


def test_the_page_trades_the_token_for_a_cookie_that_scripts_cannot_read(guarded: Api) -> None:
    with httpx.Client(base_url=guarded.http.base_url) as browser:
        assert browser.post("/api/v1/session", json={"token": "wrong"}).status_code == 401
        assert browser.get("/api/v1/jobs").status_code == 401
        answer = browser.post("/api/v1/session", json={"token": TOKEN})
        assert answer.status_code == 200
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert browser.get("/api/v1/jobs").status_code == 200
        assert browser.get("/api/v1/jobs", headers={"origin": "https://evil.example"}).status_code == 401


def test_without_a_token_only_this_machines_own_pages_may_use_the_service(api: Api) -> None:
    evil = {"origin": "https://evil.example"}
    assert api.http.post("/jobs", json=FIVE_KEYS, headers=evil).status_code == 403
    assert api.http.get("/jobs", headers={"host": "rebound.example"}).status_code == 403
    port = api.http.base_url.port
    own = {"origin": f"http://127.0.0.1:{port}"}
    assert api.http.post("/jobs", json=FIVE_KEYS, headers=own).status_code == 201
    url = str(api.http.base_url).replace("http", "ws") + "/jobs/x/logs"
    with pytest.raises(InvalidStatus), connect(url, additional_headers=evil):
        pass


def test_every_answer_carries_the_security_headers(api: Api) -> None:
    for path in ("/", "/healthz", "/api/v1/jobs", "/api/v1/nothing", "/ui/"):
        headers = api.http.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_a_generated_token_is_kept_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    token = stored_token(tmp_path)
    assert len(token) >= 24
    assert stored_token(tmp_path) == token
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_an_empty_token_lets_nobody_in(tmp_path: Path) -> None:
    """A full disk could leave the file empty, and then "Bearer" without a token was the administrator's."""
    (tmp_path / "token").write_text("")
    with pytest.raises(InvalidError, match="holds no token of at least 8 characters"):
        stored_token(tmp_path)
    assert Credentials("").find("") is None
