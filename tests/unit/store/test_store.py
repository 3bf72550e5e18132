import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import delete, insert, inspect, select, text, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError, StatementError
from sqlmodel import SQLModel, col

from schedulearn.metrics.probe.readings import GpuInfo
from schedulearn.scheduler.control.service import job_row
from schedulearn.scheduler.errors import StoreError
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store import db as store
from schedulearn.scheduler.store import gpus, repository
from schedulearn.scheduler.store import hosts as repository_hosts
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.columns import prepare_rows
from schedulearn.scheduler.store.db import HEAD, Database, sqlite_url
from schedulearn.scheduler.store.job_rows import prepare_jobs
from schedulearn.scheduler.store.models import Gpu, GpuMinute, Host, Job, Lease, Meta, Task


@pytest.fixture
def database(database_url: str) -> Any:
    database = Database(database_url)
    yield database
    database.close()


@pytest.fixture
def in_sqlite(tmp_path: Path) -> Any:
    database = Database(sqlite_url(tmp_path))
    yield database
    database.close()


def test_migrations_make_the_tables_of_the_models(empty_url: str) -> None:
    engine = store._engine(empty_url)
    store.upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), SQLModel.metadata) == []
    engine.dispose()


def test_migrations_make_just_the_tables_that_a_new_database_has(tmp_path: Path, in_sqlite: Database) -> None:
    migrated = store._engine(f"sqlite:///{tmp_path / 'migrated.db'}")
    store.upgrade(migrated)
    schemas = []
    for engine in (migrated, in_sqlite.engine):
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"))
            schemas.append({(kind, name): _canonical(sql) for kind, name, sql in rows})
            assert MigrationContext.configure(connection).get_current_revision() == HEAD
    assert schemas[0] == schemas[1]
    migrated.dispose()
    scripts = ScriptDirectory(str(Path(store.__file__).parent / "migrations"))
    assert scripts.get_heads() == [HEAD]


def _canonical(sql: str | None) -> list[str]:
    """The parts of a CREATE statement, in any order and spelling of white space."""
    return sorted(re.split(r"[\s,()]+", (sql or "").replace('"', "")))


def test_sqlite_keeps_what_it_acknowledged_over_a_power_loss(in_sqlite: Database) -> None:
    with in_sqlite.read() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2  # FULL: the WAL is flushed at every commit
        assert connection.execute(text("PRAGMA foreign_keys")).scalar() == 1


def test_changes_that_come_together_share_a_commit_and_a_failing_one_leaves_nothing(database: Database) -> None:
    commits = []
    gate = threading.Event()
    database.write(lambda _: None)
    database.after_commit = lambda: commits.append(1)
    blocker = database.submit(lambda _: gate.wait(5))

    def put(key: str) -> Any:
        return lambda db: db.execute(insert(Meta).values(key=key, value="v"))

    def put_and_fail(db: Connection) -> None:
        put("half")(db)
        raise ValueError("no")

    good: list[Future[Any]] = [database.submit(put(f"k{i}")) for i in range(20)]
    bad = database.submit(put_and_fail)
    twice = database.submit(put("k0"))
    after = database.submit(put("after"))
    gate.set()
    for future in (blocker, *good, after):
        future.result(timeout=5)
    with pytest.raises(ValueError, match="no"):
        bad.result(timeout=5)
    with pytest.raises(IntegrityError):
        twice.result(timeout=5)
    with database.read() as connection:
        keys = set(connection.execute(select(col(Meta.key))).scalars())
    assert keys - {"writer"} == {*(f"k{i}" for i in range(20)), "after"}
    assert len(commits) <= 2


@pytest.mark.parametrize("times", [1, 150], ids=["few", "many"])
def test_rows_are_stored_as_by_sqlalchemy(in_sqlite: Database, times: int) -> None:
    """Each kind of column: text, numbers, flags, times out of bounds, states, and JSON that is empty, full or none."""
    spec = JobSpec(
        name="it's é\"", type="Pytorch", container_image="image", command="true", required_gpus=2, elastic=True,
        env={"A": "ü"}, labels={}, requirements=["numpy"], weight=0.5, deadline=2e9,
    )  # fmt: skip
    kinds = ((1e12, {"lr": 0.1}), (3.5, None), (4, {}))
    given = [{**job_row(spec, at), "params": params} for at, params in kinds * times]

    def store_both(conn: Connection) -> tuple[list[Any], list[Any]]:
        prepare_rows(conn.dialect, Job, given)(conn)
        ours = read(conn)
        conn.execute(delete(Job))
        conn.execute(insert(Job), given)
        return ours, read(conn)

    def read(conn: Connection) -> list[Any]:
        columns = ", ".join(f'"{column.name}", typeof("{column.name}")' for column in inspect(Job).columns)
        return list(conn.exec_driver_sql(f"SELECT {columns} FROM job ORDER BY id"))

    ours, theirs = in_sqlite.write(store_both)
    assert len(ours) == 3 * times
    assert ours == theirs


def test_many_jobs_hold_the_writer_for_a_fraction_of_what_sqlalchemy_needs(in_sqlite: Database) -> None:
    spec = JobSpec(name="a", type="b", container_image="c", command="d", required_gpus=1)

    def held_by(store: Callable[[Connection], object]) -> float:
        def change(conn: Connection) -> float:
            began = time.thread_time()
            store(conn)
            return time.thread_time() - began

        return in_sqlite.write(change)

    rows = [[job_row(spec, 1.0) for _ in range(2000)] for _ in range(2)]
    prepared = prepare_jobs(in_sqlite.engine.dialect, [(row, "ada") for row in rows[0]])
    assert 5 * held_by(prepared) < held_by(lambda conn: conn.execute(insert(Job), rows[1]))


def test_a_row_that_cannot_be_is_refused(database: Database) -> None:
    job = job_row(JobSpec(name="a", type="b", container_image="c", command="d", required_gpus=1), 1.0)
    with pytest.raises(IntegrityError):
        database.write(prepare_rows(database.engine.dialect, Job, [job, job]))
    with pytest.raises((ValueError, StatementError), match="nonsense"):
        database.write(prepare_rows(database.engine.dialect, Job, [{**job, "state": "nonsense"}]))
    with database.read() as conn:
        assert conn.execute(select(Job)).all() == []


def test_on_a_full_disk_nobody_is_told_that_it_worked_and_the_service_recovers(in_sqlite: Database) -> None:
    def put(key: str, size: int) -> Any:
        return lambda db: db.execute(insert(Meta).values(key=key, value="v" * size))

    in_sqlite.write(lambda db: db.exec_driver_sql("PRAGMA max_page_count = 1"))  # of this connection: no more pages
    with pytest.raises(StoreError, match="full"):
        in_sqlite.write(put("big", 1_000_000))
    in_sqlite.write(put("small", 1))
    with in_sqlite.read() as connection:
        assert "big" not in set(connection.execute(select(col(Meta.key))).scalars())


def _task(db: Connection, name: str, **fields: Any) -> None:
    values = {"job_id": "j", "attempt": 1, "rank": 0, "host_id": "h", "gpu_uuids": [], "created_at": 0.0}
    values |= {"state": "wanted", "stop": False, "outcome": "", "error": ""}
    db.execute(insert(Task).values(id=name, **{**values, **fields}))


@pytest.fixture
def stored(database: Database) -> Database:
    def fill(db: Connection) -> None:
        db.execute(insert(Host).values(id="h", address="", runtime="fake", state="active", labels={}, position=0))
        db.execute(
            insert(Gpu).values(uuid="g", host_id="h", ordinal=0, type="t", memory_bytes=0, simulated=True, present=True)
        )
        spec = JobSpec(name="j", type="t", container_image="i", command="c", required_gpus=1)
        db.execute(insert(Job).values({**job_row(spec, 1.0), "id": "j"}))
        _task(db, "t1")

    database.write(fill)
    return database


def test_the_database_refuses_a_second_lease_of_a_slot(stored: Database) -> None:
    lease = insert(Lease).values(gpu_uuid="g", slot=0, task_id="t1", claimed_at=0.0)
    stored.write(lambda db: db.execute(lease))
    with pytest.raises(IntegrityError):
        stored.write(lambda db: db.execute(lease))


def test_the_database_refuses_a_lease_of_a_gpu_or_for_a_task_that_is_not_there(stored: Database) -> None:
    for wrong in ({"gpu_uuid": "x", "task_id": "t1"}, {"gpu_uuid": "g", "task_id": "x"}):
        with pytest.raises(IntegrityError):
            stored.write(lambda db, wrong=wrong: db.execute(insert(Lease).values(slot=0, claimed_at=0.0, **wrong)))


def test_the_database_refuses_a_second_live_task_of_a_rank(stored: Database) -> None:
    with pytest.raises(IntegrityError):
        stored.write(lambda db: _task(db, "t2", attempt=2))
    stored.write(lambda db: db.execute(text("UPDATE task SET state = 'ended'")))
    stored.write(lambda db: _task(db, "t2", attempt=2))


def test_pauses_count_neither_as_run_time_nor_as_service(stored: Database) -> None:
    def live(db: Connection) -> Any:
        return tasks_of(db, ["j"], live=True)[0]

    stored.write(lambda db: _task(db, "t2", rank=1, state="running", started_at=100.0, gpu_uuids=["g"]))
    stored.write(lambda db: repository.end_task(db, live(db), outcome="cancelled", now=100.0))  # t1, which never ran
    stored.write(lambda db: repository.mark_paused(db, live(db), 110.0))
    stored.write(lambda db: repository.mark_paused(db, live(db), 112.0))  # again: nothing happens
    stored.write(lambda db: repository.mark_resumed(db, live(db), 130.0))
    stored.write(lambda db: repository.mark_paused(db, live(db), 150.0))
    stored.write(lambda db: repository.end_task(db, live(db), outcome="cancelled", now=160.0))
    with stored.read() as db:
        assert repository.get_job(db, "j").gpu_seconds == 30.0


@pytest.mark.parametrize(
    "change",
    ["state = 'dreaming'", "state = 'failed'", "finished_at = 1.0", "priority = 101", "required_gpus = -1"],
)
def test_the_database_refuses_a_job_that_cannot_be(stored: Database, change: str) -> None:
    with pytest.raises(IntegrityError):
        stored.write(lambda db: db.execute(text(f"UPDATE job SET {change}")))


def test_a_database_of_a_newer_version_is_left_alone(database_url: str) -> None:
    database = Database(database_url)
    database.write(lambda db: db.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    database.close()
    with pytest.raises(StoreError, match="newer version"):
        Database(database_url)


def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "schedulearn.db"
    file.write_bytes(b"this is not a database, but somebody's notes" * 50)
    before = file.read_bytes()
    with pytest.raises(StoreError, match=r"schedulearn\.db"):
        Database(sqlite_url(tmp_path))
    assert file.read_bytes() == before


def test_averages_are_kept_for_a_time_once_a_minute_and_go_with_their_host(database: Database) -> None:
    def rows(*minutes: int) -> list[gpus.MinuteAverages]:
        return [gpus.MinuteAverages(f"GPU-{gpu}", minute, power_w=1.0) for gpu in range(2) for minute in minutes]

    def left() -> list[int]:
        with database.read() as db:
            return sorted(set(db.execute(select(col(GpuMinute.minute))).scalars()))

    def prepare(db: Connection) -> None:
        repository_hosts.put_host(db, "h", address="x", runtime="docker")
        infos = [GpuInfo(f"GPU-{gpu}", gpu, "A100", 1) for gpu in range(2)]
        assert gpus.found_gpus(db, "h", infos, 1.0) == {"GPU-0", "GPU-1"}
        gpus.add_minutes(db, rows(1, 2, 3))

    database.write(prepare)
    database.write(lambda db: gpus.add_minutes(db, rows(3, 4)))  # a clock that was set back
    assert left() == [1, 2, 3, 4]
    database.write(lambda db: gpus.drop_minutes(db, 3))
    assert left() == [3, 4]
    database.write(lambda db: repository_hosts.delete_host(db, "h", 2.0))
    assert left() == []


def test_energy_goes_to_the_tasks_that_held_a_gpu_while_they_held_it(stored: Database) -> None:
    def prepare(db: Connection) -> None:
        _task(db, "early", gpu_uuids=["a"], state="ended", started_at=0.0, finished_at=50.0, attempt=2)
        _task(db, "whole", gpu_uuids=["a", "b"], state="running", started_at=90.0, rank=1)
        _task(db, "beside", gpu_uuids=["b"], state="running", started_at=110.0, rank=2)

    def energy() -> dict[str, float]:
        with stored.read() as db:
            return {task.id: task.energy_joules for task in db.execute(select(Task))}

    def joules(uuid: str, since: float, until: float) -> float:
        return 10 * (until - since)

    stored.write(prepare)
    with stored.read() as db:
        before = gpus.live_tasks(db)
    assert set(before.ids) == {"t1", "whole", "beside"}
    seen = stored.write(lambda db: gpus.add_energy(db, joules, 100.0, 120.0, before))
    assert {name: energy()[name] for name in ("early", "whole", "beside")} == {
        "early": 0.0, "whole": 200.0 + 100.0 + 50.0, "beside": 50.0
    }  # fmt: skip
    change = update(Task).where(col(Task.id) == "whole").values(state="ended", finished_at=130.0)
    stored.write(lambda db: db.execute(change))
    stored.write(lambda db: gpus.add_energy(db, joules, 120.0, 180.0, seen))
    assert energy()["whole"] == 350.0 + 100.0 + 50.0
    assert energy()["beside"] == 50.0 + 50.0 + 500.0
