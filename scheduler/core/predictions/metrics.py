"""Models of final metrics of a family, learned from finished jobs. Pure.

There are three candidates. The first is the mean. The second is a linear model of the job's features, as for run times.
The third is a power law, which is the linear model of the metric's logarithm. The one with the smallest leave-one-out
error is used.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from schedulearn.scheduler.core.predictions.features import FeatureColumns, Features
from schedulearn.scheduler.core.predictions.regression import Regression, half_of, stretch_of

MIN_REACHED = 3
"""Minimum number of jobs that logged a metric; with fewer there is no prediction."""
LARGEST = 1e100
"""Maximum absolute value of a metric that the model learns from."""
_MIN = 1e-3  # minimum half-width of an interval, as a share of the usual value
_POWER_LAW = "power law"
_MAX = math.log(30.0)  # maximum half-width of an interval, in logarithms


class Reached(NamedTuple):
    features: Features
    value: float
    """Last value that the job logged."""


class MetricPrediction(NamedTuple):
    """Predicted final value. The interval should hold nine jobs out of ten."""

    value: float
    low: float
    high: float
    jobs: int
    """Number of finished jobs that the prediction uses."""
    model: str
    stretch: float = 1.0
    """Factor by which earlier scores stretched the interval."""


class _Candidate:
    """Candidate model. With `logs` it models the logarithm of the values, which must all be above 0."""

    def __init__(self, name: str, jobs: Sequence[Reached], columns: FeatureColumns, *, logs: bool) -> None:
        self.name = name
        self._columns = columns
        self._logs = logs
        values = [self._inner(each.value) for each in jobs]
        rows = [columns.row(each.features) for each in jobs]
        self._fit = Regression(rows, values, [0.0] * len(rows[0]))
        self._low, self._high = min(values), max(values)
        self._usual = 1.0 if logs else statistics.fmean(abs(each) for each in values)
        told = [self._outer(y - off) for y, off in zip(values, self._fit.off, strict=True)]
        self.error = statistics.fmean(abs(each.value - other) for each, other in zip(jobs, told, strict=True))

    def predict(self, features: Features, stretch: float) -> tuple[tuple[float, float, float], float]:
        """Return (value, low, high) and the factor by which the interval is stretched.

        No value lies beyond the observed ones: an accuracy, for example, grows only up to its limit.
        """
        row = self._columns.row(features)
        middle = min(self._high, max(self._low, self._fit.value(row)))
        most = _MAX if self._logs else math.inf
        least = _MIN * self._usual
        unit = min(most, max(least, half_of(self._fit.off) * self._fit.widening(row)))
        half = min(most, max(least, unit * stretch))
        interval = (self._outer(middle), self._outer(middle - half), self._outer(middle + half))
        return interval, half / unit if unit else 1.0

    def _inner(self, value: float) -> float:
        return math.log(value) if self._logs else value

    def _outer(self, value: float) -> float:
        return math.exp(max(-700.0, min(700.0, value))) if self._logs else value


class MetricModel:
    """Model of one metric. `scores` are those of earlier predictions, as for run times."""

    def __init__(self, jobs: Sequence[Reached], scores: Sequence[float] = ()) -> None:
        """Raise ValueError if fewer than MIN_REACHED jobs logged the metric."""
        if len(jobs) < MIN_REACHED:
            raise ValueError("too few jobs of the family have logged it")
        self._jobs = len(jobs)
        self._stretch = stretch_of(scores)
        columns = FeatureColumns([each.features for each in jobs])
        candidates = [
            _Candidate("mean", jobs, FeatureColumns([]), logs=False),
            _Candidate("linear", jobs, columns, logs=False),
        ]
        if min(each.value for each in jobs) > 0:
            candidates.append(_Candidate(_POWER_LAW, jobs, columns, logs=True))
        self._used = min(candidates, key=lambda each: each.error)  # the first of equals, which is the simplest

    def predict(self, features: Features) -> MetricPrediction:
        interval, stretch = self._used.predict(features, self._stretch)
        return MetricPrediction(*interval, self._jobs, self._used.name, stretch)


def score(prediction: MetricPrediction, actual: float) -> float:
    """Return the error, in half-widths of the interval before any stretching, as for run times.

    Errors of a power law are measured in logarithms.
    """
    if prediction.model == _POWER_LAW:
        unit = math.log(prediction.high / prediction.value) / prediction.stretch
        return abs(math.log(max(actual, 1e-300) / prediction.value)) / max(unit, 1e-9)
    half = prediction.high - prediction.value if actual > prediction.value else prediction.value - prediction.low
    unit = half / prediction.stretch
    return abs(actual - prediction.value) / max(unit, 1e-9 * abs(prediction.value), 1e-300)
