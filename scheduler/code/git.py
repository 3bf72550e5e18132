"""Fetching of code from a git server at one commit.

It uses the `git` command, with limits on time and size. Only servers named by the operator are used, over https unless
their entry says http. Redirects are not followed, and hooks and configuration of this machine are not used. Only the
one commit is fetched, without submodules.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from schedulearn.scheduler.code.archive import read_entries, show_bytes
from schedulearn.scheduler.code.store import CodeStore, StoredCode
from schedulearn.scheduler.errors import InvalidError

FETCH_S = 60.0
GIT_HOSTS = ("github.com", "gitlab.com", "codeberg.org", "bitbucket.org")
REF = r"[A-Za-z0-9_][A-Za-z0-9_./+@-]*"
_BLOCK = 512  # bytes per unit of a shell's `ulimit -f`


@dataclass(frozen=True)
class GitCode:
    commit: str
    stored: StoredCode


def check_host(url: str, allowed: Sequence[str]) -> None:
    """Raise InvalidError for a server that the operator did not allow.

    An entry of `allowed` is a host or host:port, with `http://` before it for http; `*` is any server over https."""
    parts = urlsplit(url)
    origin = parts.netloc.lower()
    if parts.scheme == "https" and ("*" in allowed or origin in allowed or f"https://{origin}" in allowed):
        return
    if parts.scheme == "http" and f"http://{origin}" in allowed:
        return
    named = ", ".join(allowed) or "none"
    raise InvalidError(
        f"code can't be fetched from {parts.scheme}://{origin}; allowed: {named} (setting code_git_hosts)",
        field="code.git",
    )


def fetch_git(url: str, ref: str, store: CodeStore, allowed: Sequence[str], seconds: float = FETCH_S) -> GitCode:
    """Fetch the commit that `ref` currently refers to, and store it as an archive.

    `ref` is a branch, a tag or a full commit id. Raises InvalidError with git's message if the commit can't be
    fetched."""
    check_host(url, allowed)
    if shutil.which("git") is None:
        raise InvalidError(
            "the service has no `git` command: install it, or send the code as an archive", field="code.git"
        )
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix=".partial-git-", dir=store.folder) as folder:
        git = _Git(Path(folder), store.max_bytes, deadline)
        git.run("init", "--quiet", "--bare", ".")
        git.run("fetch", "--quiet", "--depth", "1", "--no-tags", "--no-write-fetch-head", url, f"+{ref}:refs/found")
        commit = git.run("rev-parse", "--verify", "refs/found^{commit}").strip()
        git.run("archive", "--format=tar", "--output=code.tar", commit)
        with (Path(folder) / "code.tar").open("rb") as tar:
            return GitCode(commit, store.keep(lambda: read_entries(tar, store.max_files)))


class _Git:
    def __init__(self, folder: Path, max_bytes: int, deadline: float) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._bound = 2 * max_bytes // _BLOCK * _BLOCK
        self._deadline = deadline

    def run(self, *words: str) -> str:
        # A shell sets the limit per file, so that it applies to git and all its children. A pack is a single file.
        bound = f'ulimit -f {self._bound // _BLOCK} && exec "$@"'
        options = ("http.followRedirects=false", "core.hooksPath=/dev/null", "fetch.unpackLimit=1", "gc.auto=0")
        settings = [word for option in options for word in ("-c", option)]
        with subprocess.Popen(
            ["sh", "-c", bound, "sh", "git", *settings, *words],
            cwd=self._folder,
            env=self._env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
            errors="replace",
        ) as process:
            try:
                out, err = process.communicate(timeout=max(0.0, self._deadline - time.monotonic()))
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                raise InvalidError("git took too long to fetch the code", field="code.git") from error
        if process.returncode == 0:
            return out
        if any(path.stat().st_size >= self._bound for path in self._folder.rglob("*") if path.is_file()):
            most = show_bytes(self._max_bytes)
            raise InvalidError(f"the commit is larger than {most} (setting code_limit)", field="code.git")
        words_of_git = " ".join(err.split())[-500:] or f"exit code {process.returncode}"
        raise InvalidError(f"git can't fetch the code: {words_of_git}", field="code.git")

    def _env(self) -> dict[str, str]:
        passed = ("PATH", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
        return {
            **{name: os.environ[name] for name in passed if name in os.environ},
            "HOME": str(self._folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "true",
            "GIT_ALLOW_PROTOCOL": "https:http",
        }
