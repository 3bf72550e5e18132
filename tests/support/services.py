"""The service and the other commands as users run them, each in a process of its own."""

from __future__ import annotations

import atexit
import json
import os
import shlex
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
from click.testing import CliRunner
from clusters import wait_for
from terminals import on_terminal, terminal_window
from tiers import needs_a_process

from schedulearn.api.client.trust import trusted_context
from schedulearn.main import main

COMMAND = str(Path(sys.executable).with_name("schedulearn"))
IMAGE = "plain"
"""An image name that means this machine's own programs: no environment has to be built."""
KEPT = ("SCHEDULEARN_CACHE",)
LEFT_OUT = ("SCHEDULEARN_", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTHONDONTWRITEBYTECODE")
"""Of the environment. Without bytecode each process compiles 350 modules: 0.3 s of processor time."""

_HOME = tempfile.mkdtemp(prefix="home-")
"""Of what the tests start: shells there must not read the start-up files of who runs the tests."""
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)

_ENV = {
    **{key: value for key, value in os.environ.items() if key in KEPT or not key.startswith(LEFT_OUT)},
    "HOME": _HOME,
    "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
    "TERM": "xterm-256color",
    "SCHEDULEARN_ENVIRONMENTS": json.dumps({IMAGE: "/usr"}),
}


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Stopped:
    """The end of a service: its exit code, how long it took, what it wrote to stderr since its last start."""

    code: int
    seconds: float
    errors: str


class Service:
    """`schedulearn serve`. `kill` (-9) or `stop` it, and `start` it again over the same data at the same port."""

    def __init__(
        self,
        data: Path,
        *flags: str,
        runtime: str = "process",
        gpus: int | None = 4,
        token: str = "",
        env: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
    ) -> None:
        """`gpus`: so many simulated ones; None: those that NVML shows. `under`: a command that runs it."""
        self.under = under
        self.data = data
        self.runtime = runtime
        self.flags = [*flags, "--runtime", runtime]
        if gpus is not None:
            self.flags += ["--simulate-gpus", str(gpus)]
        if token:
            self.flags += ["--token", token]
        self.env = {**_ENV, **(env or {})}
        self.token = ""
        self.port = 0
        self.url = ""
        self.process: subprocess.Popen[str] | None = None
        self._stderr = data.with_name(f"{data.name}.stderr")
        self._stderr.touch()
        self._began_at = 0
        self._is_ready = False
        self.tls: ssl.SSLContext | None = None
        """Trusts the service, where that has TLS."""
        self.http = httpx.Client(timeout=10, trust_env=False)
        if token:
            self.use_token(token)

    def __enter__(self) -> Service:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.http.close()

    def use_token(self, token: str) -> None:
        self.token = token
        self.env["SCHEDULEARN_TOKEN"] = token
        self.http.headers["authorization"] = f"Bearer {token}"

    def start(self, *, wait: bool = True) -> None:
        needs_a_process()
        where = ("--data", str(self.data), "--port", str(self.port))
        self._is_ready = False
        with self._stderr.open("a") as stderr:
            self._began_at = stderr.tell()
            self.process = subprocess.Popen(
                [*self.under, COMMAND, "--json", "serve", *where, *self.flags],
                env=self.env, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True,
            )  # fmt: skip
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        """It says so by one line. Does nothing where that was read already."""
        if self._is_ready:
            return
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the service ended:\n{self.log()}"
        told = json.loads(line)
        self.url = told["url"]
        if "SCHEDULEARN_PUBLIC_URL" in self.env:  # it tells that one; `port` was set before
            self.url = f"http://127.0.0.1:{self.port}"
        self.port = int(self.url.rpartition(":")[2])
        if "certificate" in told:
            self.env["SCHEDULEARN_CA"] = told["certificate"]
            headers = self.http.headers
            self.http.close()
            self.tls = trusted_context(told["certificate"])
            self.http = httpx.Client(timeout=10, trust_env=False, headers=headers, verify=self.tls)
        self.http.base_url = httpx.URL(self.url)
        self._is_ready = True

    def kill(self) -> None:
        """kill -9, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def stop(self, how: signal.Signals = signal.SIGTERM) -> Stopped:
        if self.process is None:
            return Stopped(0, 0.0, "")
        process, self.process = self.process, None
        began = time.monotonic()
        process.send_signal(how)
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return Stopped(process.returncode, time.monotonic() - began, self.log())

    def close(self) -> None:
        """Ends the jobs, then the service; fails if any process of either is left, or if it complained."""
        self.cancel_all()
        ended = self.stop()
        self.__exit__()
        assert (ended.code, ended.errors) == (0, ""), f"it ended with {ended.code}: {ended.errors}"
        wait_for(lambda: not self.leaked(), seconds=30, what=f"the end of {self.leaked()}")

    def log(self) -> str:
        """What it wrote to stderr since its last start."""
        with self._stderr.open(errors="replace") as file:
            file.seek(self._began_at)
            return file.read()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """What the API answers; fails if it refuses."""
        answer = self.http.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def add_person(self, name: str, role: str) -> str:
        """Return a token of a new account."""
        self.call("POST", "/api/v1/users", {"name": name, "role": role})
        made = self.call("POST", "/api/v1/tokens", {"name": f"{name}'s", "user": name, "role": role})
        return str(made["token"])

    def submit(self, command: str, gpus: int = 1, **fields: Any) -> str:
        body = {
            "name": "job", "type": "Pytorch", "container_image": IMAGE, "command": command, "required_gpus": gpus,
            "launcher": "none", **fields,
        }  # fmt: skip
        return str(self.call("POST", "/api/v1/jobs", body)["id"])

    def submit_shell(self, script: str, gpus: int = 1, **fields: Any) -> str:
        """A job that runs `sh -c script`."""
        return self.submit(f"sh -c {shlex.quote(script)}", gpus, **fields)

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/api/v1/jobs/{job_id}")
        return found

    def wait(self, job_id: str, *states: str, seconds: float = 60.0) -> dict[str, Any]:
        try:
            return wait_for(
                lambda: job if (job := self.job(job_id))["state"] in states else None, seconds=seconds, pause=0.02
            )
        except AssertionError:
            raise AssertionError(
                f"job {job_id} is not {states} after {seconds} s: {self.job(job_id)}\n{self.log()[-3000:]}"
            ) from None

    def logs(self, job_id: str) -> str:
        return self.http.get(f"/api/v1/jobs/{job_id}/logs").text

    def cancel_all(self) -> None:
        """Until no job holds or wants a GPU: what a job runs outlives the service. Sweeps first: they would start
        further runs in place of those that are cancelled."""
        sweeps = self.call("GET", "/api/v1/sweeps?state=running&limit=100")["items"]
        paths = [*(f"sweeps/{sweep['id']}" for sweep in sweeps), *(f"jobs/{job_id}" for job_id in self.unfinished())]
        for path in paths:
            answer = self.http.post(f"/api/v1/{path}/cancel")
            assert answer.is_success or answer.status_code == HTTPStatus.CONFLICT, answer.text  # 409: it has just ended
        wait_for(
            lambda: not self.unfinished() and not any(gpu["jobs"] for gpu in self.call("GET", "/api/v1/gpus")),
            seconds=60, what="the end of all jobs", pause=0.02,
        )  # fmt: skip

    def empty(self) -> None:
        """Removes jobs, people, tokens, webhooks and hosts that a test added, and sets the first policy again. Nothing
        removes events, usage and sweeps: they stay."""
        self.cancel_all()
        wait_for(self._purge_jobs, what="the removal of all containers", pause=0.02)
        keys = {"webhooks": "id", "quotas": "user", "groups": "name", "tokens": "id", "users": "name"}
        for what, key in keys.items():
            while items := self.call("GET", f"/api/v1/{what}")["items"]:  # a token may go with the one that made it
                self.http.delete(f"/api/v1/{what}/{items[0][key]}").raise_for_status()
        for host in self.call("GET", "/api/v1/hosts"):
            if host["id"] != "local":
                self.http.delete(f"/api/v1/hosts/{host['id']}").raise_for_status()
            elif host["state"] != "active":
                self.call("POST", "/api/v1/hosts/local/uncordon")
        self.call("PUT", "/api/v1/policy", {"algorithm": "fifo"})

    def _purge_jobs(self) -> bool:
        """Whether none is left."""
        jobs = self.call("GET", "/api/v1/jobs?limit=1000")["items"]
        for job in jobs:
            answer = self.http.post(f"/api/v1/jobs/{job['id']}/purge", timeout=30)
            assert answer.is_success or answer.status_code == HTTPStatus.CONFLICT, answer.text  # 409: containers remain
        return not jobs

    def unfinished(self) -> list[str]:
        states = "&".join(f"state={s}" for s in ("queued", "pulling", "starting", "running", "resizing", "stopping"))
        return [job["id"] for job in self.call("GET", f"/api/v1/jobs?limit=1000&{states}")["items"]]

    def leaked(self) -> list[str]:
        """Processes that belong to a task of this service: each has its folder in its environment or arguments."""
        return [pid for pid in os.listdir("/proc") if pid.isdigit() and self._is_ours(Path("/proc", pid))]

    def _is_ours(self, process: Path) -> bool:
        mark = os.fsencode(self.data / "tasks")
        with suppress(OSError):
            return mark in process.joinpath("environ").read_bytes() + process.joinpath("cmdline").read_bytes()
        return False

    def rows(self, query: str, *values: str) -> list[Any]:
        """Straight from the database file, also while the service is dead."""
        with closing(sqlite3.connect(self.data / "schedulearn.db", timeout=10)) as connection:
            return connection.execute(query, values).fetchall()

    def run(self, *arguments: str, stdin: str = "", code: int = 0) -> Result:
        """One command in a pipe; it must end with `code`."""
        return run(*arguments, stdin=stdin, code=code, url=self.url, **self._known)

    def invoke(self, *arguments: str, stdin: str = "", code: int = 0) -> Result:
        """The same in this process, which takes a hundredth of the time."""
        return invoke(*arguments, stdin=stdin, code=code, url=self.url, **self._known)

    @property
    def _known(self) -> dict[str, str]:
        return {name: self.env[name] for name in ("SCHEDULEARN_TOKEN", "SCHEDULEARN_CA") if name in self.env}

    @contextmanager
    def begin(self, *arguments: str) -> Iterator[Any]:
        """One command in a pipe, while it runs."""
        needs_a_process()
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

    def window(self, *arguments: str) -> AbstractContextManager[tuple[int, subprocess.Popen[bytes]]]:
        """One command in a terminal window, to type into while it runs."""
        return terminal_window([COMMAND, *arguments], {**self.env, "SCHEDULEARN_URL": self.url})

    def on_terminal(self, *arguments: str, until: str | None = None, columns: int = 140) -> Result:
        """One command on a terminal; with `until`, Ctrl-C is pressed once that has appeared."""
        env = {**self.env, "SCHEDULEARN_URL": self.url}
        code, shown = on_terminal([COMMAND, *arguments], env, until, columns)
        return Result(code, shown, "")


@contextmanager
def suppress_exit() -> Iterator[list[int]]:
    """The exit code of what ends here, in a list."""
    codes: list[int] = []
    try:
        yield codes
    except SystemExit as end:
        codes.append(end.code if isinstance(end.code, int) else 1)


def run(*arguments: str, stdin: str = "", code: int = 0, url: str | None = None, **env: str) -> Result:
    """One command in a pipe; it must end with `code`."""
    needs_a_process()
    where = {"SCHEDULEARN_URL": url} if url else {}
    done = subprocess.run(
        [COMMAND, *arguments], env={**_ENV, **where, **env}, input=stdin, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return Result(done.returncode, done.stdout, done.stderr)


def invoke(*arguments: str, stdin: str = "", code: int = 0, url: str | None = None, **env: str) -> Result:
    """The same in this process. Use `run` where the process is the point: signals, files that it has open, `serve`."""
    where = {"SCHEDULEARN_URL": url} if url else {}
    not_passed_on = dict.fromkeys(os.environ.keys() - _ENV.keys())
    with CliRunner().isolation(stdin, {**not_passed_on, **_ENV, **where, **env}) as (out, err, _):
        with patch.object(sys, "argv", ["schedulearn", *arguments]), suppress_exit() as ended:
            main()
        sys.stdout.flush()
        sys.stderr.flush()
        done = Result(ended[0], out.getvalue().decode(), err.getvalue().decode())
    assert done.code == code, done
    return done
