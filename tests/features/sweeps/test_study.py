"""Optuna studies that are rebuilt for each question: what they choose, and which trials they end."""

import json
import math
from collections.abc import Mapping, Sequence

import pytest

from schedulearn.features.sweeps.models.study import (
    Axis,
    Outcome,
    Point,
    Pruning,
    Study,
    Suggestion,
    TrialRecord,
)

AXES = {
    "lr": Axis(low=1e-5, high=1.0, log=True),
    "depth": Axis(low=1, high=8, whole=True),
    "width": Axis(low=32, high=256, whole=True, step=32),
    "third": Axis(low=0.0, high=1.0, step=1 / 3),
    "huge": Axis(low=-(2**63), high=2**63 - 1, whole=True),
    "kind": Axis(choices=(1, True, "1", 1.0)),
}
PARAMS = {"lr": 0.01, "depth": 3, "width": 64, "third": 0.333333333333, "huge": 5, "kind": True}
METHODS = ["asha", "hyperband", "median"]


def ended(value: float, points: Sequence[Point] = ()) -> TrialRecord:
    return TrialRecord(PARAMS, Outcome.COMPLETE, value, points)


def curve(value: float, steps: int, every: int = 1) -> list[Point]:
    return [(step * every, value) for step in range(1, steps + 1)]


def suggest(trials: Sequence[TrialRecord], sampler: str, count: int = 1) -> list[Suggestion]:
    return Study("s", AXES, trials, highest=False, sampler=sampler, seed=3).suggest(count)


@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_a_search_gets_better_though_each_trial_has_a_new_study(sampler: str) -> None:
    """Trials pass through JSON, as they do in the database."""
    axes = {name: AXES[name] for name in ("lr", "depth", "kind")}
    trials = [TrialRecord({name: PARAMS[name] for name in axes}, Outcome.COMPLETE, _loss(PARAMS))]
    for _ in range(39):
        [chosen] = Study("s", axes, trials, highest=False, sampler=sampler, seed=3).suggest(1)
        params, attrs = json.loads(json.dumps(chosen))
        assert params == chosen.params
        trials.append(TrialRecord(params, Outcome.COMPLETE, _loss(params), attrs=attrs))
    losses = [trial.value for trial in trials if trial.value is not None]
    assert sum(losses[-10:]) < 0.6 * sum(losses[1:11])


def _loss(params: Mapping[str, object]) -> float:
    lr, depth = float(str(params["lr"])), float(str(params["depth"]))
    return abs(math.log10(lr) + 3) + abs(depth - 6) * 0.2


def test_the_same_trials_give_the_same_suggestion() -> None:
    trials = [ended(number / 10) for number in range(12)]
    assert suggest(trials, "tpe") == suggest(trials, "tpe")
    assert suggest(trials, "tpe") != suggest(trials[:-1], "tpe")
    both = suggest(trials, "tpe", count=2)
    assert both[0].params != both[1].params


def test_suggestions_are_values_of_the_sweep() -> None:
    kinds = set()
    for count in range(60):
        [(params, attrs)] = suggest([ended(1.0)] * count, "tpe")
        assert suggest([TrialRecord(params, Outcome.COMPLETE, 1.0, attrs=attrs)] * 9, "tpe"), "it can be rebuilt"
        assert 1e-5 <= float(str(params["lr"])) <= 1.0
        assert params["depth"] in range(1, 9)
        assert params["width"] in range(32, 257, 32)
        assert params["third"] in (0.0, 0.333333333333, 0.666666666667, 1.0)
        assert -(2**63) <= int(str(params["huge"])) < 2**63
        kinds.add((type(params["kind"]), params["kind"]))
    assert kinds == {(int, 1), (bool, True), (str, "1"), (float, 1.0)}, "1, true and 1.0 are different choices"


def test_failed_running_and_pruned_trials_are_no_obstacle() -> None:
    others = [
        TrialRecord(PARAMS, Outcome.FAILED),
        TrialRecord(PARAMS, Outcome.RUNNING, points=curve(0.5, 3)),
        TrialRecord(PARAMS, Outcome.PRUNED, points=curve(0.5, 3)),
        TrialRecord(PARAMS, Outcome.PRUNED),
    ]
    assert len(suggest([ended(1.0)] * 10 + others, "tpe", count=3)) == 3
    assert len(suggest([*others, ended(1.0)] * 3, "cmaes", count=3)) == 3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("highest", [False, True])
def test_the_worst_running_trial_ends_and_the_best_does_not(method: str, highest: bool) -> None:
    sign = -1 if highest else 1
    trials = [ended(sign * value, curve(sign * value, 81)) for value in (3, 4, 5, 6, 7, 8)]
    running = [TrialRecord(PARAMS, Outcome.RUNNING, points=curve(sign * value, 30)) for value in (1, 9)]
    study = Study("s", {}, [*trials, *running], highest=highest, pruning=Pruning(method))
    assert [*study.bad({6: -1, 7: -1})] == [7]


@pytest.mark.parametrize("method", METHODS)
def test_nothing_ends_before_a_trial_is_complete(method: str) -> None:
    running = [TrialRecord(PARAMS, Outcome.RUNNING, points=curve(value, 30)) for value in (1, 2, 3, 4, 5, 6, 9)]
    study = Study("s", {}, running, highest=False, pruning=Pruning(method))
    assert study.bad(dict.fromkeys(range(7), -1)) == {}


def test_with_a_first_step_trials_end_before_any_is_complete() -> None:
    running = [TrialRecord(PARAMS, Outcome.RUNNING, points=curve(value, 30)) for value in (1, 2, 3, 4, 5, 6, 9)]
    study = Study("s", {}, running, highest=False, pruning=Pruning("asha", min_step=10))
    assert study.bad(dict.fromkeys(range(7), -1)) == dict.fromkeys(range(1, 7), 10)


@pytest.mark.parametrize("method", METHODS)
def test_no_trial_ends_before_its_first_step(method: str) -> None:
    trials = [ended(value, curve(value, 81)) for value in (3, 4, 5, 6, 7, 8)]
    trials.append(TrialRecord(PARAMS, Outcome.RUNNING, points=curve(99, 9)))
    for steps, expected in ((9, []), (12, [6])):
        late = trials[-1]._replace(points=curve(99, steps))
        study = Study("s", {}, [*trials[:-1], late], highest=False, pruning=Pruning(method, min_step=12))
        assert [*study.bad({6: -1})] == expected, (method, steps)


def test_a_rung_that_was_passed_is_not_judged_again() -> None:
    """ASHA never takes a promotion back: at step 4 the trial was the best one."""
    trials = [ended(value, curve(value, 64)) for value in (3, 4, 5, 6)]
    promoted = TrialRecord(PARAMS, Outcome.RUNNING, points=curve(7, 10))
    study = Study("s", {}, [promoted, *trials], highest=False, pruning=Pruning("asha"))
    assert study.bad({0: 9}) == {}, "the next rung is at step 16"
    study = Study("s", {}, [promoted, *trials], highest=False, pruning=Pruning("asha"))
    assert study.bad({0: 0}) == {0: 1}
    later = promoted._replace(points=curve(7, 16))
    study = Study("s", {}, [later, *trials], highest=False, pruning=Pruning("asha"))
    assert study.bad({0: 10}) == {0: 16}


def test_the_median_compares_trials_with_different_steps() -> None:
    trials = [ended(value, curve(value, 40, every=3)) for value in (3, 4, 5, 6, 7)]
    running = [TrialRecord(PARAMS, Outcome.RUNNING, points=curve(value, 11, every=7)) for value in (1, 9)]
    study = Study("s", {}, [*trials, *running], highest=False, pruning=Pruning("median"))
    assert study.bad({5: -1, 6: -1}) == {6: 77}
