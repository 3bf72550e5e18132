"""Run-time model of a family, learned from its finished jobs. Pure.

The model predicts the logarithm of a job's GPU-seconds as a sum. Its terms are a constant, one for each number, and one
for each word. Numbers are epochs, batch size, GPUs and options of the command, by their logarithms. Words are data sets
and other options. Weights that few jobs do not determine stay at their defaults: twice the epochs take twice as long,
and nothing else matters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from schedulearn.scheduler.core.predictions.features import FeatureColumns, Features
from schedulearn.scheduler.core.predictions.regression import Regression, half_of, stretch_of

REMEMBERED = 100
"""Number of the latest finished jobs of a family that a prediction uses."""
_MIN, _ALONE, _MAX = math.log(1.05), math.log(4.0), math.log(30.0)
"""Half-width of an interval in logarithms: minimum, value if only one job is known, and maximum."""


class EndedJob(NamedTuple):
    features: Features
    gpu_seconds: float


class Prediction(NamedTuple):
    """Predicted total GPU-seconds. The interval should hold nine jobs out of ten."""

    value: float
    low: float
    high: float
    jobs: int
    """Number of finished jobs that the prediction uses."""
    stretch: float = 1.0
    """Factor by which earlier scores stretched the interval, in logarithms."""

    @property
    def spread(self) -> float:
        """Factor by which the prediction may be off, either way."""
        return self.high / self.value


class LengthModel:
    """Run-time model of one family.

    `scores` are those of earlier predictions. They stretch the intervals until nine out of ten earlier errors fit.
    """

    def __init__(self, ended: Sequence[EndedJob], scores: Sequence[float] = ()) -> None:
        """Raise ValueError if `ended` is empty."""
        if not ended:
            raise ValueError("no job of the family has ended")
        self.jobs = len(ended)
        columns = FeatureColumns([each.features for each in ended])
        usual = [0.0] + [float(name == "epochs") for name in columns.numbers] + [0.0] * len(columns.words)
        rows = [columns.row(each.features) for each in ended]
        self._columns = columns
        self._fit = Regression(rows, [math.log(each.gpu_seconds) for each in ended], usual)
        self._half = half_of(self._fit.off) if len(ended) > 1 else _ALONE
        self._stretch = stretch_of(scores)

    def predict(self, features: Features) -> Prediction:
        row = self._columns.row(features)
        middle = self._fit.value(row)
        unit = min(_MAX, max(_MIN, self._half * self._fit.widening(row)))
        half = min(_MAX, max(_MIN, unit * self._stretch))
        value, low, high = (math.exp(max(-700.0, min(700.0, middle + side))) for side in (0.0, -half, half))
        return Prediction(value, low, high, self.jobs, half / unit)


def score(prediction: Prediction, gpu_seconds: float) -> float:
    """Return the error, in half-widths of the interval before any stretching.

    Scores relative to stretched intervals would converge to the square root of the required factor.
    """
    unit = max(math.log(prediction.spread), 1e-9) / prediction.stretch
    return abs(math.log(max(gpu_seconds, 1e-9) / prediction.value)) / unit
