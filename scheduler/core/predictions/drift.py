"""Drift detection: growing prediction errors of a family. Pure.

After a drift, the model of the family should forget older jobs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

RECENT, BEFORE, MIN_BEFORE = 10, 30, 10
"""Number of recent jobs to check; maximum and minimum number of earlier jobs to compare them with."""
USUAL = 0.9
"""Quantile of the earlier errors that half of the recent ones must exceed. By chance this happens once in 600."""
MIN_FACTOR = 1.25
"""Minimum factor by which half of the recent predictions must be off, either way. Smaller errors are harmless."""
LOOKED_AT = RECENT + BEFORE


class Residual(NamedTuple):
    """Predicted and actual value."""

    ended_at: float
    predicted: float
    actual: float

    @property
    def off(self) -> float:
        """Logarithm of the factor by which the prediction was off."""
        return abs(math.log(max(self.actual, 1e-9) / max(self.predicted, 1e-9)))


class Drift(NamedTuple):
    since: float
    """End of the first recent job with a large error. Jobs that ended earlier say little about future ones."""
    before: float
    """Maximum error factor of nine out of ten earlier predictions."""
    now: float
    """Minimum error factor of half of the recent predictions."""


def drift_of(compared: Sequence[Residual]) -> Drift | None:
    """Return the drift of one model, or None if its errors did not grow. A single outlier has no effect.

    `compared` is in the order in which the jobs ended.
    """
    recent, before = compared[-RECENT:], compared[-LOOKED_AT:-RECENT]
    if len(recent) < RECENT or len(before) < MIN_BEFORE:
        return None
    usual = sorted(each.off for each in before)[math.ceil(USUAL * len(before)) - 1]
    now, limit = statistics.median(each.off for each in recent), max(math.log(MIN_FACTOR), usual)
    if now <= limit:
        return None
    first = next(each for each in recent if each.off > limit)
    return Drift(first.ended_at, math.exp(usual), math.exp(now))
