"""Best configuration, Pareto front, and knee of the trials. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

Goal = Literal["time", "cost", "both"]


class CandidatePoint(NamedTuple):
    """A configuration that may be tried."""

    gpu_type: str
    gpus: int
    batch_size: int


class TrialOutcome(NamedTuple):
    """Result of a trial."""

    seconds: float
    price: float
    """Price of all its GPUs per second, in any unit; their number, where prices are not known."""

    def value(self, goal: Goal) -> float:
        """Return the value to minimise. `both`: by the product of time and cost, whose logarithm counts both alike."""
        cost = self.seconds * self.price
        return {"time": self.seconds, "cost": cost, "both": math.sqrt(self.seconds * cost)}[goal]


def best_of(tried: Mapping[int, TrialOutcome | None], goal: Goal) -> int | None:
    """The index of the best trial; None: none succeeded."""
    able = {index: found.value(goal) for index, found in tried.items() if found is not None}
    return min(able, key=lambda index: (able[index], index), default=None)


def curve(tried: Mapping[int, TrialOutcome | None]) -> list[int]:
    """Return the indices of the trials that no other one beats in both time and cost, the fastest first."""
    able = {index: found for index, found in tried.items() if found is not None}
    found: list[int] = []
    cheapest = math.inf
    for index in sorted(able, key=lambda each: (able[each].seconds, able[each].seconds * able[each].price, each)):
        cost = able[index].seconds * able[index].price
        if cost < cheapest:
            cheapest = cost
            found.append(index)
    return found


def knee(tried: Mapping[int, TrialOutcome | None]) -> int | None:
    """Return the knee of the curve: the trial farthest below the line between its ends; None if there is none.

    Both axes run from 0 to 1. With fewer than three trials on the curve there is no knee.
    """
    on_curve = curve(tried)
    if len(on_curve) < 3:
        return None
    found = [each for index in on_curve if (each := tried[index]) is not None]
    times = _from_0_to_1([math.log(each.seconds) for each in found])
    costs = _from_0_to_1([math.log(each.seconds * each.price) for each in found])
    below = [1 - time - cost for time, cost in zip(times, costs, strict=True)]
    return on_curve[below.index(max(below))] if max(below) > 0 else None


def _from_0_to_1(values: list[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) for value in values]
