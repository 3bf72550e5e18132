"""Forecasts from snapshots: when jobs start and end, and on what that rests."""

import math
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from builders import host, job, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.metrics.model.step_time import StepTimeModel
from schedulearn.scheduler.core.cluster_state import JobProgress, ProgressInLog
from schedulearn.scheduler.core.model import RESTART_S, JobView, Plan, Snapshot
from schedulearn.scheduler.core.planning.quotas import Bounds, Quota, Quotas
from schedulearn.scheduler.core.planning.remaining_work import (
    AT_LEAST_S,
    Basis,
    Length,
    by_log,
    by_progress,
    pace,
    progress_speed,
)
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.registry import POLICIES, make_policy
from schedulearn.scheduler.sim import preview
from schedulearn.scheduler.sim.forecast import Eta, Facts, Forecast, forecast
from schedulearn.scheduler.sim.simulator import MAX_STEPS

DAY = 86_400.0
# 1 ms a sample, nothing to synchronise: twice the GPUs, twice the speed, up to 16 GPUs of one sample each.
LINEAR = Goodput({"gpu": StepTimeModel(0, 0.001, 0, 0, 0, 0, 1)}, 0.0, BatchBounds(16, 16, 1, 16))


def facts_of(state: Snapshot, **fields: Any) -> dict[str, Facts]:
    return {view.id: Facts(**{"name": view.id, "max_gpus": view.max_gpus, **fields}) for view in state.jobs}


def play(jobs: list[JobView], policy: str = "fifo", gpus: int = 4, horizon_s: float = DAY, **fields: Any) -> Forecast:
    state = snapshot(jobs, [host(gpus=gpus)])
    return forecast(make_policy(policy), state, facts_of(state, **fields), horizon_s=horizon_s)


def known(id: str, seconds: float, **fields: Any) -> JobView:
    """A rigid job that reported how long it still takes on the GPUs that it asked for."""
    return job(id, **fields, remaining=seconds * fields.get("gpus", 1), basis=Basis.PROGRESS)


def test_a_job_ends_when_it_said_and_the_next_one_begins_then() -> None:
    found = play(
        [known("a", 500, gpus=4, allocation={"h1": 4}, run_seconds=100.0), known("b", 300, at=5, gpus=2)],
        started_at=900.0,
    )
    a, b = found.etas["a"], found.etas["b"]
    assert (a.start, a.end, a.basis) == (900.0, pytest.approx(1500), Basis.PROGRESS)
    assert b.start == pytest.approx(1500)
    assert b.end == pytest.approx(1500 + 10 + 300), "10 s from the first GPUs to the first step"
    assert found.cut == ""


def within(quotas: Quotas, jobs: list[JobView], policy: str = "fifo", horizon_s: float = DAY) -> Forecast:
    state = snapshot(jobs, [host(gpus=4)])
    return forecast(make_policy(policy), state, facts_of(state), horizon_s=horizon_s, quotas=quotas)


@pytest.mark.parametrize("policy", ["fifo", "goodput", "las"])
def test_a_job_beyond_its_users_quota_never_starts_and_holds_nobody_up(policy: str) -> None:
    found = within(
        Quotas({"ada": Quota(gpus=1)}), [known("a", 500, gpus=2, user="ada"), known("b", 300, at=5, gpus=4)], policy
    )
    a, b = found.etas["a"], found.etas["b"]
    assert (a.start, a.end, a.beyond_quota) == (None, None, True)
    assert (b.start, b.beyond_quota) == (1000.0, False)


def test_a_job_beyond_its_groups_quota_never_starts_also_where_others_outlast_the_horizon() -> None:
    quotas = Quotas(by_group={"vision": Bounds(gpus=3)}, group_of={"ada": "vision"})
    jobs = [known("a", 500, gpus=4, user="ada"), known("b", 10 * DAY, gpus=1), known("c", 500, gpus=3, user="ada")]
    found = within(quotas, jobs)
    assert found.cut == "horizon"
    assert [found.etas[job].beyond_quota for job in "abc"] == [True, False, False]
    assert found.etas["c"].start == 1000.0


def test_a_job_within_its_quota_waits_for_the_users_own_jobs() -> None:
    held = known("held", 500, gpus=2, user="ada", allocation={"h1": 2})
    found = within(Quotas({"ada": Quota(gpus=2)}), [held, known("next", 300, gpus=1, user="ada")])
    assert found.etas["next"].start == pytest.approx(1500), "two GPUs are free now"
    assert not found.etas["next"].beyond_quota


def test_a_job_of_unknown_length_runs_as_long_again_and_is_called_a_guess() -> None:
    found = play([job("old", allocation={"h1": 1}, run_seconds=5000.0), job("new", at=5)])
    old, new = found.etas["old"], found.etas["new"]
    assert (old.end, old.basis) == (pytest.approx(6000), Basis.GUESS)
    assert new.end == pytest.approx(1000 + 10 + AT_LEAST_S)
    assert old.earliest == pytest.approx(1000 + 5000 / 3)
    assert old.latest == pytest.approx(1000 + 5000 * 3)


def test_an_end_is_as_certain_as_the_length_that_the_family_tells() -> None:
    jobs = [job("a", allocation={"h1": 1}, remaining=1000.0, basis=Basis.FAMILY)]
    certain, uncertain, usual = (play(jobs, length_spread=spread).etas["a"] for spread in (1.1, 8.0, None))
    assert certain.end == uncertain.end == pytest.approx(2000)
    assert (certain.earliest, certain.latest) == (pytest.approx(1000 + 1000 / 1.1), pytest.approx(2100))
    assert (uncertain.earliest, uncertain.latest) == (pytest.approx(1125), pytest.approx(9000))
    assert usual.latest == pytest.approx(2500)


def test_the_time_before_a_later_start_is_certain() -> None:
    found = play([job("a")], start_after=1000 + 3600.0).etas["a"]
    assert (found.start, found.end) == (4600.0, pytest.approx(4600 + 10 + AT_LEAST_S))
    assert found.earliest == pytest.approx(4600 + (10 + AT_LEAST_S) / 3), "not before it may start"
    assert found.latest == pytest.approx(4600 + (10 + AT_LEAST_S) * 3)


def test_a_time_limit_bounds_a_guess() -> None:
    found = play([job("a", allocation={"h1": 1}, run_seconds=5000.0)], max_duration=5100.0)
    assert found.etas["a"].end == pytest.approx(1100)


def test_who_waits_for_a_guess_is_as_uncertain_as_that() -> None:
    jobs = [job("guess", gpus=4, allocation={"h1": 4}, run_seconds=1000.0), known("known", 100, at=5, gpus=4)]
    found = play(jobs).etas["known"]
    assert found.basis is Basis.PROGRESS
    assert found.end is not None
    assert found.latest == pytest.approx(1000 + 3 * (found.end - 1000))


def test_a_job_whose_image_is_fetched_starts_when_that_is_done_and_others_pass_it_meanwhile() -> None:
    jobs = [known("a", 300, gpus=4), known("b", 100, at=5, gpus=4), known("c", 100, at=6, gpus=4)]
    state = snapshot(jobs)
    facts = {**facts_of(state), "a": Facts("a", 4, image_in=50.0)}
    found = forecast(make_policy("fifo"), state, facts, horizon_s=DAY).etas
    assert found["b"].start == pytest.approx(1000)
    assert found["a"].start == pytest.approx(1000 + 110), "it comes before the one that was submitted later"
    assert found["c"].start == pytest.approx(1000 + 110 + 310)
    alone = forecast(make_policy("fifo"), snapshot(jobs[:1]), facts, horizon_s=DAY).etas["a"]
    assert alone.start == pytest.approx(1050)


def test_nothing_is_foretold_of_a_job_while_nobody_knows_when_its_image_is_there() -> None:
    state = snapshot([known("a", 300), known("b", 100, at=5)])
    facts = {**facts_of(state), "a": Facts("a", 1, image_in=math.inf)}
    found = forecast(make_policy("fifo"), state, facts, horizon_s=DAY).etas
    assert found["a"] == Eta(None, None, None, None, Basis.PROGRESS, awaits_image=True)
    assert found["b"].end == pytest.approx(1110)


def test_elastic_jobs_without_a_profile_scale_up_to_what_they_ask_for_and_no_further() -> None:
    for gpus, seconds in ((1, 400), (2, 200), (4, 100), (8, 100)):
        state = known("a", 100, gpus=4, elastic=True, allocation={"h1": gpus}, run_seconds=50.0)
        assert play([state], gpus=8, max_gpus=64).etas["a"].end == pytest.approx(1000 + seconds), gpus


def test_a_profiled_job_goes_as_fast_as_its_profile_says_and_grows_step_by_step() -> None:
    """It was measured on one GPU only, so it may go to four at once, and to eight after those were measured."""
    seconds = 6400.0
    view = job("a", elastic=True, allocation={"h1": 1}, run_seconds=500.0, goodput=LINEAR, remaining=seconds,
               basis=Basis.PROGRESS, max_gpus=4)  # fmt: skip
    found = play([view], "goodput", gpus=8, max_gpus=8, profiled_gpus=1)
    sizes = [sum(held.allocation.values()) for held in found.run.held]
    assert sizes == [4, 8]
    four, eight = (held.end - held.begin for held in found.run.held)
    # RESTART_S of each allocation are a restart; all else is done at the speed of so many GPUs.
    assert 4 * (four - RESTART_S) + 8 * (eight - RESTART_S) == pytest.approx(seconds, rel=0.01)


def test_jobs_that_no_host_can_hold_have_no_end() -> None:
    found = play([known("a", 10, gpus=2), known("huge", 10, at=-5, gpus=64)])
    assert found.etas["huge"].start is None
    assert found.etas["huge"].end is None
    assert found.etas["a"].end is not None


def test_it_looks_no_further_than_it_may_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [known(f"j{i}", 1000, at=float(i), gpus=4) for i in range(10)]
    found = play(jobs, horizon_s=3000)
    assert found.cut == "horizon"
    assert 4000 <= found.until < 6000
    ends = [found.etas[f"j{i}"].end for i in range(10)]
    assert all(end is not None for end in ends[:2])
    assert ends[5:] == [None] * 5
    state = snapshot(jobs)
    at_once = forecast(make_policy("fifo"), state, facts_of(state), horizon_s=DAY, out_of_time=lambda: True)
    assert (at_once.cut, at_once.until) == ("time", 1000.0)
    monkeypatch.setattr("schedulearn.scheduler.sim.forecast.MAX_EVENTS", 40)
    few = play(jobs)
    assert few.cut == "events"
    assert 1000 < few.until < 1000 + DAY
    assert few.etas["j0"].end is not None, "what was found until then holds"
    assert few.etas["j9"].end is None


@pytest.mark.slow
def test_a_long_queue_is_looked_at_in_coarser_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [known(f"j{i}", 600.0 + i, at=float(i)) for i in range(400)]
    coarse = play(jobs, gpus=16, horizon_s=10 * DAY)
    monkeypatch.setattr("schedulearn.scheduler.sim.forecast.MANY", 1000)
    fine = play(jobs, gpus=16, horizon_s=10 * DAY)
    assert coarse.cut == fine.cut == ""
    assert len(coarse.run.decision_seconds) < len(fine.run.decision_seconds) / 2
    ends = [max(eta.end or 0 for eta in found.etas.values()) - 1000 for found in (coarse, fine)]
    assert ends[0] == pytest.approx(ends[1], rel=0.1)


class Shortsighted(Policy):
    """Fails where it is asked about later than an hour from now."""

    name: ClassVar[str] = "shortsighted"

    def allocate(self, snapshot: Snapshot) -> Plan:
        if snapshot.now > 1000 + 3600:
            raise ZeroDivisionError("no idea")
        return make_policy("fifo").allocate(snapshot)


def test_where_a_policy_fails_the_forecast_ends_and_what_was_found_until_then_holds() -> None:
    jobs = [known(f"j{i}", 1500, at=float(i), gpus=4) for i in range(4)]
    state = snapshot(jobs)
    found = forecast(Shortsighted(), state, facts_of(state), horizon_s=DAY)
    assert (found.cut, repr(found.problem)) == ("failed", "ZeroDivisionError('no idea')")
    assert 4600 < found.until <= 4600 + 60 * MAX_STEPS
    ends = [found.etas[f"j{i}"].end for i in range(4)]
    assert [end is not None for end in ends] == [True, True, False, False]
    with pytest.raises(ZeroDivisionError):
        preview.play(Shortsighted(), state, facts_of(state), horizon_s=DAY)


def test_three_jobs_of_a_known_family_one_after_the_other_since_the_epoch() -> None:
    """Each takes 40 s, as the first of them did; the clock of the service steps by 2.4e-7 s."""
    now = 1_795_358_532.1834567
    jobs = [job(f"j{i}", at=now - 30 + i, gpus=4, remaining=4 * 40.0, basis=Basis.FAMILY) for i in range(3)]
    jobs[0] = replace(jobs[0], allocation={"h1": 4}, run_seconds=28.1234567, remaining=4 * (40.0 - 28.1234567))
    state = snapshot(jobs, [host(gpus=4)], now=now)
    found = forecast(make_policy("fifo"), state, facts_of(state), horizon_s=DAY)
    ends = [(found.etas[f"j{i}"].end or 0) - now for i in range(3)]
    assert ends == pytest.approx([40 - 28.1234567, 61.8765433, 111.8765433], abs=1e-5)


POLICY_NAMES = [(name, metric) for name, cls in sorted(POLICIES.items()) for metric in cls.metrics]
INSTANTS = (0.0, 1.0, 5.0, 10.0, 30.0, 35.0, 40.0, 60.0, 120.0, 600.0)
"""Seconds from now: the ends of stalls, of cold starts, of the time to be measured, of turns and of ticks."""
NEARLY = (0.0, 1e-9, 1e-7, 2.4e-7, 1e-6, 2e-6, 1e-5)


@st.composite
def live_states(draw: st.DrawFn) -> tuple[Snapshot, dict[str, Facts]]:
    """Clusters as the service sees them, whose jobs are within microseconds of what may happen to them next."""
    now = 1_795_358_000.0 + draw(st.floats(0, 1000))
    instants = st.sampled_from([*INSTANTS, 60 - now % 60])
    free = {"h1": 4, "h2": 4}
    jobs, facts = [], {}
    for index in range(draw(st.integers(1, 6))):
        soon = max(0.0, draw(instants) + draw(st.sampled_from([-1, 1])) * draw(st.sampled_from(NEARLY)))
        gpus, elastic = draw(st.sampled_from([1, 2, 4])), draw(st.booleans())
        at = draw(st.sampled_from([h for h in free if free[h] >= gpus] or [None]))
        if at is not None and draw(st.booleans()):
            free[at] -= gpus
            ran, allocation = draw(instants) + draw(st.sampled_from(NEARLY)), {at: gpus}
        else:
            ran, allocation = 0.0, {}
        goodput = LINEAR if elastic and draw(st.booleans()) else None
        view = JobView(
            id=f"j{index}",
            submitted_at=now - ran - draw(instants) - draw(st.sampled_from(NEARLY)),
            required_gpus=gpus,
            min_gpus=1 if elastic else gpus,
            max_gpus=gpus if not elastic else draw(st.sampled_from([gpus, 2 * gpus])),
            elastic=elastic,
            deadline=draw(st.sampled_from([None, now - 1e-6, now + soon, now + 100.0])),
            attained_gpu_seconds=ran * gpus,
            run_seconds=ran,
            allocation=allocation,
            remaining=draw(st.sampled_from([None, soon, soon * gpus])),
            basis=draw(st.sampled_from([None, *Basis])),
            goodput=goodput,
            profiled_gpus=gpus if goodput is not None else None,
            resize_seconds=draw(st.sampled_from([None, 0.0, 5.0])),
        )
        jobs.append(view)
        limit = draw(st.sampled_from([None, ran + 1e-7, ran + soon]))
        facts[view.id] = Facts(view.id, view.max_gpus, now - ran, draw(st.sampled_from([0, gpus])), limit)
    return snapshot(jobs, [host("h1"), host("h2")], now=now), facts


@pytest.mark.parametrize(("name", "metric"), POLICY_NAMES)
@given(live=live_states())
@settings(max_examples=40)
def test_every_forecast_ends_after_few_events(name: str, metric: str, live: tuple[Snapshot, dict[str, Facts]]) -> None:
    """In two hours there are 120 ticks and as many turns, and a job does a dozen things."""
    state, facts = live
    asked = 0

    def count() -> bool:
        nonlocal asked
        asked += 1
        return False

    found = forecast(make_policy(name, metric), state, facts, horizon_s=7200, out_of_time=count)
    assert (found.problem, found.cut) in ((None, ""), (None, "horizon"))
    assert asked < 250 * (2 + len(state.jobs))
    for eta in found.etas.values():
        assert eta.end is None or state.now <= eta.end <= state.now + 7300
        assert eta.start is None or eta.end is None or eta.start <= eta.end


def test_lengths_come_from_reports_of_progress() -> None:
    row = JobProgress("j", epoch=3, epochs=10, position=500, epoch_samples=1000)
    assert pace(LINEAR) == pytest.approx(1000)
    assert by_progress(row, 0.0, LINEAR, 1) == Length(pytest.approx(6500 / 1000), Basis.PROGRESS)
    assert by_progress(row, 700.0, None, 1) == Length(pytest.approx(1300), Basis.PROGRESS)
    assert by_progress(None, 700.0, LINEAR, 1) is None
    assert by_progress(row._replace(epochs=None), 700.0, LINEAR, 1) is None
    assert by_progress(row._replace(epoch=0, position=0), 700.0, None, 1) is None


def test_a_larger_batch_brings_a_job_nearer_to_its_end_only_by_what_its_samples_are_worth() -> None:
    """As the worker SDK counts them: an epoch is one pass's worth of progress (worker_images/sdk/place.py)."""
    eager = {"gpu": StepTimeModel(0.05, 0.001, 0, 0, 0, 0, 1)}
    noisy = Goodput(eager, 640.0, BatchBounds(64, 128), min_efficiency=0.5)
    choice = noisy.best(1, 1)
    assert float(choice.goodput) < float(choice.throughput)
    assert pace(noisy) == progress_speed(noisy, 1, 1) == float(choice.goodput)
    row = JobProgress("j", epoch=3, epochs=10, position=500, epoch_samples=1000)
    assert by_progress(row, 0.0, noisy, 1) == Length(pytest.approx(6500 / float(choice.goodput)), Basis.PROGRESS)
    fixed = replace(noisy, bounds=BatchBounds(64, 64, min_local=32))
    assert progress_speed(fixed, 1, 4) == float(fixed.best(1, 4).throughput), "in a fixed batch each counts whole"


def test_a_job_that_cannot_run_on_one_gpu_is_paced_by_the_fewest_that_it_can() -> None:
    tight = replace(LINEAR, bounds=BatchBounds(16, 16, 1, 4, accumulate=False))
    assert float(tight.best(1, 1).throughput) == 0
    assert pace(tight, 4) == pytest.approx(1000)


def test_remaining_work_by_the_log_is_at_the_speed_since_the_first_progress() -> None:
    seen = ProgressInLog("j", 1, fraction=0.5, changed_at=1050.0, first_fraction=0.1, first_at=1010.0)
    assert by_log(seen, 90.0, 2, 1060.0) == Length(pytest.approx(2 * (50 - 10)), Basis.LOG)
    assert by_log(seen, 900.0, 2, 2000.0) == Length(pytest.approx(2 * 0.05 * 50), Basis.LOG), "it is overdue"
    first = seen._replace(fraction=0.1, changed_at=1010.0)
    assert by_log(first, 100.0, 1, 1010.0) == Length(pytest.approx(900), Basis.LOG), "as fast as since the start"
    assert by_log(first, 10.0, 1, 1010.0) is None, "the start of the script may be all of it"
    assert by_log(seen._replace(fraction=1.0), 90.0, 1, 1060.0) == Length(1.0, Basis.LOG)
    assert by_log(seen._replace(fraction=0.0), 90.0, 1, 1060.0) is None
    assert by_log(None, 90.0, 1, 1060.0) is None
    assert by_log(seen, 90.0, 0, 1060.0) is None, "it waits"
