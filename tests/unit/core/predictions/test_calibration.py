"""How many intervals hold on later jobs, where the truth is known: five kinds of error."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

import pytest

from schedulearn.scheduler.core.predictions import lengths, metrics
from schedulearn.scheduler.core.predictions.features import Features
from schedulearn.scheduler.core.predictions.lengths import Ended, LengthModel
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


class _Held:
    """Whether intervals held: of the first jobs of each family, and of those after SCORED jobs."""

    def __init__(self) -> None:
        self.before: list[bool] = []
        self.after: list[bool] = []

    def add(self, known: int, holds: bool) -> None:
        (self.before if known <= SCORED else self.after).append(holds)


@pytest.mark.parametrize("error", KINDS, ids=lambda each: each.__name__)
def test_intervals_of_lengths_hold_nine_of_ten_later_jobs(error: Error) -> None:
    held = _Held()
    for seed in range(FAMILIES):
        dice = random.Random(seed)
        past: list[Ended] = []
        scores: list[float] = []
        for _ in range(JOBS):
            epochs = dice.choice([1, 3, 10, 30])
            features: Features = {"epochs": math.log(epochs)}
            took = (20 + 10 * epochs) * math.exp(error(dice, epochs))
            if past:
                found = LengthModel(past[-lengths.REMEMBERED :], scores[-SCORED:]).predict(features)
                held.add(len(past), found.low <= took <= found.high)
                scores.append(lengths.score(found, took))
            past.append(Ended(features, took))
    assert 0.87 <= statistics.fmean(held.after) <= 0.93
    assert statistics.fmean(held.before) >= 0.87


@pytest.mark.parametrize("error", KINDS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("logs", [False, True], ids=["accuracy", "loss"])
def test_intervals_of_metrics_hold_nine_of_ten_later_jobs(error: Error, logs: bool) -> None:
    held = _Held()
    for seed in range(FAMILIES):
        dice = random.Random(seed)
        past: list[Reached] = []
        scores: list[float] = []
        for _ in range(JOBS):
            epochs = dice.choice([1, 3, 10, 30])
            features: Features = {"epochs": math.log(epochs)}
            off = error(dice, epochs)
            value = 3 * epochs**-0.8 * math.exp(off) if logs else 0.7 + 0.05 * math.log(epochs) + 0.02 * off
            if len(past) >= metrics.LEAST_REACHED:
                found = MetricModel(past[-lengths.REMEMBERED :], scores[-SCORED:]).predict(features)
                held.add(len(past), found.low <= value <= found.high)
                scores.append(metrics.score(found, value))
            past.append(Reached(features, value))
    assert 0.87 <= statistics.fmean(held.after) <= 0.93
    assert statistics.fmean(held.before) >= 0.87
