"""`install-service` below a folder that stands for another system, with real environments and databases.

No account is made and nothing is started there: those commands are only compared."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from services import Result, invoke

from schedulearn.features.admin import install as installing
from schedulearn.features.admin.environments import check_interpreter
from schedulearn.features.admin.install import Installation
from schedulearn.features.admin.service_files import unit_text
from schedulearn.scheduler.errors import InvalidError


def environment(folder: Path, version: str) -> Path:
    """A real environment whose Schedulearn prints its version."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next(folder.glob("lib/python3*/site-packages"))
    about = packages / f"schedulearn-{version}.dist-info"
    about.mkdir()
    (about / "RECORD").write_text(version)
    (packages / "schedulearn_stub.py").write_text(f"print({version!r})\n")
    script = folder / "bin" / "schedulearn"
    script.write_text(f"#!{folder}/bin/python\nimport schedulearn_stub\n")
    script.chmod(0o755)
    return folder


def database(path: Path, schema: str, *jobs: str) -> None:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE alembic_version (version_num)")
        db.execute("INSERT INTO alembic_version VALUES (?)", (schema,))
        db.execute("CREATE TABLE job (id)")
        db.executemany("INSERT INTO job VALUES (?)", [(job,) for job in jobs])
        db.commit()


def jobs_in(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute("SELECT id FROM job ORDER BY id")]


class System:
    """A folder with the files of another system."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "system"
        self.root.mkdir()
        self.old, self.new = (environment(folder / name, name) for name in ("1.0", "2.0"))
        self.db = self.root / "var/lib/schedulearn/schedulearn.db"

    def run(self, *words: str, code: int = 0) -> Result:
        return invoke("install-service", "--root", str(self.root), *words, code=code)

    def install(self, source: Path, *words: str, code: int = 0) -> Result:
        return self.run("--environment", str(source), "--yes", *words, code=code)

    def version(self) -> str:
        """What the environment in use says. Its scripts name the place where it will run."""
        python = self.root / "opt/schedulearn/current/bin/python"
        return subprocess.run(
            [python, "-m", "schedulearn_stub"], capture_output=True, text=True, check=True
        ).stdout.strip()


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b""
        for path in root.rglob("*")
        if "__pycache__" not in path.parts
    }


def test_it_shows_what_it_will_do_and_does_it_once(system: System) -> None:
    shown = system.run("--environment", str(system.old), "--dry-run").out
    assert "Write the unit" in shown
    assert files(system.root) == {}, "it only showed"
    refused = invoke(
        "install-service", "--root", str(system.root), "--environment", str(system.old), stdin="n\n", code=130
    )
    assert files(system.root) == {}, refused.out
    assert system.install(system.old).out == shown
    assert system.version() == "1.0"
    script = (system.root / "opt/schedulearn/current/bin/schedulearn").read_text()
    assert script.startswith("#!/opt/schedulearn/versions/1.0-")
    assert (system.root / "var/lib/schedulearn").stat().st_mode & 0o777 == 0o700
    settings = system.root / "etc/schedulearn/schedulearn.yaml"
    assert settings.stat().st_mode & 0o777 == 0o640
    settings.write_text("port: 9000\n")
    before = files(system.root)
    assert "Nothing is left to do" in system.install(system.old).out
    assert files(system.root) == before, "own settings stay"
    (system.root / "etc/systemd/system/schedulearn.service").write_text("broken")
    assert len(json.loads(system.install(system.old, "--json").out)["steps"]) == 1
    assert files(system.root) == before


def test_the_service_can_read_what_a_careful_root_installs(system: System) -> None:
    for path in (system.old, system.old / "bin", system.old / "bin/schedulearn"):
        path.chmod(0o700)
    before = os.umask(0o077)
    try:
        system.install(system.old)
    finally:
        os.umask(before)
    for path in (system.root / "opt").rglob("*"):
        assert path.is_symlink() or path.stat().st_mode & 0o044 == 0o044, path
    assert (system.root / "opt/schedulearn/current/bin/schedulearn").stat().st_mode & 0o777 == 0o755
    assert (system.root / "etc/schedulearn").stat().st_mode & 0o777 == 0o755
    assert (system.root / "etc/schedulearn/schedulearn.yaml").stat().st_mode & 0o777 == 0o640
    assert (system.root / "var/lib/schedulearn").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another account")
def test_root_follows_no_link_that_the_service_made(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data folder belongs to the service, which must not reach files of root through an upgrade."""
    system.install(system.old)
    database(system.db, "0065", "before")
    target = system.root / "of-root"
    target.write_text("secret")
    target.chmod(0o600)
    for folder in (system.root, *system.root.parents):
        if folder.stat().st_mode & 0o011 == 0:
            folder.chmod(folder.stat().st_mode | 0o011)
    for path in (system.db.parent, system.db):
        os.chown(path, 65534, 65534)
    live = Installation(system.root, lambda command: None, lambda config: False)
    monkeypatch.setattr(live, "_live", True)
    with live._as_service():
        assert os.geteuid() == 65534
        with pytest.raises(PermissionError):
            target.read_text()
    assert os.geteuid() == 0
    system.db.unlink()
    system.db.symlink_to(target)
    with pytest.raises((sqlite3.Error, OSError)):
        live._save(live.places)
    assert not live.places.saved.exists()
    assert target.read_text() == "secret"


def test_an_upgrade_has_a_way_back(system: System) -> None:
    system.install(system.old)
    database(system.db, "0065", "before")
    assert "upgrade it with --upgrade" in system.install(system.new, code=1).err
    system.install(system.new, "--upgrade")
    assert (system.version(), jobs_in(system.db)) == ("2.0", ["before"])
    with closing(sqlite3.connect(system.db)) as db:
        db.execute("INSERT INTO job VALUES ('since')")
        db.commit()
    shown = system.run("--rollback", "--dry-run").out
    assert "Restore" not in shown, "the earlier version reads this schema"
    system.run("--rollback", "--yes")
    assert (system.version(), jobs_in(system.db)) == ("1.0", ["before", "since"])
    system.run("--rollback", "--yes")
    assert system.version() == "2.0", "and forward again"


def test_a_way_back_over_a_migration_restores_and_keeps_both_databases(system: System) -> None:
    system.install(system.old)
    database(system.db, "0065", "before")
    system.install(system.new, "--upgrade")
    database(system.db, "0073", "before", "since")
    assert "what happened since the upgrade is not in the restored one" in system.run("--rollback", "--dry-run").out
    system.run("--rollback", "--yes")
    assert (system.version(), jobs_in(system.db)) == ("1.0", ["before"])
    [aside] = system.db.parent.glob("schedulearn.db.of-2.0-*")
    assert jobs_in(aside) == ["before", "since"]
    assert aside.stat().st_mode & 0o077 == system.db.stat().st_mode & 0o077 == 0
    assert not list(system.db.parent.glob("*-wal"))


def test_a_step_that_fails_is_named_and_can_be_repeated(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    system.install(system.old)
    database(system.db, "0065", "before")

    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(installing, "_copy_database", full)
    failed = system.install(system.new, "--upgrade", code=1).err
    assert "Copy the database" in failed
    assert "No space left on device" in failed
    assert system.version() == "1.0"
    monkeypatch.undo()
    system.install(system.new, "--upgrade")
    assert system.version() == "2.0"


def test_only_the_version_before_is_kept(system: System, tmp_path: Path) -> None:
    system.install(system.old)
    system.install(system.new, "--upgrade")
    system.install(environment(tmp_path / "3.0", "3.0"), "--upgrade")
    kept = [path.name.partition("-")[0] for path in (system.root / "opt/schedulearn/versions").iterdir()]
    assert sorted(kept) == ["2.0", "3.0"]


def test_a_removal_leaves_data_and_settings(system: System) -> None:
    system.install(system.old)
    database(system.db, "0065", "kept")
    system.run("--remove", "--yes")
    assert jobs_in(system.db) == ["kept"]
    assert (system.root / "etc/schedulearn/schedulearn.yaml").exists()
    assert not (system.root / "opt/schedulearn").exists()
    assert not (system.root / "etc/systemd/system/schedulearn.service").exists()
    assert "Nothing is left to do" in system.run("--remove", "--yes").out
    assert "no earlier version" in system.run("--rollback", "--yes", code=1).err


def test_environments_that_can_not_be_copied_are_refused(system: System, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert "is not a virtual environment" in system.install(tmp_path / "plain", code=1).err
    packages = next(system.old.glob("lib/python3*/site-packages"))
    (packages / "__editable__.schedulearn-1.0.pth").write_text("/src")
    assert "editable" in system.install(system.old, code=1).err
    assert "no service is installed" in system.install(system.new, "--upgrade", code=1).err
    assert files(system.root) == {}
    home = tmp_path / "python"
    (home / "bin").mkdir(parents=True)
    (home / "bin/python").symlink_to("/home/ada/.local/python3")
    with pytest.raises(InvalidError, match="/usr/bin/python3 -m venv"):
        check_interpreter(home)


def test_commands_of_a_live_system(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compared, not run: this machine keeps its accounts and its services."""
    ran: list[Sequence[str]] = []
    live = Installation(system.root, ran.append, lambda config: False)
    monkeypatch.setattr(live, "_live", True)
    monkeypatch.setattr(live, "_own", lambda path: None)
    monkeypatch.setattr(live, "_is_active", lambda: True)
    monkeypatch.setattr(installing, "check_interpreter", lambda environment: None)
    monkeypatch.setattr(installing.shutil, "chown", lambda *_: None)
    monkeypatch.setattr(installing, "_has_group", lambda name: False)
    steps = live.install(system.old, upgrade=False)
    for step in steps:
        step.do()
    assert [command[0:2] for command in ran][-2:] == [["systemctl", "daemon-reload"], ["systemctl", "enable"]]
    assert ran[0][0] == "useradd"
    assert "--system" in ran[0]
    ran.clear()
    for step in live.install(system.new, upgrade=True):
        step.do()
    assert ["systemctl", "stop", "schedulearn.service"] in ran
    assert ran.index(["systemctl", "stop", "schedulearn.service"]) < ran.index(["systemctl", "daemon-reload"])
    ran.clear()
    for step in live.roll_back():
        step.do()
    assert [command[1] for command in ran] == ["stop", "start"]


def test_only_root_changes_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "run it as root" in invoke("install-service", "--yes", code=1).err
    assert "use one of" in invoke("install-service", "--upgrade", "--remove", code=2).err


def test_the_unit_is_hardened_and_leaves_jobs_alone(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(unit_text(uses_docker=True))
    service = unit["Service"]
    assert service["User"] == "schedulearn"
    assert service["SupplementaryGroups"] == "docker"
    assert service["ProtectSystem"] == "strict"
    assert service["ReadWritePaths"] == "/tmp /var/tmp", "ProtectSystem=strict makes them read-only too"
    assert service["StateDirectory"] == "schedulearn"
    assert service["NoNewPrivileges"] == "yes"
    assert service["Restart"] == "on-failure"
    assert service["KillMode"] == "process", "local jobs outlive a restart of the service"
    assert not {"PrivateTmp", "PrivateDevices", "ProtectClock"} & set(service), "local jobs use GPUs and /tmp"
    assert "SupplementaryGroups" not in unit_text(uses_docker=False)
    assert service["ExecStart"].startswith("/opt/schedulearn/current/bin/schedulearn serve --config ")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    runnable = unit_text(uses_docker=True).replace("/opt/schedulearn/current/bin/schedulearn", "/bin/true")
    unit = tmp_path / "schedulearn.service"
    unit.write_text(runnable)
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    about = [line for line in done.stderr.splitlines() if "schedulearn.service" in line]
    assert (about, done.returncode) == ([], 0), done.stderr
    unit.write_text(runnable.replace("ProtectSystem=strict", "ProtectSystem=very"))
    wrong = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert "very" in wrong.stderr, "it does look"
