"""login, logout and contexts, over a real service that needs a token."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click
import httpx
import pytest
from apis import Api, known_by, serve_api, token_for
from services import Result, invoke

from schedulearn import Client
from schedulearn.api.access import logins as requests
from schedulearn.api.client import contexts
from schedulearn.features.accounts.commands import login as commands
from schedulearn.features.accounts.routes import logins

TOKEN = "correct-horse-battery"

Run = Callable[..., Result]


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(logins, "_POLL_S", 0.0)
    with serve_api(tmp_path / "data", token=TOKEN) as served:
        yield served


@pytest.fixture
def url(api: Api) -> str:
    return str(api.http.base_url).rstrip("/")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    for name in ("SCHEDULEARN_URL", "SCHEDULEARN_TOKEN", "SCHEDULEARN_CONTEXT", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(made))
    return made


@pytest.fixture
def run(home: Path) -> Run:
    return lambda *words, **more: invoke(*words, **{"HOME": str(home), **more})


@pytest.fixture
def ada(api: Api) -> Iterator[httpx.Client]:
    with known_by(api, token_for(api, "ada", "user")) as found:
        yield found


@pytest.fixture
def browser(ada: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that a browser was opened at. Ada approves there what is asked."""
    opened: list[str] = []

    def open_page(page: str) -> int:
        opened.append(page)
        [code] = parse_qs(urlsplit(page).query)["code"]
        ada.post(f"/api/v1/logins/{code}/{'approve' if len(opened) < 9 else 'refuse'}", json={}).raise_for_status()
        return 0

    monkeypatch.setattr(commands, "_has_browser", lambda: True)
    monkeypatch.setattr(click, "launch", open_page)
    return opened


def stored(home: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / f".config/schedulearn/contexts/{name}.json").read_text())
    return found


def test_a_login_is_approved_in_the_browser_and_used_from_then_on(
    url: str, run: Run, home: Path, browser: list[str]
) -> None:
    said = run("login", url)
    assert f"Logged in at {url} as ada (user), until " in said.out
    assert browser[0].startswith(f"{url}/ui/login?code=")
    assert browser[0] in said.err
    assert browser[0].rpartition("=")[2] in said.err.splitlines()[0], "the code, to compare"
    file = home / ".config/schedulearn/contexts/127.0.0.1.json"
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
    token = stored(home, "127.0.0.1")["token"]
    assert token not in said.out + said.err
    assert run("whoami", "--json").json["name"] == "ada"
    assert run("whoami", "--json", url=url).json["name"] == "ada", "the address alone finds its token"
    with Client() as client:
        assert client.whoami()["name"] == "ada"
    assert token not in run("contexts", "ls").out + run("contexts", "ls", "--json").out
    out = run("logout")
    assert (out.out, file.exists()) == (f"Logged out of {url}.\n", False)
    with Client(url, token) as client, pytest.raises(Exception, match="token"):
        client.whoami()
    assert "no context is in use" in run("logout", code=1).err


def test_no_token_goes_to_another_service(url: str, run: Run, browser: list[str]) -> None:
    run("login", url)
    for environment in ({"SCHEDULEARN_TOKEN": TOKEN}, {"SCHEDULEARN_URL": "http://127.0.0.1:1"}):
        assert "http://127.0.0.1" in run("whoami", code=1, **environment).err
        assert url not in run("whoami", code=1, **environment).err
    assert run("whoami", "--json", SCHEDULEARN_CONTEXT="127.0.0.1", SCHEDULEARN_TOKEN=TOKEN).json["name"] == "ada"
    refused = run("whoami", "--url", url.replace("127.0.0.1", "localhost"), code=1).err
    assert "schedulearn login http://localhost" in refused


def test_a_login_sends_no_token_that_this_machine_has(run: Run, home: Path) -> None:
    heard: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.headers["authorization"])
            self.send_error(503)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        contexts.store_context(contexts.Context("known", address, "secret-of-a-context"))
        for environment in ({"SCHEDULEARN_TOKEN": TOKEN}, {}):
            run("login", address, "--no-browser", code=1, **environment)
        server.shutdown()
        thread.join()
    assert heard == [None, None]


def test_contexts_of_several_services(url: str, run: Run, home: Path, browser: list[str]) -> None:
    other = url.replace("127.0.0.1", "localhost")
    run("login", url, "--name", "lab")
    run("login", other, "--role", "viewer")
    assert run("contexts", "ls").out.split() == ["NAME", "URL", "lab", url, "*", "localhost", other]
    assert run("whoami", "--json").json["role"] == "viewer"
    assert run("contexts", "use", "lab").out == f"lab is {url}\n"
    assert run("whoami", "--json").json["role"] == "user"
    assert run("whoami", "--json", SCHEDULEARN_CONTEXT="localhost").json["role"] == "viewer"
    for wrong in ("none", "../lab", ".."):
        assert "context" in run("contexts", "use", wrong, code=1).err
    again = run("login", url.replace("127.0.0.1", "localhost"), SCHEDULEARN_URL=url)
    assert "goes before this login" in again.err
    (home / ".config/schedulearn/contexts/lab.json").write_text("{")
    assert "lab.json can't be used: log in again" in run("whoami", code=1, SCHEDULEARN_CONTEXT="lab").err


def test_a_second_port_of_a_host_gets_a_name_of_its_own(home: Path) -> None:
    contexts.store_context(contexts.Context(contexts.free_name("http://gpu1:8000"), "http://gpu1:8000", "t"))
    assert contexts.free_name("http://gpu1:8000") == "gpu1"
    assert contexts.free_name("http://gpu1:9000") == "gpu1-9000"
    assert contexts.free_name("https://[::1]:8000") == "1"


def test_a_login_that_is_refused_or_not_approved_stores_nothing(
    url: str, run: Run, home: Path, browser: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    browser.extend(["x"] * 9)
    assert "the login was refused on the page" in run("login", url, code=1).err
    monkeypatch.setattr(requests, "LIFE_S", 0.2)
    assert "nobody approved the login in time" in run("login", url, "--no-browser", code=1).err
    assert not (home / ".config").exists()


def test_logging_out_of_a_service_that_is_gone_says_so(run: Run, home: Path) -> None:
    contexts.store_context(contexts.Context("gone", "http://127.0.0.1:1", "token"))
    left = run("logout", code=1)
    assert "could not be revoked" in left.err
    assert not (home / ".config/schedulearn/contexts/gone.json").exists()
