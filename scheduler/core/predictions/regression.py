"""Ridge regression of few columns, with leave-one-out intervals. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.9
"""Share of jobs that an interval should hold."""
MIN_SCORES, SCORED = 10, 40
"""Minimum and maximum number of earlier predictions that set the width of intervals.

SCORED predictions, the latest ones, may also narrow intervals. Fewer only widen them.
"""
_STIFF = 0.2  # ridge penalty: the defaults weigh as much as this many jobs that differ by a factor of e
_T = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86)  # two-sided 90% quantiles of Student's t, by degrees of freedom


class Regression:
    """Fitted regression. `rows` begin with the constant. All weights but the constant's are pulled to `usual`."""

    def __init__(self, rows: Sequence[Sequence[float]], values: Sequence[float], usual: Sequence[float]) -> None:
        import numpy as np  # here, so that an idle service need not load it

        x, pulled_to = np.array(rows), np.array(usual)
        left = np.array(values) - x @ pulled_to
        self._inverse = np.linalg.inv(x.T @ x + _STIFF * np.diag([0.0] + [1.0] * (len(usual) - 1)))
        more = self._inverse @ (x.T @ left)
        self._weights = pulled_to + more
        leverage = ((x @ self._inverse) * x).sum(axis=1)
        self.off: list[float] = ((left - x @ more) / np.maximum(1e-3, 1 - leverage)).tolist()
        """Leave-one-out error of each value."""

    def value(self, row: Sequence[float]) -> float:
        return float(self._weights @ row)

    def widening(self, row: Sequence[float]) -> float:
        """Return the factor by which an interval is wider at `row`, for the uncertainty of the weights."""
        return math.sqrt(1 + float(row @ self._inverse @ row))


def half_of(off: Sequence[float]) -> float:
    """Return the half-width of an interval that holds nine out of ten jobs.

    `off` are the jobs' errors, at least two.
    """
    if math.ceil(CONFIDENCE * (len(off) + 1)) > len(off):
        return _T[len(off) - 2] * math.sqrt(statistics.fmean([each * each for each in off]))
    return held_by_nine_of_ten([abs(each) for each in off])


def stretch_of(scores: Sequence[float]) -> float:
    """Return the factor by which intervals must be stretched to have held nine out of ten earlier errors.

    `scores` are errors in half-widths of intervals before any stretching. The factor is below 1 only with SCORED
    scores, since fewer may be luck.
    """
    if len(scores) < MIN_SCORES:
        return 1.0
    needed = held_by_nine_of_ten(scores)
    return needed if len(scores) >= SCORED else max(1.0, needed)


def held_by_nine_of_ten(values: Sequence[float]) -> float:
    """Return the value that a further one exceeds in at most one of ten cases, by conformal rank. Needs nine values."""
    rank = min(len(values), math.ceil(CONFIDENCE * (len(values) + 1)))
    return sorted(values)[rank - 1]
