"""Which batch an adaptive job goes on with: the rule of the worker SDK, and of the simulator. NumPy only, and Python
3.8 syntax: training scripts import this."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from schedulearn.metrics.model.goodput import KEEP_FACTOR, Goodput

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

GROWTH = 2.0
"""Times the batch of now, at most, that it grows to at once."""
SHRINK = 8 / 9
"""Of the least efficiency: a batch with less shrinks at once. Below 1, so that it does not grow and shrink in turns."""
MIN_STEPS = 100
"""At a batch, before it may grow."""
RAMP_STEPS = 50
"""In which the learning rate doubles, at most."""


def next_batches(
    job: Goodput, phis: npt.NDArray[np.float64], num_nodes: int, num_gpus: int, batch: int, largest: float,
    gpu_type: str | None = None, keep_factor: float = KEEP_FACTOR,
) -> list[int]:  # fmt: skip
    """The batch to go on with, in samples over all GPUs, for each of several noise scales (n,) that are surely not
    smaller; those count in place of the job's. No batch above `largest`, and none of less than the job's least
    efficiency. `batch`: the one of now."""
    bounds = job.bounds
    allowed = replace(bounds, max_batch=int(max(bounds.init_batch, min(bounds.max_batch, largest))))
    here = replace(job, bounds=allowed)
    kept = here.keep_or_change_at(phis, num_nodes, num_gpus, batch, gpu_type, keep_factor)
    wasted = [batch > efficient_batch(job, phi) for phi in phis.tolist()]
    if not any(wasted):
        return kept
    best = here.keep_or_change_at(phis, num_nodes, num_gpus, 0, gpu_type)
    return [min(batch, new) if waste else keep for waste, new, keep in zip(wasted, best, kept)]


def efficient_batch(job: Goodput, phi: float) -> float:
    """The largest batch, in samples, that a job with this noise scale does not leave at once."""
    least = SHRINK * job.min_efficiency
    return (phi + job.bounds.init_batch) / least - phi if least > 0 else math.inf


def ramp_steps(before: float, after: float) -> float:
    """Steps that are lost while the learning rate follows a batch that has grown: the integral of what a step is worth
    less, while its worth doubles every RAMP_STEPS."""
    grown = after / before
    return RAMP_STEPS * (math.log2(grown) - (1 - 1 / grown) / math.log(2)) if grown > 1 else 0.0
