"""Table of the next batch of a job's worker, by noise scale.

It covers all noise scales that may come. All jobs of one application at one point of their training share it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from schedulearn.metrics.model.batch_rule import next_batches
from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.metrics.model.step_time import StepTimeModel
from schedulearn.scheduler.sim.application import Floats


class NextBatches(dict[float, int]):
    """Next batch of a worker, by the noise scale that it sees."""

    def __init__(self, choose: Callable[[Floats], list[int]]) -> None:
        super().__init__()
        self._choose = choose

    def learn(self, phi: float, ahead: Floats) -> int:
        """Compute the batch for `phi`. If `phi` is in `ahead`, compute all of `ahead`, which takes hardly longer."""
        phis = ahead if phi in ahead else np.array([phi])
        self.update(zip(phis.tolist(), self._choose(phis), strict=True))
        return self[phi]


class Way(NamedTuple):
    """Settings by which workers choose, apart from what they have measured."""

    use_efficiency: bool
    keep_factor: float
    careful: bool
    """Whether workers follow the SDK's rule, with no batch above `largest`."""
    least_efficiency: float
    largest: float


@lru_cache(maxsize=10_000)
def batch_choice(
    models: tuple[tuple[str, StepTimeModel], ...], bounds: BatchBounds, speeds: tuple[tuple[str, float], ...], way: Way,
    nodes: int, gpus: int, batch: int, gpu_type: str,
) -> NextBatches:  # fmt: skip
    """Return the table that jobs of one application share at one point of their training."""
    known = Goodput(dict(models), 0.0, bounds, dict(speeds), way.use_efficiency, way.least_efficiency)
    here = (nodes, gpus, batch)
    if way.careful:
        return NextBatches(lambda phis: next_batches(known, phis, *here, way.largest, gpu_type, way.keep_factor))
    return NextBatches(lambda phis: known.keep_or_change_at(phis, *here, gpu_type, way.keep_factor))
