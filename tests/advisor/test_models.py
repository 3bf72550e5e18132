"""Models learn laws that are known, and say how far they may be off."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from schedulearn.scheduler.advisor.models import METRIC_MODELS, TIME_MODELS, Predictor, out_of_fold, r2
from schedulearn.scheduler.advisor.samples import Configuration


def configurations(count: int, *, crowded: bool = True) -> list[Configuration]:
    dice = random.Random(1)
    return [
        Configuration(
            "digits", "gpu", dice.choice([1, 2, 4]), dice.choice([16, 32, 64, 128, 256]), dice.choice([1, 2, 4]), 1000,
            dice.choice([0.0, 1.0, 2.0]) if crowded else 0.0,
        )
        for _ in range(count)
    ]  # fmt: skip


def step_law(each: Configuration) -> float:
    """Start-up, passes over the local batch, and what several workers lose."""
    steps = each.epochs * each.input_size / each.batch_size
    return 0.5 + steps * (0.002 + 0.0004 * each.batch_size / each.gpus + 0.01 * (each.gpus > 1))


def noisy(values: Sequence[float], share: float = 0.03) -> np.ndarray:
    dice = random.Random(2)
    return np.array([value * dice.gauss(1, share) for value in values])


def test_the_model_of_steps_learns_the_law_of_steps_and_is_chosen() -> None:
    seen = configurations(120, crowded=False)
    predictor = Predictor(TIME_MODELS, seen, noisy([step_law(each) for each in seen]), "digits")
    assert predictor.model == "goodput"
    assert predictor.scores[0].r2 > 0.98
    unseen = Configuration("digits", "gpu", 2, 48, 3, 1000)  # neither the batch size nor the epochs were tried
    [found] = predictor.predict([unseen])
    assert found.value == pytest.approx(step_law(unseen), rel=0.1)
    assert found.low < found.value < found.high


def test_the_queue_learns_that_jobs_beside_slow_a_job_down() -> None:
    seen = configurations(120)
    y = np.array([(3 + each.epochs * 20 / each.gpus) / (1 - 0.3 * each.beside) for each in seen])
    assert r2(y, out_of_fold(TIME_MODELS["queueing"], seen, y)) > 0.99
    assert r2(y, out_of_fold(TIME_MODELS["linear"], seen, y)) < 0.95


def test_a_forest_learns_what_has_no_formula() -> None:
    seen = configurations(300)
    y = noisy([step_law(each) * (1 + each.beside) ** 1.5 * (2 if each.batch_size == 64 else 1) for each in seen])
    scores = {score.model: score.r2 for score in Predictor(TIME_MODELS, seen, y, "digits").scores}
    assert scores["random forest"] > 0.9
    assert scores["random forest"] > max(scores["linear"], scores["queueing"])


def test_an_interval_holds_nine_of_ten_that_were_not_seen() -> None:
    seen, unseen = configurations(200)[:100], configurations(300)[200:]
    y = noisy([step_law(each) for each in seen], 0.1)
    actual = noisy([step_law(each) for each in unseen], 0.1)
    found = Predictor(TIME_MODELS, seen, y, "digits").predict(unseen)
    held = sum(each.low <= value <= each.high for each, value in zip(found, actual, strict=True))
    assert 80 <= held <= 99


def test_a_metric_is_predicted_by_its_difference() -> None:
    seen = configurations(100)
    y = np.array([0.99 - each.batch_size / 5000 + each.epochs / 1000 for each in seen])
    predictor = Predictor(METRIC_MODELS, seen, y, "digits")
    assert predictor.scores[0].r2 > 0.99
    [found] = predictor.predict([Configuration("digits", "gpu", 1, 16, 4, 1000)])
    assert found.low <= found.value <= found.high


def test_scores_are_of_the_family_that_is_asked_for() -> None:
    seen = configurations(60, crowded=False)
    other = [each._replace(family="text", input_size=77) for each in seen]
    dice = random.Random(3)
    y = np.array([step_law(each) for each in seen] + [dice.uniform(1, 1000) for _ in other])
    assert Predictor(TIME_MODELS, [*seen, *other], y, "digits").scores[0].r2 > 0.98


def test_a_history_without_any_spread_divides_by_nothing() -> None:
    seen = [Configuration("f", "gpu", 1, 32, 1, 100)] * 10
    [found] = Predictor(TIME_MODELS, seen, np.full(10, 7.0), "f").predict(seen[:1])
    assert found.value == pytest.approx(7.0)
