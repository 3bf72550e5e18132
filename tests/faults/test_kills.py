"""The service is killed at each of its side effects, before it and after it, in a day on which nothing else goes wrong.
Whatever was under way then, the next one ends it well."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from clusters import spec
from sqlalchemy import select
from sqlmodel import col
from virtual.jobs import Plan
from virtual.runs import FaultRun

from schedulearn.features.recurring.spec import Overlap, ScheduleSpec
from schedulearn.features.recurring.table import list_schedules
from schedulearn.features.recurring.worker import Recurring
from schedulearn.scheduler.errors import ConflictError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.models import Host, Job
from schedulearn.scheduler.store.windows import add_window, load_windows

Day = Callable[..., FaultRun]
MAX = 60  # side effects: more than the day has


def _day(number: int, *, after: bool) -> FaultRun:
    """Three jobs on four GPUs: one works, one fails and is tried again, one is cancelled while it runs."""
    run = FaultRun(0, trouble=0.0, hosts=1)
    if number:
        run.effects.kill_at(number, after=after)

    def submit() -> None:
        plans = [Plan(5.0, 0, 0), Plan(3.0, 1, 1), Plan(600.0, 0, 0)]
        specs = [spec(f"job-{i}", 1, max_restarts=plan.max_restarts) for i, plan in enumerate(plans)]
        job_ids = run.service.submit(specs)
        run.invariants.acknowledged.update(job_ids)
        run.workload.plans.update(zip(job_ids, plans, strict=False))

    def cancel() -> None:
        for job_id in sorted(run.invariants.acknowledged)[2:]:
            run.service.cluster.service.cancel(job_id)

    def quick() -> None:
        run.be_quick()
        run.pass_time(2.0)

    run.step(submit)
    if not run.invariants.acknowledged:
        run.step(submit)  # as a client does that got no answer
    for what in (*[quick] * 4, cancel, *[quick] * 4):
        run.step(what)
    return run


def _held_day(number: int, *, after: bool) -> FaultRun:
    """An elastic job is paused while it runs and resumed; a held one is released; a third may start later."""
    run = FaultRun(0, trouble=0.0, hosts=1)
    if number:
        run.effects.kill_at(number, after=after)
    known = run.invariants.acknowledged

    def submit() -> None:
        run.service.cluster.service.set_policy("fifo")  # its jobs keep their sizes, and so run as long as they should
        specs = [
            spec("job-0", 2, elastic=True, max_gpus=4),
            spec("job-1", 1, hold=True),
            spec("job-2", 1, start_after="3s"),
        ]
        job_ids = run.service.submit(specs)
        known.update(job_ids)
        run.workload.plans.update(zip(job_ids, [Plan(20.0, 0, 0)] * 3, strict=False))

    def pause() -> None:
        with suppress(ConflictError):  # it has ended, in the time that a start after a kill takes
            run.service.cluster.service.pause(min(known))

    def release() -> None:
        for job_id in sorted(known)[:2]:
            with suppress(ConflictError):
                run.service.cluster.service.release(job_id)

    def quick() -> None:
        run.be_quick()
        run.pass_time(2.0)

    run.step(submit)
    if not known:
        run.step(submit)  # as a client does that got no answer
    for what in (*[quick] * 3, pause, *[quick] * 3, release, *[quick] * 3):
        run.step(what)
    return run


def _recurring_day(number: int, *, after: bool) -> FaultRun:
    """Two schedules have a time each minute, and their jobs run for more than that or less."""
    run = FaultRun(0, trouble=0.0, hosts=1)
    if number:
        run.effects.kill_at(number, after=after)

    def create() -> None:
        schedules = run.service.cluster.worker(Recurring).use_cases
        for overlap, seconds in (("skip", 5), ("queue", 100)):
            job = spec(overlap, 1, max_duration=seconds).model_dump(include={*JOB_KEYS}, mode="json")
            body = ScheduleSpec(every="* * * * *", overlap=Overlap(overlap), job=job)
            schedules.create(body, "ada", f"key of {overlap}", lambda _, row: row.id)

    def due() -> None:
        run.service.run_schedules()

    def minute() -> None:
        run.be_quick()
        run.pass_time(60.0)

    run.step(create)
    run.step(create)  # as a client does that got no answer
    for what in [minute, due] * 4:
        run.step(what)
    run.step(due)  # once more after a kill
    return run


JOB_KEYS = ("name", "type", "container_image", "command", "required_gpus", "launcher", "max_duration")


def _check_schedules(run: FaultRun) -> None:
    """Each time that has come had one job, or is counted and told as missed."""
    with run.service.cluster.db.read() as conn:
        rows, _ = list_schedules(conn, None, None, 10)
        events = [event.data["schedule"] for event in repository.list_events(conn) if event.kind == "schedule.missed"]
        jobs = {row.id: conn.execute(select(Job).where(col(Job.schedule) == row.id)).all() for row in rows}
    assert len(rows) == 2
    for row in rows:
        assert len(jobs[row.id]) == row.runs > 0
        assert (row.missed > 0) == (row.id in events)
        assert row.runs + row.missed == row.next_at // 60 - row.created_at // 60 - 1


def _maintenance_day(number: int, *, after: bool) -> FaultRun:
    """Two jobs run when the maintenance of their only host begins, and one may not start before it."""
    run = FaultRun(0, trouble=0.0, hosts=1)
    if number:
        run.effects.kill_at(number, after=after)
    known = run.invariants.acknowledged

    def submit() -> None:
        run.service.cluster.service.set_policy("fifo")
        job_ids = run.service.submit([spec("elastic", 1, elastic=True, max_gpus=1), spec("rigid", 1)])
        known.update(job_ids)
        run.workload.plans.update(zip(job_ids, [Plan(60.0, 0, 0)] * 2, strict=False))

    def plan() -> None:
        now = run.time.clock()
        values = {
            "hosts": [], "starts_at": now + 20, "ends_at": now + 100, "reason": "", "cron": "", "time_zone": "UTC",
            "stops_rigid_s": 0.0,
        }  # fmt: skip
        db = run.service.cluster.db
        with db.read() as conn:
            is_planned = bool(load_windows(conn))
        if not is_planned:  # a client that got no answer asks again
            db.write(lambda conn: add_window(conn, values, now))

    def late() -> None:
        if len(known) < 3:
            known.update(run.service.submit([spec("late", 1, max_duration=100)]))

    def quick() -> None:
        run.be_quick()
        run.pass_time(10.0)

    run.step(submit)
    if not known:
        run.step(submit)
    for what in (quick, quick, plan, plan, late, late):
        run.step(what)
    for what in [quick] * 12:
        run.step(what)
    return run


def _check_maintenance(run: FaultRun) -> None:
    """The host is in service again, each job ended well, and each was told at most once."""
    with run.service.cluster.db.read() as conn:
        events = repository.list_events(conn, limit=1000)
        host_state, window = conn.execute(select(col(Host.state), col(Host.window_id))).one()
        states = [repository.get_job(conn, job_id).state for job_id in run.invariants.acknowledged]
        left = load_windows(conn)
    kinds = [event.kind for event in events]
    assert (host_state, window, left) == ("active", None, [])
    assert states == ["succeeded"] * 3
    assert kinds.count("host.maintenance") == 1
    told = [event.job_id for event in events if event.kind == "job.maintenance"]
    assert len(told) == len(set(told))
    begin, end = (next(e.at for e in events if e.kind == kind) for kind in ("host.maintenance", "host.active"))
    running = [event.at for event in events if event.kind == "job.running"]
    assert not [at for at in running if begin < at < end], "a job started during the maintenance"


DAYS = {"plain": _day, "held": _held_day, "recurring": _recurring_day, "maintenance": _maintenance_day}
CHECKS = {_recurring_day: _check_schedules, _maintenance_day: _check_maintenance}


def _effects(day: Day = _day) -> int:
    run = day(0, after=False)
    run.close()
    return run.effects.count


def test_a_day_without_a_kill_has_as_many_side_effects_as_are_tried() -> None:
    for day in DAYS.values():
        assert 15 < _effects(day) <= MAX


def test_on_the_day_of_holds_each_job_runs_when_it_may() -> None:
    run = _held_day(0, after=False)
    run.settle()
    with run.service.cluster.db.read() as conn:
        jobs = [repository.get_job(conn, job_id) for job_id in sorted(run.invariants.acknowledged)]
        paused = [event.code for event in repository.list_events(conn, job_id=jobs[0].id)]
    run.close()
    assert [(job.state, job.attempt) for job in jobs] == [("succeeded", 2), ("succeeded", 1), ("succeeded", 1)]
    assert paused.count("pause_requested") == paused.count("paused") == 1


def test_on_the_day_of_maintenance_jobs_are_told_and_none_starts_that_would_run_into_it() -> None:
    run = _maintenance_day(0, after=False)
    run.settle()
    _check_maintenance(run)
    with run.service.cluster.db.read() as conn:
        jobs = [repository.get_job(conn, job_id) for job_id in sorted(run.invariants.acknowledged)]
        events = repository.list_events(conn, limit=1000)
    run.close()
    assert [(job.name, job.attempt) for job in jobs] == [("elastic", 2), ("rigid", 2), ("late", 1)]
    assert [event.job_id for event in events if event.kind == "job.maintenance"] == [jobs[0].id, jobs[1].id]
    returned = next(event.at for event in events if event.kind == "host.active")
    began = next(event.at for event in events if event.kind == "job.starting" and event.job_id == jobs[2].id)
    assert began >= returned
    for job in jobs:
        codes = [event.code for event in events if event.kind == "job.waiting" and event.job_id == job.id]
        assert codes == ["maintenance"], f"why {job.name} waited"


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("day", DAYS.values(), ids=DAYS)
def test_a_kill_at_each_side_effect_loses_and_doubles_nothing(day: Day, after: bool) -> None:
    for number in range(1, _effects(day) + 1):
        run = day(number, after=after)
        run.settle()
        assert run.kills == 1, f"nothing was killed at side effect {number}"
        CHECKS.get(day, lambda run: None)(run)
        run.close()
