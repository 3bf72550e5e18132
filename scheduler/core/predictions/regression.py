"""Ridge regression of few columns in plain Python, with leave-one-out intervals. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.9
"""Share of jobs that an interval should hold."""
LEAST_SCORES, SCORED = 10, 40
"""Minimum and maximum number of earlier predictions that set the width of intervals.

SCORED predictions, the latest ones, may also narrow intervals. Fewer only widen them.
"""
_STIFF = 0.2  # ridge penalty: the defaults weigh as much as this many jobs that differ by a factor of e
_T = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86)  # two-sided 90% quantiles of Student's t, by degrees of freedom


class Regression:
    """Fitted regression. `rows` begin with the constant. All weights but the constant's are pulled to `usual`."""

    def __init__(self, rows: Sequence[Sequence[float]], values: Sequence[float], usual: Sequence[float]) -> None:
        left = [y - _dot(usual, row) for y, row in zip(values, rows, strict=True)]
        self._inverse = _inverse_of(rows)
        sums = [sum(row[at] * y for row, y in zip(rows, left, strict=True)) for at in range(len(usual))]
        more = [_dot(row, sums) for row in self._inverse]
        self._weights = [each + extra for each, extra in zip(usual, more, strict=True)]
        self.off = [
            (y - _dot(more, row)) / max(1e-3, 1 - self._leverage(row)) for y, row in zip(left, rows, strict=True)
        ]
        """Leave-one-out error of each value."""

    def value(self, row: Sequence[float]) -> float:
        return _dot(self._weights, row)

    def widening(self, row: Sequence[float]) -> float:
        """Return the factor by which an interval is wider at `row`, for the uncertainty of the weights."""
        return math.sqrt(1 + self._leverage(row))

    def _leverage(self, row: Sequence[float]) -> float:
        return _dot(row, [_dot(line, row) for line in self._inverse])


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
    if len(scores) < LEAST_SCORES:
        return 1.0
    needed = held_by_nine_of_ten(scores)
    return needed if len(scores) >= SCORED else max(1.0, needed)


def held_by_nine_of_ten(values: Sequence[float]) -> float:
    """Return the value that a further one exceeds in at most one of ten cases, by conformal rank. Needs nine values."""
    rank = min(len(values), math.ceil(CONFIDENCE * (len(values) + 1)))
    return sorted(values)[rank - 1]


def _inverse_of(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the inverse of the normal equations by Gauss-Jordan elimination. The ridge penalty keeps it regular."""
    size = len(rows[0])
    left = [[sum(row[a] * row[b] for row in rows) for b in range(size)] for a in range(size)]
    for at in range(1, size):
        left[at][at] += _STIFF
    right = [[float(a == b) for b in range(size)] for a in range(size)]
    for at in range(size):
        pivot = left[at][at]
        left[at], right[at] = [v / pivot for v in left[at]], [v / pivot for v in right[at]]
        for other in range(size):
            if other != at and (factor := left[other][at]):
                left[other] = [v - factor * w for v, w in zip(left[other], left[at], strict=True)]
                right[other] = [v - factor * w for v, w in zip(right[other], right[at], strict=True)]
    return right


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))
