"""Choice of a job's configuration. Pure.

The best one that meets the objective is chosen, else the fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from schedulearn.features.sweeps.models.samples import Configuration

MAX_OPTIONS = 500


class Estimate(NamedTuple):
    value: float
    low: float
    high: float


class AdviceGoal(NamedTuple):
    longest: float | None
    """Maximum seconds from now to the end; None: no limit."""
    target: float | None
    """Value that the metric should reach; None: the best possible."""
    highest: bool
    """Whether more of the metric is better."""


class Option(NamedTuple):
    configuration: Configuration
    wait: float
    """Seconds until it would start."""
    run_time: Estimate
    metric: Estimate | None
    cost: float | None
    meets: bool
    """Whether it is expected to meet the objective, with the run time at the far end of its interval."""

    @property
    def response_time(self) -> Estimate:
        return Estimate(*(self.wait + seconds for seconds in self.run_time))


class Recommendation(NamedTuple):
    chosen: Option
    options: list[Option]
    """The best first."""
    why: str


def option_of(
    configuration: Configuration,
    wait: float,
    run_time: Estimate,
    metric: Estimate | None,
    price: float | None,
    objective: AdviceGoal,
) -> Option:
    cost = None if price is None else price * configuration.gpus * run_time.value / 3600
    in_time = objective.longest is None or wait + run_time.high <= objective.longest
    good = objective.target is None or (metric is not None and _reaches(metric, objective))
    return Option(configuration, wait, run_time, metric, cost, in_time and good)


def _reaches(metric: Estimate, objective: AdviceGoal) -> bool:
    assert objective.target is not None
    return metric.value >= objective.target if objective.highest else metric.value <= objective.target


def choose(options: Sequence[Option], objective: AdviceGoal) -> Recommendation:
    """Choose by the best metric, then the lowest cost, then the shortest time, among those that meet the objective.

    If none does, choose by the shortest time.
    """
    if not options:
        raise ValueError("there is no configuration to choose from")
    meeting = [option for option in options if option.meets]
    ordered = sorted(meeting, key=lambda option: _worth(option, objective))
    ordered += sorted((option for option in options if not option.meets), key=lambda o: o.response_time.value)
    best = _best_at(ordered[0])
    if objective.longest is None and objective.target is None:
        why = f"This one of {len(options)} configurations has {best}."
    elif meeting:
        why = f"{len(meeting)} of {len(options)} configurations meet the objective; this one has {best} of them."
    else:
        why = f"None of {len(options)} configurations is expected to meet the objective; this one is the fastest."
    return Recommendation(ordered[0], ordered, why)


def _best_at(option: Option) -> str:
    if option.metric is not None:
        return "the best metric"
    return "the lowest GPU time" if option.cost is None else "the lowest cost"


def _worth(option: Option, objective: AdviceGoal) -> tuple[float, float, float, int]:
    metric = 0.0 if option.metric is None else option.metric.value
    cost = float(option.configuration.gpus) * option.run_time.value if option.cost is None else option.cost
    return (-metric if objective.highest else metric, cost, option.response_time.value, option.configuration.gpus)


def batch_sizes(seen: Sequence[int], asked: Sequence[int]) -> list[int]:
    """Return the sizes asked for, else those that were tried: any other would be a guess."""
    return sorted(set(asked or (size for size in seen if size)) or {0})


def gpu_counts(most: int, asked: Sequence[int]) -> list[int]:
    """Return the counts asked for, else powers of two up to `most`, and `most` itself."""
    if asked:
        return sorted({count for count in asked if 1 <= count <= most})
    return sorted({1 << power for power in range(most.bit_length()) if 1 << power <= most} | {most} - {0})
