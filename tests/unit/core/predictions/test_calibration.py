"""How many intervals hold on later jobs, where the truth is known: five kinds of error."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from schedulearn.scheduler.core.predictions import lengths, metrics
from schedulearn.scheduler.core.predictions.features import Features
from schedulearn.scheduler.core.predictions.lengths import EndedJob, LengthModel
from schedulearn.scheduler.core.predictions.metrics import MetricModel, Reached
from schedulearn.scheduler.core.predictions.regression import SCORED

FAMILIES, JOBS = 25, 100


def normal(dice: random.Random, epochs: int) -> float:
    return dice.gauss(0, 0.3)


def heavy(dice: random.Random, epochs: int) -> float:
    """Student's t with three degrees of freedom."""
    return 0.2 * dice.gauss(0, 1) / math.sqrt(dice.gammavariate(1.5, 2) / 3)


def skewed(dice: random.Random, epochs: int) -> float:
    return 0.4 * (dice.expovariate(1) - 1)


def early(dice: random.Random, epochs: int) -> float:
    """One job of five stops long before its end."""
    return math.log(dice.uniform(0.05, 0.5)) if dice.random() < 0.2 else dice.gauss(0, 0.05)


def uneven(dice: random.Random, epochs: int) -> float:
    """Long jobs scatter more."""
    return dice.gauss(0, 0.05) * math.sqrt(epochs)


KINDS = [normal, heavy, skewed, early, uneven]
Error = Callable[[random.Random, int], float]
Learn = Callable[[Sequence[tuple[Features, float]], Sequence[float]], Any]
"""Past jobs and the scores of earlier predictions to a model."""
Score = Callable[[Any, float], float]


def check_held(error: Error, least: int, value_of: Callable[[int, float], float], learn: Learn, score: Score) -> None:
    """Play families job after job: intervals hold nine of ten jobs, among the first ones and after SCORED of them."""
    before: list[bool] = []
    after: list[bool] = []
    for seed in range(FAMILIES):
        dice = random.Random(seed)
        past: list[tuple[Features, float]] = []
        scores: list[float] = []
        for _ in range(JOBS):
            epochs = dice.choice([1, 3, 10, 30])
            features: Features = {"epochs": math.log(epochs)}
            value = value_of(epochs, error(dice, epochs))
            if len(past) >= least:
                found = learn(past[-lengths.REMEMBERED :], scores[-SCORED:]).predict(features)
                (before if len(past) <= SCORED else after).append(found.low <= value <= found.high)
                scores.append(score(found, value))
            past.append((features, value))
    assert 0.87 <= statistics.fmean(after) <= 0.93
    assert statistics.fmean(before) >= 0.87


@pytest.mark.parametrize("error", KINDS, ids=lambda each: each.__name__)
def test_intervals_of_lengths_hold_nine_of_ten_later_jobs(error: Error) -> None:
    check_held(
        error, 1, lambda epochs, off: (20 + 10 * epochs) * math.exp(off),
        lambda past, scores: LengthModel([EndedJob(*each) for each in past], scores), lengths.score,
    )  # fmt: skip


@pytest.mark.parametrize("error", KINDS, ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    "logs", [pytest.param(False, id="accuracy"), pytest.param(True, id="loss", marks=pytest.mark.long)]
)
def test_intervals_of_metrics_hold_nine_of_ten_later_jobs(error: Error, logs: bool) -> None:
    def value_of(epochs: int, off: float) -> float:
        return 3 * epochs**-0.8 * math.exp(off) if logs else 0.7 + 0.05 * math.log(epochs) + 0.02 * off

    check_held(
        error, metrics.MIN_REACHED, value_of,
        lambda past, scores: MetricModel([Reached(*each) for each in past], scores), metrics.score,
    )  # fmt: skip
