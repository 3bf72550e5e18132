"""`schedulearn serve` and the other commands as processes, the way users run them."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from clusters import wait_for

COMMAND = str(Path(sys.executable).with_name("schedulearn"))
IMAGE = "x"
"""The system's own programs as an image: no environment has to be built."""

_ENV = {
    **{k: v for k, v in os.environ.items() if not k.startswith(("SCHEDULEARN_", "COLUMNS", "NO_COLOR", "FORCE_COLOR"))},
    "TERM": "xterm-256color",
    "SCHEDULEARN_ENVIRONMENTS": json.dumps({IMAGE: "/usr"}),
}


class Service:
    """A running service; `restart` continues with the same data at the same port."""

    def __init__(self, data: Path, *flags: str, env: Mapping[str, str] | None = None) -> None:
        self.data = data
        self.flags = flags
        self.env = {**_ENV, **(env or {})}
        self.port = 0
        self.process: subprocess.Popen[str]
        self.url = ""
        self.start()

    def start(self) -> None:
        where = ("--data", str(self.data), "--port", str(self.port))
        self.process = subprocess.Popen(
            [COMMAND, "--json", "serve", *where, "--runtime", "process", "--simulate-gpus", "4", *self.flags],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.url = json.loads(line)["url"]
        self.port = int(self.url.rpartition(":")[2])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, float, str]:
        """(exit code, seconds that it took, what it wrote to stderr)."""
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            _, errors = self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, time.monotonic() - began, errors

    def close(self) -> None:
        """Ends the jobs, then the service; fails if any process of either is left, or if it complained."""
        for job in self.api("GET", "/api/v1/jobs?limit=1000").json()["items"]:
            if not job["finished_at"]:
                self.api("POST", f"/api/v1/jobs/{job['id']}/cancel")
        wait_for(lambda: not self._unfinished(), seconds=30, what="the end of all jobs")
        code, _, errors = self.stop()
        assert (code, errors) == (0, "")
        wait_for(lambda: not self._leaked(), seconds=5, what=f"the end of {self._leaked()}")

    def api(self, method: str, path: str, **options: Any) -> httpx.Response:
        token = self.env.get("SCHEDULEARN_TOKEN")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.request(method, self.url + path, headers=headers, timeout=10, trust_env=False, **options)

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api("GET", f"/api/v1/jobs/{job_id}").json()
        return found

    def stored_env(self, job_id: str) -> Any:
        """A job's variables with their values, which no answer shows."""
        with closing(sqlite3.connect(self.data / "schedulearn.db", timeout=10)) as db:
            return json.loads(db.execute("SELECT env FROM job WHERE id = ?", (job_id,)).fetchone()[0])

    def wait(self, job_id: str, *states: str) -> dict[str, Any]:
        return wait_for(
            lambda: job if (job := self.job(job_id))["state"] in states else None, seconds=30, what=f"{states}"
        )

    def submit(self, script: str, **fields: Any) -> str:
        """The id of a job that runs `sh -c script`."""
        body = {
            "name": "job", "type": "Pytorch", "container_image": IMAGE, "command": f"sh -c {_quoted(script)}",
            "required_gpus": 1, "launcher": "none",
        }  # fmt: skip
        answer = self.api("POST", "/api/v1/jobs", json={**body, **fields})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def run(self, *arguments: str, stdin: str = "", code: int = 0) -> Result:
        """One command in a pipe; it must end with `code`."""
        return run(*arguments, stdin=stdin, code=code, url=self.url)

    @contextmanager
    def begin(self, *arguments: str) -> Iterator[Any]:
        """One command in a pipe, while it runs."""
        with subprocess.Popen(
            [COMMAND, *arguments],
            env={**self.env, "SCHEDULEARN_URL": self.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def on_terminal(self, *arguments: str, until: str | None = None, columns: int = 140) -> Result:
        """One command on a terminal; with `until`, Ctrl-C is pressed once that has appeared."""
        return _on_terminal(self, arguments, until, columns)

    def _unfinished(self) -> list[str]:
        items = self.api("GET", "/api/v1/jobs?limit=1000").json()["items"]
        return [job["id"] for job in items if not job["finished_at"]]

    def _leaked(self) -> list[str]:
        """Processes that belong to a task of this service: each has its folder in its environment or arguments."""
        return [pid for pid in os.listdir("/proc") if pid.isdigit() and self._is_ours(Path("/proc", pid))]

    def _is_ours(self, process: Path) -> bool:
        mark = os.fsencode(self.data / "tasks")
        with suppress(OSError):
            return mark in process.joinpath("environ").read_bytes() + process.joinpath("cmdline").read_bytes()
        return False


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str, stdin: str = "", code: int = 0, url: str | None = None, **env: str) -> Result:
    """One command in a pipe; it must end with `code`."""
    where = {"SCHEDULEARN_URL": url} if url else {}
    done = subprocess.run(
        [COMMAND, *arguments], env={**_ENV, **where, **env}, input=stdin, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return Result(done.returncode, done.stdout, done.stderr)


def without_escapes(text: str) -> str:
    return re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[()][A-Z0-9])", "", text).replace("\r\n", "\n")


def _on_terminal(service: Service, arguments: tuple[str, ...], until: str | None, columns: int) -> Result:
    pid, terminal = pty.fork()
    if pid == 0:
        env = {**service.env, "SCHEDULEARN_URL": service.url, "COLUMNS": str(columns), "LINES": "50"}
        os.execve(COMMAND, [COMMAND, *arguments], env)
    shown = b""
    try:
        with suppress(OSError):  # the terminal is closed with its last process
            while data := os.read(terminal, 65536):
                shown += data
                if until is not None and until in without_escapes(shown.decode(errors="replace")):
                    os.write(terminal, b"\x03")
                    until = None
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    return Result(os.waitstatus_to_exitcode(status), shown.decode(errors="replace"), "")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"
