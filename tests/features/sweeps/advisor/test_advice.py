"""The choice among configurations."""

from schedulearn.features.sweeps.models.advice import (
    AdviceGoal,
    Estimate,
    Option,
    batch_sizes,
    choose,
    gpu_counts,
    option_of,
)
from schedulearn.features.sweeps.models.samples import Configuration
from schedulearn.scheduler.core.prices import price_of

ANY = AdviceGoal(None, None, highest=True)


def option(
    batch: int, gpus: int, seconds: float, metric: float | None, objective: AdviceGoal, wait: float = 0
) -> Option:
    reached = None if metric is None else Estimate(metric, metric - 0.01, metric + 0.01)
    run = Estimate(seconds, 0.9 * seconds, 1.1 * seconds)
    return option_of(Configuration("f", "gpu", gpus, batch, 1, 100), wait, run, reached, 3.6, objective)


def test_of_those_in_time_the_best_metric_is_taken() -> None:
    within = AdviceGoal(120.0, None, highest=True)
    options = [option(32, 1, 200, 0.99, within), option(64, 1, 100, 0.98, within), option(128, 1, 50, 0.95, within)]
    found = choose(options, within)
    assert (found.chosen.configuration.batch_size, found.chosen.meets) == (64, True)
    assert found.why.startswith("2 of 3 configurations meet")


def test_the_far_end_of_the_interval_must_be_in_time_and_waiting_counts() -> None:
    within = AdviceGoal(105.0, None, highest=True)
    assert not option(64, 1, 100, 0.98, within).meets, "it may take 110 s"
    assert option(64, 1, 90, 0.98, within).meets
    assert not option(64, 1, 90, 0.98, within, wait=10).meets


def test_where_nothing_is_in_time_the_fastest_is_taken() -> None:
    within = AdviceGoal(10.0, None, highest=True)
    found = choose([option(32, 1, 200, 0.99, within), option(128, 4, 50, 0.9, within)], within)
    assert (found.chosen.configuration.gpus, found.chosen.meets) == (4, False)
    assert "the fastest" in found.why


def test_a_target_may_be_missed_and_a_lower_loss_is_better() -> None:
    target = AdviceGoal(None, 0.97, highest=True)
    assert [option(32, 1, 10, metric, target).meets for metric in (0.98, 0.96, None)] == [True, False, False]
    loss = AdviceGoal(None, 0.5, highest=False)
    found = choose([option(32, 1, 10, 0.4, loss), option(64, 1, 5, 0.45, loss), option(128, 1, 1, 0.6, loss)], loss)
    assert [each.configuration.batch_size for each in found.options] == [32, 64, 128]


def test_of_equal_metrics_the_cheaper_one_is_taken_then_the_faster() -> None:
    found = choose([option(32, 4, 30, None, ANY), option(32, 1, 100, None, ANY), option(32, 2, 50, None, ANY)], ANY)
    assert [each.configuration.gpus for each in found.options] == [2, 1, 4]
    assert found.chosen.cost == 3.6 * 2 * 50 / 3600
    assert found.why == "This one of 3 configurations has the lowest cost.", "nothing was asked of it"


def test_what_is_tried_by_default() -> None:
    assert gpu_counts(6, []) == [1, 2, 4, 6]
    assert gpu_counts(8, [16, 2, 8]) == [2, 8]
    assert gpu_counts(0, []) == []
    assert batch_sizes([64, 0, 32, 64], []) == [32, 64]
    assert batch_sizes([64], [128]) == [128]
    assert batch_sizes([0, 0], []) == [0]
    assert (price_of({"A": 1.0, "*": 2.0}, "A"), price_of({"A": 1.0, "*": 2.0}, "B"), price_of({}, "A")) == (1, 2, None)
