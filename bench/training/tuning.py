"""Searches of sweeps against random search. Budget: 30 trials of TPE are as good as 60 random ones, in the mean.

    python -m bench.training.tuning [--seeds N] [--task digits|surface] [--parallel N]

A trial of `digits` trains a network of scikit-learn on its 1,797 images; the value is the accuracy on a third of them
that it never saw. `surface` is a formula with the shape of such results, which takes no time. Each trial has a study of
its own, rebuilt from the earlier trials, as in the service. `--parallel` trials are chosen before the results of any.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from bench.measured_service import verdict
from schedulearn.features.sweeps.models.study import Outcome, Study, TrialRecord
from schedulearn.features.sweeps.spec import SweepSpec, Value, runs_of
from schedulearn.features.sweeps.study_process import axes_of

SEEDS = 10
TRIALS = 30
SAMPLERS = ("tpe", "cmaes")
BOUND = "tpe"
"""Sampler with a budget. CMA-ES is made for some hundred trials."""
PARALLEL = 4
_EPOCHS = 6

Params = Mapping[str, Value]


class Task(NamedTuple):
    parameters: Mapping[str, Any]
    value: Callable[[Params], float]
    """Higher is better."""


def surface(params: Params) -> float:
    """Accuracy that falls with the distance from the best learning rate, depth and dropout of each optimizer."""
    kind = ("adam", "sgd", "lamb").index(str(params["optimizer"]))
    rate = math.log10(float(params["lr"])) + 2.5 + 0.3 * kind
    depth, dropout = float(params["depth"]) - 5, float(params["dropout"]) - 0.2
    return 1 - 0.05 * rate**2 - 0.004 * depth**2 - 0.3 * dropout**2 - (0.0, 0.03, 0.05)[kind]


@cache
def _images() -> Sequence[Any]:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    parts: Sequence[Any] = train_test_split(images / 16.0, labels, test_size=1 / 3, random_state=0)
    return parts


def digits(params: Params) -> float:
    """Accuracy after six epochs."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    train, test, train_labels, test_labels = _images()
    network = MLPClassifier(
        (int(params["width"]),), solver="sgd", learning_rate_init=float(params["lr"]), alpha=float(params["decay"]),
        momentum=float(params["momentum"]), batch_size=int(params["batch_size"]), max_iter=_EPOCHS, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            network.fit(train, train_labels)
        except ValueError:  # the weights are infinite
            return 0.0
    return float(network.score(test, test_labels))


TASKS = {
    "surface": Task(
        {
            "lr": {"min": 1e-5, "max": 1.0, "scale": "log"}, "depth": {"min": 1, "max": 8},
            "dropout": {"min": 0.0, "max": 0.6}, "optimizer": ["adam", "sgd", "lamb"],
        },
        surface,
    ),
    "digits": Task(
        {
            "lr": {"min": 1e-5, "max": 1.0, "scale": "log"}, "decay": {"min": 1e-6, "max": 10.0, "scale": "log"},
            "momentum": {"min": 0.0, "max": 0.99}, "width": {"min": 8, "max": 64},
            "batch_size": {"min": 16, "max": 256, "scale": "log"},
        },
        digits,
    ),
}  # fmt: skip


def searched(task: Task, search: str, trials: int, seed: int, parallel: int = 1) -> float:
    """Return the best value that a search finds."""
    spec = SweepSpec(
        name="tuning", search=search, trials=trials, seed=seed, parameters=dict(task.parameters),
        job={"command": " ".join(f"{{{name}}}" for name in task.parameters)},
    )  # fmt: skip
    done = [TrialRecord(params, Outcome.COMPLETE, task.value(params)) for params in runs_of(spec)]
    axes = axes_of(spec.model_dump(mode="json")["parameters"])
    while len(done) < trials:
        study = Study("tuning", axes, done, highest=True, sampler=search, seed=seed)
        chosen = study.suggest(min(parallel, trials - len(done)))
        done += [
            TrialRecord(each.params, Outcome.COMPLETE, task.value(each.params), attrs=each.attrs) for each in chosen
        ]
    return max(trial.value for trial in done if trial.value is not None)


def main(seeds: float = SEEDS, names: Sequence[str] = tuple(TASKS), parallel: int = PARALLEL) -> bool:
    kept = True
    for name in names:
        task = TASKS[name]
        at_random = [searched(task, "random", 2 * TRIALS, 1000 + seed) for seed in range(int(seeds))]
        print(f"{name}, random, {2 * TRIALS} trials: mean {statistics.fmean(at_random):.4f}, {_told(at_random)}")
        for sampler in SAMPLERS:
            found = [searched(task, sampler, TRIALS, seed, parallel) for seed in range(int(seeds))]
            better = sum(mine >= other for mine, other in zip(found, at_random, strict=True))
            mean, budget = statistics.fmean(found), statistics.fmean(at_random)
            what = f"{name}, {sampler}, {TRIALS} trials, {parallel} at once"
            measured = f"mean {mean:.4f}, {_told(found)}; at least as good for {better} of {int(seeds)} seeds"
            if sampler == BOUND:
                kept = verdict(what, measured, f"{budget:.4f}", mean >= budget) and kept
            else:
                print(f"       {what}: {measured}")
    return kept


def _command(arguments: Sequence[str]) -> bool:
    parser = argparse.ArgumentParser(prog="python -m bench.training.tuning", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--task", choices=TASKS)
    parser.add_argument("--parallel", type=int, default=PARALLEL)
    args = parser.parse_args(arguments)
    return main(args.seeds, [args.task] if args.task else tuple(TASKS), args.parallel)


def _told(values: Sequence[float]) -> str:
    return f"from {min(values):.4f} to {max(values):.4f}"


if __name__ == "__main__":
    sys.exit(0 if _command(sys.argv[1:]) else 1)
