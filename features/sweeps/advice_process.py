"""Child process with scikit-learn that computes advice.

It reads a question as JSON from standard input, and writes the answer to standard output. The service itself never
needs the memory of scikit-learn.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from schedulearn.features.sweeps.models.predictors import METRIC_MODELS, TIME_MODELS, Predictor, Regressor
from schedulearn.features.sweeps.models.samples import Configuration, MeasuredRun

MIN_METRICS = 10
"""Minimum jobs that logged the metric; with fewer, it is not predicted."""


def main() -> None:
    sys.stdout.write(answer_to(sys.stdin.read()))


def answer_to(question: str) -> str:
    asked = json.loads(question)
    samples = [MeasuredRun(Configuration(*each[0]), each[1], each[2]) for each in asked["samples"]]
    options = [Configuration(*each) for each in asked["options"]]
    times = [sample.run_time for sample in samples]
    answer = {"run_time": _answer(TIME_MODELS, [each.configuration for each in samples], times, options, relative=True)}
    measured = [sample for sample in samples if sample.metric is not None]
    if len(measured) >= MIN_METRICS:
        values = [sample.metric or 0.0 for sample in measured]
        answer["metric"] = _answer(
            METRIC_MODELS, [each.configuration for each in measured], values, options, relative=False
        )
    return json.dumps(answer)


def _answer(
    models: Mapping[str, Callable[[], Regressor]],
    configurations: Sequence[Configuration],
    y: Sequence[float],
    options: Sequence[Configuration],
    *,
    relative: bool,
) -> dict[str, object]:
    predictor = Predictor(models, configurations, np.array(y, float), options[0].family, relative=relative)
    return {"scores": predictor.scores, "predicted": predictor.predict(options)}


if __name__ == "__main__":
    main()
