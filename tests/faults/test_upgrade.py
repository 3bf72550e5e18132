"""A database of the first version is taken over as it is: with its jobs, what became of them, and their leases."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import load_cluster_state
from schedulearn.scheduler.store.db import HEAD, Database, sqlite_url

KEPT = Path(__file__).parent / "kept_0001.sql"


def test_a_kept_database_of_the_first_schema_is_upgraded_with_all_that_is_in_it(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "schedulearn.db")) as connection:
        connection.executescript(KEPT.read_text())
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
