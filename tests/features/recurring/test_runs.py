"""Runs of schedules: each time has one job, or an event that says why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select, update
from sqlmodel import col

from schedulearn.features import load_tables
from schedulearn.features.recurring import table
from schedulearn.features.recurring.service import Schedules
from schedulearn.features.recurring.spec import ScheduleSpec
from schedulearn.scheduler.code.store import CodeStore
from schedulearn.scheduler.control.people import OfJobs, remove_person
from schedulearn.scheduler.control.service import Service
from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.core.planning.quotas import Quota
from schedulearn.scheduler.errors import ConflictError, InvalidError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job
from schedulearn.scheduler.store.people import accounts, quotas

NOON = 1_780_315_200.0
"""2026-06-01 12:00 UTC."""
JOB = {"name": "nightly", "type": "t", "container_image": "img", "command": "true", "required_gpus": 1}


class Lab:
    """A database, its schedules, and a clock."""

    def __init__(self, url: str, folder: Path) -> None:
        load_tables()
        self.now = NOON
        self.folder = folder
        self.db = Database(url)
        self.open(folder)

    def open(self, folder: Path) -> None:
        """As a service that starts."""
        self.service = Service(self.db, clock=lambda: self.now)
        self.schedules = Schedules(self.service, CodeStore(folder / "code"), [], "UTC")

    def add(self, every: str = "0 * * * *", *, user: str = "ada", key: str | None = None, **more: Any) -> str:
        job = {**JOB, **more.pop("job", {})}
        spec = ScheduleSpec.model_validate({"every": every, "job": job, **more})
        return str(self.schedules.create(spec, user, key, lambda _, row: row.id))

    def pass_hours(self, hours: float) -> None:
        self.now += 3600 * hours
        self.schedules.run_due()

    def jobs(self, schedule: str) -> list[Any]:
        with self.db.read() as conn:
            return list(conn.execute(select(Job).where(col(Job.schedule) == schedule).order_by(col(Job.id))))

    def row(self, schedule: str) -> Any:
        with self.db.read() as conn:
            return table.get_schedule(conn, schedule)

    def end(self, job_id: str) -> None:
        self.service.cancel(job_id)

    def events(self, kind: str) -> list[str]:
        with self.db.read() as conn:
            rows = conn.execute(select(repository.Event).where(col(repository.Event.kind) == kind))
            return [row.message for row in rows]


@pytest.fixture
def lab(database_url: str, tmp_path: Path) -> Iterator[Lab]:
    made = Lab(database_url, tmp_path)
    yield made
    made.db.close()


def test_each_time_has_an_ordinary_job_of_the_schedules_user(lab: Lab) -> None:
    schedule = lab.add(job={"max_duration": 60})
    lab.schedules.run_due()
    assert lab.jobs(schedule) == [], "its time has not come"
    for hour in (1, 2):
        lab.pass_hours(1)
        *_, job = lab.jobs(schedule)
        assert (job.user, job.name, job.submitted_at, job.max_duration) == ("ada", "nightly", NOON + 3600 * hour, 60)
        lab.end(job.id)
        lab.schedules.run_due()
    row = lab.row(schedule)
    assert (row.runs, row.missed, row.message, row.next_at) == (2, 0, "", NOON + 3 * 3600)
    assert [row.last_job, row.last_at] == [lab.jobs(schedule)[-1].id, NOON + 2 * 3600]


def test_times_of_an_outage_are_told_and_never_run_in_a_burst(lab: Lab) -> None:
    schedule = lab.add()
    lab.pass_hours(5.5)
    assert lab.jobs(schedule) == []
    assert lab.row(schedule).missed == 5
    [told] = lab.events("schedule.missed")
    assert told.endswith("(nightly): 5 runs from 2026-06-01 13:00 UTC on were missed: the service did not run then.")
    lab.pass_hours(0.5)
    assert len(lab.jobs(schedule)) == 1
    assert lab.row(schedule).message == ""


def test_skip_misses_a_time_while_the_previous_run_goes_on(lab: Lab) -> None:
    schedule = lab.add()
    lab.pass_hours(1)
    [first] = lab.jobs(schedule)
    lab.pass_hours(1)
    assert len(lab.jobs(schedule)) == 1
    assert lab.row(schedule).message == (
        f"The run of 2026-06-01 14:00 UTC was missed: the previous run, job {first.id}, has not ended."
    )
    assert len(lab.events("schedule.missed")) == 1


def test_queue_has_one_run_wait_for_the_one_before_and_misses_further_ones(lab: Lab) -> None:
    schedule = lab.add(overlap="queue")
    for _ in range(4):
        lab.pass_hours(1)
    first, second = lab.jobs(schedule)
    assert first.after is None
    assert second.after == {"jobs": [first.id], "when": "any"}
    assert second.inputs == {}, "it waits only for the end"
    assert (lab.row(schedule).runs, lab.row(schedule).missed) == (2, 2)
    assert lab.row(schedule).message.endswith(f"job {second.id} still waits for the end of the run before it.")
    lab.end(first.id)
    lab.pass_hours(1)
    assert lab.jobs(schedule)[-1].after == {"jobs": [second.id], "when": "any"}


def test_a_paused_schedule_misses_nothing_and_goes_on_from_now(lab: Lab) -> None:
    schedule = lab.add()
    lab.schedules.pause(schedule, lambda *_: None)
    lab.pass_hours(5)
    assert (lab.jobs(schedule), lab.events("schedule.missed")) == ([], [])
    lab.schedules.resume(schedule, lambda *_: None)
    lab.pass_hours(1)
    assert [job.submitted_at for job in lab.jobs(schedule)] == [NOON + 6 * 3600]


def test_quotas_of_then_apply(lab: Lab) -> None:
    schedule = lab.add(overlap="queue", job={"priority": 80, "max_duration": 7200})
    lab.service.quotas.change(lambda conn: quotas.set_quota(conn, "ada", Quota(waiting=1), lab.now))
    lab.pass_hours(1)
    lab.pass_hours(1)
    assert len(lab.jobs(schedule)) == 1
    assert "its job is refused: ada may have at most 1 waiting jobs" in lab.row(schedule).message
    lab.service.quotas.change(lambda conn: quotas.set_quota(conn, "ada", Quota(priority=60), lab.now))
    lab.pass_hours(1)
    assert len(lab.jobs(schedule)) == 1
    assert "priority is 80; ada may have 60 at most by quota" in lab.row(schedule).message
    lab.service.quotas.change(lambda conn: quotas.remove_quota(conn, "ada", lab.now))
    lab.pass_hours(1)
    assert len(lab.jobs(schedule)) == 2
    assert lab.row(schedule).missed == 2 == len(lab.events("schedule.missed"))


def test_a_schedule_pauses_when_its_user_may_not_submit_any_more(lab: Lab) -> None:
    lab.db.write(lambda conn: accounts.add_account(conn, "ada", Role.USER, lab.now))
    schedule = lab.add()
    lab.db.write(lambda conn: accounts.set_role(conn, "ada", Role.VIEWER, lab.now))
    lab.pass_hours(1)
    assert lab.row(schedule).message == "Paused: its user ada is viewer, and needs the role user."
    assert lab.row(schedule).paused_at == lab.now
    with pytest.raises(InvalidError, match="its user ada is viewer"):
        lab.schedules.resume(schedule, lambda *_: None)
    lab.db.write(lambda conn: accounts.set_role(conn, "ada", Role.USER, lab.now))
    lab.schedules.resume(schedule, lambda *_: None)
    lab.db.write(lambda conn: remove_person(conn, "ada", OfJobs.KEEP, None, None, lab.now))
    lab.db.write(lambda conn: accounts.add_account(conn, "ada", Role.USER, lab.now))  # another person
    lab.pass_hours(1)
    assert lab.jobs(schedule) == []
    assert lab.row(schedule).message.startswith("Paused: the account of its user ada~1 was removed")
    assert len(lab.events("schedule.paused")) == 2


def test_a_schedule_pauses_when_its_user_is_disabled(lab: Lab) -> None:
    lab.db.write(lambda conn: accounts.add_account(conn, "ada", Role.USER, lab.now))
    schedule = lab.add()
    lab.db.write(lambda conn: accounts.set_disabled(conn, "ada", "admin", lab.now))
    lab.pass_hours(1)
    assert lab.jobs(schedule) == []
    assert lab.row(schedule).message == "Paused: the account of its user ada is disabled."
    with pytest.raises(InvalidError, match="is disabled"):
        lab.schedules.resume(schedule, lambda *_: None)
    lab.db.write(lambda conn: accounts.set_disabled(conn, "ada", None, lab.now))
    lab.schedules.resume(schedule, lambda *_: None)
    lab.pass_hours(1)
    assert len(lab.jobs(schedule)) == 1


def test_a_refused_schedule_stores_nothing(lab: Lab) -> None:
    bad: list[dict[str, Any]] = [
        {"every": "* * */20 * 1L"},
        {"job": {"after": ["0000000000"]}},
        {"job": {"deadline": "2030-01-01T00:00Z"}},
        {"job": {"required_gpus": -1}},
        {"job": {"mounts": ["unknown"]}},
        {"job": {"command": "\ud800"}},
    ]
    for each in bad:
        with pytest.raises(InvalidError):
            lab.add(**each)
    lab.db.write(lambda conn: accounts.add_account(conn, "vic", Role.VIEWER, lab.now))
    with pytest.raises(InvalidError, match="vic is viewer"):
        lab.add(user="vic")
    with lab.db.read() as conn:
        assert table.list_schedules(conn, None, None, 10) == ([], None)
    assert lab.events("schedule.created") == []


def test_a_user_has_a_bounded_number_of_schedules(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_OF_USER", 2)
    for _ in range(2):
        lab.add()
    with pytest.raises(ConflictError, match="ada has 2 schedules, the maximum"):
        lab.add()
    lab.add(user="ben")


class _Killed(Exception):
    pass


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_a_service_that_dies_at_any_write_neither_loses_nor_doubles_a_run(
    database_url: str, tmp_path: Path, overlap: str
) -> None:
    """Each statement in turn is the last one that is reached; then the service starts anew."""
    lab, left = Lab(database_url, tmp_path), [-1]

    @event.listens_for(lab.db.engine, "before_cursor_execute")
    def _count(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        left[0] -= statement.startswith(("INSERT", "UPDATE", "DELETE"))
        if left[0] == 0:
            left[0] = -1
            raise _Killed

    schedule, kills = lab.add(overlap=overlap), 0
    for number in range(1, 30):
        lab.now += 3600
        left[0] = number % 7 + 1
        try:
            lab.schedules.run_due()
        except _Killed:
            kills += 1
        left[0] = -1
        lab.open(tmp_path)
        lab.now += 60  # a restart takes a while
        lab.schedules.run_due()
        row, jobs = lab.row(schedule), lab.jobs(schedule)
        assert row.runs + row.missed == number
        assert len(jobs) == row.runs
        assert row.missed == len(lab.events("schedule.missed"))
        if number % 3 == 0:
            for job in jobs:
                lab.end(job.id)
    assert kills > 10
    lab.db.close()


def test_a_clock_that_was_years_ahead_does_not_silence_a_schedule(lab: Lab) -> None:
    schedule = lab.add()
    lab.pass_hours(4 * 365 * 24 + 0.5)
    assert lab.jobs(schedule) == []
    lab.pass_hours(-4 * 365 * 24)
    lab.pass_hours(0.5)
    assert len(lab.jobs(schedule)) == 1
    lab.pass_hours(4 * 365 * 24 + 0.5)
    lab.now -= 4 * 365 * 24 * 3600
    lab.open(lab.folder)  # set back while no service ran
    lab.pass_hours(0)
    lab.pass_hours(0.5)
    assert lab.row(schedule).next_at == NOON + 3 * 3600


def test_a_clock_that_is_set_back_a_little_repeats_no_run(lab: Lab) -> None:
    schedule = lab.add(overlap="queue")
    lab.pass_hours(1)
    lab.pass_hours(-0.1)
    lab.pass_hours(0.1)
    assert len(lab.jobs(schedule)) == 1
    lab.pass_hours(1)
    assert len(lab.jobs(schedule)) == 2


def test_a_schedule_that_changes_meanwhile_does_not_run(lab: Lab) -> None:
    schedule = lab.add()
    check = lab.service.check

    def deleted_meanwhile(spec: Any) -> None:
        check(spec)
        lab.db.write(lambda conn: conn.execute(update(table.Schedule).values(next_at=lab.now + 60)))

    lab.service.check = deleted_meanwhile  # type: ignore[method-assign]
    lab.pass_hours(1)
    assert lab.jobs(schedule) == []
