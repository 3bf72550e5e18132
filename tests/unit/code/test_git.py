"""Code from a git server: the commit that was meant, from servers that are allowed, within bounds."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.git_server import GitServer, git_server

from schedulearn.scheduler.code.archive import read_entries
from schedulearn.scheduler.code.git import check_host, fetch_git
from schedulearn.scheduler.code.store import CodeStore
from schedulearn.scheduler.errors import InvalidError


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with git_server(tmp_path / "git") as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> CodeStore:
    return CodeStore(tmp_path / "code", max_bytes=200_000, max_files=100)


def paths(store: CodeStore, digest: str) -> list[str]:
    return [entry.path for entry in read_entries(io.BytesIO(store.path(digest).read_bytes()))]


def test_a_branch_a_tag_and_a_commit_are_found(server: GitServer, store: CodeStore) -> None:
    first = server.commit({"train.py": "print(1)"})
    server.git("tag", "-a", "v1", "-m", "one", first, at=server.folder / "nets.git")
    second = server.commit({"train.py": "print(2)", "nets/big.py": "x"})
    allowed = [server.origin]
    newest = fetch_git(server.url(), "HEAD", store, allowed)
    assert newest.commit == fetch_git(server.url(), "main", store, allowed).commit == second
    assert paths(store, newest.stored.digest) == ["nets", "nets/big.py", "train.py"]
    tagged = fetch_git(server.url(), "v1", store, allowed)
    assert tagged.commit == first
    assert fetch_git(server.url(), first, store, allowed).stored.digest == tagged.stored.digest
    assert tagged.stored.digest != newest.stored.digest
    assert len(list(store.folder.iterdir())) == 2


def test_what_is_not_there_is_told_in_the_words_of_git(server: GitServer, store: CodeStore) -> None:
    server.commit({"train.py": "print(1)"})
    for url, ref in ((server.url(), "nowhere"), (server.url("other"), "HEAD")):
        with pytest.raises(InvalidError, match=r"git can't fetch the code: .*(nowhere|not found)"):
            fetch_git(url, ref, store, [server.origin])
    assert list(store.folder.iterdir()) == []


def test_a_commit_that_is_too_large_is_refused_and_leaves_nothing(server: GitServer, store: CodeStore) -> None:
    server.commit({"weights": os.urandom(1_000_000)})
    with pytest.raises(InvalidError, match="setting code_limit"):
        fetch_git(server.url(), "HEAD", store, [server.origin])
    server.commit({"weights": b"", "zeros": bytes(300_000)}, "zeros")
    with pytest.raises(InvalidError, match="larger than 195 KiB"):
        fetch_git(server.url("zeros"), "HEAD", store, [server.origin])
    assert list(store.folder.iterdir()) == []


def test_it_ends_in_time(server: GitServer, store: CodeStore) -> None:
    with pytest.raises(InvalidError, match="took too long"):
        fetch_git(server.url(), "HEAD", store, [server.origin], seconds=0.0)
    assert list(store.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "allowed", "right"),
    [
        ("https://github.com/a/b", ["github.com"], True), ("https://GitHub.com/a/b", ["github.com"], True),
        ("https://github.com.evil.org/a", ["github.com"], False), ("http://github.com/a", ["github.com"], False),
        ("https://10.0.0.1/a", ["github.com"], False), ("https://10.0.0.1/a", ["*"], True),
        ("http://10.0.0.1/a", ["*"], False), ("http://git.lab:3000/a", ["http://git.lab:3000"], True),
        ("http://git.lab/a", ["http://git.lab:3000"], False), ("https://git.lab:8443/a", ["git.lab"], False),
        ("https://github.com/a", [], False),
    ],
)  # fmt: skip
def test_only_servers_that_are_allowed_are_asked(url: str, allowed: list[str], right: bool) -> None:
    if right:
        check_host(url, allowed)
    else:
        with pytest.raises(InvalidError, match="setting code_git_hosts"):
            check_host(url, allowed)


def test_a_redirect_is_not_followed(tmp_path: Path, server: GitServer, store: CodeStore) -> None:
    """Where it leads is the other side's choice: a server inside the network, say."""
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    server.commit({"train.py": "print(1)"})

    class Redirect(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("location", server.origin + self.path)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Redirect) as other:
        thread = Thread(target=other.serve_forever)
        thread.start()
        origin = f"http://127.0.0.1:{other.server_port}"
        with pytest.raises(InvalidError, match="git can't fetch the code"):
            fetch_git(f"{origin}/nets.git", "HEAD", store, [origin, server.origin])
        other.shutdown()
        thread.join()
