"""A PostgreSQL server of Debian's for the tests, in a temporary folder, and databases on it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg

from schedulearn.scheduler.store.db import Database

_TEMPLATE = "ours"


class Missing(Exception):
    """There is no server to be had here."""


def _programs() -> Path:
    """The newest that Debian, or whoever is on the PATH, has."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda each: int(each.parts[-3]))
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        raise Missing("initdb is not there: apt-get install postgresql")
    return (found[-1] if found else Path(str(on_path))).parent


def _account() -> str | None:
    """PostgreSQL refuses root. None: whoever we are."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise Missing("we are root, and there is no other account to run PostgreSQL")


@dataclass
class Postgres:
    """A server. It listens on a socket in its folder."""

    programs: Path
    folder: Path
    account: str | None
    _process: subprocess.Popen[bytes] | None = None
    _numbers: Iterator[int] = field(default_factory=count)
    _has_template: bool = False

    def start(self) -> None:
        """Waits until it takes connections. Raises Missing."""
        command = [self.programs / "postgres", "-D", self.folder / "data", "-F", "-k", self.folder]
        command += ["-c", "listen_addresses="]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, user=self.account, cwd="/", start_new_session=True
            )
        ready = [self.programs / "pg_isready", "-q", "-h", self.folder, "-t", "1"]
        while subprocess.run(ready, check=False, timeout=30).returncode != 0:
            if self._process.poll() is not None:
                raise Missing(f"postgres ended: {(self.folder / 'log').read_text()[-2000:]}")

    def stop(self) -> None:
        """With all of its connections."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)

    def url(self, name: str = "postgres") -> str:
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def create(self, *, empty: bool = False) -> str:
        """The URL of a new database; unless it is to be `empty` it has our tables, copied from a template."""
        if not empty and not self._has_template:
            self._create(_TEMPLATE, "template1")
            Database(self.url(_TEMPLATE)).close()
            self._has_template = True
        name = f"test{next(self._numbers)}"
        self._create(name, "template1" if empty else _TEMPLATE)
        return self.url(name)

    def drop(self, url: str) -> None:
        name = url.partition("@/")[2].partition("?")[0]
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement: str, url: str | None = None) -> list[tuple[object, ...]]:
        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _create(self, name: str, template: str) -> None:
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """Raises Missing."""
    programs, account = _programs(), _account()
    folder = Path(tempfile.mkdtemp(prefix="schedulearn-pg-"))
    try:
        if account is not None:
            shutil.chown(folder, account)
        data = folder / "data"
        made = subprocess.run(
            [programs / "initdb", "-N", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-D", data],
            capture_output=True, text=True, timeout=120, check=False, user=account, cwd="/",
        )  # fmt: skip
        if made.returncode != 0:
            raise Missing(f"initdb failed: {made.stderr.strip()}")
        server = Postgres(programs, folder, account)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
