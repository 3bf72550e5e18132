"""Files of the service that are written whole or not at all."""

import os
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from schedulearn.api.access.guard import stored_token
from schedulearn.scheduler.private_files import write_private
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.people.secrets import KEY_FILE, Secrets


def full(descriptor: int) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_old_file_and_the_next_try_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    write_private(file, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            write_private(file, b"new")
    assert file.read_bytes() == b"old"
    write_private(file, b"new", 0o644)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o644)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_leaves_no_token_and_no_key_of_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty key was kept, and no secret could be stored any more."""
    database = Database(sqlite_url(tmp_path))
    secrets = Secrets(database, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            stored_token(tmp_path)
        with pytest.raises(OSError, match="No space"):
            secrets.put("ada", "KEY", "value", 1.0)
    assert not (tmp_path / "token").exists()
    assert not (tmp_path / KEY_FILE).exists()
    assert len(stored_token(tmp_path)) >= 24
    secrets.put("ada", "KEY", "value", 1.0)
    Fernet((tmp_path / KEY_FILE).read_bytes())
    database.close()
