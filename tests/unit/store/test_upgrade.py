"""Databases of older versions: that of 0.1.0 opens, and a failed upgrade loses nothing."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, inspect, select, text
from sqlmodel import col

from schedulearn.api.answers.job import JobOut
from schedulearn.scheduler.core.planning.command_masking import MASK
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.errors import StoreError
from schedulearn.scheduler.store import db as store
from schedulearn.scheduler.store.db import HEAD, Database, sqlite_url
from schedulearn.scheduler.store.engines import sqlite
from schedulearn.scheduler.store.job_rows import with_keys
from schedulearn.scheduler.store.models import Job, PolicyChoice

DUMPS = Path(__file__).parent / "data"
GIVEN = {
    "env": '{"A": "\\u00e4"}', "secrets": '{"KEY": "key"}', "data": '{"d@3": "/data/d"}', "ports": '{"web": 80}',
    "epochs": 9, "requirements": '["numpy"]', "code": "abc",
    "code_source": '{"git": "https://host/x.git", "dirty": true}',
}  # fmt: skip
"""Columns of 0.1.0, as it wrote them."""


def restored(folder: Path, dump: str) -> Path:
    file = folder / "schedulearn.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((DUMPS / dump).read_text())
    return file


def test_a_database_of_0_1_0_opens_with_a_job_in_every_state(tmp_path: Path) -> None:
    file = restored(tmp_path, "0.1.0.sql")
    with closing(sqlite3.connect(file)) as connection:
        before = dict(connection.execute("SELECT name, status FROM job"))
        changes = ", ".join(f"{column} = :{column}" for column in GIVEN)
        connection.execute(f"UPDATE job SET {changes} WHERE name = 'queued'", GIVEN)
        connection.commit()
    database = Database(sqlite_url(tmp_path))
    with database.read() as conn:
        rows = conn.execute(select(Job).order_by(col(Job.submitted_at))).all()
        assert conn.execute(text("SELECT version_num FROM alembic_version")).scalar() == HEAD
        assert conn.execute(text("SELECT count(*) FROM webhook")).scalar() == 1
    database.close()
    assert {row.name: row.state for row in rows} == before
    assert Counter(row.state for row in rows).keys() == set(JobState)
    [queued] = [row for row in rows if row.name == "queued"]
    assert (queued.priority, queued.required_gpus, queued.deadline) == (80, 12, 1798761600.0)
    assert queued.spec == {
        "type": "Pytorch", "command": queued.spec["command"], "env": {"A": "ä"}, "secrets": {"KEY": "key"},
        "data": {"d@3": "/data/d"}, "ports": {"web": 80}, "epochs": 9, "requirements": ["numpy"],
        "code": {"digest": "abc", "git": "https://host/x.git", "ref": None, "commit": None, "dirty": True},
    }  # fmt: skip
    shown = JobOut.of(with_keys(queued._asdict()))
    assert (shown.env, shown.epochs, shown.setup, shown.keep) == ({"A": MASK}, 9, None, {})
    assert all(row.spec["command"] for row in rows)
    assert [path.name for path in tmp_path.glob("schedulearn.db.*")] == []


def test_the_keys_of_a_job_become_one_document(empty_url: str) -> None:
    """On each kind of database: one keeps JSON as text."""
    engine = store._engine(empty_url)
    store.upgrade(engine, store.BASELINE)
    columns = [each for each in inspect(engine).get_columns("job") if not each["nullable"]]
    values = {each["name"]: _filler(str(each["type"])) for each in columns if each["default"] is None}
    values |= {
        "id": "'j'",
        "status": "'queued'",
        "labels": "'{}'",
        "env": """'{"A": "1"}'""",
        "code": "'abc'",
        "epochs": "9",
    }
    names = ", ".join(f'"{name}"' for name in values)
    with engine.begin() as connection:
        connection.execute(text(f"INSERT INTO job ({names}) VALUES ({', '.join(values.values())})"))
    store.upgrade(engine)
    with engine.connect() as connection:
        spec = connection.execute(select(col(Job.spec))).scalar_one()
    engine.dispose()
    code = {"digest": "abc", "git": None, "ref": None, "commit": None, "dirty": None}
    assert spec == {"type": "x", "command": "x", "env": {"A": "1"}, "epochs": 9, "code": code}


@pytest.mark.parametrize("chosen", [None, "tiresias"])
def test_older_databases_keep_the_policy_that_decided(empty_url: str, chosen: str | None) -> None:
    """It was `fifo` where nobody had chosen. New ones start with `goodput`."""
    engine = store._engine(empty_url)
    store.upgrade(engine, store.BASELINE)
    if chosen:
        values = f"(1.0, '{chosen}', 'default', '{{}}')"
        with engine.begin() as connection:
            connection.execute(text(f"INSERT INTO policy (at, algorithm, metric, params) VALUES {values}"))
    store.upgrade(engine)
    with engine.connect() as connection:
        [(algorithm, params)] = connection.execute(select(col(PolicyChoice.algorithm), col(PolicyChoice.params))).all()
    engine.dispose()
    assert (algorithm, params) == (chosen or "fifo", {})


def _filler(kind: str) -> str:
    """A value that such a column of a job may have."""
    return "'x'" if "CHAR" in kind or "TEXT" in kind else "TRUE" if kind == "BOOLEAN" else "1"


def test_a_database_from_before_0_1_0_and_one_of_somebody_else_are_left_as_they_are(tmp_path: Path) -> None:
    for tables, why in (
        ("CREATE TABLE alembic_version (version_num); INSERT INTO alembic_version VALUES ('0050')", "start .* 0.1.0"),
        ("CREATE TABLE job (id)", "not a database of Schedulearn"),
    ):
        file = tmp_path / "schedulearn.db"
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript(tables)
            was = list(connection.iterdump())
        with pytest.raises(StoreError, match=why):
            Database(sqlite_url(tmp_path))
        with closing(sqlite3.connect(file)) as connection:
            assert list(connection.iterdump()) == was
        file.unlink()


def older(folder: Path) -> Path:
    """A database of version 0.1.0."""
    return restored(folder, "0.1.0.sql")


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
