"""A ridge of few columns in plain Python, and intervals by how far each job was off what the others tell of it.
Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.9
"""The share of jobs that an interval is to hold."""
LEAST_SCORES, SCORED = 10, 40
"""Earlier predictions that set the width of the next intervals: at least, and at most the last of them. So many may
narrow intervals too; fewer only widen them."""
_STIFF = 0.2  # how much stands for what is usual: as so many jobs that differ by a factor of e
_T = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86)  # Student's, nine of ten between both, by degrees of freedom


class Regression:
    """`rows` begin with the constant. The weights are held to the `usual` ones, but for that of the constant."""

    def __init__(self, rows: Sequence[Sequence[float]], values: Sequence[float], usual: Sequence[float]) -> None:
        left = [y - _dot(usual, row) for y, row in zip(values, rows, strict=True)]
        self._inverse = _inverse_of(rows)
        sums = [sum(row[at] * y for row, y in zip(rows, left, strict=True)) for at in range(len(usual))]
        more = [_dot(row, sums) for row in self._inverse]
        self._weights = [each + extra for each, extra in zip(usual, more, strict=True)]
        self.off = [
            (y - _dot(more, row)) / max(1e-3, 1 - self._leverage(row)) for y, row in zip(left, rows, strict=True)
        ]
        """How far each value is from what the others tell."""

    def value(self, row: Sequence[float]) -> float:
        return _dot(self._weights, row)

    def widening(self, row: Sequence[float]) -> float:
        """By which an interval is wider there, for what is not known of the weights."""
        return math.sqrt(1 + self._leverage(row))

    def _leverage(self, row: Sequence[float]) -> float:
        return _dot(row, [_dot(line, row) for line in self._inverse])


def half_of(off: Sequence[float]) -> float:
    """Half of an interval that holds nine of ten jobs, by how far each was off: two of them at least."""
    if math.ceil(CONFIDENCE * (len(off) + 1)) > len(off):
        return _T[len(off) - 2] * math.sqrt(statistics.fmean([each * each for each in off]))
    return held_by_nine_of_ten([abs(each) for each in off])


def stretch_of(scores: Sequence[float]) -> float:
    """Return the factor by which intervals are stretched, so that nine of ten would have held earlier errors.
    `scores`: errors in halves of intervals before any stretching. Below 1 only by SCORED of them: fewer may be luck."""
    if len(scores) < LEAST_SCORES:
        return 1.0
    needed = held_by_nine_of_ten(scores)
    return needed if len(scores) >= SCORED else max(1.0, needed)


def held_by_nine_of_ten(values: Sequence[float]) -> float:
    """As much as a further value of this kind exceeds in one of ten cases at most: the conformal rank. Needs nine."""
    rank = min(len(values), math.ceil(CONFIDENCE * (len(values) + 1)))
    return sorted(values)[rank - 1]


def _inverse_of(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Of the normal equations, by Gauss and Jordan. What holds back the weights keeps it regular."""
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
