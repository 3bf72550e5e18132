"""Databases of older versions: those kept of the first schema and of 0.1.0 open, and a failed upgrade loses nothing."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, text
from sqlmodel import col

from schedulearn.scheduler.core.states import JobStatus
from schedulearn.scheduler.errors import StoreError
from schedulearn.scheduler.store import db as store
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import load_cluster_state
from schedulearn.scheduler.store.db import HEAD, Database, sqlite_url
from schedulearn.scheduler.store.engines import sqlite
from schedulearn.scheduler.store.models import Job

DUMPS = Path(__file__).parent / "data"


def restored(folder: Path, dump: str) -> Path:
    file = folder / "schedulearn.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((DUMPS / dump).read_text())
    return file


def test_a_kept_database_of_the_first_schema_is_upgraded_with_all_that_is_in_it(tmp_path: Path) -> None:
    restored(tmp_path, "0001.sql")
    db = Database(sqlite_url(tmp_path))
    try:
        with db.read() as conn:
            assert conn.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == HEAD
            assert conn.exec_driver_sql("PRAGMA foreign_key_check").fetchall() == []
            done = repository.get_job(conn, "job0000001")
            assert (done.status, done.name, done.exit_code) == ("succeeded", "first", 0)
            state = load_cluster_state(conn)
            assert {job_id: job.status for job_id, job in state.jobs.items()} == {
                "job0000002": "running",
                "job0000003": "queued",
            }
            assert [(task.job_id, task.gpu_uuids) for task in state.tasks] == [("job0000002", ["GPU-0"])]
            assert [event.kind for event in repository.list_events(conn, job_id="job0000001")] == ["job.queued"]
            assert conn.exec_driver_sql("SELECT gpu_uuid, task_id FROM lease").fetchall() == [
                ("GPU-0", "schedulearn-job0000002-1-0")
            ]
    finally:
        db.close()


def test_a_database_of_0_1_0_opens_with_a_job_in_every_state(tmp_path: Path) -> None:
    file = restored(tmp_path, "0.1.0.sql")
    with closing(sqlite3.connect(file)) as connection:
        before = dict(connection.execute("SELECT name, status FROM job"))
    database = Database(sqlite_url(tmp_path))
    with database.read() as conn:
        rows = conn.execute(select(Job).order_by(col(Job.submitted_at))).all()
        assert conn.execute(text("SELECT version_num FROM alembic_version")).scalar() == HEAD
        assert conn.execute(text("SELECT count(*) FROM webhook")).scalar() == 1
    database.close()
    assert {row.name: row.status for row in rows} == before
    assert Counter(row.status for row in rows).keys() == set(JobStatus)
    [queued] = [row for row in rows if row.name == "queued"]
    assert (queued.priority, queued.required_gpus, queued.deadline) == (80, 12, 1798761600.0)
    assert [path.name for path in tmp_path.glob("schedulearn.db.*")] == []


def older(folder: Path) -> Path:
    """A database of the version before the newest."""
    database = Database(sqlite_url(folder))
    store.downgrade(database.engine, "-1")
    database.close()
    return folder / "schedulearn.db"


def version_of(file: Path) -> str:
    with closing(sqlite3.connect(file)) as connection:
        return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def test_while_it_is_upgraded_the_old_one_stays_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = older(tmp_path)
    was, seen = version_of(file), []
    upgrade = store.upgrade

    def watched(engine: Engine) -> None:
        [copy] = tmp_path.glob("schedulearn.db.0*")
        seen.append((version_of(copy), copy.stat().st_mode & 0o077))
        upgrade(engine)

    monkeypatch.setattr(store, "upgrade", watched)
    Database(sqlite_url(tmp_path)).close()
    assert seen == [(was, 0)]
    assert version_of(file) == HEAD
    assert list(tmp_path.glob("schedulearn.db.0*")) == []


def test_an_upgrade_that_fails_names_the_old_one_and_the_next_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = older(tmp_path)
    was = version_of(file)

    def fails(engine: Engine) -> None:
        raise RuntimeError("out of luck")

    with monkeypatch.context() as patched:
        patched.setattr(store, "upgrade", fails)
        for _ in range(2):
            with pytest.raises(StoreError, match=rf"could not be upgraded: out of luck.*schedulearn\.db\.{was}"):
                Database(sqlite_url(tmp_path))
    assert version_of(tmp_path / f"schedulearn.db.{was}") == was
    Database(sqlite_url(tmp_path)).close()
    assert version_of(file) == HEAD
    assert list(tmp_path.glob("schedulearn.db.0*")) == []


def test_the_copy_of_an_upgrade_that_was_killed_is_kept_until_one_succeeds(tmp_path: Path) -> None:
    file = older(tmp_path)
    (tmp_path / "schedulearn.db.0050").write_bytes(b"as it was before the first try")
    Database(sqlite_url(tmp_path)).close()
    assert version_of(file) == HEAD
    assert list(tmp_path.glob("schedulearn.db.0*")) == []


def test_without_a_copy_nothing_is_upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = older(tmp_path)
    was = version_of(file)

    def full(path: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(sqlite, "close_path", full)
    with pytest.raises(StoreError, match=r"can't be copied to .* before it is upgraded: no space left"):
        Database(sqlite_url(tmp_path))
    assert version_of(file) == was
    assert list(tmp_path.glob("schedulearn.db.0*")) == []
