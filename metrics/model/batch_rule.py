"""Rule for the next batch of an adaptive job.

The worker SDK and the simulator use it. NumPy only, and Python 3.8 syntax: training scripts import this.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from schedulearn.metrics.model.goodput import KEEP_FACTOR, Goodput

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

GROWTH = 2.0
"""Maximum factor by which a batch grows at once."""
SHRINK = 8 / 9
"""Share of the minimum efficiency below which a batch shrinks at once. It is below 1, so that the batch does not grow
and shrink in turns."""
MIN_STEPS = 100
"""Minimum steps at a batch before it may grow."""
RAMP_STEPS = 50
"""Steps in which the learning rate at most doubles."""


def next_batches(
    job: Goodput, phis: npt.NDArray[np.float64], num_nodes: int, num_gpus: int, batch: int, largest: float,
    gpu_type: str | None = None, keep_factor: float = KEEP_FACTOR,
) -> list[int]:  # fmt: skip
    """Return the next batch, in samples over all GPUs, for each of several noise scales.

    `phis` (n,): lower bounds of the noise scale, which count in place of the job's. No batch is above `largest`, or
    below the job's minimum efficiency. `batch`: the present one.
    """
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
    """Return the largest batch, in samples, that a job with this noise scale does not shrink at once."""
    least = SHRINK * job.min_efficiency
    return (phi + job.bounds.init_batch) / least - phi if least > 0 else math.inf


def ramp_steps(before: float, after: float) -> float:
    """Return the steps that are lost while the learning rate follows a batch that has grown.

    They are the integral of what each step is worth less, while its worth doubles every RAMP_STEPS.
    """
    grown = after / before
    return RAMP_STEPS * (math.log2(grown) - (1 - 1 / grown) / math.log(2)) if grown > 1 else 0.0
