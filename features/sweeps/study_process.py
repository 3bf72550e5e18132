"""Child process with Optuna that chooses trials, and those that end early.

It reads a question as JSON from standard input, and writes the answer to standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from schedulearn.features.sweeps.models.study import Axis, Outcome, Pruning, Study, TrialRecord
from schedulearn.features.sweeps.spec import Span


def main() -> None:
    sys.stdout.write(answer_to(sys.stdin.read()))


def answer_to(question: str) -> str:
    asked = json.loads(question)
    trials = [_trial(each) for each in asked["trials"]]
    axes = axes_of(asked["parameters"])
    common = {"highest": asked["highest"], "seed": asked["seed"]}
    chosen = []
    if asked["count"]:
        study = Study(asked["name"], axes, trials, sampler=asked["sampler"], **common)
        chosen = [each._asdict() for each in study.suggest(asked["count"])]
    bad: dict[int, int] = {}
    if asked["judged"]:
        study = Study(asked["name"], {}, trials, pruning=Pruning(**asked["pruning"]), **common)
        bad = study.bad({int(index): step for index, step in asked["judged"].items()})
    return json.dumps({"chosen": chosen, "bad": bad})


def axes_of(parameters: Mapping[str, Any]) -> dict[str, Axis]:
    """Return the axes of the parameters of a stored sweep."""
    return {name: _axis(choice) for name, choice in parameters.items()}


def _axis(choice: Mapping[str, Any] | Sequence[Any]) -> Axis:
    if not isinstance(choice, Mapping):
        return Axis(tuple(choice))
    span = Span.model_validate(choice)
    return Axis(low=span.min, high=span.last, whole=span.whole, log=span.scale == "log", step=span.step)


def _trial(asked: Mapping[str, Any]) -> TrialRecord:
    points = [(step, value) for step, value in asked["points"]]
    return TrialRecord(asked["params"], Outcome(asked["outcome"]), asked["value"], points, asked["attrs"])


if __name__ == "__main__":
    main()
