"""Expected run times of rigid jobs, from jobs of their size that have ended."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.predictions import run_times
from schedulearn.scheduler.core.predictions.run_times import ENOUGH, REMEMBERED, RunTime, RunTimes


def of(*seconds: float, user: str = "u", gpus: int = 1) -> list[RunTime]:
    return [RunTime(user, gpus, each) for each in seconds]


def test_nothing_is_expected_before_some_jobs_have_ended() -> None:
    """One job that failed at once says nothing of others."""
    assert RunTimes().left("u", 1, 0.0) is None
    assert RunTimes(of(*[3.0] * (ENOUGH - 1))).left("u", 1, 0.0) is None
    assert RunTimes(of(*[0.0] * ENOUGH)).left("u", 1, 0.0) is None, "they never ran"


def test_it_is_the_geometric_mean_of_those_that_ran_longer() -> None:
    found = RunTimes(of(10.0, 100.0, 1000.0, 10_000.0, 100_000.0))
    assert found.left("u", 1, 0.0) == pytest.approx(1000.0)
    assert found.left("u", 1, 100.0) == pytest.approx(10_000.0 - 100.0)
    assert found.left("u", 1, 10_000.0) == pytest.approx(90_000.0)


def test_one_that_has_outlived_all_others_runs_as_long_again() -> None:
    assert RunTimes(of(*[10.0] * 5)).left("u", 1, 70.0) == 70.0


def test_its_max_duration_bounds_it_and_a_job_without_gpus_is_another_matter() -> None:
    found = RunTimes(of(*[1000.0] * 5))
    assert found.left("u", 1, 200.0, 300.0) == 300.0
    assert found.left("u", 1, 200.0, 5000.0) == pytest.approx(800.0)
    assert RunTimes().left("u", 1, 100.0, 400.0) == 400.0
    assert found.left("u", 0, 0.0, 500.0) is None


def test_the_users_own_jobs_come_before_those_of_others_once_they_are_enough() -> None:
    others = of(*[1000.0] * 5, user="v")
    assert RunTimes(others + of(*[10.0] * 5)).left("u", 1, 0.0) == pytest.approx(10.0)
    few = RunTimes(others + of(10.0))
    assert few.left("u", 1, 0.0) == pytest.approx(math.exp((5 * math.log(1000) + math.log(10)) / 6))


def test_without_jobs_of_its_size_the_nearest_size_counts() -> None:
    found = RunTimes(of(*[10.0] * 5, gpus=1) + of(*[500.0] * 5, gpus=8))
    assert found.left("u", 2, 0.0) == pytest.approx(10.0)
    assert found.left("u", 4, 0.0) == pytest.approx(500.0)


def test_without_sharing_nothing_is_learned_of_other_users() -> None:
    found = RunTimes(of(*[10.0] * 9, user="v") + of(*[70.0] * 5, user="w", gpus=2), shared=False)
    assert found.left("u", 1, 0.0) is found.left("u", 2, 0.0) is found.left("v", 2, 0.0) is None
    assert found.left("v", 1, 0.0) == pytest.approx(10.0)


def test_of_many_users_those_are_forgotten_of_whom_no_job_has_ended_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_times, "MAX_KEYS", 2)
    found = RunTimes([each for user in ("a", "b", "a", "c") for each in of(*[10.0] * 5, user=user)], shared=False)
    assert [found.left(user, 1, 0.0) is None for user in "abc"] == [False, True, False]


def test_old_jobs_are_forgotten() -> None:
    assert RunTimes(of(*[10.0] * 50, *[300.0] * REMEMBERED)).left("u", 1, 0.0) == pytest.approx(300.0)


@given(st.lists(st.floats(1e-3, 1e8), min_size=ENOUGH, max_size=30), st.floats(0, 1e8))
def test_what_is_left_is_positive_and_the_total_is_longer_than_what_has_passed(ran: list[float], now: float) -> None:
    left = RunTimes(of(*ran)).left("u", 1, now)
    assert left is not None
    assert left >= 0
    assert left > 0 or now == 0 or now < max(ran)
