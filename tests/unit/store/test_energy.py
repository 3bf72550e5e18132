"""What GPUs drew goes to the tasks that ran on them, and their time is shared in one way everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.metrics.probe.readings import GpuReading, Sample
from schedulearn.scheduler.control.service import job_row
from schedulearn.scheduler.core.prices import cost_of
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store import gpus
from schedulearn.scheduler.store.accounting.capacity import Capacity, capacity
from schedulearn.scheduler.store.accounting.usage import DeletedTask, Usage, gpu_types, usage, usage_of_job
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Gpu, Host, Job, Task
from schedulearn.scheduler.store.people.visibility import SEES_ONLY
from schedulearn.scheduler.telemetry.history import Telemetry

WATTS = 300.0


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


class Ran(NamedTuple):
    begin: float
    end: float
    gpu_uuids: Sequence[str]


def add_tasks(db: Connection, ran: Sequence[Ran], *, ended: bool = True) -> None:
    """Each of a job of its own, `j0` and so on, of two users."""
    for at, (begin, end, uuids) in enumerate(ran):
        user = f"user{at % 2}"
        spec = JobSpec(name="j", type="t", container_image="i", command="c", required_gpus=1, user=user)
        db.execute(insert(Job).values({**job_row(spec, 1.0), "id": f"j{at}"}))
        values = {
            "id": f"t{at}", "job_id": f"j{at}", "attempt": 1, "rank": 0, "host_id": "h", "gpu_uuids": uuids,
            "created_at": begin, "started_at": begin, "finished_at": end, "state": "ended" if ended else "running",
            "stop": False, "outcome": "", "error": "",
        }  # fmt: skip
        db.execute(insert(Task).values(**values))


def add_gpus(db: Connection, types: dict[str, str]) -> None:
    db.execute(insert(Host).values(id="h", address="", runtime="fake", state="active", labels={}, position=0))
    for at, (uuid, kind) in enumerate(types.items()):
        values = {"uuid": uuid, "host_id": "h", "ordinal": at, "type": kind, "memory_bytes": 0, "present": True}
        db.execute(insert(Gpu).values(**values, simulated=False))


def energy_of(database: Database, ran: Sequence[Ran], counted_at: Sequence[float], *, counter: bool) -> list[float]:
    """Each task's joules, where a GPU of 300 W is read once a second and counted at these times."""
    telemetry = Telemetry()
    first, last = int(ran[0].begin) - 5, int(max(each.end for each in ran)) + 5
    for second in range(first, last):
        at = second + 0.37
        energy = WATTS * (at - first) if counter else None
        telemetry.take("h", Sample(at, (GpuReading("a", power_w=WATTS, energy_j=energy),)), at)

    def prepare(db: Connection) -> None:
        add_gpus(db, {"a": "t"})
        add_tasks(db, ran)

    database.write(prepare)
    before, since = gpus.LiveTasks(), first + 0.37
    for until in counted_at:
        before = database.write(
            lambda db, since=since, until=until, before=before: gpus.add_energy(
                db, telemetry.joules, since, until, before
            )
        )
        since = until
    with database.read() as db:
        return list(db.execute(select(col(Task.energy_joules)).order_by(col(Task.seq))).scalars())


@pytest.mark.parametrize("counter", [True, False], ids=["counter", "power"])
def test_runs_one_after_the_other_within_a_minute_have_what_each_drew(database: Database, counter: bool) -> None:
    runs = [Ran(1000.0 + 18 * at, 1018.0 + 18 * at, ["a"]) for at in range(3)]
    assert energy_of(database, runs, [1056.0], counter=counter) == pytest.approx([5400.0] * 3)


def test_the_last_minute_of_a_run_counts_wherever_it_is_counted(database: Database) -> None:
    runs = [Ran(1000.0, 1150.0, ["a"]), Ran(1150.0, 1161.5, ["a"])]
    found = energy_of(database, runs, [1020.0, 1080.0, 1140.0, 1149.0, 1155.0, 1164.0], counter=True)
    assert found == pytest.approx([300 * 150.0, 300 * 11.5])


def test_those_that_run_at_once_share_what_is_drawn_meanwhile(database: Database) -> None:
    runs = [Ran(1000.0, 1030.0, ["a"]), Ran(1010.0, 1020.0, ["a"]), Ran(1015.0, 1040.0, ["a"])]
    found = energy_of(database, runs, [1044.0], counter=False)
    shared = [10 + 5 / 2 + 5 / 3 + 10 / 2, 5 / 2 + 5 / 3, 5 / 3 + 10 / 2 + 10]
    assert found == pytest.approx([WATTS * seconds for seconds in shared])
    assert sum(found) == pytest.approx(WATTS * 40)


@contextmanager
def filled(database: Database, ran: Sequence[Ran]) -> Iterator[None]:
    def empty(db: Connection) -> None:
        for table in (Task, DeletedTask, Job, Gpu, Host, Capacity):
            db.execute(delete(table))

    def fill(db: Connection) -> None:
        empty(db)
        add_gpus(db, {"a": "A100", "b": "A100", "c": "T4"})
        add_tasks(db, ran)
        db.execute(insert(Capacity).values(at=0.5, gpus=3))

    database.write(fill)
    yield
    database.write(empty)


def test_a_share_is_the_same_for_a_user_who_sees_no_other_job(database: Database) -> None:
    with filled(database, [Ran(3600.0, 7200.0, ["a"]), Ran(3600.0, 10_800.0, ["a"])]):
        token = SEES_ONLY.set("user0")
        try:
            with database.read() as db:
                [mine] = usage(db, 0.0, 20_000.0, 20_000.0)
                job = usage_of_job(db, "j0", 20_000.0)
        finally:
            SEES_ONLY.reset(token)
    assert (mine.user, mine.gpu_hours, job.gpu_hours) == ("user0", 0.5, 0.5)


INSTANTS = st.integers(1, 200_000).map(float)
RAN = st.builds(
    lambda begin, seconds, uuids: Ran(begin, begin + seconds, sorted(uuids)),
    INSTANTS,
    INSTANTS,
    st.sets(st.sampled_from("abc"), min_size=1),
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(ran=st.lists(RAN, min_size=1, max_size=8), span=st.tuples(INSTANTS, INSTANTS).map(sorted))
def test_all_sums_of_gpu_hours_agree(database: Database, ran: list[Ran], span: list[float]) -> None:
    """By user, by day, by job, what capacity says was held, and cost."""
    end, prices = 500_000.0, {"A100": 2.0, "T4": 0.5}
    with filled(database, ran), database.read() as db:
        types = gpu_types(db)
        [total] = usage(db, 0.0, end, end, by=(), types=types)
        jobs = [usage_of_job(db, f"j{at}", end) for at in range(len(ran))]
        users = usage(db, 0.0, end, end, by=("user",))
        days = {row.day: row.gpu_hours for row in usage(db, 0.0, end, end, by=("day",))}
        held = {day.day: day.held_gpu_hours for day in capacity(db, 0.0, end)[1]}
        since, until = span
        part = sum(row.gpu_hours for row in usage(db, since, until, end))
        part_held = sum(day.held_gpu_hours for day in capacity(db, since, until)[1])
    for found in (jobs, users):
        assert sum(each.gpu_hours for each in found) == pytest.approx(total.gpu_hours)
    assert {day: hours for day, hours in held.items() if hours} == pytest.approx(days)
    assert part_held == pytest.approx(part)
    assert total.gpu_hours <= 3 * (max(each.end for each in ran) - min(each.begin for each in ran)) / 3600 + 1e-9
    costs = [cost_of(each.hours_of, prices) or 0.0 for each in jobs]
    assert sum(costs) == pytest.approx(cost_of(total.hours_of, prices))


def test_energy_that_no_gpu_measures_is_not_told_as_zero() -> None:
    """MIG devices and simulated GPUs; a job that held none has drawn nothing."""
    told = [Usage("", "", "", hours, kwh).energy for hours, kwh in ((2.0, 0.0), (2.0, 1.25), (0.0, 0.0))]
    assert told == [None, 1.25, 0.0]
