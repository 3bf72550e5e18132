"""What tasks and hosts take: looked at, kept in memory, by the minute in the database, and forgotten."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from clusters import wait_for
from sqlalchemy import delete, insert, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.features.sweeps.machine_use import machine_use
from schedulearn.features.sweeps.result_rows import EndedRun, TaskUse
from schedulearn.metrics.probe.machine import MachineCounters
from schedulearn.scheduler.core.task import EngineState, ObservedTask
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.resources.contract import TaskCounters
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.hosts import delete_host
from schedulearn.scheduler.store.models import Host, Job, Task
from schedulearn.scheduler.store.resources import minutes as store
from schedulearn.scheduler.telemetry import resources
from schedulearn.scheduler.telemetry.resources import ResourceWatch, WatchedHost

TASK = "schedulearn-a-1-0"
BEGAN = 60_000.0
"""A whole minute."""


@dataclass
class Engine:
    """What it answers next."""

    counters: dict[str, TaskCounters] = field(default_factory=dict)
    of_machine: MachineCounters | None = None
    asked: list[Sequence[str]] = field(default_factory=list)
    silent: bool = False

    def tasks(self, task_ids: Sequence[str]) -> Iterator[TaskCounters]:
        if self.silent:
            raise RuntimeFault("it does not answer")
        self.asked.append(list(task_ids))
        yield from (self.counters[task_id] for task_id in task_ids if task_id in self.counters)

    def machine(self) -> MachineCounters | None:
        return self.of_machine


@dataclass
class Stage:
    """A watch over one host, by a clock that a test moves."""

    db: Database
    now: float = BEGAN
    engine: Engine = field(default_factory=Engine)
    running: list[ObservedTask] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch = ResourceWatch(
            self.db,
            lambda: {"h": WatchedHost(self.engine, self.running)},
            keep_days=1.0,
            clock=lambda: self.now,
            monotonic=lambda: self.now,
        )

    def run(self, task_id: str = TASK, started_at: float | None = None) -> None:
        self.running.append(ObservedTask(task_id, EngineState.RUNNING, started_at=started_at))

    def take(self, cpu: float, memory: int, moved: int = 0, task_id: str = TASK) -> None:
        self.engine.counters[task_id] = TaskCounters(task_id, cpu, memory, 1000, moved, 2 * moved, 3 * moved, None)

    def look(self, at: float) -> None:
        self.now = at
        self.watch.look()

    def minutes(self, since: int) -> list[tuple[int, float | None, float | None]]:
        with self.db.read() as conn:
            _, rows = store.task_minutes(conn, TASK, since, since + 600)
        return [(row.minute, row.cpus, row.memory_bytes) for row in rows]

    def peak(self) -> int | None:
        with self.db.read() as conn:
            return conn.execute(select(col(Task.memory_peak)).where(col(Task.id) == TASK)).scalar()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    db = Database(sqlite_url(tmp_path))
    db.write(_fill)
    made = Stage(db)
    yield made
    made.watch.close()
    db.close()


def _fill(db: Connection) -> None:
    columns: dict[str, Any] = {c.name: 0 for c in Job.__table__.columns}  # type: ignore[attr-defined]
    columns |= {"id": "a", "required_gpus": 1, "min_gpus": 1, "max_gpus": 1, "state": "queued"}
    columns |= {"finished_at": None, "spec": {}, "labels": {}, "idempotency_key": None}
    db.execute(insert(Job).values(columns))
    db.execute(insert(Host).values(id="h", address="", runtime="fake", state="active", labels={}, position=0))
    values = {"job_id": "a", "attempt": 1, "rank": 0, "host_id": "h", "gpu_uuids": [], "created_at": 0.0}
    db.execute(insert(Task).values(id=TASK, state="running", stop=False, outcome="", error="", **values))


def test_rates_are_what_came_between_two_looks(stage: Stage) -> None:
    stage.run()
    stage.take(cpu=100.0, memory=500, moved=1000)
    stage.look(BEGAN + 1)
    assert stage.watch.task_points(TASK, 0, 1e9) == [(BEGAN + 1, None, 500.0, None, None, None, None)]
    stage.take(cpu=115.0, memory=600, moved=2000)
    stage.look(BEGAN + 11)
    reading = stage.watch.task(TASK)
    assert reading is not None
    assert (reading.host_id, reading.values) == ("h", (1.5, 600.0, 100.0, 200.0, 300.0, None))
    stage.now += resources.STALE_S + 1
    assert stage.watch.task(TASK) is None


def test_a_task_that_began_meanwhile_has_rates_at_once(stage: Stage) -> None:
    stage.run(started_at=BEGAN + 5)
    stage.take(cpu=20.0, memory=500)
    stage.look(BEGAN + 15)
    assert stage.watch.task_points(TASK, 0, 1e9)[0][1] == 2.0


def test_counters_that_begin_anew_take_nothing_away(stage: Stage) -> None:
    stage.run()
    for at, cpu in ((1, 100.0), (11, 3.0)):
        stage.take(cpu=cpu, memory=500)
        stage.look(BEGAN + at)
    assert [point[1] for point in stage.watch.task_points(TASK, 0, 1e9)] == [None, 0.0]


def test_minutes_are_kept_as_averages_with_the_peak(stage: Stage) -> None:
    stage.run(started_at=BEGAN)
    for second in range(10, 130, 10):
        stage.take(cpu=second * 0.5 if second < 60 else second * 2.0, memory=1000 if second == 30 else 400)
        stage.look(BEGAN + second)
        if second == 60:
            stage.watch.keep(1000, BEGAN + second)
    stage.watch.keep(1001, BEGAN + 120)
    [first, second_minute] = stage.minutes(900)
    assert first == (1000, 0.5, 520.0)
    assert second_minute[0] == 1001
    assert stage.peak() == 1000
    assert stage.watch.memory(TASK) == (1000, 1000)
    assert stage.watch.memory("schedulearn-gone-1-0") is None


def test_the_peak_is_kept_when_the_service_stops(stage: Stage) -> None:
    stage.run()
    stage.take(cpu=1.0, memory=777)
    stage.look(BEGAN + 1)
    stage.watch.close()
    assert stage.peak() == 777


def test_a_lower_peak_of_a_service_that_began_anew_changes_nothing(stage: Stage) -> None:
    stage.db.write(lambda conn: store.note_peaks(conn, {TASK: 900}))
    stage.db.write(lambda conn: store.note_peaks(conn, {TASK: 800, "schedulearn-gone-1-0": 5}))
    assert stage.peak() == 900


def test_old_minutes_go_and_so_do_those_of_deleted_jobs_and_hosts(stage: Stage) -> None:
    def add(conn: Connection) -> None:
        for minute in (100, 200, 300):
            store.add_minute(
                conn,
                minute,
                {TASK: [1.0] * 6, "schedulearn-gone-1-0": [1.0] * 6},
                {"h": [1.0] * len(store.HOST_METRICS)},
            )
        store.add_minute(conn, 300, {TASK: [9.0] * 6}, {"gone": [1.0] * len(store.HOST_METRICS)})
        store.drop_minutes(conn, 200)

    stage.db.write(add)
    assert stage.minutes(0) == [(200, 1.0, 1.0), (300, 1.0, 1.0)]

    def hosts(conn: Connection) -> list[tuple[str, int]]:
        return [(row.host_id, row.minute) for row in conn.execute(select(store.HostMinute))]

    with stage.db.read() as conn:
        assert hosts(conn) == [("h", 200), ("h", 300)]
    stage.db.write(lambda conn: conn.execute(delete(Job).where(col(Job.id) == "a")))
    stage.db.write(lambda conn: delete_host(conn, "h", 0.0))
    with stage.db.read() as conn:
        assert conn.execute(select(store.TaskMinute)).all() == []
        assert hosts(conn) == []


def test_memory_forgets_tasks_that_ended_long_ago(stage: Stage) -> None:
    stage.run()
    stage.take(cpu=1.0, memory=5)
    stage.look(BEGAN + 1)
    stage.watch.keep(1000, BEGAN + 100)
    assert stage.watch.task_points(TASK, 0, 1e9)
    stage.watch.keep(1011, BEGAN + 2 + resources.KEPT_S)
    assert stage.watch.task_points(TASK, 0, 1e9) == []


def test_of_very_many_tasks_all_come_in_turn(stage: Stage) -> None:
    for number in range(250):
        stage.run(f"schedulearn-b{number}-1-0")
    for _ in range(3):
        stage.look(stage.now + 10)
    assert [len(asked) for asked in stage.engine.asked] == [100, 100, 100]
    assert len({task_id for asked in stage.engine.asked for task_id in asked}) == 250


def test_what_does_not_run_is_not_asked_after(stage: Stage) -> None:
    stage.running.append(ObservedTask(TASK, EngineState.EXITED, exit_code=0))
    stage.look(BEGAN + 10)
    assert stage.engine.asked == [[]]


def test_a_hosts_load_is_what_came_between_two_looks(stage: Stage) -> None:
    for at, busy in ((0, 1000.0), (10, 1025.0)):
        stage.engine.of_machine = MachineCounters(4, busy, 300, 1000, 20, 100, 50 * at, None, 7, 9 + 100 * at)
        stage.look(BEGAN + at)
    reading = stage.watch.host("h")
    assert reading is not None
    assert (reading.cpus, reading.counters.memory_total) == (2.5, 1000)
    assert stage.watch.host_points("h", 0, 1e9) == [
        (BEGAN, None, 300.0, 20.0, None, None, None, None),
        (BEGAN + 10, 2.5, 300.0, 20.0, 50.0, None, 0.0, 100.0),
    ]
    stage.watch.keep(1000, BEGAN + 60)
    with stage.db.read() as conn:
        _, [row] = store.host_minutes(conn, "h", 900, 1100)
    assert (row.cpus, row.memory_bytes, row.disk_bytes) == (2.5, 300.0, 20.0)
    assert (row.network_in, row.network_out, row.disk_read, row.disk_written) == (50.0, None, 0.0, 100.0)
    stage.now += resources.STALE_S + 1
    assert stage.watch.host("h") is None


def test_a_machine_that_has_started_anew_has_no_rates_at_once(stage: Stage) -> None:
    for at, busy, received in ((0, 1000.0, 5000), (10, 3.0, 40), (20, 4.0, 140)):
        stage.engine.of_machine = MachineCounters(4, busy, 300, 1000, 20, 100, received)
        stage.look(BEGAN + at)
    assert [point[4] for point in stage.watch.host_points("h", 0, 1e9)] == [None, None, 10.0]


def test_a_probe_tells_of_a_host_that_can_not_be_seen_from_here(stage: Stage) -> None:
    told = MachineCounters(64, 1000.0, 300, 1000, 20, 100)
    stage.watch.hear_machine("h", told)
    stage.now += 10
    stage.watch.hear_machine("h", told._replace(cpu_seconds=1320.0))
    reading = stage.watch.host("h")
    assert reading is not None
    assert (reading.cpus, reading.counters.cpus) == (32.0, 64)
    stage.engine.of_machine = told._replace(disk_bytes=77)
    stage.look(stage.now + 10)
    stage.watch.hear_machine("h", told)
    reading = stage.watch.host("h")
    assert reading is not None
    assert reading.counters.disk_bytes == 77


def test_a_host_that_does_not_answer_is_left_alone(stage: Stage) -> None:
    stage.engine.silent = True
    stage.look(BEGAN + 10)
    assert stage.watch.host("h") is None


class Hanging:
    """An engine that answers when a test says so."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer = threading.Event()

    def tasks(self, task_ids: Sequence[str]) -> Iterator[TaskCounters]:
        self.asked += 1
        assert self.answer.wait(30)
        return iter(())

    def machine(self) -> MachineCounters | None:
        return None


def test_a_host_that_hangs_is_not_asked_again_and_keeps_no_other_waiting(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "EVERY_S", 0.01)
    hanging, other = Hanging(), Engine()
    hosts = {"hangs": WatchedHost(hanging), "well": WatchedHost(other)}
    watch = ResourceWatch(stage.db, lambda: hosts, keep_days=1.0)
    watch.start()
    try:
        wait_for(lambda: len(other.asked) > 3)
        assert hanging.asked == 1
    finally:
        hanging.answer.set()
        watch.close()


def ended(memory_peak: int | None = None) -> EndedRun:
    """A run of three minutes, of which its one task ran two."""
    task = TaskUse(TASK, "h", [], BEGAN, BEGAN + 120, memory_peak)
    return EndedRun("s", 1, "a", True, BEGAN, BEGAN, BEGAN + 180, 180.0, None, None, [task], {})


@pytest.mark.parametrize("later", [0, 600])
def test_a_run_of_a_sweep_keeps_what_it_took_of_its_host_from_memory_or_from_minutes(stage: Stage, later: int) -> None:
    stage.run(started_at=BEGAN)
    for number in range(13):
        stage.take(cpu=15.0 * number, memory=500 + 10 * number)
        stage.engine.of_machine = MachineCounters(4, 30.0 * number, 1, 2, 3, 4, 5, 6, 7, 8)
        stage.look(BEGAN + 10 * number)
    for minute in (1000, 1001):
        stage.watch.keep(minute, stage.now)
    if later:  # the service has started anew
        stage.watch.close()
        stage.now += later
        stage.watch = ResourceWatch(
            stage.db,
            lambda: {"h": WatchedHost(stage.engine)},
            keep_days=1.0,
            clock=lambda: stage.now,
            monotonic=lambda: stage.now,
        )
        stage.look(stage.now)
    with stage.db.read() as conn:
        # One and a half cores in two of three minutes; three of four cores of the host.
        found = machine_use(conn, ended(memory_peak=620), stage.watch, stage.now)
        assert found == pytest.approx({"cpus": 1.0, "memory": 620.0, "host_utilization": 75.0})


def test_a_run_that_nobody_saw_keeps_nothing_of_it(stage: Stage) -> None:
    with stage.db.read() as conn:
        assert machine_use(conn, ended(), stage.watch, stage.now) == {}
