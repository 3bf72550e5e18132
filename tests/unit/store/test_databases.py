"""What queries mean, on SQLite and on PostgreSQL."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import insert, select, text, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DataError
from sqlmodel import col

from schedulearn.features.usage.deadlines import kept_deadlines
from schedulearn.metrics.probe.readings import GpuInfo
from schedulearn.scheduler.control.service import job_row
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.errors import StoreError
from schedulearn.scheduler.hosts.disk_cleanup import data_of_jobs
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store import gpus, history, hosts, repository
from schedulearn.scheduler.store.accounting import capacity
from schedulearn.scheduler.store.columns import prepare_rows
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.job_list import JobFilter
from schedulearn.scheduler.store.models import Job, Meta, Metric, Task
from schedulearn.scheduler.store.people.kin import of_family
from schedulearn.scheduler.store.people.visibility import SEES_ONLY
from schedulearn.scheduler.store.resources import minutes


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


def add_jobs(database: Database, *given: dict[str, Any]) -> list[str]:
    base: dict[str, Any] = {
        "name": "j", "type": "t", "container_image": "i", "command": "c", "required_gpus": 1,
    }  # fmt: skip
    rows = [job_row(JobSpec(**{**base, **fields}), float(at)) for at, fields in enumerate(given, 1)]
    database.write(prepare_rows(database.engine.dialect, Job, rows))
    return [str(row["id"]) for row in rows]


def names(database: Database, **asked: Any) -> list[str]:
    with database.read() as db:
        return [row.name for row in repository.list_jobs(db, **asked)]


def named(text: str) -> JobFilter:
    return JobFilter(text=text)


def test_lists_are_searched_without_case_and_sorted_by_bytes(database: Database) -> None:
    add_jobs(database, {"name": "beta"}, {"name": "Alpha_1"}, {"name": "alpha%"}, {"name": "ähnlich"})
    assert names(database, among=named("ALPHA")) == ["alpha%", "Alpha_1"]
    assert names(database, among=named("a_")) == ["Alpha_1"]
    assert names(database, among=named("%")) == ["alpha%"]
    assert names(database, sort="name") == ["alpha%", "Alpha_1", "beta", "ähnlich"]
    found = names(database, sort="-name", limit=1)
    with database.read() as db:
        [last] = [row.id for row in repository.list_jobs(db, sort="-name", limit=1)]
    assert found + names(database, sort="-name", after=last) == ["ähnlich", "beta", "Alpha_1", "alpha%"]


def test_jobs_are_found_by_labels_of_any_name(database: Database) -> None:
    odd = {'a"b': "1", "$.x": "2", "": "é", "plain": "x"}
    add_jobs(database, {"name": "odd", "labels": odd}, {"name": "other", "labels": {"plain": "y"}})
    for name, value in odd.items():
        assert names(database, among=JobFilter(labels={name: value})) == ["odd"]
    assert names(database, among=JobFilter(labels={"plain": "1"})) == []
    assert names(database, among=JobFilter(labels={**odd, "no": ""})) == []


def test_no_user_has_a_nul_in_their_name(database: Database) -> None:
    add_jobs(database, {"name": "one"})
    assert names(database, among=JobFilter(user="\0")) == []


def test_an_engines_message_may_hold_a_nul(database: Database) -> None:
    database.write(lambda db: repository.add_event(db, 1.0, "host.error", message="a\0b", data={"said": "a\0b"}))
    with database.read() as db:
        [event] = repository.list_events(db)
    assert event.message in ("a\0b", "a\ufffdb")
    assert event.data == {"said": "a\0b"}


def test_whole_numbers_have_64_bits(database: Database) -> None:
    [job_id] = add_jobs(database, {})
    database.write(lambda db: db.execute(update(Job).values(gpu_memory=1 << 40, last_exit=-(1 << 62))))
    with database.read() as db:
        job = repository.get_job(db, job_id)
        assert (job.gpu_memory, job.last_exit) == (1 << 40, -(1 << 62))
        assert repository.list_events(db, after=(1 << 63) - 1) == []
        assert type(repository.gpus_wanted(db, 0.0)) is int


def test_a_change_with_a_wrong_value_harms_no_other(postgres: Any) -> None:
    """SQLite takes any value."""
    url = postgres.create()
    database = Database(url)
    gate = threading.Event()
    blocker = database.submit(lambda _: gate.wait(60))
    wrong = database.submit(lambda db: db.execute(text("SELECT 1 / 0")))
    right = database.submit(lambda db: db.execute(insert(Meta).values(key="k", value="v")))
    gate.set()
    blocker.result(60)
    with pytest.raises(DataError):
        wrong.result(60)
    right.result(60)
    with database.read() as db:
        assert repository.meta(db, "k") == "v"
    database.close()
    postgres.drop(url)


def fill(db: Connection) -> None:
    hosts.put_host(db, "h", address="x", runtime="docker")
    assert gpus.found_gpus(db, "h", [GpuInfo("GPU-0", 0, "A100", 1)], 1.0) == {"GPU-0"}


def test_minutes_are_stored_once_and_averaged_by_steps(database: Database) -> None:
    [job_id] = add_jobs(database, {})
    database.write(fill)
    database.write(lambda db: repository.add_task(db, [("GPU-0", 0)], 1.0, id="t", job_id=job_id, attempt=1, rank=0,
                                                  host_id="h"))  # fmt: skip
    for cpus in (1.0, 9.0):  # the second one comes too late
        database.write(lambda db, cpus=cpus: minutes.add_minute(
            db, 7, {"t": (cpus, None, None, None, None, None)}, {"h": (cpus, *[None] * 6)}
        ))  # fmt: skip
    database.write(lambda db: minutes.add_minute(db, 5000, {"t": (3.0, None, None, None, None, None)}, {}))
    with database.read() as db:
        step, rows = minutes.task_minutes(db, "t", 0, 6000)
        assert step > 1
        assert [(row.minute, row.cpus) for row in rows] == [(7, 1.0), (5000, 3.0)]
        assert [row.cpus for row in minutes.host_minutes(db, "h", 0, 10)[1]] == [1.0]
    for peak in (5 << 40, 1):
        database.write(lambda db, peak=peak: minutes.note_peaks(db, {"t": peak}))
    with database.read() as db:
        assert db.execute(select(col(Task.memory_peak))).scalar() == 5 << 40
    database.write(lambda db: minutes.drop_minutes(db, 5000))
    with database.read() as db:
        assert [row.minute for row in minutes.task_minutes(db, "t", 0, 6000)[1]] == [5000]


def test_capacity_has_one_word_for_each_time(database: Database) -> None:
    database.write(fill)
    database.write(lambda db: capacity.note_capacity(db, 10.0))
    database.write(lambda db: gpus.found_gpus(db, "h", [GpuInfo(f"GPU-{i}", i, "A100", 1) for i in range(3)], 1.0))
    database.write(lambda db: capacity.note_capacity(db, 10.0))
    with database.read() as db:
        first, [day] = capacity.capacity(db, 0.0, 3610.0)
    assert (first, day.gpu_hours) == (10.0, 3.0)


def test_deadlines_count_when_they_are_decided(database: Database) -> None:
    kept, missed, open_ = add_jobs(database, *({"deadline": at} for at in (100.0, 200.0, 300.0)))

    def end(db: Connection) -> None:
        for job_id, at in ((kept, 50.0), (missed, 250.0)):
            ended = update(Job).where(col(Job.id) == job_id)
            db.execute(ended.values(state="succeeded", finished_at=at))

    database.write(end)
    with database.read() as db:
        for since, until, counts in ((0.0, 400.0, (2, 1)), (60.0, 400.0, (1, 0)), (0.0, 60.0, (1, 1))):
            found = kept_deadlines(db, since, until, 260.0, by=()).get(("", "", ""))
            assert found is not None
            assert (found.deadlines, found.met) == counts
    assert open_


def test_json_is_compared_and_kept_as_it_was_written(database: Database) -> None:
    [job_id, _] = add_jobs(database, {"env": {"z": "1", "a": "2"}}, {})
    database.write(lambda db: db.execute(update(Job).where(col(Job.id) == job_id).values(inputs={"/data": "x@1"})))
    database.write(lambda db: db.execute(insert(Metric).values(job_id=job_id, name="loss", points=[[1.0, 2.0, 3.0]])))
    with database.read() as db:
        assert data_of_jobs(db, "h", 5.0) == {"x@1": None}
        assert list(repository.get_job(db, job_id).spec["env"]) == ["z", "a"]
        assert db.execute(select(col(Metric.points))).scalar() == [[1.0, 2.0, 3.0]]


def test_events_are_searched_without_case(database: Database) -> None:
    for message in ("Host A answers", "host b is silent"):
        database.write(lambda db, message=message: repository.add_event(db, 1.0, "host.seen", message=message))
    with database.read() as db:
        assert len(history.search_events(db, text="HOST").rows) == 2
        assert len(history.search_events(db, kinds=["host."], text="silent").rows) == 1


def test_a_database_that_cannot_be_reached_is_named_without_its_password(postgres: Any) -> None:
    with pytest.raises(StoreError) as refused:
        Database(f"postgresql://me:hidden@/nothing?host={postgres.folder}")
    assert "nothing" in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_whoever_sees_only_their_own_jobs_reads_no_others(database: Database) -> None:
    mine, theirs = add_jobs(database, {"name": "mine", "user": "ada"}, {"name": "theirs", "user": "bob"})
    database.write(lambda db: repository.add_event(db, 1.0, "sweep.running", data={"sweep": "none"}))
    told = f"It may outlive {mine}, and hold up {theirs}, which needs 2 GPUs."
    database.write(lambda db: repository.add_event(db, 1.0, "job.waiting", job_id=mine, message=told))
    made = update(Job).where(col(Job.id) == mine).values(message=f"It makes room for {theirs}.")
    database.write(lambda db: db.execute(made))
    token = SEES_ONLY.set("ada")
    try:
        assert names(database) == ["mine"]
        with database.read() as db:
            events = repository.list_events(db)
            assert {event.job_id for event in events} <= {mine}
            assert events[-1].message == f"It may outlive {mine}, and hold up another job."
            assert repository.get_job(db, mine).message == "It makes room for another job."
            assert history.search_events(db, text=theirs).rows == []
    finally:
        SEES_ONLY.reset(token)
    assert len(names(database)) == 2


def test_started_jobs_are_found_by_their_family_in_an_index(database: Database) -> None:
    """Jobs that wait are not in it: to put 10,000 hashes of families there takes longer than to store their jobs."""
    add_jobs(database, *({"name": str(number), "family": f"f{number}"} for number in range(50)))
    query = select(col(Job.id)).where(of_family("f7"), col(Job.state) == JobState.SUCCEEDED)
    with database.read() as db:
        if db.dialect.name == "sqlite":
            statement = str(query.compile(db.engine, compile_kwargs={"literal_binds": True}))
            plan = db.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}").all()
            assert "job_by_family (family=?" in str(plan)
        assert db.execute(query).all() == []
    started = update(Job).where(col(Job.family) == "f7").values(attempt=1, state="succeeded", finished_at=2.0)
    database.write(lambda db: db.execute(started))
    with database.read() as db:
        assert len(db.execute(query).all()) == 1
