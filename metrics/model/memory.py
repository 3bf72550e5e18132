"""Fit of a micro-step's GPU memory to its number of samples.

    bytes = fixed + each * samples

Standard library only, and Python 3.8 syntax: training scripts import this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

USABLE = 0.95
"""Share of the memory that one process can use: the rest is lost between allocations."""


@dataclass(frozen=True)
class MemoryFit:
    samples: int
    """A micro-step of this many fits; 0: not even one."""
    fixed: float
    """Bytes that do not depend on the samples: weights, gradients, the optimizer's state."""
    each: float
    """Bytes per sample."""
    measured: bool
    """False: no micro-step of this run has fitted yet, so that `samples` is the maximum that may fit."""


def samples_that_fit(peaks: Mapping[int, float], held: float, tried: int, asked: float, room: float) -> MemoryFit:
    """Estimate the samples that fit, after a micro-step of `tried` samples (>= 1) did not fit into `room` bytes.

    `peaks`: samples of micro-steps that fitted -> maximum bytes that they took. `held`: bytes before the micro-step
    that failed. `asked`: bytes that it had and requested then.
    """
    sizes = sorted(size for size in peaks if size > 0)
    small, large = (sizes[0], sizes[-1]) if sizes else (0, 0)
    if small < large and peaks[large] > peaks[small]:
        each = (peaks[large] - peaks[small]) / (large - small)
        fixed = max(0.0, peaks[large] - each * large)
    elif sizes and peaks[large] > held:
        fixed, each = held, (peaks[large] - held) / large
    else:
        fixed, each, sizes = held, max(1.0, asked - held) / tried, []
    most = int(max(0.0, USABLE * room - fixed) / each)
    return MemoryFit(max(0, min(most, tried - 1)), fixed, each, bool(sizes))
