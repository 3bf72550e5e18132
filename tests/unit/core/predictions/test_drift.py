"""When a family's model forgets what was before."""

from __future__ import annotations

import random
from collections.abc import Sequence

from schedulearn.scheduler.core.predictions.drift import Residual, drift_of


def jobs(factors: Sequence[float]) -> list[Residual]:
    """Jobs that took so many times as long as predicted, one a second."""
    return [Residual(float(at), 100.0, 100.0 * factor) for at, factor in enumerate(factors)]


def test_predictions_that_become_worse_drift_from_the_first_that_was_off() -> None:
    found = drift_of(jobs([1.05] * 30 + [1.05] * 3 + [2.0] * 7))
    assert found is not None
    assert found.since == 33.0
    assert (round(found.before, 2), round(found.now, 2)) == (1.05, 2.0)
    assert drift_of(jobs([1.05] * 30 + [0.5] * 10)) is not None, "faster is worse as well"


def test_what_was_always_scattered_does_not_drift() -> None:
    dice = random.Random(0)
    alarms = sum(drift_of(jobs([2.0 ** dice.gauss(0, 1) for _ in range(40)])) is not None for _ in range(1000))
    assert alarms <= 10, "by chance one of some hundred"


def test_neither_few_jobs_nor_odd_ones_nor_small_errors_count() -> None:
    assert drift_of(jobs([1.0] * 9 + [5.0] * 10)) is None, "nine are too few to compare with"
    assert drift_of(jobs([1.0] * 20 + [50.0] * 4 + [1.0] * 6)) is None, "four of ten are odd ones"
    assert drift_of(jobs([1.01] * 20 + [1.2] * 10)) is None, "off by a fifth does no harm"
    assert drift_of([]) is None


def test_only_the_newest_jobs_count() -> None:
    assert drift_of(jobs([9.0] * 50 + [1.01] * 30 + [1.5] * 10)) is not None
    assert drift_of(jobs([1.01] * 50 + [9.0] * 30 + [1.5] * 10)) is None
