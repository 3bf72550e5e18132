"""Which batch a job's worker would go on with: looked up for all noise scales that may come, and shared by all jobs of
one application at one point of their training."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.metrics.model.step_time import StepTimeModel
from schedulearn.scheduler.sim.application import Floats


class NextBatches(dict[float, int]):
    """What a worker would go on with, by the noise scale that it sees."""

    def __init__(self, choose: Callable[[Floats], list[int]]) -> None:
        super().__init__()
        self._choose = choose

    def learn(self, phi: float, ahead: Floats) -> int:
        """For `phi`, and at once, since that takes hardly longer, for all that comes if it is one of `ahead`."""
        phis = ahead if phi in ahead else np.array([phi])
        self.update(zip(phis.tolist(), self._choose(phis), strict=True))
        return self[phi]


@lru_cache(maxsize=10_000)
def next_batches(
    models: tuple[tuple[str, StepTimeModel], ...], bounds: BatchBounds, speeds: tuple[tuple[str, float], ...],
    use_efficiency: bool, nodes: int, gpus: int, batch: int, gpu_type: str, keep_factor: float,
) -> NextBatches:  # fmt: skip
    """Jobs of one application at one point of their training choose alike."""
    known = Goodput(dict(models), 0.0, bounds, dict(speeds), use_efficiency)
    return NextBatches(lambda phis: known.keep_or_change_at(phis, nodes, gpus, batch, gpu_type, keep_factor))
