"""What metrics end with, by what jobs are given."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from schedulearn.scheduler.core.predictions.features import Features
from schedulearn.scheduler.core.predictions.metrics import MetricModel, MetricPrediction, Reached, score


def job(**given: float | str) -> Features:
    return {name: math.log(value) if isinstance(value, int | float) else value for name, value in given.items()}


def reached(value: float, **given: float | str) -> Reached:
    return Reached(job(**given), value)


def test_what_does_not_hang_on_anything_is_its_mean() -> None:
    dice = random.Random(3)
    jobs = [reached(0.9 + dice.gauss(0, 0.01), seed=dice.randint(1, 999)) for _ in range(20)]
    found = MetricModel(jobs).predict(job(seed=7))
    assert (found.model, found.jobs) == ("mean", 20)
    assert found.value == pytest.approx(0.9, abs=0.01)
    assert found.low < 0.89 < 0.91 < found.high
    assert found.high - found.low < 0.1


def test_an_accuracy_that_grows_with_epochs_is_linear_in_their_logarithm_and_ends_at_what_was_seen() -> None:
    model = MetricModel([reached(0.7 + 0.05 * math.log(n), epochs=n, model="cnn") for n in (1, 2, 4, 8, 16, 32)])
    found = model.predict(job(epochs=6, model="cnn"))
    assert found.model == "linear"
    assert found.value == pytest.approx(0.7 + 0.05 * math.log(6), abs=0.01)
    most = 0.7 + 0.05 * math.log(32)
    assert model.predict(job(epochs=10**6)).value == pytest.approx(most), "no accuracy above 1"


def test_a_loss_over_orders_of_magnitude_is_a_power_law() -> None:
    dice = random.Random(4)
    jobs = [reached(5 * n**-1.2 * math.exp(dice.gauss(0, 0.05)), epochs=n) for n in (1, 3, 10, 30, 100) for _ in "ab"]
    found = MetricModel(jobs).predict(job(epochs=20))
    assert found.model == "power law"
    assert found.value == pytest.approx(5 * 20**-1.2, rel=0.3)
    assert 0 < found.low < found.value < found.high


def test_equal_values_are_held_by_an_interval_that_is_not_empty() -> None:
    model = MetricModel([reached(0.1 + 0.2, epochs=n) for n in (1, 2, 3)])
    found = model.predict(job(epochs=2))
    assert (found.model, found.low < 0.3 < found.high) == ("mean", True)
    zero = MetricModel([reached(0.0)] * 3).predict(job())
    assert zero[:3] == (0.0, 0.0, 0.0)
    assert math.isfinite(score(zero, 1.0))


def test_too_few_jobs_say_nothing() -> None:
    with pytest.raises(ValueError, match="too few"):
        MetricModel([reached(1.0), reached(2.0)])


def test_scores_are_halves_of_the_interval_on_each_side() -> None:
    found = MetricPrediction(0.9, 0.8, 0.95, 5, "mean")
    assert [score(found, each) for each in (0.9, 0.95, 0.8, 0.7, 1.0)] == pytest.approx([0, 1, 1, 2, 2])


def test_scores_are_by_intervals_before_they_were_widened() -> None:
    assert score(MetricPrediction(0.9, 0.6, 1.2, 5, "mean", stretch=3.0), 1.2) == pytest.approx(3)
    by_logarithm = MetricPrediction(1.0, math.exp(-0.6), math.exp(0.6), 5, "power law", stretch=3.0)
    assert [score(by_logarithm, math.exp(each)) for each in (-0.6, 0.2)] == pytest.approx([3, 1])


def test_intervals_that_did_not_hold_are_widened() -> None:
    jobs = [reached(0.9 + 0.001 * n) for n in range(20)]
    before, after = (MetricModel(jobs, scores).predict(job()) for scores in ((), [4.0] * 10))
    assert after.value == before.value
    assert after.high - after.value == pytest.approx(4 * (before.high - before.value))
    assert MetricModel(jobs, [0.1] * 39).predict(job()) == before, "few scores may be luck"
    narrow = MetricModel(jobs, [0.5] * 40).predict(job())
    assert narrow.high - narrow.value == pytest.approx(0.5 * (before.high - before.value)), "forty are not"


def test_extreme_numbers_stay_finite() -> None:
    for values in ([1e-99, 1.0, 1e99, -1e99], [1e-99, 1.0, 1e99, 2.0]):
        model = MetricModel([reached(value, epochs=n + 1, lr=10.0**-n) for n, value in enumerate(values)])
        found = model.predict(job(epochs=1e300, lr=1e-300, other="x"))
        assert -math.inf < found.low <= found.value <= found.high < math.inf


def _families() -> Sequence[Callable[[random.Random], tuple[Features, float]]]:
    def accuracy(dice: random.Random) -> tuple[Features, float]:
        """It saturates, and small batches are a little better."""
        epochs, batch = dice.choice([1, 2, 5, 10, 20]), dice.choice([32, 128, 512])
        value = 0.98 - 0.3 * math.exp(-epochs / 4) - 0.01 * math.log2(batch / 32) + dice.gauss(0, 0.005)
        return job(epochs=epochs, batch_size=batch, seed=dice.randint(1, 99)), value

    def loss(dice: random.Random) -> tuple[Features, float]:
        epochs = dice.choice([1, 3, 10, 30])
        return job(epochs=epochs), 3 * epochs**-0.8 * math.exp(dice.gauss(0, 0.15))

    def models(dice: random.Random) -> tuple[Features, float]:
        name = dice.choice(["small", "large"])
        return job(model=name), (0.81 if name == "small" else 0.93) + dice.gauss(0, 0.01)

    def diverging(dice: random.Random) -> tuple[Features, float]:
        """One of ten learns nothing."""
        return job(lr=dice.choice([0.1, 0.01])), 0.1 if dice.random() < 0.1 else 0.95 + dice.gauss(0, 0.005)

    return [accuracy, loss, models, diverging]


@pytest.mark.parametrize("job_of", _families(), ids=lambda each: each.__name__)
def test_nine_of_ten_intervals_hold(job_of: Callable[[random.Random], tuple[Features, float]]) -> None:
    """As the service does it: each job is predicted by those before it, and the scores of predictions are kept."""
    held, total = 0, 0
    for seed in range(12):
        dice = random.Random(seed)
        past: list[Reached] = []
        scores: list[float] = []
        for _ in range(60):
            features, value = job_of(dice)
            if len(past) >= 3:
                found = MetricModel(past[-100:], scores[-40:]).predict(features)
                scores.append(score(found, value))
                held += found.low <= value <= found.high
                total += 1
            past.append(Reached(features, value))
    assert held / total >= 0.9
