"""Plausibility checks of reports: impossible micro-step times and backward progress. Pure.

Reports come from users' programs, and speeds and run times of other jobs are learned from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

SPARE_S = 60.0
"""Tolerance in seconds for clock differences and late reports."""
SPARE_SHARE = 1.5
"""Maximum ratio of the typical micro-step time, times their number, to the time that they took."""


class Passes(Protocol):
    """Reported micro-steps of one shape. Times are seconds."""

    @property
    def num_nodes(self) -> int: ...
    @property
    def num_gpus(self) -> int: ...
    @property
    def atomic_batch(self) -> int: ...
    @property
    def passes(self) -> int: ...
    @property
    def grad_time(self) -> float: ...
    @property
    def iter_time(self) -> float: ...


class ReportedPlace(Protocol):
    """Progress of a training."""

    @property
    def epoch(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def steps(self) -> int: ...


Shape = tuple[int, int, int]


def impossible_passes(
    observations: Sequence[Passes], told_at: Mapping[Shape, float], started_at: float, now: float
) -> dict[int, str]:
    """Return index -> why these micro-steps are impossible. `told_at` maps a shape to the time of its last report."""
    found: dict[int, str] = {}
    for index, seen in enumerate(observations):
        since = told_at.get((seen.num_nodes, seen.num_gpus, seen.atomic_batch), started_at)
        if since > now:
            continue  # the clock was set back, so nothing can be checked
        there = now - since
        took = max(seen.iter_time, seen.grad_time, seen.passes * min(seen.grad_time, seen.iter_time))
        if took > SPARE_SHARE * there + SPARE_S:
            passes = "a micro-step" if seen.passes == 1 else f"{seen.passes} micro-steps"
            found[index] = f"{passes} of {seen.iter_time:,.6g} s within {there:,.0f} s"
    return found


def goes_backwards(known: ReportedPlace, told: ReportedPlace) -> str | None:
    """Return why `told` can't follow `known` in one attempt, or None. An epoch that starts over has a higher step."""
    if told.steps < known.steps:
        return f"step {told.steps} after step {known.steps}"
    if told.steps == known.steps and (told.epoch, told.position) < (known.epoch, known.position):
        return f"epoch {told.epoch}, sample {told.position} after epoch {known.epoch}, sample {known.position}"
    return None
