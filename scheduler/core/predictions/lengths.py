"""How long a job will take by what it is given, learned from the jobs of its family that ended. Pure.

The logarithm of a job's GPU-seconds is taken as a sum: a constant, so much for each number that it is given (epochs,
batch size, GPUs, options of its command), by its logarithm, and so much for each word (data sets, other options). What
few jobs do not tell stays as is usual: twice the epochs take twice as long, and nothing else matters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from schedulearn.scheduler.core.predictions.features import Columns, Features
from schedulearn.scheduler.core.predictions.regression import Regression, half_of, stretch_of

REMEMBERED = 100
"""Jobs of a family that ended last: what a prediction rests on."""
_LEAST, _ALONE, _MOST = math.log(1.05), math.log(4.0), math.log(30.0)
"""Of half an interval, in logarithms: at least, where one job is all that is known, and at most."""


class Ended(NamedTuple):
    features: Features
    gpu_seconds: float


class Prediction(NamedTuple):
    """GPU-seconds in all; the interval is to hold nine jobs of ten."""

    value: float
    low: float
    high: float
    jobs: int
    """That ended, on which it rests."""
    stretch: float = 1.0
    """Factor by which earlier scores have stretched the interval, in logarithms."""

    @property
    def spread(self) -> float:
        """By which factor it may be off, either way."""
        return self.high / self.value


class LengthModel:
    """What the jobs of one family that ended tell of its others. `scores`: those of earlier predictions; they stretch
    the intervals until nine of ten earlier errors fit."""

    def __init__(self, ended: Sequence[Ended], scores: Sequence[float] = ()) -> None:
        """Raises ValueError if none has ended."""
        if not ended:
            raise ValueError("no job of the family has ended")
        self.jobs = len(ended)
        columns = Columns([each.features for each in ended])
        usual = [0.0] + [float(name == "epochs") for name in columns.numbers] + [0.0] * len(columns.words)
        rows = [columns.row(each.features) for each in ended]
        self._columns = columns
        self._fit = Regression(rows, [math.log(each.gpu_seconds) for each in ended], usual)
        self._half = half_of(self._fit.off) if len(ended) > 1 else _ALONE
        self._stretch = stretch_of(scores)

    def predict(self, features: Features) -> Prediction:
        row = self._columns.row(features)
        middle = self._fit.value(row)
        unit = min(_MOST, max(_LEAST, self._half * self._fit.widening(row)))
        half = min(_MOST, max(_LEAST, unit * self._stretch))
        value, low, high = (math.exp(max(-700.0, min(700.0, middle + side))) for side in (0.0, -half, half))
        return Prediction(value, low, high, self.jobs, half / unit)


def score(prediction: Prediction, gpu_seconds: float) -> float:
    """Error in halves of the interval as it was before any stretching. Scores by stretched ones would settle at the
    square root of the factor that is needed."""
    unit = max(math.log(prediction.spread), 1e-9) / prediction.stretch
    return abs(math.log(max(gpu_seconds, 1e-9) / prediction.value)) / unit
