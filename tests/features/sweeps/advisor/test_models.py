"""Models learn laws that are known, and say how far they may be off."""

import math
import random
import statistics
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from schedulearn.features.sweeps.models.predictors import (
    METRIC_MODELS,
    TIME_MODELS,
    Predictor,
    out_of_fold,
    point_folds,
    r2,
    run_folds,
)
from schedulearn.features.sweeps.models.samples import Configuration


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
    predictor = Predictor(TIME_MODELS, seen, noisy([step_law(each) for each in seen]), "digits", relative=True)
    assert predictor.model == "goodput"
    assert predictor.scores[0].r2 > 0.98
    unseen = Configuration("digits", "gpu", 2, 48, 3, 1000)  # neither the batch size nor the epochs were tried
    [found] = predictor.predict([unseen])
    assert found.value == pytest.approx(step_law(unseen), rel=0.1)
    assert found.low < found.value < found.high


def test_the_queue_learns_that_jobs_beside_slow_a_job_down() -> None:
    seen = configurations(120)
    y = np.array([(3 + each.epochs * 20 / each.gpus) / (1 - 0.3 * each.beside) for each in seen])
    assert r2(y, out_of_fold(TIME_MODELS["queueing"], seen, y, point_folds(seen))) > 0.99
    assert r2(y, out_of_fold(TIME_MODELS["linear"], seen, y, point_folds(seen))) < 0.95


def test_a_forest_learns_what_has_no_formula() -> None:
    seen = configurations(300)
    y = noisy([step_law(each) * (1 + each.beside) ** 1.5 * (2 if each.batch_size == 64 else 1) for each in seen])
    names = ("random forest", "linear", "queueing")
    forest, *others = [r2(y, out_of_fold(TIME_MODELS[name], seen, y, run_folds(300))) for name in names]
    assert forest > max(0.9, *others)
    forest, *others = [r2(y, out_of_fold(TIME_MODELS[name], seen, y, point_folds(seen))) for name in names]
    assert forest > max(0.8, *others), "of points that it has not seen it knows less"


def test_runs_of_one_configuration_are_never_on_both_sides() -> None:
    seen = configurations(120)
    folds = point_folds(seen)
    assert sorted(index for _, unseen in folds for index in unseen) == [*range(120)]
    for known, unknown in folds:
        assert not {seen[index].point for index in known} & {seen[index].point for index in unknown}
        assert len({seen[index].gpus for index in unknown}) > 1, "points are shuffled: no fold is a factor's level"
    assert len(point_folds(seen[:1] * 12)) == 5, "of one point, its runs are told apart"


def replicated(seed: int, points: int, runs: int) -> tuple[list[Configuration], np.ndarray]:
    """Of each point the time has nothing to do with what is chosen."""
    dice = random.Random(seed)
    drawn = [Configuration("f", "gpu", 1, batch, 1, 1000) for batch in dice.sample(range(1, 10_000), points)]
    truth = {each: math.exp(dice.gauss(3, 1)) for each in drawn}
    seen = [each for each in drawn for _ in range(runs)]
    return seen, np.array([truth[each] * math.exp(dice.gauss(0, 0.05)) for each in seen])


def test_replicates_do_not_pass_for_knowledge_of_untried_points() -> None:
    """By single runs R2 was 0.9 and more, and an interval of untried points held one of five."""
    models = {name: TIME_MODELS[name] for name in ("random forest", "linear")}
    tried, untried, told = [], [], []
    for seed in range(6):
        seen, y = replicated(seed, 30, 4)
        known = [index for index in range(len(y)) if index % 4 < 3 and index < 80]
        predictor = Predictor(models, [seen[index] for index in known], y[known], "f", relative=True)
        told.append(predictor.scores[0].r2)
        for each, value, found in zip(seen, y, predictor.predict(seen), strict=True):
            if each not in {seen[index] for index in known}:
                untried.append(found.low <= value <= found.high)
        later = [index for index in range(80) if index % 4 == 3]
        again = predictor.predict([seen[index] for index in later])
        tried += [found.low <= y[index] <= found.high for index, found in zip(later, again, strict=True)]
    assert max(told) < 0.3
    assert 0.85 <= statistics.fmean(untried) <= 0.97
    assert 0.85 <= statistics.fmean(tried) <= 0.97


def _heavy(dice: random.Random, each: Configuration) -> float:
    return 0.1 * dice.gauss(0, 1) / math.sqrt(dice.gammavariate(1.5, 2) / 3)


def _early(dice: random.Random, each: Configuration) -> float:
    return math.log(dice.uniform(0.05, 0.5)) if dice.random() < 0.2 else dice.gauss(0, 0.05)


ERRORS: dict[str, Callable[[random.Random, Configuration], float]] = {
    "normal": lambda dice, each: dice.gauss(0, 0.1),
    "heavy": _heavy,
    "skewed": lambda dice, each: 0.15 * (dice.expovariate(1) - 1),
    "early": _early,
    "uneven": lambda dice, each: dice.gauss(0, 0.05) * math.sqrt(each.gpus * each.epochs),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_intervals_hold_nine_of_ten_later_jobs(kind: str) -> None:
    """After 40 jobs of a family, and the truth is known; by the cheap models, of which one is right."""
    models = {name: TIME_MODELS[name] for name in ("goodput", "linear")}
    held = []
    for seed in range(60):
        dice = random.Random(seed)
        drawn = [
            Configuration(
                "f", "gpu", dice.choice([1, 2, 4]), dice.choice([16, 32, 64, 128, 256]), dice.choice([1, 2, 4]), 1000
            )
            for _ in range(70)
        ]
        y = np.array([step_law(each) * math.exp(ERRORS[kind](dice, each)) for each in drawn])
        found = Predictor(models, drawn[:40], y[:40], "f", relative=True).predict(drawn[40:])
        held += [each.low <= value <= each.high for each, value in zip(found, y[40:], strict=True)]
    assert 0.87 <= statistics.fmean(held) <= 0.93


def test_an_interval_holds_nine_of_ten_that_were_not_seen() -> None:
    seen, unseen = configurations(200)[:100], configurations(300)[200:]
    y = noisy([step_law(each) for each in seen], 0.1)
    actual = noisy([step_law(each) for each in unseen], 0.1)
    found = Predictor(TIME_MODELS, seen, y, "digits", relative=True).predict(unseen)
    held = sum(each.low <= value <= each.high for each, value in zip(found, actual, strict=True))
    assert 80 <= held <= 99


def test_a_metric_is_predicted_by_its_difference() -> None:
    seen = configurations(100)
    y = np.array([0.99 - each.batch_size / 5000 + each.epochs / 1000 for each in seen])
    predictor = Predictor(METRIC_MODELS, seen, y, "digits", relative=False)
    assert predictor.scores[0].r2 > 0.99
    [found] = predictor.predict([Configuration("digits", "gpu", 1, 16, 4, 1000)])
    assert found.low <= found.value <= found.high


def test_scores_are_of_the_family_that_is_asked_for() -> None:
    seen = configurations(60, crowded=False)
    other = [each._replace(family="text", input_size=77) for each in seen]
    dice = random.Random(3)
    y = np.array([step_law(each) for each in seen] + [dice.uniform(1, 1000) for _ in other])
    assert Predictor(TIME_MODELS, [*seen, *other], y, "digits", relative=True).scores[0].r2 > 0.98


def test_a_history_without_any_spread_divides_by_nothing() -> None:
    seen = [Configuration("f", "gpu", 1, 32, 1, 100)] * 10
    [found] = Predictor(TIME_MODELS, seen, np.full(10, 7.0), "f", relative=True).predict(seen[:1])
    assert found.value == pytest.approx(7.0)
