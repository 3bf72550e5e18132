"""A job that hangs is restarted or ended also where the service is killed over it; and no fault of the service, of a
host or of the clock makes one that works hang."""

import pytest
from clusters import spec
from virtual.jobs import Plan
from virtual.runs import FaultRun
from virtual.service import IDLE_S

MAX = 60  # side effects: more than the course has


def _run(*jobs: tuple[str, Plan]) -> FaultRun:
    run = FaultRun(0, trouble=0.0, hosts=1)

    def submit() -> None:
        specs = [spec(f"job-{number}", 1, on_hang=how) for number, (how, _) in enumerate(jobs)]
        job_ids = run.service.submit(specs)
        run.invariants.acknowledged.update(job_ids)
        run.workload.plans.update(zip(job_ids, (plan for _, plan in jobs), strict=False))

    run.step(submit)
    if not run.invariants.acknowledged:
        run.step(submit)
    return run


def _quick(run: FaultRun, times: int, seconds: float) -> None:
    def quick() -> None:
        run.be_quick()
        run.pass_time(seconds)

    for _ in range(times):
        run.step(quick)


def _ended(run: FaultRun) -> list[tuple[str, str]]:
    with run.service.cluster.db.read() as db:
        return [(row.state, row.reason) for row in db.exec_driver_sql("SELECT state, reason FROM job ORDER BY id")]


def _course(number: int, *, after: bool) -> FaultRun:
    """One hangs once and then works, one is ended at once."""
    run = _run(("restart", Plan(5.0, 0, 0, 1)), ("end", Plan(5.0, 0, 0, 1)))
    run.effects.kill_soon(number, after=after)
    _quick(run, 14, 20.0)
    return run


WELL = [("succeeded", "completed"), ("failed", "hung")]


def test_a_job_that_hangs_for_ever_is_restarted_three_times() -> None:
    run = _run(("restart", Plan(5.0, 0, 0, 99)))
    run.settle()
    assert _ended(run) == [("failed", "hung")]
    assert [sorted(attempts) for attempts in run.workload.hung.values()] == [[1, 2, 3, 4]]
    run.close()


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_any_side_effect_changes_nothing_of_that(after: bool) -> None:
    for number in range(1, MAX + 1):
        run = _course(number, after=after)
        killed = run.kills
        run.settle()
        assert _ended(run) == WELL, f"killed at side effect {number}"
        run.close()
        if not killed:
            assert number > 15, "the course has more side effects than that"
            return
    raise AssertionError("the course has more side effects than were tried")


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_a_clock_that_is_set_makes_no_job_hang(by: float) -> None:
    run = _run(("end", Plan(IDLE_S / 2, 0, 0)))
    _quick(run, 4, 2.0)
    run.time.offset += by
    _quick(run, 4, 2.0)
    run.settle()
    assert _ended(run) == [("succeeded", "completed")]
    run.close()


def test_a_host_that_is_cut_off_for_long_makes_no_job_hang() -> None:
    run = _run(("end", Plan(2.5 * IDLE_S, 0, 0)))
    _quick(run, 4, 2.0)
    run.step(run.cut_host)
    _quick(run, 20, IDLE_S / 10)
    run.step(run.join_host)
    run.settle()
    assert _ended(run) == [("succeeded", "completed")]
    run.close()
