"""What the service keeps is for its own user only; what jobs write is as readable as before."""

import os
import stat
from pathlib import Path

import pytest
from services import Service

from schedulearn.scheduler.private_files import close_to_others
from schedulearn.scheduler.runtimes.docker.probe_image import write_probe_files


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def others_may(folder: Path) -> list[str]:
    """What others than its user may do something with, if they get into the folder."""
    return [str(path) for path in [folder, *folder.iterdir()] if mode(path) & 0o077]


@pytest.mark.process
def test_a_kept_data_folder_is_closed_and_jobs_keep_the_users_umask(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with Service(data) as service:
        assert others_may(data) == []
        service.stop()
        for path in data.rglob("*"):  # as an older version left it
            path.chmod(0o755 if path.is_dir() else 0o644)
        data.chmod(0o755)
        service.start()
        assert others_may(data) == []
        assert mode(data) == 0o700
        assert {mode(data / f"schedulearn.db{suffix}") for suffix in ("", "-wal", "-shm")} == {0o600}
        assert {mode(data / name) for name in ("logs", "tasks")} == {0o700}
        job = service.submit(f"sh -c 'echo result > {elsewhere}/out; mkdir {elsewhere}/made; umask'", env={"A": "x"})
        service.wait(job, "succeeded")
        now = os.umask(0)
        os.umask(now)
        assert mode(elsewhere / "out") == 0o666 & ~now
        assert mode(elsewhere / "made") == 0o777 & ~now
        assert int(service.logs(job), 8) == now
        assert others_may(data) == []


@pytest.mark.process
def test_a_database_elsewhere_is_closed_too(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.db"
    file.touch(0o644)
    file.chmod(0o644)
    with Service(tmp_path / "data", env={"SCHEDULEARN_DATABASE_URL": f"sqlite:///{file}"}):
        assert mode(file) == 0o600


def test_a_folder_for_more_than_our_data_keeps_its_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    for name in ("schedulearn.db", "schedulearn.db-wal", "token", "thesis.tex"):
        (tmp_path / name).touch(0o644)
    (tmp_path / "logs").mkdir(0o755)
    monkeypatch.chdir(tmp_path)
    close_to_others(tmp_path)
    assert (mode(tmp_path), mode(tmp_path / "thesis.tex")) == (0o755, 0o644)
    assert {mode(tmp_path / name) for name in ("schedulearn.db", "schedulearn.db-wal", "token")} == {0o600}
    assert mode(tmp_path / "logs") == 0o700
    (tmp_path / "thesis.tex").unlink()
    close_to_others(tmp_path)
    assert mode(tmp_path) == 0o700


def test_a_folder_of_all_keeps_its_rights(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    (tmp_path / "of somebody").touch()
    close_to_others(tmp_path)
    assert mode(tmp_path) == 0o1777


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(0o755)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "logs").symlink_to(tmp_path / "theirs")
    close_to_others(tmp_path / "data")
    assert mode(tmp_path / "theirs") == 0o755


def test_what_goes_into_an_image_is_readable_for_its_user(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_probe_files(tmp_path)
    finally:
        os.umask(before)
    modes = {path.is_dir(): mode(path) for path in tmp_path.rglob("*")}
    assert modes == {True: 0o755, False: 0o644}
