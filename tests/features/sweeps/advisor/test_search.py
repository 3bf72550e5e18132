"""The search finds what an exhaustive one would, in a quarter of the trials, and knows when to end."""

from __future__ import annotations

import math

import pytest
from bench.training.search import SHARE, WITHIN, grid_of, searches

from schedulearn.features.sweeps.models.configurations import CandidatePoint, Goal, TrialOutcome, best_of, curve, knee
from schedulearn.features.sweeps.models.search import next_trial
from schedulearn.scheduler.sim.application import measured_applications

SEEDS = range(20)


@pytest.mark.parametrize(
    ("name", "goal"),
    [("bert", "time"), ("deepspeech2", "both"), ("yolov3", "cost"), ("yolov3", "both"), ("cifar10", "both")],
)
def test_a_quarter_of_the_trials_finds_what_is_within_a_tenth_of_the_best(name: str, goal: Goal) -> None:
    """Over recorded step times; each seed begins elsewhere."""
    grid = grid_of(measured_applications()[name])
    for found in searches(grid, goal, len(SEEDS), left_out=0.0):
        assert found.trials <= SHARE * len(grid)
        assert found.ratio <= WITHIN


def test_prices_are_known_and_not_searched_for() -> None:
    """All trials were of one type of GPU, and the other one is a hundred times as dear: it promises nothing."""
    points = [CandidatePoint(kind, gpus, 32) for kind in ("a", "b") for gpus in (1, 2, 4, 8)]
    tried = {index: TrialOutcome(100.0 / point.gpus**0.5, point.gpus) for index, point in enumerate(points[:4])}
    for dear, gains in ((1.0, True), (100.0, False)):
        prices = [point.gpus * (dear if point.gpu_type == "b" else 1.0) for point in points]
        found = next_trial(points, prices, tried, "cost", 5)
        assert found.gain is not None
        assert (found.gain > 0.1) is gains, dear


POINTS = [CandidatePoint(kind, gpus, batch) for kind in ("a", "b") for gpus in (1, 2, 4, 8) for batch in (32, 64, 128)]


def law(point: CandidatePoint) -> TrialOutcome:
    speed = point.gpus**0.7 * (2 if point.gpu_type == "b" else 1) * (1 - abs(math.log2(point.batch_size / 64)) / 20)
    return TrialOutcome(1000 / speed, point.gpus * (3 if point.gpu_type == "b" else 1))


PRICES = [law(point).price for point in POINTS]


def played(
    most: int, failing: frozenset[int] = frozenset(), seed: int = 0
) -> tuple[dict[int, TrialOutcome | None], str]:
    tried: dict[int, TrialOutcome | None] = {}
    while (found := next_trial(POINTS, PRICES, tried, "time", most, seed)).point is not None:
        assert found.point not in tried
        tried[found.point] = None if found.point in failing else law(POINTS[found.point])
    return tried, found.why


def test_a_search_ends_once_the_next_trial_is_expected_to_gain_too_little() -> None:
    tried, why = played(len(POINTS))
    assert 8 < len(tried) < len(POINTS)
    assert "less than 10%" in why
    best = best_of(tried, "time")
    assert best is not None
    assert law(POINTS[best]).seconds <= WITHIN * law(CandidatePoint("b", 8, 64)).seconds


def test_it_ends_where_there_is_nothing_left_or_nothing_more_allowed() -> None:
    tried, why = played(5)
    assert (len(tried), why) == (5, "5 trials were made, the maximum of this search.")
    found = next_trial(POINTS[:2], PRICES, {0: None, 1: None}, "time", 9)
    assert (found.point, found.why) == (None, "Every configuration was tried.")


def test_the_same_trials_give_the_same_next_one_and_seeds_begin_elsewhere() -> None:
    assert played(9)[0] == played(9)[0]
    assert len({next_trial(POINTS, PRICES, {}, "time", 9, seed).point for seed in SEEDS}) > 3


def test_what_fails_is_left_alone_and_the_rest_is_found() -> None:
    """Batches of 128 don't fit into memory."""
    failing = frozenset(index for index, point in enumerate(POINTS) if point.batch_size == 128)
    tried, _ = played(14, failing)
    best = best_of(tried, "time")
    assert best is not None
    assert tried[best] is not None
    assert law(POINTS[best]).seconds <= 1.1 * law(CandidatePoint("b", 8, 64)).seconds


def test_where_all_trials_fail_it_goes_on_to_its_bound_and_has_no_answer() -> None:
    tried, _ = played(10, frozenset(range(len(POINTS))))
    assert len(tried) == 10
    assert (best_of(tried, "time"), curve(tried), knee(tried)) == (None, [], None)


def test_the_curve_is_what_no_trial_beats_in_time_and_cost_and_the_knee_is_where_it_bends() -> None:
    seconds_and_prices = [(100.0, 50.0), (110.0, 10.0), (400.0, 1.0), (120.0, 30.0), (500.0, 2.0)]
    tried = {index: TrialOutcome(*each) for index, each in enumerate(seconds_and_prices)}
    assert curve(tried) == [0, 1, 2]
    assert knee(tried) == 1
    assert knee({0: tried[0], 2: tried[2]}) is None


def test_goals_weigh_time_and_cost() -> None:
    fast, cheap = TrialOutcome(10.0, 8.0), TrialOutcome(40.0, 1.0)
    assert fast.value("time") < cheap.value("time")
    assert cheap.value("cost") < fast.value("cost")
    assert fast.value("both") == pytest.approx(math.sqrt(10 * 80))
