"""Steps that install, upgrade, roll back and remove a service under systemd."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from schedulearn.features.admin.environments import (
    check_interpreter,
    copy_environment,
    make_readable,
    point,
    version_of,
)
from schedulearn.features.admin.service_files import UNIT, USER, Places, settings_text, unit_text
from schedulearn.scheduler.errors import ConflictError, InvalidError, NotFoundError

Run = Callable[[Sequence[str]], None]


@dataclass(frozen=True)
class InstallStep:
    """One change. `say` is a sentence for the operator."""

    say: str
    do: Callable[[], object]


class Installation:
    """Service of one system. Its methods return the steps that are missing, and change nothing themselves."""

    def __init__(self, root: Path, run: Run, uses_postgres: Callable[[Path], bool]) -> None:
        """`root`: `/`, or a folder with the files of another system. There no account is made and nothing is started.

        `uses_postgres`: whether the settings in a file name another database."""
        self.places = Places(root)
        self._live = root == Path("/")
        self._run = run
        self._uses_postgres = uses_postgres

    def install(self, environment: Path, *, upgrade: bool) -> list[InstallStep]:
        """Return the steps to install an environment, or to upgrade to it.

        Raises ConflictError if another version is installed and `upgrade` is not set, InvalidError for an environment
        that can't be copied."""
        version, installed = version_of(environment), self.installed
        if self._live:
            check_interpreter(environment)
        if installed is None and upgrade:
            raise NotFoundError(f"no service is installed in {self.places.home}: leave out --upgrade")
        if installed not in (None, version) and not upgrade:
            raise ConflictError(f"version {installed} is installed, and this is {version}: upgrade it with --upgrade")
        steps = [*self._account(), *self._folders(), *self._environment(environment, version)]
        if installed not in (None, version):
            steps += self._switch(version)
        elif installed is None:
            target = self.places.versions / version
            steps.append(InstallStep(f"Use version {version}.", lambda: point(self.places.current, target)))
        steps += self._unit()
        if self._live and (steps or not self._is_active()):
            steps += [self._systemctl("daemon-reload"), self._systemctl("enable", "--now", UNIT)]
        return steps

    def roll_back(self) -> list[InstallStep]:
        """Return the steps to the version before the last upgrade. Raises NotFoundError if there is none."""
        places = self.places
        if self.installed is None or not places.previous.is_symlink():
            raise NotFoundError(f"there is no earlier version in {places.home}: only an upgrade keeps one")
        now, before = places.current.resolve(), places.previous.resolve()
        steps = [self._systemctl("stop", UNIT)] if self._live else []
        if self.loses_changes:
            aside = places.data / f"schedulearn.db.of-{now.name}.{int(time.time())}"
            steps.append(
                InstallStep(
                    f"Restore the database from before the upgrade. The present one stays as {aside}: what happened "
                    "since the upgrade is not in the restored one.",
                    lambda: self._restore(aside),
                )
            )
        steps.append(InstallStep(f"Use version {before.name} again.", lambda: _swap(places, now, before)))
        return [*steps, *([self._systemctl("start", UNIT)] if self._live else [])]

    @property
    def loses_changes(self) -> bool:
        """Whether the earlier version can't read the present database, so that its copy must be restored."""
        with self._as_service():
            before, now = _schema(self.places.saved), _schema(self.places.data / "schedulearn.db")
        return before is not None and now is not None and before != now

    def remove(self) -> list[InstallStep]:
        """Return the steps that remove the unit and the environments. Data, settings and the account stay."""
        places, steps = self.places, []
        if places.unit.exists():
            if self._live:
                steps.append(self._systemctl("disable", "--now", UNIT))
            steps.append(InstallStep(f"Remove {places.unit}.", places.unit.unlink))
            if self._live:
                steps.append(self._systemctl("daemon-reload"))
        if places.home.exists():
            steps.append(InstallStep(f"Remove {places.home}.", lambda: shutil.rmtree(places.home)))
        return steps

    @property
    def installed(self) -> str | None:
        """Version in use; None: no service is installed."""
        return os.readlink(self.places.current).rpartition("/")[2] if self.places.current.is_symlink() else None

    def _account(self) -> Iterator[InstallStep]:
        if not self._live:
            return
        docker = _has_group("docker")
        try:
            pwd.getpwnam(USER)
        except KeyError:
            command = ["useradd", "--system", "--user-group", "--home-dir", str(self.places.data), "--no-create-home"]
            command += ["--shell", shutil.which("nologin") or "/usr/sbin/nologin", USER]
            yield InstallStep(f"Make the account {USER}, with which nobody can log in.", lambda: self._run(command))
        if docker and USER not in grp.getgrnam("docker").gr_mem:
            told = f"Put {USER} into the group docker. Its members can become root on this machine by a container."
            yield InstallStep(told, lambda: self._run(["usermod", "--append", "--groups", "docker", USER]))

    def _folders(self) -> Iterator[InstallStep]:
        places = self.places
        if not places.data.exists():
            yield InstallStep(
                f"Make the data folder {places.data}, for {USER} only.", lambda: self._make(places.data, 0o700)
            )
        if not places.config.exists():
            yield InstallStep(f"Write the settings {places.config}.", lambda: self._write_settings(places.config))

    def _environment(self, environment: Path, version: str) -> Iterator[InstallStep]:
        target = self.places.versions / version
        if not target.exists():
            runs_at = Places(Path("/")).versions / version
            yield InstallStep(
                f"Copy {environment} to {target}.", lambda: copy_environment(environment, target, runs_at=runs_at)
            )

    def _switch(self, version: str) -> Iterator[InstallStep]:
        """Yield the steps from the installed version to another one, with a way back."""
        places = self.places
        before, now = places.current.resolve(), places.versions / version
        if self._live:
            yield self._systemctl("stop", UNIT)
        if self._uses_postgres(places.config):
            yield InstallStep("The database is not in the data folder: no copy is made. Dump it first.", lambda: None)
        elif (places.data / "schedulearn.db").exists():
            yield InstallStep(f"Copy the database to {places.saved}.", lambda: self._save(places))
        yield InstallStep(f"Use version {version}, and keep {before.name}.", lambda: _swap(places, before, now))
        kept = {before, now}
        for other in sorted(places.versions.iterdir()):
            if other not in kept and not other.name.startswith("."):
                yield InstallStep(f"Remove the older version {other.name}.", lambda other=other: shutil.rmtree(other))  # type: ignore[misc]

    def _unit(self) -> Iterator[InstallStep]:
        text, unit = unit_text(uses_docker=not self._live or _has_group("docker")), self.places.unit
        if not unit.exists() or unit.read_text() != text:
            yield InstallStep(f"Write the unit {unit}.", lambda: _write(unit, text, 0o644))

    def _systemctl(self, *words: str) -> InstallStep:
        command = ["systemctl", *words]
        return InstallStep(f"Run `{' '.join(command)}`.", lambda: self._run(command))

    def _is_active(self) -> bool:
        return subprocess.run(["systemctl", "is-active", "--quiet", UNIT], check=False).returncode == 0

    def _save(self, places: Places) -> None:
        with self._as_service():
            _copy_database(places.data / "schedulearn.db", places.saved)

    def _restore(self, aside: Path) -> None:
        with self._as_service():
            _restore(self.places, aside)

    @contextmanager
    def _as_service(self) -> Iterator[None]:
        """Act with the rights of the data folder's owner: that account may put links there, which root would follow."""
        owner = self.places.data.stat() if self.places.data.exists() else None
        if not self._live or owner is None or os.geteuid() != 0:
            yield
            return
        os.setegid(owner.st_gid)
        os.seteuid(owner.st_uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)

    def _make(self, folder: Path, mode: int) -> None:
        make_readable(folder.parent)
        folder.mkdir()
        folder.chmod(mode)
        self._own(folder)

    def _write_settings(self, path: Path) -> None:
        _write(path, settings_text(), 0o640)
        if self._live:
            shutil.chown(path, "root", USER)

    def _own(self, path: Path) -> None:
        if self._live:
            shutil.chown(path, USER, USER)


def run_command(command: Sequence[str]) -> None:
    """Run a command of the system. Raises InvalidError with its words if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InvalidError(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout.strip() or 'no reason'}")


def _has_group(name: str) -> bool:
    return any(group.gr_name == name for group in grp.getgrall())


def _write(path: Path, text: str, mode: int) -> None:
    make_readable(path.parent)
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as out:
        out.write(text)
        os.fchmod(out.fileno(), mode)
        os.fsync(out.fileno())
    os.replace(partial, path)


def _swap(places: Places, left: Path, entered: Path) -> None:
    """Use a version, and remember the one that was left."""
    point(places.previous, left)
    point(places.current, entered)


def _copy_database(source: Path, target: Path) -> None:
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(partial)) as new:
        old.backup(new)
    os.replace(partial, target)


def _restore(places: Places, aside: Path) -> None:
    """Put the saved database in place. The present one is copied first, with what is only in its journal."""
    present = places.data / "schedulearn.db"
    _copy_database(present, aside)
    made = places.data / ".schedulearn.db.partial"
    _copy_database(places.saved, made)
    for ending in ("-wal", "-shm"):
        present.with_name(present.name + ending).unlink(missing_ok=True)
    os.replace(made, present)


def _schema(path: Path) -> str | None:
    """Return the schema version of a database; None: there is none."""
    if not path.exists():
        return None
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        try:
            row = db.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.Error as error:
            raise InvalidError(f"the database {path} can't be read: {error}") from error
    return str(row[0]) if row else None
