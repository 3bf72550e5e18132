"""The service is killed at each of its side effects, before it and after it, in a day on which nothing else goes wrong.
Whatever was under way then, the next one ends it well."""

import pytest
from clusters import spec
from virtual.jobs import Plan
from virtual.runs import FaultRun

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


def _effects() -> int:
    run = _day(0, after=False)
    run.close()
    return run.effects.count


def test_a_day_without_a_kill_has_as_many_side_effects_as_are_tried() -> None:
    assert 15 < _effects() <= MAX


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_each_side_effect_loses_and_doubles_nothing(after: bool) -> None:
    for number in range(1, _effects() + 1):
        run = _day(number, after=after)
        run.settle()
        assert run.kills == 1, f"nothing was killed at side effect {number}"
        run.close()
