"""When predictions of a family are no longer what they were, so that its model should forget what was before. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

RECENT, BEFORE, LEAST_BEFORE = 10, 30, 10
"""Jobs that are looked at; those that they are compared with, at most and at least."""
USUAL = 0.9
"""Share of the errors before than which half of the recent ones must be larger: by chance that is so once in 600."""
LEAST_FACTOR = 1.25
"""By which half of the recent predictions must be off, either way: smaller errors do no harm."""
LOOKED_AT = RECENT + BEFORE


class Compared(NamedTuple):
    """A prediction, and what came."""

    ended_at: float
    predicted: float
    actual: float

    @property
    def off(self) -> float:
        """Logarithm of the factor by which it was off."""
        return abs(math.log(max(self.actual, 1e-9) / max(self.predicted, 1e-9)))


class Drift(NamedTuple):
    since: float
    """The end of the first recent job that was off: what ended before says little of what comes."""
    before: float
    """The factor by which nine of ten predictions before were off at most."""
    now: float
    """The factor by which half of the recent ones were off at least."""


def drift_of(compared: Sequence[Compared]) -> Drift | None:
    """`compared`: of one model, in the order in which their jobs ended. None: the errors are as they were. One odd job
    changes nothing."""
    recent, before = compared[-RECENT:], compared[-LOOKED_AT:-RECENT]
    if len(recent) < RECENT or len(before) < LEAST_BEFORE:
        return None
    usual = sorted(each.off for each in before)[math.ceil(USUAL * len(before)) - 1]
    now, limit = statistics.median(each.off for each in recent), max(math.log(LEAST_FACTOR), usual)
    if now <= limit:
        return None
    first = next(each for each in recent if each.off > limit)
    return Drift(first.ended_at, math.exp(usual), math.exp(now))
